//! Headers as one short text.
//!
//! An attempt records a dozen of them, and hardly anybody ever looks. So they are written once, as
//! they are stored, and taken apart only when somebody does. They are also most of what an attempt
//! takes on disk, and nearly all of it is the same each time: a text that is known is written as
//! one letter behind a mark, and the value of a `svix-` header as a mark that says "as in its
//! `webhook-` twin".
//!
//! ```text
//! headers := entry*                     (none at all: "[]")
//! entry   := name value
//! name    := KNOWN_NAME letter | text
//! value   := KNOWN_VALUE letter | AS_TWIN | text
//! text    := plain END | QUOTED json END
//! ```
//!
//! The marks are control characters, which plain text and JSON do not have. What begins with `[` is
//! a JSON list of pairs, as it was written at first.

use std::fmt;

use crate::Error;

/// Behind it stands the letter of a known text, as a name.
const KNOWN_NAME: u8 = 1;
/// The value is that of the twin.
const AS_TWIN: u8 = 2;
/// Ends a text that is not known.
const END: u8 = 3;
/// Before a text that is written as JSON, because it has marks of its own.
const QUOTED: u8 = 4;
/// Behind it stands the letter of a known text, as a value.
const KNOWN_VALUE: u8 = 5;

/// The texts that are known, each by its place. They are stored: nothing may be taken away from
/// here or moved, only added at the end.
const TEXTS: [&str; 36] = [
    "host",
    "user-agent",
    "accept",
    "accept-encoding",
    "content-type",
    "content-length",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
    "svix-id",
    "svix-timestamp",
    "svix-signature",
    "authorization",
    "date",
    "server",
    "connection",
    "keep-alive",
    "cache-control",
    "transfer-encoding",
    "vary",
    "set-cookie",
    "etag",
    "x-request-id",
    "strict-transport-security",
    "x-content-type-options",
    "*/*",
    "identity",
    "application/json",
    "application/json; charset=utf-8",
    "text/plain; charset=utf-8",
    "text/html; charset=utf-8",
    "close",
    "chunked",
    "nosniff",
    "no-cache",
    "0",
];
/// The letter of the first of them.
const FIRST_LETTER: u8 = b'0';

/// Names and values in their order, a name as often as it came.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Headers(String);

impl Headers {
    /// Makes an empty list with room for so many bytes of text.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self(String::with_capacity(bytes))
    }

    /// Takes a list from its stored form.
    ///
    /// # Errors
    /// If it is none.
    pub fn from_stored(text: String) -> Result<Self, Error> {
        let damaged = |text: String| Error::Damaged { what: "headers".to_owned(), text };
        if text.starts_with('[') {
            let pairs: Vec<(String, String)> =
                serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
            return Ok(pairs.into_iter().collect());
        }
        match Reader(&text).pairs() {
            Some(_) => Ok(Self(text)),
            None => Err(damaged("they are cut off or of a newer form".to_owned())),
        }
    }

    /// Returns the stored form.
    #[must_use]
    pub fn stored(&self) -> &str {
        if self.0.is_empty() { "[]" } else { &self.0 }
    }

    /// Adds one at the end.
    pub fn push(&mut self, name: &str, value: &str) {
        let is_as_twin = twin(name).is_some_and(|twin| self.has_last(twin, value));
        self.push_text(KNOWN_NAME, name);
        if is_as_twin {
            self.0.push(char::from(AS_TWIN));
        } else {
            self.push_text(KNOWN_VALUE, value);
        }
    }

    /// Returns a copy with room for so many bytes more.
    #[must_use]
    pub fn copy_with_room(&self, bytes: usize) -> Self {
        let mut text = String::with_capacity(self.0.len() + bytes);
        text.push_str(&self.0);
        Self(text)
    }

    /// Tells whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns names and values.
    #[must_use]
    pub fn pairs(&self) -> Vec<(String, String)> {
        // It was written here, or read by `from_stored`.
        Reader(&self.0).pairs().unwrap_or_default()
    }

    /// Returns how many bytes the stored form has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stored().len()
    }

    fn push_text(&mut self, known: u8, text: &str) {
        if let Some(letter) = letter(text) {
            self.0.push(char::from(known));
            self.0.push(char::from(letter));
            return;
        }
        // A list that begins with a bracket is one of the first form.
        if text.bytes().any(|byte| byte < b' ') || text.starts_with('[') {
            self.0.push(char::from(QUOTED));
            self.0.push_str(&serde_json::Value::from(text).to_string());
        } else {
            self.0.push_str(text);
        }
        self.0.push(char::from(END));
    }

    /// Tells whether the last value under a known name is this one, written plainly.
    fn has_last(&self, name: &str, value: &str) -> bool {
        let Some(letter) = letter(name) else { return false };
        let bytes = self.0.as_bytes();
        let Some(at) = bytes.windows(2).rposition(|pair| pair == [KNOWN_NAME, letter]) else {
            return false;
        };
        let rest = bytes[at + 2..].strip_prefix(value.as_bytes());
        rest.is_some_and(|rest| rest.first() == Some(&END))
    }
}

/// Returns the name under which the same value was sent before, for one that has such a twin.
fn twin(name: &str) -> Option<&'static str> {
    match name {
        "svix-id" => Some("webhook-id"),
        "svix-timestamp" => Some("webhook-timestamp"),
        "svix-signature" => Some("webhook-signature"),
        _ => None,
    }
}

fn letter(text: &str) -> Option<u8> {
    let place = TEXTS.iter().position(|known| *known == text)?;
    Some(FIRST_LETTER + u8::try_from(place).ok()?)
}

/// Reads a stored form from its front.
struct Reader<'a>(&'a str);

impl Reader<'_> {
    /// Returns names and values, or none if it is no stored form.
    fn pairs(mut self) -> Option<Vec<(String, String)>> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        while !self.0.is_empty() {
            let name = self.text(KNOWN_NAME)?;
            let value = if let Some(rest) = self.0.strip_prefix(char::from(AS_TWIN)) {
                self.0 = rest;
                let twin = twin(&name)?;
                pairs.iter().rev().find(|(name, _)| *name == twin)?.1.clone()
            } else {
                self.text(KNOWN_VALUE)?
            };
            pairs.push((name, value));
        }
        Some(pairs)
    }

    fn text(&mut self, known: u8) -> Option<String> {
        if let Some(rest) = self.0.strip_prefix(char::from(known)) {
            let letter = *rest.as_bytes().first()?;
            let text = TEXTS.get(usize::from(letter.checked_sub(FIRST_LETTER)?))?;
            self.0 = rest.get(1..)?;
            return Some((*text).to_owned());
        }
        let (text, rest) = self.0.split_once(char::from(END))?;
        self.0 = rest;
        match text.strip_prefix(char::from(QUOTED)) {
            Some(json) => serde_json::from_str(json).ok(),
            None => Some(text.to_owned()),
        }
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.pairs()).finish()
    }
}

impl<Name: AsRef<str>, Value: AsRef<str>> FromIterator<(Name, Value)> for Headers {
    fn from_iter<T: IntoIterator<Item = (Name, Value)>>(pairs: T) -> Self {
        let mut headers = Self::default();
        for (name, value) in pairs {
            headers.push(name.as_ref(), value.as_ref());
        }
        headers
    }
}

#[cfg(test)]
mod tests;
