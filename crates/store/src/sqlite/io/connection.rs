//! How the file is opened: the same promises on every connection.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::Error;

/// How long a connection waits for a lock. Only a checkpoint that restarts the log ever does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// How long somebody who must be alone waits for another process that has the file open.
const ALONE_PATIENCE: Duration = Duration::from_secs(1);
/// Memory for pages, in KiB: the writer's, and each reader's; the budget is 64 MiB. The writer comes
/// back to the same few pages of each endpoint, and a thousand busy endpoints should find theirs.
/// More would cost: SQLite walks through its whole cache at each commit in which a page was split.
const WRITER_CACHE: i32 = 16 * 1024;
const READER_CACHE: i32 = 8 * 1024;
/// What a log that begins anew may keep of its file.
const LOG_BYTES: i64 = 64 << 20;
/// More statements than there are functions with one.
const STATEMENTS: usize = 192;

/// What becomes of bytes that are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Erasing {
    /// They are overwritten in pages that are written anyway; pages that become free keep them
    /// until they are used again.
    WhereFree,
    /// They are overwritten wherever they are.
    Everywhere,
}

/// Does something of which nothing may be left in the file.
pub(crate) fn erasing<T>(
    connection: &Connection,
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    set_erasing(connection, Erasing::Everywhere)?;
    let result = work();
    set_erasing(connection, Erasing::WhereFree)?;
    result
}

fn set_erasing(connection: &Connection, erasing: Erasing) -> Result<(), Error> {
    let word = match erasing {
        Erasing::WhereFree => "FAST",
        Erasing::Everywhere => "ON",
    };
    Ok(connection.pragma_update_and_check(None, "secure_delete", word, |_| Ok(()))?)
}

/// Returns how many pages of the file hold nothing.
pub(crate) fn free_pages(connection: &Connection) -> Result<i64, Error> {
    let mut statement = connection.prepare_cached("PRAGMA freelist_count")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// Where the file is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
}

impl Place {
    /// Opens the file for writing, and makes it if it is not there.
    pub(crate) fn create(&self) -> Result<Connection, Error> {
        self.writing(OpenFlags::SQLITE_OPEN_CREATE)
    }

    /// Opens the file for writing; it must be there.
    pub(crate) fn write(&self) -> Result<Connection, Error> {
        self.writing(OpenFlags::empty())
    }

    /// Opens the file for reading.
    pub(crate) fn read(&self) -> Result<Connection, Error> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.pragma_update(None, "cache_size", -READER_CACHE)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }

    /// Opens the file for somebody who must be alone with it, and who finds the log as it is in its own
    /// file: nothing that connections shared counts. If anybody else has it open, that is an error.
    pub(super) fn alone(&self) -> Result<Connection, Error> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.busy_timeout(ALONE_PATIENCE)?;
        // Before anything is read: then SQLite makes an index of the log for this connection only.
        connection.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(|error| {
            let text = format!("the file is in doubt; end what else has it open ({error})");
            Error::unavailable(text, error)
        })?;
        Ok(connection)
    }

    fn writing(&self, create: OpenFlags) -> Result<Connection, Error> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE | create)?;
        // Only an empty file takes this one, and only before its journal becomes a log.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        let mode: String =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        if mode != "wal" {
            return Err(Error::CannotOpen(format!(
                "{} cannot have a write-ahead log (its mode stays `{mode}`); use a local file \
                 system",
                self.file.display()
            )));
        }
        connection.pragma_update(None, "synchronous", "FULL")?;
        set_erasing(&connection, Erasing::WhereFree)?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE)?;
        // A log that has grown large shrinks again when it begins anew.
        connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES, |_| Ok(()))?;
        // Checkpoints have a thread of their own.
        connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
        Ok(connection)
    }

    fn open(&self, flags: OpenFlags) -> Result<Connection, Error> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.file, flags)?;
        connection.busy_timeout(PATIENCE)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.pragma_update(None, "foreign_keys", false)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        // A read error of a mapped file would be a signal, not an error.
        connection.pragma_update_and_check(None, "mmap_size", 0, |_| Ok(()))?;
        // Whoever closes last would copy the log and remove it, also if the file is in doubt.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        Ok(connection)
    }
}
