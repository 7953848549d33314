//! Gathers settings from the file, the environment and the command line; the later one wins.
//!
//! Nothing is interpreted here beyond names. A name that nobody knows is refused with the nearest
//! one that exists: a setting that is silently ignored is worse than a server that does not start.

use std::collections::BTreeMap;

use domain::nearest::nearest;
use toml::Value;

use super::Problem;
use super::keys::{self, KEYS};

/// Variables with this beginning belong to our own tests.
const FOR_TESTS: &str = "REDIAL_TEST_";
/// Names the file itself, so it cannot stand in it.
const FILE_VARIABLE: &str = "REDIAL_CONFIG";

/// Settings that have an option of their own.
const OPTIONS: [&str; 6] = ["listen", "data", "database", "role", "allow_egress", "policy"];

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// Where: a file and key, a variable, an option.
    pub(super) origin: String,
    /// What.
    pub(super) value: Value,
}

/// Settings by name, as written.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    entries: BTreeMap<&'static str, Entry>,
}

impl Gathered {
    /// Adds what a file says.
    pub(super) fn file(&mut self, path: &str, text: &str) -> Result<(), Problem> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            Problem::new(path, error.to_string().trim_end().to_owned())
        })?;
        self.walk(path, "", table)
    }

    fn walk(&mut self, path: &str, prefix: &str, table: toml::Table) -> Result<(), Problem> {
        for (name, value) in table {
            let full = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            let origin = format!("{path}: {full}");
            match (keys::find(&full), value) {
                (Some(key), value) => {
                    self.entries.insert(key.name, Entry { origin, value });
                }
                (None, Value::Table(inner)) if keys::is_table(&full) => {
                    self.walk(path, &full, inner)?;
                }
                (None, _) => return Err(unknown(&origin, &full, nearest_key(&full))),
            }
        }
        Ok(())
    }

    /// Adds what the environment says. Empty values count as not set.
    pub(super) fn environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), Problem> {
        for (name, value) in variables {
            let ours = name.starts_with(keys::PREFIX) && !name.starts_with(FOR_TESTS);
            if !ours || name == FILE_VARIABLE || value.is_empty() {
                continue;
            }
            let Some(key) = KEYS.iter().find(|key| key.variable() == name) else {
                // The search for the nearest name is for lower case.
                let names = KEYS.map(|key| key.variable().to_lowercase());
                let meant = nearest(&name, names.iter().map(String::as_str));
                let meant = meant.map(str::to_uppercase);
                return Err(unknown(&name, &name, meant.as_deref()));
            };
            self.entries.insert(key.name, Entry { origin: name, value: Value::String(value) });
        }
        Ok(())
    }

    /// Adds what the command line says.
    pub(super) fn options(&mut self, options: Vec<(String, String)>) -> Result<(), Problem> {
        for (name, value) in options {
            // Most settings have no option of their own.
            let own = OPTIONS.contains(&name.as_str());
            let option =
                if own { format!("--{}", name.replace('_', "-")) } else { format!("--set {name}") };
            let Some(key) = keys::find(&name) else {
                return Err(unknown("--set", &name, nearest_key(&name)));
            };
            let value = Value::String(value);
            self.entries.insert(key.name, Entry { origin: option, value });
        }
        Ok(())
    }

    /// Returns what was written for a setting, or its default.
    pub(super) fn entry(&self, name: &str) -> Option<Entry> {
        if let Some(entry) = self.entries.get(name) {
            return Some(entry.clone());
        }
        let key = keys::find(name)?;
        let value = Value::String(key.default.to_owned());
        (!key.default.is_empty()).then(|| Entry { origin: key.name.to_owned(), value })
    }
}

fn nearest_key(name: &str) -> Option<&'static str> {
    nearest(name, KEYS.map(|key| key.name))
}

fn unknown(origin: &str, name: &str, meant: Option<&str>) -> Problem {
    let text = match meant {
        Some(meant) => format!("there is no setting `{name}`; did you mean `{meant}`?"),
        None => format!("there is no setting `{name}`; docs/configuration.md lists them all"),
    };
    Problem::new(origin, text)
}
