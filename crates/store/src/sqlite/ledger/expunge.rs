//! Expunging: a message's payload goes, and what is pending of it is cancelled with it.

use std::collections::BTreeSet;

use domain::partition::Partition;
use domain::time::Timestamp;
use rusqlite::{Connection, params};

use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, MessageKey};
use crate::queue::{Request, RequestKind};
use crate::sqlite::io::connection::erasing;
use crate::sqlite::io::writer::Writing;
use crate::sqlite::ledger::delivery;
use crate::sqlite::upkeep::request;

/// Removes a payload so that nothing is left of it in the file, and soon nothing in the log; what is
/// pending of it is cancelled. Needs the primary key of `messages`.
pub(super) fn expunge(
    writing: &Writing<'_>,
    (application, message): (ApplicationKey, MessageKey),
    at: Timestamp,
) -> Result<Vec<Partition>, Error> {
    let connection = writing.connection;
    let sql = "UPDATE messages SET payload = NULL WHERE key = ?1 AND application = ?2";
    let removed = erasing(connection, || {
        Ok(connection.prepare_cached(sql)?.execute(params![message.0, application.0])?)
    })?;
    writing.wal.empty_soon();
    match removed {
        0 => Err(Error::Missing("message")),
        _ => cancel_all(connection, (application, message), at),
    }
}

/// Cancels what is pending of a message, and has its owners forget it. Returns their partitions.
pub(super) fn cancel_all(
    connection: &Connection,
    (application, message): (ApplicationKey, MessageKey),
    at: Timestamp,
) -> Result<Vec<Partition>, Error> {
    let mut partitions = BTreeSet::new();
    for endpoint in delivery::fan_out(connection, message)? {
        let key = DeliveryKey { application, endpoint, message };
        let Some(partition) = delivery::mark_cancelled(connection, key, at)? else { continue };
        let kind = RequestKind::Cancel(message);
        let request = Request { number: 0, application, endpoint, partition, kind, at };
        request::ask(connection, &request)?;
        partitions.insert(partition);
    }
    Ok(partitions.into_iter().collect())
}
