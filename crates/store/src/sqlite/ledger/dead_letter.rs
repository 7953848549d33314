//! Dead letters of a whole application.

use rusqlite::Connection;
use rusqlite::types::Value;

use crate::Error;
use crate::damage::Notes;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{DeliveryEntry, DeliveryFilter};
use crate::page::{Direction, Listed, Page};
use crate::sqlite::io::writer::Writing;
use crate::sqlite::ledger::delivery;
use crate::sqlite::page::{self, List};
use crate::sqlite::upkeep::{prune, removal, tombstones};

/// Walks an application's dead letters, newest message first.
pub(crate) const DEAD_LETTERS: &str = "SELECT
        d.endpoint, d.message, d.application, d.state, d.cause, d.due, d.attempts, d.ambiguous,
        d.last_wait, d.expires_at, d.recorded, d.last_attempt, d.last_status, d.settled_at,
        m.id AS message_id, m.event_type, m.received_at, m.policy
    FROM deliveries AS d INDEXED BY deliveries_dead
    CROSS JOIN messages AS m ON m.key = d.message
    WHERE d.application = ?1 AND d.state = 2 AND (d.message, d.endpoint) {compare} (?2, ?3)
    ORDER BY d.message {direction}, d.endpoint {direction} LIMIT ?4";

/// Some dead letters of an application.
pub(crate) struct DeadLetters<'a> {
    pub(crate) application: ApplicationKey,
    pub(crate) filter: &'a DeliveryFilter,
    pub(crate) page: &'a Page<(MessageKey, EndpointKey)>,
}

/// Needs the index `deliveries_dead` and the primary keys of `deliveries` and `messages`.
pub(crate) fn list(
    connection: &Connection,
    notes: &Notes,
    wanted_ones: &DeadLetters<'_>,
) -> Result<Listed<DeliveryEntry, (MessageKey, EndpointKey)>, Error> {
    let DeadLetters { application, filter, page } = *wanted_ones;
    let list = List {
        statement: DEAD_LETTERS,
        direction: Direction::Descending,
        whose: Some(application.0),
        beginning: vec![Value::Integer(i64::MAX), Value::Integer(i64::MAX)],
        at: at_dead_letter,
        bytes: DeliveryEntry::bytes,
        page,
    };
    page::page(connection, notes, list, |row| {
        let entry = delivery::of(row)?;
        let place = (entry.key.message, entry.key.endpoint);
        Ok((place, filter.takes(entry)))
    })
}

/// A start value at a dead letter.
fn at_dead_letter((message, endpoint): &(MessageKey, EndpointKey)) -> Vec<Value> {
    vec![Value::Integer(message.0), Value::Integer(endpoint.0)]
}

/// Removes the dead letters of a page.
pub(super) fn purge(
    writing: &mut Writing<'_>,
    application: ApplicationKey,
    filter: &DeliveryFilter,
    page: &Page<(MessageKey, EndpointKey)>,
) -> Result<Listed<DeliveryKey, (MessageKey, EndpointKey)>, Error> {
    let wanted = DeadLetters { application, filter, page };
    let listed = list(writing.connection, writing.notes, &wanted)?;
    let Listed { entries, reached, done } = listed;
    for entry in &entries {
        removal::remove_with_attempts(writing, entry.key, entry.last_attempt)?;
        // The sums of a tombstone may be many, so pruning takes it away.
        tombstones::retire(
            writing,
            entry.key.endpoint,
            &mut prune::Allowance::of(0, writing.clock),
        )?;
    }
    let entries = entries.into_iter().map(|entry| entry.key).collect();
    Ok(Listed { entries, reached, done })
}
