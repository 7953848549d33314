//! Gathers settings from the file, the environment and the command line; the later one wins.
//!
//! Nothing is interpreted here beyond names. In a file and on the command line a name that does not exist
//! is refused, with the nearest one that does: a setting that is silently ignored is worse than a server
//! that does not start. In the environment it is a warning, because others set variables there, too:
//! Kubernetes sets a dozen in each pod for a service that is called `redial`.

use std::collections::BTreeMap;

use domain::nearest::nearest;
use toml::Value;

use super::Problem;
use super::keys::{self, KEYS};

/// Variables with this beginning belong to our own tests.
const FOR_TESTS: &str = "REDIAL_TEST_";
/// Names the file itself, so it cannot stand in it.
const FILE_VARIABLE: &str = "REDIAL_CONFIG";

/// What people call settings by whose names no letter leads to ours.
const OTHER_NAMES: [(&str, &str); 4] =
    [("PORT", "listen"), ("HOST", "listen"), ("ADDRESS", "listen"), ("BIND", "listen")];

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
    warnings: Vec<Problem>,
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

    /// Adds what the environment says. Empty values count as not set, and names that do not exist are
    /// noted.
    pub(super) fn environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        for (name, value) in variables {
            let Some(own) = name.strip_prefix(keys::PREFIX) else { continue };
            let others = name.starts_with(FOR_TESTS) || is_of_a_service(own, &value);
            if others || name == FILE_VARIABLE || value.is_empty() {
                continue;
            }
            match KEYS.iter().find(|key| key.variable() == name) {
                Some(key) => {
                    let entry = Entry { origin: name, value: Value::String(value) };
                    self.entries.insert(key.name, entry);
                }
                None => self.warnings.push(unknown_variable(&name, own)),
            }
        }
    }

    /// Takes what was noted.
    pub(super) fn take_warnings(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.warnings)
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

/// Tells whether Kubernetes or Docker set a variable: for a service that is called `redial`, or whose name
/// begins so, they tell its address in a number of ways.
fn is_of_a_service(own: &str, value: &str) -> bool {
    let words: Vec<&str> = own.split('_').collect();
    let port_of_protocol = |rest: &[&str]| match rest {
        [port, protocol, rest @ ..] => {
            !port.is_empty()
                && port.bytes().all(|byte| byte.is_ascii_digit())
                && ["TCP", "UDP", "SCTP"].contains(protocol)
                && matches!(rest, [] | ["PROTO" | "PORT" | "ADDR"])
        }
        _ => false,
    };
    let tells_port = |at: usize| match &words[at + 1..] {
        [] => value.contains("://"),
        rest => port_of_protocol(rest),
    };
    let pairs = words.windows(2);
    pairs.into_iter().any(|pair| matches!(pair, ["SERVICE", "HOST" | "PORT"]))
        || (0..words.len()).any(|at| words[at] == "PORT" && tells_port(at))
}

/// Warns of a variable that sets nothing.
fn unknown_variable(name: &str, own: &str) -> Problem {
    let other = OTHER_NAMES.iter().find(|(other, _)| *other == own).map(|(_, key)| *key);
    // The beginning that all of them have would make everything look alike.
    let like_ours = own.to_lowercase();
    let spelled = KEYS.map(|key| key.name.replace('.', "_"));
    let near = nearest(&like_ours, spelled.iter().map(String::as_str));
    let key = other.map(str::to_owned).or_else(|| near.map(str::to_owned));
    let meant = key.map(|key| format!("{}{}", keys::PREFIX, key.to_uppercase()));
    unknown(name, name, meant.as_deref())
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
