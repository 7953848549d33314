//! The stores in a file and in PostgreSQL are twins: the same paths, and tables and columns of the
//! same names.
//!
//! A node of the version before goes on writing while a migration runs, so a migration cannot rename a
//! column. Columns whose names differed before this check existed are listed here.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{self, File};
use super::{Complaint, assert_tidy};

const SOURCES: [&str; 2] = ["crates/store/src/sqlite/", "crates/store/src/postgres/"];
const MIGRATIONS: [&str; 2] =
    ["crates/store/migrations/sqlite/", "crates/store/migrations/postgres/"];
/// The folder for what only one dialect has.
const OWN: &str = "io/";
const MOST_FILES: usize = 20;

/// What only one of the two has, with what the other has instead.
const DIFFERENCES: [(&str, &str); 20] = [
    // Of the same meaning; named before anybody compared them.
    ("sqlite", "attempts.retry_after"),
    ("postgres", "attempts.retry_after_seconds"),
    ("sqlite", "deliveries.turn_order"),
    ("postgres", "deliveries.ordering"),
    ("sqlite", "endpoints.turn_order"),
    ("postgres", "endpoints.ordering"),
    ("sqlite", "idempotency.at"),
    ("postgres", "idempotency.received_at"),
    ("sqlite", "requests.at"),
    ("postgres", "requests.asked_at"),
    // A file keeps what a subject is in `subject`, PostgreSQL in `kind`.
    ("sqlite", "rollups.key"),
    ("postgres", "rollups.kind"),
    // Keys in PostgreSQL begin with the application, so that they can be spread by it.
    ("postgres", "attempts.application"),
    ("postgres", "endpoint_secrets.application"),
    ("postgres", "endpoint_state.application"),
    // A file has one process, and keeps no rows that only a fleet needs.
    ("postgres", "nodes"),
    ("postgres", "confirmations"),
    ("postgres", "partitions.owner"),
    // To add to a message's list in a file would be to write its payload again.
    ("sqlite", "added_deliveries"),
    ("sqlite", "endpoints.emptied"),
];

/// Objects to a file that has no twin.
fn paths(files: &[File]) -> Vec<Complaint> {
    let of = |root: &str| -> BTreeSet<String> {
        let inside = files.iter().filter_map(|file| file.path.strip_prefix(root));
        inside.filter(|path| !path.starts_with(OWN)).map(str::to_owned).collect()
    };
    let trees = SOURCES.map(of);
    let mut complaints = Vec::new();
    for (here, there) in [(0, 1), (1, 0)] {
        for path in trees[here].difference(&trees[there]) {
            let text = format!(
                "has no twin in {}; give it one, or move it to `io` if only one dialect has it",
                SOURCES[there]
            );
            complaints.push(Complaint::new(&format!("{}{path}", SOURCES[here]), 0, text));
        }
    }
    complaints
}

/// Objects to a folder of the store with many files on one level.
fn folders(files: &[File]) -> Vec<Complaint> {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.starts_with("crates/store/src/")) {
        let folder = file.path.rsplit_once('/').map_or("", |parts| parts.0);
        *folders.entry(folder).or_default() += 1;
    }
    let full = folders.into_iter().filter(|(_, count)| *count > MOST_FILES);
    let text = |count| format!("has {count} files on one level; {MOST_FILES} are the most");
    full.map(|(folder, count)| Complaint::new(folder, 0, text(count))).collect()
}

/// Lists the tables that some migrations make, and their columns as `table.column`.
fn names(files: &[File], root: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in files.iter().filter(|file| file.path.starts_with(root)) {
        let lines = file.text.lines().map(|line| line.split("--").next().unwrap_or_default());
        let text = lines.collect::<Vec<_>>().join(" ").to_lowercase();
        for statement in text.split(';') {
            let words: Vec<&str> = statement.split_whitespace().collect();
            match words[..] {
                ["create", "table", table, ..] => {
                    names.insert(table.to_owned());
                    names.extend(columns(statement).iter().map(|name| format!("{table}.{name}")));
                }
                ["alter", "table", table, ..] => {
                    let added = statement.split("add column ").skip(1);
                    let added = added.filter_map(|rest| rest.split_whitespace().next());
                    names.extend(added.map(|name| format!("{table}.{name}")));
                }
                _ => {}
            }
        }
    }
    names
}

