//! Reading fields from a document so that a mistake is named by its path, with what is allowed.
//!
//! TOML and JSON both become one tree of values first; everything after that is common.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::nearest::nearest;
use crate::span;

/// A value that cannot stand, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {text}")]
pub struct Problem {
    field: String,
    text: String,
}

impl Problem {
    /// Describes what is wrong with a field, as the rest of a sentence that begins with its name.
    #[must_use]
    pub fn new(field: impl Into<String>, text: impl Into<String>) -> Self {
        Self { field: field.into(), text: text.into() }
    }

    /// Returns the field's name; inside of a document, its whole path.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Puts the field into the table that contains it.
    #[must_use]
    pub fn under(self, table: &str) -> Self {
        Self { field: join(table, &self.field), ..self }
    }
}

/// Why a document is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is no TOML or JSON at all; the text says where.
    #[error("{0}")]
    Syntax(String),
    /// A field is wrong.
    #[error(transparent)]
    Field(#[from] Problem),
}

/// One table of a document.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    /// Looks at a value as a table with these keys and no others.
    pub(super) fn of(value: &'a Value, path: &str, keys: &[&str]) -> Result<Self, Problem> {
        let Value::Object(map) = value else {
            let field = if path.is_empty() { "document" } else { path };
            let text = format!("must be a table with the keys {}", keys.join(", "));
            return Err(Problem::new(field, text));
        };
        let fields = Self { map, path: path.to_owned() };
        for key in map.keys() {
            if !keys.contains(&key.as_str()) {
                return Err(fields.unknown(key, keys));
            }
        }
        Ok(fields)
    }

    fn unknown(&self, key: &str, keys: &[&str]) -> Problem {
        let allowed = keys.join(", ");
        let text = match nearest(key, keys.iter().copied()) {
            Some(meant) => {
                format!("is not a key here; did you mean `{meant}`? Allowed are {allowed}")
            }
            None => format!("is not a key here; allowed are {allowed}"),
        };
        self.problem(key, text)
    }

    /// Makes a problem of one of this table's fields.
    pub(super) fn problem(&self, key: &str, text: impl Into<String>) -> Problem {
        Problem::new(join(&self.path, key), text)
    }

    /// Puts a problem found by the type that a table becomes into this table.
    pub(super) fn within(&self, problem: Problem) -> Problem {
        problem.under(&self.path)
    }

    /// Returns a value that must be there.
    pub(super) fn value(&self, key: &str) -> Result<&'a Value, Problem> {
        self.map.get(key).ok_or_else(|| self.problem(key, "is missing"))
    }

    /// Returns a table that must be there.
    pub(super) fn table(&self, key: &str, keys: &[&str]) -> Result<Fields<'a>, Problem> {
        Fields::of(self.value(key)?, &join(&self.path, key), keys)
    }

    /// Returns a text.
    pub(super) fn text(&self, key: &str) -> Result<&'a str, Problem> {
        self.value(key)?.as_str().ok_or_else(|| self.problem(key, "must be a text in quotes"))
    }

    /// Returns a whole number.
    pub(super) fn whole(&self, key: &str) -> Result<u64, Problem> {
        let value = self.value(key)?;
        value.as_u64().ok_or_else(|| {
            self.problem(key, format!("is {value}; it must be a whole number, 0 or more"))
        })
    }

    /// Returns a whole number that fits 32 bits.
    pub(super) fn count(&self, key: &str) -> Result<u32, Problem> {
        let whole = self.whole(key)?;
        u32::try_from(whole)
            .map_err(|_| self.problem(key, format!("is {whole}; that is too large")))
    }

    /// Returns a number that may have a fraction.
    pub(super) fn number(&self, key: &str) -> Result<f64, Problem> {
        let value = self.value(key)?;
        value.as_f64().ok_or_else(|| self.problem(key, format!("is {value}; it must be a number")))
    }

    /// Returns a span of time.
    pub(super) fn span(&self, key: &str) -> Result<Duration, Problem> {
        let Some(text) = self.value(key)?.as_str() else {
            let text = "must be a span of time in quotes, such as \"30s\", \"5m\" or \"2h\"";
            return Err(self.problem(key, text));
        };
        span::parse(text).map_err(|error| self.problem(key, error.to_string()))
    }

    /// Returns a list of spans.
    pub(super) fn spans(&self, key: &str) -> Result<Vec<Duration>, Problem> {
        let texts = self.strings(key).ok_or_else(|| {
            self.problem(key, "must be a list of spans in quotes, such as [\"5s\", \"5m\"]")
        })?;
        let spans = texts
            .into_iter()
            .map(|text| span::parse(text).map_err(|error| self.problem(key, error.to_string())));
        spans.collect()
    }

    /// Tells whether a field says, by this word or by null, that there is nothing.
    pub(super) fn is_absent(&self, key: &str, word: &str) -> Result<bool, Problem> {
        let value = self.value(key)?;
        Ok(value.is_null() || value.as_str() == Some(word))
    }

    /// Returns a span of time unless the field says that there is none.
    pub(super) fn optional_span(&self, key: &str, none: &str) -> Result<Option<Duration>, Problem> {
        if self.is_absent(key, none)? {
            return Ok(None);
        }
        let hint = |problem: Problem| Problem {
            text: format!("{} (or write \"{none}\")", problem.text),
            ..problem
        };
        self.span(key).map(Some).map_err(hint)
    }

    /// Returns a count unless the field says that there is none.
    pub(super) fn optional_count(&self, key: &str, none: &str) -> Result<Option<u32>, Problem> {
        if self.is_absent(key, none)? {
            return Ok(None);
        }
        let value = self.value(key)?;
        if value.as_u64().is_none() {
            let text = format!("is {value}; it must be a whole number or \"{none}\"");
            return Err(self.problem(key, text));
        }
        self.count(key).map(Some)
    }

    /// Returns the one of some values that a word names.
    pub(super) fn choice<T: Copy>(&self, key: &str, all: &[(&str, T)]) -> Result<T, Problem> {
        self.choose(key, self.text(key)?, all)
    }

    /// Returns what a list of words names, each of them at most once.
    pub(super) fn choices<T: Copy>(&self, key: &str, all: &[(&str, T)]) -> Result<Vec<T>, Problem> {
        self.texts(key)?.into_iter().map(|word| self.choose(key, word, all)).collect()
    }

    /// Returns a list of different texts.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<&'a str>, Problem> {
        self.value(key)?;
        let wrong = || self.problem(key, "must be a list of texts in quotes");
        let texts = self.strings(key).ok_or_else(wrong)?;
        for (position, text) in texts.iter().enumerate() {
            if texts[..position].contains(text) {
                return Err(self.problem(key, format!("lists `{text}` twice")));
            }
        }
        Ok(texts)
    }

    fn strings(&self, key: &str) -> Option<Vec<&'a str>> {
        self.map.get(key)?.as_array()?.iter().map(Value::as_str).collect()
    }

    fn choose<T: Copy>(&self, key: &str, word: &str, all: &[(&str, T)]) -> Result<T, Problem> {
        let found = all.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let words: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            self.problem(key, unknown_word(word, &words))
        })
    }
}

/// Says that a word is none of those allowed, and which one may have been meant.
pub(super) fn unknown_word(word: &str, words: &[&str]) -> String {
    match nearest(word, words.iter().copied()) {
        Some(meant) => {
            format!("is `{word}`; did you mean `{meant}`? Allowed are {}", words.join(", "))
        }
        None => format!("is `{word}`; allowed are {}", words.join(", ")),
    }
}

fn join(table: &str, field: &str) -> String {
    if table.is_empty() { field.to_owned() } else { format!("{table}.{field}") }
}
