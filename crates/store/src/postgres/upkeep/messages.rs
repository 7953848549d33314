//! Messages whose time is over, and their deliveries.
//!
//! Messages are walked by key, from where the last step stopped to the end; the next walk begins
//! anew. Of a message whose time is over each delivery goes that need not be kept, with its attempts,
//! and the message itself when none is left. A step may stop among the deliveries of a message, and
//! the next one goes on there: one message can have more of them than a step may look at.

use domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{column, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::row::{field, moment, optional_moment};
use crate::postgres::upkeep::prune::Limits;
use crate::postgres::upkeep::{cursor, outlived, rows};
use crate::retention::Term;
use crate::{Error, codes, limits};

/// The name of the place where the walk goes on.
const CURSOR: &str = "prune cursor";
/// The most rows that one step looks at: messages, and the deliveries of those whose time is over.
const MOST_WALKED: u32 = 2_000;
/// How many messages it looks at together.
const CHUNK: usize = 500;

/// Where a walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    /// At this message of this application, or at the first behind it.
    pub(crate) application: i64,
    pub(crate) message: i64,
    /// So many of its deliveries were looked at. What is made later is listed behind them.
    pub(crate) passed: u32,
    /// Whether one of those that were looked at stays.
    pub(crate) stays: bool,
}

impl Place {
    async fn read(transaction: &mut Transaction<'_>) -> Result<Self, Failure> {
        let [application, message, passed, stays] = cursor::read(transaction, CURSOR).await?;
        Ok(Self { application, message, passed: codes::count(passed), stays: stays != 0 })
    }

    async fn keep(self, transaction: &mut Transaction<'_>) -> Result<(), Failure> {
        let Self { application, message, passed, stays } = self;
        let numbers = [application, message, i64::from(passed), i64::from(stays)];
        cursor::keep(transaction, CURSOR, numbers).await
    }

    fn behind(message: &Walked) -> Self {
        let Self { application, message, .. } = message.place;
        Self { application, message: message.saturating_add(1), ..Self::default() }
    }
}

/// A message as the walk sees it.
pub(super) struct Walked {
    pub(crate) place: Place,
    hash: Option<Vec<u8>>,
    pub(crate) term: Term,
    /// How many deliveries there are to be looked at: none before its time is over.
    pub(crate) deliveries: u32,
    /// Up to which of them this step looks.
    pub(crate) up_to: u32,
}

impl Walked {
    fn of(row: &Row, start: Place) -> Result<Self, Error> {
        let (application, message) = (field(row, "application")?, field(row, "key")?);
        let place = if (application, message) == (start.application, start.message) {
            start
        } else {
            Place { application, message, ..Place::default() }
        };
        Ok(Self {
            place,
            hash: field(row, "idempotency")?,
            term: Term {
                received_at: moment(row, "received_at")?,
                deliver_at: optional_moment(row, "deliver_at")?,
                retained_until: moment(row, "retained_until")?,
            },
            deliveries: u32::try_from(field::<i32>(row, "deliveries")?).unwrap_or(0),
            up_to: 0,
        })
    }
}

/// Messages that are looked at together.
struct Chunk {
    messages: Vec<Walked>,
    /// How many rows that are, with their deliveries.
    rows: u32,
    /// Whether there is no message behind them.
    is_last: bool,
}

impl Chunk {
    /// Cuts off what is too much for a step. Of the last message it may be a part of its deliveries,
    /// and of each it is one at least, so that every step gets on.
    fn of(found: Vec<Walked>, most: u32) -> Self {
        let number = found.len();
        let (mut messages, mut rows) = (Vec::with_capacity(number), 0_u32);
        for mut message in found {
            if rows >= most {
                break;
            }
            rows = rows.saturating_add(1);
            let left = message.deliveries.saturating_sub(message.place.passed);
            let part = left.min(most.saturating_sub(rows).max(1));
            message.up_to = message.place.passed.saturating_add(part);
            rows = rows.saturating_add(part);
            messages.push(message);
        }
        let is_last = messages.len() == number && number < CHUNK;
        Self { messages, rows, is_last }
    }
}

