//! SQLite's errors, by what the caller can do about them.

use rusqlite::ErrorCode;
use rusqlite::types::Type;

use crate::Error;
use crate::codes::Unknown;

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        if error.sqlite_error_code().is_some() {
            return Self::unavailable(error.to_string(), error);
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

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

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
    fn only_what_leaves_the_file_in_doubt_makes_us_open_it_again() {
        assert!(is_doubtful(&error(ffi::SQLITE_IOERR_FSYNC)));
        assert!(is_doubtful(&error(ffi::SQLITE_CORRUPT)));
        assert!(!is_doubtful(&error(ffi::SQLITE_FULL)));
        assert!(!is_doubtful(&Error::Missing("task")));
    }
}
