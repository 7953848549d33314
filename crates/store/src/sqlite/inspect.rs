//! A look at a store from outside, while its server runs or not. Nothing is written, and nothing is
//! held that a server would wait for: no lock of ours, and no snapshot for longer than a moment.

use std::path::Path;
use std::time::Duration;

use domain::time::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use crate::Error;
use crate::sqlite::io::{connection, directory};
use crate::sqlite::{Clock, FILE, migrate};
use crate::vault::KEY_BYTES;

/// How long each table is looked at while a server runs. Its log cannot begin anew meanwhile.
const GLANCE: Duration = Duration::from_secs(1);
/// How many steps of SQLite pass between two looks at the clock.
const STEPS: i32 = 10_000;
/// The most complaints that are told.
const MOST_COMPLAINTS: usize = 5;

/// What was found.
#[derive(Debug)]
pub struct Inspection {
    /// The process that has the store open, in its own words.
    pub in_use: Option<String>,
    /// How many steps its schema is behind, or why this version cannot use it.
    pub behind: Result<usize, Error>,
    /// Whether the key is there and fits.
    pub key: Result<(), Error>,
    /// What SQLite complains about, as far as it is told.
    pub complaints: Vec<String>,
    /// Tables that would have taken too long to look at while a server runs.
    pub unchecked: Vec<String>,
    /// When its newest message was received.
    pub newest: Option<Timestamp>,
}

/// Looks at the store in a data directory; nothing is found if there is none yet.
///
/// # Errors
/// If it cannot be looked at. The text says what to do.
pub fn inspect(
    directory: &Path,
    key: Option<[u8; KEY_BYTES]>,
    clock: &Clock,
) -> Result<Option<Inspection>, Error> {
    let file = directory.join(FILE);
    if !file.exists() {
        return Ok(None);
    }
    let in_use = directory::holder(directory)?;
    let mut connection = open(&file)?;
    let (mut complaints, mut unchecked) = (Vec::new(), Vec::new());
    // A file can be damaged so badly that not even its tables can be named.
    let tables = tables(&connection).unwrap_or_else(|error| {
        complaints.push(error.to_string());
        Vec::new()
    });
    for table in tables {
        let limit = in_use.as_ref().map(|_| clock().after(GLANCE));
        match check(&mut connection, &table, (limit, clock))? {
            Some(found) => complaints.extend(found),
            None => unchecked.push(table),
        }
    }
    complaints.truncate(MOST_COMPLAINTS);
    Ok(Some(Inspection {
        in_use,
        behind: migrate::behind(&connection),
        key: directory::check_key(directory, key, &connection),
        complaints,
        unchecked,
        newest: newest(&connection).unwrap_or_default(),
    }))
}

/// Opens the file so that looking at it leaves nothing behind.
fn open(file: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    // Without a log nobody is at work, and even a lock file would be something left behind.
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    let suffix = if Path::new(&log).exists() { "" } else { "?immutable=1" };
    let connection = Connection::open_with_flags(uri(file, suffix), flags)?;
    connection.busy_timeout(connection::PATIENCE)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update_and_check(None, "mmap_size", 0, |_| Ok(()))?;
    Ok(connection)
}

/// Writes a path as SQLite reads it in a URI.
fn uri(file: &Path, suffix: &str) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let bytes = file.as_os_str().as_bytes().iter();
    let path: String = bytes
        .map(
            |byte| {
                if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }
            },
        )
        .collect();
    format!("file:{path}{suffix}")
}

/// Needs no index: there are few tables.
fn tables(connection: &Connection) -> Result<Vec<String>, Error> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut statement = connection.prepare(sql)?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Has SQLite look at one table; answers nothing if that took too long.
fn check(
    connection: &mut Connection,
    table: &str,
    (limit, clock): (Option<Timestamp>, &Clock),
) -> Result<Option<Vec<String>>, Error> {
    let clock = clock.clone();
    let over = move || limit.is_some_and(|limit| clock() > limit);
    connection.progress_handler(STEPS, Some(over))?;
    let found = complaints(connection, table);
    connection.progress_handler(STEPS, None::<fn() -> bool>)?;
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            Ok(None)
        }
        // A file that is damaged badly enough cannot even be checked.
        Err(error) => Ok(Some(vec![format!("{table}: {error}")])),
    }
}

fn complaints(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let sql = format!("PRAGMA quick_check('{}')", table.replace('\'', "''"));
    let mut statement = connection.prepare(&sql)?;
    let texts = statement.query_map([], |row| row.get::<_, String>(0))?;
    let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
    let wrong = texts.into_iter().filter(|text| text != "ok");
    Ok(wrong.map(|text| format!("{table}: {text}")).collect())
}

/// Needs the primary key of `messages`.
fn newest(connection: &Connection) -> Result<Option<Timestamp>, Error> {
    let sql = "SELECT received_at FROM messages ORDER BY key DESC LIMIT 1";
    let found = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    Ok(found.map(Timestamp::from_micros))
}