/// Walks on, and returns how many rows may still be removed, and whether it stopped before it came to
/// the last message.
pub(crate) async fn walk(
    transaction: &mut Transaction<'_>,
    limits: Limits,
    mut left: u32,
) -> Result<(u32, bool), Failure> {
    let mut place = Place::read(transaction).await?;
    let (mut walked, mut came_to_the_end) = (0, false);
    while left > 0 && walked < MOST_WALKED {
        let found = next(transaction, place, limits.now).await?;
        let Chunk { messages, rows, is_last } = Chunk::of(found, MOST_WALKED - walked);
        walked = walked.saturating_add(rows);
        left -= forget_keys(transaction, limits.now, &messages).await?.min(left);
        let stopped;
        (left, stopped) = outlived::prune(transaction, limits, &messages, left).await?;
        if let Some(stopped) = stopped {
            place = stopped;
            break;
        }
        if is_last {
            (place, came_to_the_end) = (Place::default(), true);
            break;
        }
        place = messages.last().map_or(place, Place::behind);
    }
    place.keep(transaction).await?;
    Ok((left, !came_to_the_end))
}

/// Index: the primary key of messages.
async fn next(
    transaction: &mut Transaction<'_>,
    place: Place,
    now: Timestamp,
) -> Result<Vec<Walked>, Failure> {
    let statement = "\
        select application, key, idempotency, received_at, deliver_at, retained_until, \
               case when retained_until < $4 then cardinality(fan_out) else 0 end as deliveries \
        from messages \
        where (application, key) >= ($1, $2) order by application, key limit $3";
    let columns = [
        int8(place.application),
        int8(place.message),
        int8(i64::try_from(CHUNK).unwrap_or(i64::MAX)),
        int8(now.as_micros()),
    ];
    let rows = transaction.query(statement, &parameters(&columns)).await?;
    Ok(rows.iter().map(|row| Walked::of(row, place)).collect::<Result<_, _>>()?)
}

/// Removes idempotency keys that no longer count, whoever has them by now.
///
/// Index: the primary key of idempotency.
async fn forget_keys(
    transaction: &mut Transaction<'_>,
    now: Timestamp,
    messages: &[Walked],
) -> Result<u32, Failure> {
    let old = |message: &&Walked| {
        message.hash.is_some() && now.since(message.term.received_at) >= limits::IDEMPOTENCY
    };
    let old: Vec<&Walked> = messages.iter().filter(old).collect();
    if old.is_empty() {
        return Ok(0);
    }
    let statement = "\
        delete from idempotency k \
        using unnest($1::bigint[], $2::bytea[]) i (application, hash) \
        where k.application = i.application and k.hash = i.hash and $3 - k.received_at >= $4";
    let columns = [
        column(&old, Type::INT8_ARRAY, |message| message.place.application),
        column(&old, Type::BYTEA_ARRAY, |message| message.hash.as_deref()),
        int8(now.as_micros()),
        int8(codes::micros(limits::IDEMPOTENCY)),
    ];
    transaction.execute(statement, &parameters(&columns)).await.map(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(message: i64, deliveries: u32, passed: u32) -> Walked {
        let (received_at, retained_until) = (Timestamp::EPOCH, Timestamp::EPOCH);
        Walked {
            place: Place { application: 1, message, passed, stays: false },
            hash: None,
            term: Term { received_at, deliver_at: None, retained_until },
            deliveries,
            up_to: 0,
        }
    }

    fn cut(found: Vec<Walked>, most: u32) -> (Vec<u32>, u32, bool) {
        let Chunk { messages, rows, is_last } = Chunk::of(found, most);
        (messages.iter().map(|message| message.up_to).collect(), rows, is_last)
    }

    #[test]
    fn all_that_fits_is_looked_at_together() {
        assert_eq!(cut(vec![walked(1, 3, 0), walked(2, 0, 0)], 10), (vec![3, 0], 5, true));
        assert_eq!(cut(Vec::new(), 10), (Vec::new(), 0, true));
    }

    #[test]
    fn a_message_with_more_deliveries_than_fit_is_looked_at_in_parts() {
        assert_eq!(cut(vec![walked(1, 100, 0), walked(2, 1, 0)], 10), (vec![9], 10, false));
        assert_eq!(cut(vec![walked(1, 100, 90), walked(2, 9, 0)], 20), (vec![100, 8], 20, true));
    }

    #[test]
    fn every_step_gets_on() {
        assert_eq!(cut(vec![walked(1, 100, 7)], 1), (vec![8], 2, true));
        assert_eq!(cut(vec![walked(1, 100, 100), walked(2, 1, 0)], 1), (vec![100], 1, false));
    }
}
