//! A write that tells whether anything can be written.

use crate::Error;
use crate::sqlite::io::writer::Writing;

/// How many bytes are written: as many as most messages have. Less might find room in the log where they
/// do not.
const BYTES: i64 = 16 << 10;

/// Writes a row of its own anew. SQLite writes no page that stays as it was, so each of its bytes is
/// another one.
///
/// Needs the primary key of `meta`.
pub(crate) fn probe(writing: &mut Writing<'_>) -> Result<(), Error> {
    let sql = "INSERT INTO meta (name, value) VALUES ('probe', randomblob(?1))
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    writing.connection.prepare_cached(sql)?.execute([BYTES])?;
    Ok(())
}
