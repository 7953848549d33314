//! SQLite's errors, by what the caller can do about them.

use std::io;
use std::path::Path;

use rusqlite::types::Type;
use rusqlite::{ErrorCode, ffi};

use crate::Error;
use crate::codes::Unknown;

/// The bits of a code that say what happened; the others say where.
const PRIMARY: i32 = 0xff;
/// What to do about a database that is nobody's store.
const ANOTHER_PROGRAM: &str = "if it belongs to another program, use another directory";

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        if error.sqlite_error_code().is_some() {
            return Self::unavailable(error.to_string(), error);
        }
        // The error would quote the whole statement.
        if let rusqlite::Error::SqlInputError { msg: text, .. } = error {
            return Self::Damaged { what: "the schema".to_owned(), text };
        }
        // What remains are rows that do not read as they should, or calls that do not fit their
        // statement; neither goes away by waiting.
        Self::Damaged { what: "a row".to_owned(), text: error.to_string() }
    }
}

impl From<Unknown> for rusqlite::Error {
    fn from(unknown: Unknown) -> Self {
        Self::FromSqlConversionFailure(0, Type::Integer, unknown.to_string().into())
    }
}

/// Answers for a thread that is no more.
pub(crate) fn gone() -> Error {
    let text = "the thread that should answer has ended".to_owned();
    Error::Unavailable { text, source: None }
}

/// Tells whether an item, and not the store, is to blame.
pub(crate) fn is_about_the_item(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::TooBig | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch)
    )
}

/// Tells whether a row, or the page that it is on, cannot be read. Whoever does not need it can go on.
pub(crate) fn is_damage(error: &Error) -> bool {
    match error {
        Error::Damaged { .. } => true,
        Error::Unavailable { source: Some(source), .. } => {
            let code = source.downcast_ref().and_then(rusqlite::Error::sqlite_error_code);
            code == Some(ErrorCode::DatabaseCorrupt)
        }
        Error::Unavailable { source: None, .. }
        | Error::Taken { .. }
        | Error::Missing(_)
        | Error::Refused(_)
        | Error::Declined(_)
        | Error::CannotOpen(_) => false,
    }
}

/// Tells whether the file must be closed and opened again before anything more is written to it.
///
/// A full disk and a busy file are safe: SQLite has rolled back and says so. After anything else
/// that the file did (a failed fsync above all) nobody knows what is on disk.
pub(crate) fn is_doubtful(error: &Error) -> bool {
    let Error::Unavailable { source: Some(source), .. } = error else {
        return false;
    };
    let code = source.downcast_ref().and_then(rusqlite::Error::sqlite_error_code);
    !matches!(
        code,
        None | Some(
            ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::OperationInterrupted
        )
    )
}

/// Says why a store could not be opened: what is wrong, where, and what to do about it. Nobody tries it
/// again by itself.
pub(crate) fn at_opening(file: &Path, error: Error) -> Error {
    match &error {
        Error::Unavailable { source: Some(source), .. } => match source.downcast_ref() {
            Some(rusqlite::Error::SqliteFailure(failure, said)) => {
                Error::CannotOpen(refusal(file, failure.extended_code, said.as_deref()))
            }
            _ => error,
        },
        Error::Damaged { what, text } => Error::CannotOpen(format!(
            "{} cannot be used: {what} cannot be read: {text}; {ANOTHER_PROGRAM}, or restore a backup",
            file.display()
        )),
        Error::Unavailable { source: None, .. }
        | Error::Taken { .. }
        | Error::Missing(_)
        | Error::Refused(_)
        | Error::Declined(_)
        | Error::CannotOpen(_) => error,
    }
}

/// What is wrong with a database that cannot be opened, by SQLite's code.
fn refusal(file: &Path, code: i32, said: Option<&str>) -> String {
    let directory = file.parent().unwrap_or(file).display();
    let file = file.display();
    match code {
        // What readers and the writer share could not be made as large as it must be.
        ffi::SQLITE_IOERR_SHMSIZE => return no_space(&directory),
        ffi::SQLITE_IOERR_LOCK
        | ffi::SQLITE_IOERR_RDLOCK
        | ffi::SQLITE_IOERR_UNLOCK
        | ffi::SQLITE_IOERR_SHMLOCK
        | ffi::SQLITE_IOERR_SHMMAP
        | ffi::SQLITE_IOERR_SHMOPEN => {
            return format!(
                "the file system of {directory} cannot lock or share files, as some network file \
                 systems cannot; use a directory on a local disk"
            );
        }
        _ => {}
    }
    match code & PRIMARY {
        ffi::SQLITE_FULL => no_space(&directory),
        ffi::SQLITE_NOTADB => format!(
            "{file} is no database of SQLite, or its beginning was overwritten; restore a backup of \
             {directory}, or use another directory"
        ),
        ffi::SQLITE_CORRUPT => format!(
            "{file} is damaged; keep a copy of {directory} and restore a backup; redial doctor says \
             what is damaged"
        ),
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL => format!(
            "{file} is locked by another program, such as a backup or the sqlite3 shell; end that \
             program, and start again"
        ),
        ffi::SQLITE_READONLY | ffi::SQLITE_CANTOPEN | ffi::SQLITE_PERM | ffi::SQLITE_AUTH => {
            not_writable(&directory)
        }
        ffi::SQLITE_IOERR => format!(
            "the disk of {directory} fails: {} (SQLite's code {code}); look into the log of the \
             system, and use another disk if it says so",
            ffi::code_to_str(code).to_lowercase()
        ),
        _ => format!(
            "{file} cannot be used: {} (SQLite's code {code}); {ANOTHER_PROGRAM}",
            said.unwrap_or_else(|| ffi::code_to_str(code))
        ),
    }
}

