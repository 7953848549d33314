//! The store as a server would find it, its key, and the clocks.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use domain::time::Timestamp;
use store::postgres::{self, inspect as inspect_postgres};
use store::sqlite::{self, inspect as inspect_sqlite};
use store::{Error, Vault};

use super::{Finding, State, found};
use crate::clock::{Clock as _, SystemClock};
use crate::config::{Configuration, Database, Hidden};
use crate::dice;
use crate::words::grouped;

/// By how much clocks may differ before somebody has to look at them.
const TOLERATED: Duration = Duration::from_secs(5);
/// A clock that says less was never set: this was written later.
const EARLIEST: Timestamp = Timestamp::from_seconds(1_760_000_000);

/// Looks at the store, and at the clocks it depends on.
pub(super) async fn examine(configuration: &Configuration, clock: SystemClock) -> Vec<Finding> {
    match &configuration.database {
        Some(database) => in_postgres(configuration, database, clock).await,
        None => in_file(configuration, clock).await,
    }
}

async fn in_file(configuration: &Configuration, clock: SystemClock) -> Vec<Finding> {
    let directory = configuration.data.clone();
    let Ok(metadata) = fs::metadata(&directory) else {
        let text = format!("{} is not there yet; the first start makes it", directory.display());
        return vec![found("store", State::Good, text), time(None, clock)];
    };
    if !metadata.is_dir() {
        let text = format!("{} is no directory; choose another for data", directory.display());
        return vec![found("store", State::Bad, text), time(None, clock)];
    }
    let open = metadata.permissions().mode() & 0o077 != 0;
    let key = configuration.encryption_key.as_ref().map(|Hidden(key)| *key);
    let timeline: sqlite::Clock = Arc::new(move || clock.now());
    let place = directory.clone();
    let looked = tokio::task::spawn_blocking(move || inspect_sqlite(&place, key, &timeline)).await;
    let inspection = match looked {
        Ok(Ok(Some(inspection))) => inspection,
        Ok(Ok(None)) => {
            let text =
                format!("{} has no store yet; the first start makes it", directory.display());
            return vec![found("store", State::Good, text), time(None, clock)];
        }
        Ok(Err(error)) => return vec![unusable(&error), time(None, clock)],
        Err(error) => return vec![found("store", State::Bad, error.to_string())],
    };
    let mut findings = vec![soundness(configuration, &inspection)];
    if open {
        let text = format!("{0} can be read by others; chmod 700 {0}", directory.display());
        findings.push(found("data directory", State::Doubtful, text));
    }
    findings.push(schema(&inspection.behind));
    findings.push(key_fits(&inspection.key));
    findings.push(time(inspection.newest, clock));
    findings
}

fn unusable(error: &Error) -> Finding {
    let text = format!(
        "{error}; check that this user may read the data directory and its files; if the file is \
         damaged, restore a backup"
    );
    found("store", State::Bad, text)
}

/// Says whether the file is sound.
fn soundness(configuration: &Configuration, inspection: &sqlite::Inspection) -> Finding {
    let file = configuration.data.join("redial.db");
    let size = grouped(fs::metadata(&file).map_or(0, |file| file.len()));
    let user = inspection.in_use.as_ref().map(|who| format!(", in use by {who}"));
    let what = format!("{}, {size} bytes{}", file.display(), user.unwrap_or_default());
    if !inspection.complaints.is_empty() {
        let text = format!(
            "{what}: it is damaged ({}); stop the server, keep a copy of the directory, and restore \
             a backup",
            inspection.complaints.join("; ")
        );
        return found("store", State::Bad, text);
    }
    if inspection.unchecked.is_empty() {
        return found("store", State::Good, format!("{what}, sound"));
    }
    let text = format!(
        "{what}, sound as far as it was looked at; {} would take too long while a server runs: \
         stop it and ask again for a whole check",
        inspection.unchecked.join(", ")
    );
    found("store", State::Doubtful, text)
}

