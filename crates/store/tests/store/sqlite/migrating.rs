//! A store of the first version is brought to the current one when it is opened.

use std::path::{Path, PathBuf};

use store::Error;
use store::conformance::Handle;
use store::sqlite::Sqlite;

use super::{Arc, settings};
use crate::{golden, renamed};

const FIRST: &str = include_str!("../golden/sqlite-0001.sql");

/// Makes a store of the first version, with some more statements, and returns its file.
fn first(directory: &Path, statements: &str) -> PathBuf {
    let file = directory.join("redial.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    // The dump sets the sequences of the row numbers, which only the owner of the schema may.
    connection.pragma_update(None, "writable_schema", true).unwrap();
    connection.execute_batch(FIRST).unwrap();
    connection.execute_batch(statements).unwrap();
    connection.close().unwrap();
    file
}

#[tokio::test]
async fn names_that_a_path_cannot_say_are_changed_and_told() {
    let directory = tempfile::tempdir().unwrap();
    first(directory.path(), renamed::NAMES);
    let settings = store::sqlite::Settings { key: Some([7; 32]), ..settings(directory.path()) };
    renamed::check(&Handle::new(Arc::new(Sqlite::open(settings).unwrap()))).await;
}

#[tokio::test]
async fn a_store_of_the_first_version_keeps_all_that_is_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = first(directory.path(), "");
    let settings = || store::sqlite::Settings { key: Some([7; 32]), ..settings(directory.path()) };
    let store = Sqlite::open(settings()).unwrap();
    // While one process writes, no other migrates.
    let second = Sqlite::open(settings()).unwrap_err();
    assert!(matches!(second, Error::CannotOpen(_)), "{second}");
    golden::check(&Handle::new(Arc::new(store))).await;
    let connection = rusqlite::Connection::open(&file).unwrap();
    let versions = "SELECT group_concat(version) FROM schema_versions";
    let versions: String = connection.query_row(versions, [], |row| row.get(0)).unwrap();
    assert_eq!(versions, "1,2,3,4,5,6,7,8,9,10,11");
}
