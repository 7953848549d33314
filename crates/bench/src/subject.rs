//! What is measured: which build with which store, when, and by which command.

use std::path::PathBuf;

use domain::time::Timestamp;
use serde_json::{Value, json};

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The build of the server.
    pub(crate) build: Build,
    /// When it began.
    pub(crate) at: Timestamp,
    /// The command, without anything that is secret.
    pub(crate) command: String,
    /// The database, if the store is not a file.
    pub(crate) database: Option<Postgres>,
}

/// A build of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Build {
    /// The one that measures, made for use.
    Release,
    /// The one that measures, made for whoever changes it.
    Debug,
    /// Another one, of which nothing is known from here.
    Another(PathBuf),
}

/// A PostgreSQL server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Postgres {
    /// Its version.
    pub(crate) version: String,
    /// How much it keeps in memory, as it says it.
    pub(crate) shared_buffers: String,
}

impl Build {
    /// Returns this build, or another one if one was named.
    pub(crate) fn of(another: Option<PathBuf>) -> Self {
        match another {
            Some(path) => Self::Another(path),
            None if cfg!(debug_assertions) => Self::Debug,
            None => Self::Release,
        }
    }

    fn line(&self) -> String {
        let own = concat!("Redial ", env!("CARGO_PKG_VERSION"));
        match self {
            Self::Release => format!("{own}, release build"),
            Self::Debug => format!("{own}, debug build, which means little"),
            Self::Another(path) => format!("another build ({})", path.display()),
        }
    }

    fn to_json(&self) -> Value {
        let version = env!("CARGO_PKG_VERSION");
        match self {
            Self::Release => json!({ "version": version, "release_build": true }),
            Self::Debug => json!({ "version": version, "release_build": false }),
            Self::Another(path) => json!({ "another_build": path.display().to_string() }),
        }
    }
}

impl Subject {
    /// Returns it in one line.
    pub(super) fn line(&self) -> String {
        let store = match &self.database {
            Some(Postgres { version, shared_buffers }) => {
                format!("PostgreSQL {version} with shared_buffers of {shared_buffers}")
            }
            None => "SQLite".to_owned(),
        };
        format!("{}; {store}; {}", self.build.line(), self.date())
    }

    /// Returns it as fields of a JSON object.
    pub(super) fn to_json(&self) -> Value {
        let database =
            |it: &Postgres| json!({ "version": it.version, "shared_buffers": it.shared_buffers });
        json!({
            "server": self.build.to_json(),
            "at": self.date(),
            "command": self.command,
            "store": if self.database.is_some() { "postgresql" } else { "sqlite" },
            "postgresql": self.database.as_ref().map(database),
        })
    }

    fn date(&self) -> String {
        let moment = jiff::Timestamp::from_microsecond(self.at.as_micros());
        moment.map(|moment| format!("{moment:.0}")).unwrap_or_default()
    }
}

/// Writes a command so that it can be given again, but for what a URL may tell: it has passwords in it.
pub(crate) fn command(arguments: impl IntoIterator<Item = String>) -> String {
    let written = arguments.into_iter().map(|argument| match argument.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://…"),
        None if argument.contains(char::is_whitespace) => format!("'{argument}'"),
        None => argument,
    });
    let words: Vec<String> = ["redial".to_owned()].into_iter().chain(written).collect();
    words.join(" ")
}

#[cfg(test)]
impl Subject {
    /// Something for tests.
    pub(super) fn example() -> Self {
        let at = Timestamp::from_micros(1_763_251_200_123_456);
        Self { build: Build::Release, at, command: "redial bench".to_owned(), database: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_keeps_everything_but_what_a_url_may_tell() {
        let arguments = ["bench", "--directory", "my disk", "--database=postgres://me:pw@db/x"];
        let written = command(arguments.map(str::to_owned));
        assert_eq!(written, "redial bench --directory 'my disk' --database=postgres://…");
    }

    #[test]
    fn nothing_is_said_about_another_build() {
        let own = Subject::example();
        let version = env!("CARGO_PKG_VERSION");
        let line = format!("Redial {version}, release build; SQLite; 2025-11-16T00:00:00Z");
        assert_eq!(own.line(), line);
        let another = Subject { build: Build::of(Some("/x/redial".into())), ..own };
        assert_eq!(another.line(), "another build (/x/redial); SQLite; 2025-11-16T00:00:00Z");
        assert_eq!(another.to_json()["server"], json!({ "another_build": "/x/redial" }));
    }

    #[test]
    fn a_database_is_told_with_what_it_keeps_in_memory() {
        let database = Postgres { version: "15.4".to_owned(), shared_buffers: "32MB".to_owned() };
        let subject = Subject { database: Some(database), ..Subject::example() };
        assert!(subject.line().contains("; PostgreSQL 15.4 with shared_buffers of 32MB; "));
        assert_eq!(subject.to_json()["postgresql"]["shared_buffers"], "32MB");
        assert_eq!(Subject::example().to_json()["postgresql"], Value::Null);
    }
}
