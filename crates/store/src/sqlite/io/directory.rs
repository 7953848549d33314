//! The data directory: only its owner can look into its files, only one process uses it, and it
//! holds the key if nobody configured one.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Result};
use zeroize::Zeroize;

use crate::Error;
use crate::sqlite::failure;
use crate::vault::{Entropy, KEY_BYTES, Vault};

const LOCK: &str = "redial.lock";
const KEY: &str = "redial.key";
/// What the owner of a file may do, and nobody else.
const OWNER_ONLY: u32 = 0o600;
/// What anybody else might do.
const OTHERS: u32 = 0o077;

/// Makes the directory, for its owner alone. What is in it is worth nothing if the directory
/// itself is not on disk, so its parent is synced.
pub(crate) fn create(directory: &Path) -> Result<(), Error> {
    let failed = |error| refusal_in(directory, "the data directory", directory, &error);
    if directory.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync(parent).map_err(failed),
        Some(_) | None => sync(Path::new(".")).map_err(failed),
    }
}

/// Makes the database's file if it is not there, for its owner alone, whatever directory it is in:
/// SQLite gives its log and its shared memory the same mode. What is there already is closed to
/// others as far as the file system lets us.
pub(crate) fn prepare(database: &Path) -> Result<(), Error> {
    let failed = |error| refusal("the database", database, &error);
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(OWNER_ONLY);
    options.open(database).map_err(failed)?;
    for ending in ["", "-wal", "-shm"] {
        let mut path = database.as_os_str().to_owned();
        path.push(ending);
        close_to_others(Path::new(&path)).map_err(failed)?;
    }
    Ok(())
}

/// Takes from others what they may do with a file; returns what they can do all the same.
fn close_to_others(path: &Path) -> io::Result<u32> {
    let mode = || match std::fs::metadata(path) {
        Ok(metadata) => Ok(metadata.permissions().mode() & OTHERS),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    };
    if mode()? != 0 {
        // Some file systems have no modes, or another owner: then it stays as it is.
        let _closed = std::fs::set_permissions(path, Permissions::from_mode(OWNER_ONLY));
    }
    mode()
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Keeps other processes out of a data directory, as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Locks the directory, and leaves a note that says who did.
    pub(crate) fn take(directory: &Path, now: Timestamp) -> Result<Self, Error> {
        let path = directory.join(LOCK);
        let failed = |error| refusal("the lock file", &path, &error);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(OWNER_ONLY);
        let mut file = options.open(&path).map_err(failed)?;
        close_to_others(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(taken(directory, &mut file)),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0).map_err(failed)?;
        let note = format!("process {}, started {}\n", std::process::id(), readable(now));
        file.write_all(note.as_bytes()).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

/// Names the process that has a directory locked, if one has. The lock is not taken from anybody,
/// nor kept from anybody for longer than the question takes.
pub(crate) fn holder(directory: &Path) -> Result<Option<String>, Error> {
    let path = directory.join(LOCK);
    let failed = |error| refusal("the lock file", &path, &error);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(note(&mut file))),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Reads who has locked a directory.
fn note(file: &mut File) -> String {
    let mut note = String::new();
    // The note is a courtesy; without it the lock stands all the same.
    let _read = file.take(200).read_to_string(&mut note);
    let note = note.trim();
    if note.is_empty() { "another process".to_owned() } else { note.to_owned() }
}

fn taken(directory: &Path, file: &mut File) -> Error {
    let who = note(file);
    Error::CannotOpen(format!(
        "the data directory {} is in use by {who}; stop it first, or use another directory",
        directory.display()
    ))
}

/// Finds or makes the key, and sees to it that it is the one the store was made with.
pub(crate) fn vault(
    directory: &Path,
    key: Option<[u8; KEY_BYTES]>,
    entropy: Entropy,
    connection: &Connection,
) -> Result<Vault, Error> {
    let path = directory.join(KEY);
    let canary = canary(connection)?;
    let given = key.is_some();
    let mut key = match key {
        Some(key) => key,
        None => match read_key(&path)? {
            Some(key) => key,
            None if canary.is_some() => return Err(missing_key(&path)),
            None => make_key(directory, &path, entropy)?,
        },
    };
    let vault = Vault::new(&mut key, entropy);
    match canary {
        None => keep_canary(connection, &vault.canary()?)?,
        Some(canary) if vault.knows(&canary) => {}
        Some(_) => return Err(another_key(directory, given)),
    }
    Ok(vault)
}

/// Makes sure that the key is there and is the one the store was made with; makes nothing.
pub(crate) fn check_key(
    directory: &Path,
    key: Option<[u8; KEY_BYTES]>,
    connection: &Connection,
) -> Result<(), Error> {
    let path = directory.join(KEY);
    let Some(canary) = canary(connection)? else { return Ok(()) };
    let given = key.is_some();
    let mut key = match key {
        Some(key) => key,
        None => read_key(&path)?.ok_or_else(|| missing_key(&path))?,
    };
    // Nothing is sealed, so that no randomness is needed.
    if Vault::new(&mut key, |_| ()).knows(&canary) {
        return Ok(());
    }
    Err(another_key(directory, given))
}

fn another_key(directory: &Path, given: bool) -> Error {
    let which = if given {
        "the configured key".to_owned()
    } else {
        directory.join(KEY).display().to_string()
    };
    Error::CannotOpen(format!(
        "the store in {} was made with another key than {which}; use the key it was made with",
        directory.display()
    ))
}

fn read_key(path: &Path) -> Result<Option<[u8; KEY_BYTES]>, Error> {
    if close_to_others(path).map_err(|error| refusal("the key file", path, &error))? != 0 {
        return Err(Error::CannotOpen(format!(
            "the key file {0} can be read by others, and its mode cannot be changed from here; \
             chmod 600 {0}, or configure the key",
            path.display()
        )));
    }
    let mut text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refusal("the key file", path, &error)),
    };
    let key = from_hex(text.trim());
    text.zeroize();
    key.map(Some).ok_or_else(|| {
        Error::CannotOpen(format!(
            "the key file {} does not hold 64 hexadecimal digits; restore it from a backup",
            path.display()
        ))
    })
}

