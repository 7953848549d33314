//! A store of the first version is brought to the current one when it is opened.

use store::Error;
use store::conformance::Handle;
use store::sqlite::Sqlite;

use super::{Arc, settings};
use crate::golden;

const FIRST: &str = include_str!("../golden/sqlite-0001.sql");

#[tokio::test]
async fn a_store_of_the_first_version_keeps_all_that_is_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("redial.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    // The dump sets the sequences of the row numbers, which only the owner of the schema may.
    connection.pragma_update(None, "writable_schema", true).unwrap();
    connection.execute_batch(FIRST).unwrap();
    connection.close().unwrap();
    let settings = || store::sqlite::Settings { key: Some([7; 32]), ..settings(directory.path()) };
    let store = Sqlite::open(settings()).unwrap();
    // While one process writes, no other migrates.
    let second = Sqlite::open(settings()).unwrap_err();
    assert!(matches!(second, Error::CannotOpen(_)), "{second}");
    golden::check(&Handle::new(Arc::new(store))).await;
    let connection = rusqlite::Connection::open(&file).unwrap();
    let versions = "SELECT group_concat(version) FROM schema_versions";
    let versions: String = connection.query_row(versions, [], |row| row.get(0)).unwrap();
    assert_eq!(versions, "1,2,3,4,5,6");
}