fn no_space(directory: &impl std::fmt::Display) -> String {
    format!(
        "no space is left in {directory}; delete what that file system need not hold, or make it \
         larger, and start again"
    )
}

fn not_writable(directory: &impl std::fmt::Display) -> String {
    format!(
        "{directory} must be there, belong to the user who runs this with all that is in it (chown \
         -R), and be on a file system that can be written to"
    )
}

/// Says what to do about a file or directory that the system refuses.
pub(crate) fn advice(directory: &Path, error: &io::Error) -> String {
    let directory = directory.display();
    let is = |kinds: &[io::ErrorKind]| kinds.contains(&error.kind());
    if is(&[io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge])
    {
        no_space(&directory)
    } else if is(&[io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem]) {
        not_writable(&directory)
    } else if is(&[io::ErrorKind::AlreadyExists, io::ErrorKind::NotADirectory]) {
        "a part of the path is a file; use another directory".to_owned()
    } else {
        "use another directory, or put right what is wrong with this one".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i32) -> Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
    }

    #[test]
    fn what_the_database_says_is_worth_another_try() {
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_BUSY, ffi::SQLITE_IOERR_FSYNC] {
            assert!(error(code).is_retryable(), "{code}");
        }
        assert!(!Error::from(rusqlite::Error::QueryReturnedNoRows).is_retryable());
    }

    #[test]
    fn what_cannot_be_read_is_told_from_what_cannot_be_done() {
        assert!(is_damage(&error(ffi::SQLITE_CORRUPT)));
        assert!(is_damage(&rusqlite::Error::QueryReturnedNoRows.into()));
        assert!(!is_damage(&error(ffi::SQLITE_IOERR_READ)), "a disk may be well again");
        assert!(!is_damage(&error(ffi::SQLITE_FULL)));
    }

    #[test]
    fn a_store_that_cannot_be_opened_says_what_is_wrong_where_and_what_to_do() {
        let table = [
            (ffi::SQLITE_FULL, "no space is left in /data/here; delete"),
            (ffi::SQLITE_IOERR_SHMSIZE, "no space is left in /data/here; delete"),
            (ffi::SQLITE_NOTADB, "/data/here/redial.db is no database of SQLite"),
            (ffi::SQLITE_CORRUPT, "/data/here/redial.db is damaged; keep a copy of /data/here"),
            (ffi::SQLITE_CORRUPT_INDEX, "is damaged"),
            (ffi::SQLITE_BUSY, "/data/here/redial.db is locked by another program"),
            (ffi::SQLITE_BUSY_RECOVERY, "is locked by another program"),
            (ffi::SQLITE_READONLY, "/data/here must be there, belong to the user"),
            (ffi::SQLITE_READONLY_DIRECTORY, "can be written to"),
            (ffi::SQLITE_CANTOPEN, "can be written to"),
            (ffi::SQLITE_IOERR_LOCK, "cannot lock or share files"),
            (ffi::SQLITE_IOERR_FSYNC, "the disk of /data/here fails: "),
            (ffi::SQLITE_IOERR_WRITE, "(SQLite's code 778)"),
            (ffi::SQLITE_ERROR, "if it belongs to another program"),
        ];
        for (code, expected) in table {
            let opened = at_opening(Path::new("/data/here/redial.db"), error(code));
            let Error::CannotOpen(text) = opened else { panic!("{code}: {opened:?}") };
            assert!(text.contains(expected), "{code}: {text}");
            assert!(!text.contains("Error code"), "{code}: {text}");
        }
        let kept = at_opening(Path::new("/data/here/redial.db"), Error::Missing("task"));
        assert!(matches!(kept, Error::Missing("task")));
    }

    #[test]
    fn only_what_leaves_the_file_in_doubt_makes_us_open_it_again() {
        assert!(is_doubtful(&error(ffi::SQLITE_IOERR_FSYNC)));
        assert!(is_doubtful(&error(ffi::SQLITE_CORRUPT)));
        assert!(!is_doubtful(&error(ffi::SQLITE_FULL)));
        assert!(!is_doubtful(&Error::Missing("task")));
    }
}