async fn in_postgres(
    configuration: &Configuration,
    database: &Database,
    clock: SystemClock,
) -> Vec<Finding> {
    let Some(Hidden(key)) = &configuration.encryption_key else {
        let text = "encryption_key is missing; configure the one that the other nodes have";
        return vec![found("encryption key", State::Bad, text)];
    };
    let vault = Vault::new(&mut key.clone(), dice::entropy);
    let mut settings = postgres::Settings::new(&database.url.0, vault);
    settings.listen_url = database.listen_url.as_ref().map(|Hidden(url)| url.clone());
    let inspection = match inspect_postgres(settings, move || clock.wall()).await {
        Ok(inspection) => inspection,
        Err(error) => {
            let text = format!("{error}; check database, and that the server lets this user in");
            return vec![found("store", State::Bad, text), time(None, clock)];
        }
    };
    let what = format!("PostgreSQL {}", inspection.version);
    let mut findings = vec![match &inspection.server {
        Ok(()) => found("store", State::Good, format!("{what} answers")),
        Err(error) => found("store", State::Bad, error.to_string()),
    }];
    if let Some(Err(error)) = &inspection.listener {
        let text = format!("database_listen: {error}; nodes find each other's work later");
        findings.push(found("listening", State::Bad, text));
    }
    findings.push(schema(&inspection.behind));
    findings.push(key_fits(&inspection.key));
    findings.push(compared(inspection.clock_ahead));
    findings.push(time(None, clock));
    findings
}

fn schema(behind: &Result<usize, Error>) -> Finding {
    match behind {
        Ok(0) => found("schema", State::Good, "it is this version's, or the next one's"),
        Ok(steps) => {
            let text =
                format!("{steps} steps behind; the next start takes them, or redial migrate");
            found("schema", State::Good, text)
        }
        Err(error) => found("schema", State::Bad, error.to_string()),
    }
}

fn key_fits(key: &Result<(), Error>) -> Finding {
    match key {
        Ok(()) => found("encryption key", State::Good, "it fits the store"),
        Err(error) => found("encryption key", State::Bad, error.to_string()),
    }
}

/// Compares the database's clock with ours.
fn compared(ahead_micros: i64) -> Finding {
    let span = Duration::from_micros(ahead_micros.unsigned_abs());
    let direction = if ahead_micros < 0 { "behind" } else { "ahead of" };
    let text = format!("the database's is {span:.1?} {direction} ours");
    if span <= TOLERATED {
        return found("clocks", State::Good, text);
    }
    let text = format!("{text}; set both by NTP: receivers refuse signatures of another time");
    found("clocks", State::Doubtful, text)
}

/// Looks whether our own clock can be right.
fn time(newest: Option<Timestamp>, clock: SystemClock) -> Finding {
    let now = clock.wall();
    if now < EARLIEST {
        let text = "it was never set; set it by NTP: receivers refuse signatures of another time";
        return found("clock", State::Bad, text);
    }
    match newest.filter(|newest| newest.since(now) > TOLERATED) {
        Some(newest) => {
            let text = format!(
                "it is {:.0?} behind the newest message of the store: one of the two times is \
                 wrong; set it by NTP",
                newest.since(now)
            );
            found("clock", State::Doubtful, text)
        }
        None => found("clock", State::Good, "it can be right"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_differ_by_more_than_a_moment_are_told() {
        let table = [
            (0, State::Good),
            (4_000_000, State::Good),
            (-6_000_000, State::Doubtful),
            (6_000_000, State::Doubtful),
        ];
        for (ahead, state) in table {
            let finding = compared(ahead);
            assert_eq!(finding.state, state, "{finding:?}");
        }
        assert!(compared(-6_000_000).text.contains("6.0s behind ours"));
    }

    #[test]
    fn a_store_from_the_future_says_that_a_clock_is_wrong() {
        let clock = SystemClock::start();
        let hour = Duration::from_secs(3_600);
        assert_eq!(time(Some(clock.wall()), clock).state, State::Good);
        assert_eq!(time(Some(clock.wall().after(hour)), clock).state, State::Doubtful);
    }
}