/// Makes a key, and has it on disk as a whole before anything is encrypted with it.
fn make_key(directory: &Path, path: &Path, entropy: Entropy) -> Result<[u8; KEY_BYTES], Error> {
    let failed = |error| refusal("the key file", path, &error);
    let mut key = [0; KEY_BYTES];
    entropy(&mut key);
    let mut text = hex(&key);
    let part = path.with_extension("key.part");
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(OWNER_ONLY);
    let mut file = options.open(&part).map_err(failed)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    text.zeroize();
    written.and_then(|()| std::fs::rename(&part, path)).map_err(failed)?;
    sync(directory).map_err(failed)?;
    Ok(key)
}

fn missing_key(path: &Path) -> Error {
    Error::CannotOpen(format!(
        "the key file {} is missing, and the store's secrets cannot be read without it; restore \
         it from a backup, or configure the key",
        path.display()
    ))
}

fn refusal(what: &str, path: &Path, error: &io::Error) -> Error {
    refusal_in(path.parent().unwrap_or(path), what, path, error)
}

fn refusal_in(directory: &Path, what: &str, path: &Path, error: &io::Error) -> Error {
    let advice = failure::advice(directory, error);
    Error::CannotOpen(format!("{what} {} cannot be used: {error}; {advice}", path.display()))
}

/// Needs the primary key of `meta`.
fn canary(connection: &Connection) -> Result<Option<Vec<u8>>, Error> {
    let sql = "SELECT value FROM meta WHERE name = 'canary'";
    Ok(connection.query_row(sql, [], |row| row.get(0)).optional()?)
}

fn keep_canary(connection: &Connection, canary: &[u8]) -> Result<(), Error> {
    connection.execute("INSERT INTO meta (name, value) VALUES ('canary', ?1)", [canary])?;
    Ok(())
}

/// Writes a key as text.
fn hex(key: &[u8; KEY_BYTES]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a key from text.
fn from_hex(text: &str) -> Option<[u8; KEY_BYTES]> {
    if text.len() != KEY_BYTES * 2 || !text.is_ascii() {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    for (place, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[place * 2..place * 2 + 2], 16).ok()?;
    }
    Some(key)
}

/// Writes a moment for people, to the second, in UTC.
fn readable(time: Timestamp) -> String {
    let (days, seconds) =
        (time.as_seconds().div_euclid(86_400), time.as_seconds().rem_euclid(86_400));
    // Days are counted from 0000-03-01, so that a leap day is the last of its year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..=9 => (year + era * 400, month + 3),
        _ => (year + era * 400 + 1, month - 9),
    };
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_for_people() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_800_000_000, "2027-01-15T08:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ];
        for (seconds, text) in cases {
            assert_eq!(readable(Timestamp::from_seconds(seconds)), text);
        }
    }

    #[test]
    fn a_key_reads_as_it_was_written_and_nothing_else_does() {
        let key: [u8; KEY_BYTES] = std::array::from_fn(|place| u8::try_from(place * 8).unwrap());
        assert_eq!(from_hex(&hex(&key)), Some(key));
        for text in ["", "00", &"g0".repeat(32), &"é".repeat(32), &"+1".repeat(32)[..63]] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }
}