/// Returns the columns that a statement makes a table of.
fn columns(statement: &str) -> Vec<&str> {
    let inside = statement.split_once('(').map_or("", |parts| parts.1);
    let mut depth = 0_i32;
    let entries = inside.split(|sign| {
        depth += i32::from(sign == '(') - i32::from(sign == ')');
        sign == ',' && depth == 0
    });
    let first = entries.filter_map(|entry| entry.split_whitespace().next());
    first.filter(|word| !["primary", ")"].contains(word)).collect()
}

/// Objects to a table or column that only one of the two has, and to a difference that is no more.
fn schemas(files: &[File], known: &[(&str, &str)]) -> Vec<Complaint> {
    let [sqlite, postgres] = MIGRATIONS.map(|root| names(files, root));
    let of = |dialect: &str, name: &str| {
        let (own, other) = match dialect {
            "sqlite" => (&sqlite, &postgres),
            _ => (&postgres, &sqlite),
        };
        own.contains(name) && !other.contains(name)
    };
    let mut complaints = Vec::new();
    for (dialect, own, other) in [("sqlite", &sqlite, &postgres), ("postgres", &postgres, &sqlite)]
    {
        for name in own.difference(other) {
            let table = name.split('.').next().unwrap_or_default();
            let is_known = known.contains(&(dialect, name)) || known.contains(&(dialect, table));
            if !is_known {
                let text = format!("only {dialect} has `{name}`; name it alike in both");
                complaints.push(Complaint::new("crates/store/migrations", 0, text));
            }
        }
    }
    for (dialect, name) in known.iter().filter(|(dialect, name)| !of(dialect, name)) {
        let text = format!("`{name}` is not of {dialect} alone; it is a known difference no more");
        complaints.push(Complaint::new("crates/store/migrations", 0, text));
    }
    complaints
}

#[test]
fn both_dialects_have_the_same_paths() {
    assert_tidy(paths(&tree::rust_files().unwrap()));
}

#[test]
fn no_folder_of_the_store_has_more_than_20_files_on_one_level() {
    assert_tidy(folders(&tree::rust_files().unwrap()));
}

#[test]
fn both_dialects_have_the_same_tables_and_columns() {
    let files = tree::files().unwrap();
    assert!(MIGRATIONS.iter().all(|root| names(&files, root).len() > 100));
    assert_tidy(schemas(&files, &DIFFERENCES));
}

#[test]
fn a_file_without_a_twin_is_found_unless_it_is_its_dialects_own() {
    let file = |path: &str| File::new(path, "");
    let twins = [
        file("crates/store/src/sqlite/queue/load.rs"),
        file("crates/store/src/postgres/queue/load.rs"),
        file("crates/store/src/sqlite/io/writer.rs"),
        file("crates/store/src/memory/rows.rs"),
    ];
    assert_eq!(paths(&twins), []);
    let alone = [twins.to_vec(), vec![file("crates/store/src/postgres/queue/wake.rs")]].concat();
    assert_eq!(paths(&alone).len(), 1);
}

#[test]
fn a_full_folder_is_found() {
    let file = |number| File::new(&format!("crates/store/src/queue/file{number}.rs"), "");
    assert_eq!(folders(&(0..20).map(file).collect::<Vec<_>>()), []);
    assert_eq!(folders(&(0..21).map(file).collect::<Vec<_>>()).len(), 1);
}

#[test]
fn a_column_of_one_dialect_and_a_difference_that_is_no_more_are_found() {
    let sqlite =
        "CREATE TABLE one (a INTEGER, b INTEGER, -- c INTEGER\n PRIMARY KEY (a, b)) STRICT;";
    let postgres = "create table one (a bigint generated always as (1 + 2), b bigint);\n\
        alter table one add column c bigint, add column d bigint;";
    let files = [
        File::new("crates/store/migrations/sqlite/0001_first.sql", sqlite),
        File::new("crates/store/migrations/postgres/0001_first.sql", postgres),
    ];
    assert_eq!(names(&files, MIGRATIONS[0]), ["one", "one.a", "one.b"].map(str::to_owned).into());
    assert_eq!(schemas(&files, &[]).len(), 2);
    let known = [("postgres", "one.c"), ("postgres", "one.d")];
    assert_eq!(schemas(&files, &known), []);
    assert_eq!(schemas(&files, &[known[0], known[1], ("sqlite", "one.b")]).len(), 1);
}
