//! A database of a test's own, on the PostgreSQL server that `scripts/with-postgres` starts.

use testkit::database::of_tests;
use testkit::server::ENCRYPTION_KEY;

/// A database that is there for one test. The server goes away with all of them.
pub(crate) struct Database {
    url: String,
    options: [String; 2],
}

impl Database {
    pub(crate) async fn create(name: &str) -> Self {
        let name = format!("redial_{name}_{}", std::process::id());
        let made = testkit::database::Database::beside(&of_tests(), &name).await.unwrap();
        let url = made.url().to_owned();
        let options =
            [format!("--database={url}"), format!("--set=encryption_key={ENCRYPTION_KEY}")];
        Self { url, options }
    }

    /// Returns where it is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns what `redial serve` is told.
    pub(crate) fn options(&self) -> [&str; 2] {
        self.options.each_ref().map(String::as_str)
    }

    /// Returns the same as settings.
    pub(crate) fn settings(&self) -> [(&str, &str); 2] {
        [("database", self.url.as_str()), ("encryption_key", ENCRYPTION_KEY)]
    }
}
