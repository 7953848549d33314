//! What must be in the file before anything else is asked of it.

use rusqlite::{Connection, TransactionBehavior, params};

use crate::Error;
use crate::migrate::{self, Applied, Step};

const STEPS: [Step; 11] = [
    Step { version: 1, name: "first", sql: include_str!("../../migrations/sqlite/0001_first.sql") },
    Step {
        version: 2,
        name: "memories",
        sql: include_str!("../../migrations/sqlite/0002_memories.sql"),
    },
    Step {
        version: 3,
        name: "skipped",
        sql: include_str!("../../migrations/sqlite/0003_skipped.sql"),
    },
    Step { version: 4, name: "terms", sql: include_str!("../../migrations/sqlite/0004_terms.sql") },
    Step {
        version: 5,
        name: "reused",
        sql: include_str!("../../migrations/sqlite/0005_reused.sql"),
    },
    Step {
        version: 6,
        name: "changes",
        sql: include_str!("../../migrations/sqlite/0006_changes.sql"),
    },
    Step {
        version: 7,
        name: "renamed",
        sql: include_str!("../../migrations/sqlite/0007_renamed.sql"),
    },
    Step { version: 8, name: "kept", sql: include_str!("../../migrations/sqlite/0008_kept.sql") },
    Step {
        version: 9,
        name: "counters",
        sql: include_str!("../../migrations/sqlite/0009_counters.sql"),
    },
    Step {
        version: 10,
        name: "sizes",
        sql: include_str!("../../migrations/sqlite/0010_sizes.sql"),
    },
    Step { version: 11, name: "hops", sql: include_str!("../../migrations/sqlite/0011_hops.sql") },
];

/// Names all steps, for who compares them with another backend's.
#[cfg(all(test, feature = "postgres"))]
pub(crate) fn steps() -> impl Iterator<Item = (i64, &'static str)> {
    STEPS.iter().map(|step| (step.version, step.name))
}

/// Brings the file to our schema version: all missing steps in one transaction, or none of them.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), Error> {
    apply(connection, &STEPS)
}

/// Tells how many steps a file is behind, and changes nothing.
pub(crate) fn behind(connection: &Connection) -> Result<usize, Error> {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE name = 'schema_versions'";
    let known: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    let applied = if known == 0 { Vec::new() } else { applied(connection)? };
    Ok(migrate::missing(&STEPS, &applied)?.len())
}

fn apply(connection: &mut Connection, steps: &[Step]) -> Result<(), Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS schema_versions (
            version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum BLOB NOT NULL
        ) STRICT",
    )?;
    let missing = migrate::missing(steps, &applied(&transaction)?)?;
    for step in missing {
        transaction.execute_batch(step.sql)?;
        transaction.execute(
            "INSERT INTO schema_versions (version, name, checksum) VALUES (?1, ?2, ?3)",
            params![step.version, step.name, step.checksum()],
        )?;
    }
    Ok(transaction.commit()?)
}

/// Needs the primary key of `schema_versions`.
fn applied(connection: &Connection) -> Result<Vec<Applied>, Error> {
    let mut statement = connection
        .prepare("SELECT version, name, checksum FROM schema_versions ORDER BY version")?;
    let rows = statement.query_map([], |row| {
        Ok(Applied { version: row.get(0)?, name: row.get(1)?, checksum: row.get(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn versions(connection: &Connection) -> Vec<i64> {
        let mut statement = connection.prepare("SELECT version FROM schema_versions").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn a_step_that_fails_leaves_the_store_as_it_was() {
        let mut connection = Connection::open_in_memory().unwrap();
        let broken = [
            Step { version: 1, name: "first", sql: "CREATE TABLE one (a)" },
            Step { version: 2, name: "second", sql: "CREATE TABLE two (a); CREATE TABLE one (a)" },
        ];
        assert!(apply(&mut connection, &broken).is_err());
        assert!(connection.prepare("SELECT * FROM one").is_err());
        assert!(connection.prepare("SELECT * FROM schema_versions").is_err());
        apply(&mut connection, &broken[..1]).unwrap();
        assert_eq!(versions(&connection), [1]);
    }

    #[test]
    fn migrating_twice_changes_nothing_and_keeps_what_is_there() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        connection.execute("INSERT INTO meta VALUES ('canary', x'01')", []).unwrap();
        migrate(&mut connection).unwrap();
        assert_eq!(versions(&connection), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        let canary: Vec<u8> =
            connection.query_row("SELECT value FROM meta", [], |row| row.get(0)).unwrap();
        assert_eq!(canary, [1]);
    }

    /// Lists the columns of all tables, each with whether a row must be given it, and the unique
    /// indexes, which a row can offend in the same way.
    fn demands(connection: &Connection) -> BTreeMap<(String, String), bool> {
        let sql = "SELECT t.name, c.name, c.\"notnull\" AND c.dflt_value IS NULL
            FROM pragma_table_list AS t, pragma_table_info(t.name) AS c
            WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%'
            UNION ALL
            SELECT t.name, i.name, true
            FROM pragma_table_list AS t, pragma_index_list(t.name) AS i
            WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%' AND i.\"unique\"";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)));
        rows.unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn what_the_version_before_writes_is_whole_after_each_step() {
        for version in 1..STEPS.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            apply(&mut connection, &STEPS[..version]).unwrap();
            let before = demands(&connection);
            apply(&mut connection, &STEPS[..=version]).unwrap();
            apply(&mut connection, &STEPS[..version]).expect("the version before starts on it");
            let after = demands(&connection);
            for (place, must) in &before {
                assert_eq!(after.get(place), Some(must), "{place:?} of version {version}");
            }
            let tables: BTreeSet<_> = before.keys().map(|(table, _)| table).collect();
            let mut added = after.iter().filter(|(place, _)| !before.contains_key(*place));
            let offends =
                |(place, must): &(&(String, String), &bool)| **must && tables.contains(&place.0);
            assert_eq!(added.find(offends), None, "after version {version}");
        }
    }

    #[test]
    fn a_store_two_versions_ahead_is_refused_by_name() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        let later =
            "INSERT INTO schema_versions VALUES (12, 'twelfth', x''), (13, 'thirteenth', x'')";
        connection.execute(later, []).unwrap();
        let text = migrate(&mut connection).unwrap_err().to_string();
        assert!(text.contains("version 13 (`thirteenth`)"), "{text}");
    }
}
