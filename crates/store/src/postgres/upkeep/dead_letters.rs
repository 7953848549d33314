//! Dead letters whose own time is over: they go, also if their message stays.
//!
//! They are walked in the order of their index, so many at a step, from where the last step stopped
//! to the end. The next walk begins anew.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::Error;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{column, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::row::field;
use crate::postgres::upkeep::prune::Limits;
use crate::postgres::upkeep::{cursor, removal};

/// The name of the place where the walk goes on.
const CURSOR: &str = "dead letters cursor";
/// The most dead letters that one step looks at.
const MOST_WALKED: usize = 500;

/// Where a dead letter is: application, message and endpoint.
type Place = [i64; 3];

/// A dead letter as the walk sees it.
struct Walked {
    place: Place,
    /// How many rows go with it.
    rows: u32,
    over: bool,
}

/// Tells whether the last step stopped among them.
pub(super) async fn is_under_way(transaction: &mut Transaction<'_>) -> Result<bool, Failure> {
    Ok(cursor::read(transaction, CURSOR).await? != [0; 3])
}

/// Walks on. Returns how many rows may still be removed, and whether it stopped before it came to
/// the end.
pub(crate) async fn walk(
    transaction: &mut Transaction<'_>,
    limits: Limits,
    mut left: u32,
) -> Result<(u32, bool), Failure> {
    if left == 0 {
        return Ok((left, true));
    }
    let before = limits.now.before(limits.dead_letters_kept).as_micros();
    let began = cursor::read(transaction, CURSOR).await?;
    let walked = next(transaction, began, before).await?;
    let at_the_end = walked.len() < MOST_WALKED;
    let last = walked.last().map(|letter| letter.place);
    let mut place = last.filter(|_| !at_the_end).unwrap_or_default();
    let mut walks_on = !at_the_end;
    let mut doomed = Vec::new();
    for letter in walked {
        if letter.over {
            doomed.push(letter.place);
            left = left.saturating_sub(letter.rows);
        }
        if left == 0 {
            (place, walks_on) = (letter.place, true);
            break;
        }
    }
    remove(transaction, &doomed, Some(before)).await?;
    cursor::keep(transaction, CURSOR, place).await?;
    Ok((left, walks_on))
}

/// Index: deliveries_dead.
async fn next(
    transaction: &mut Transaction<'_>,
    [application, message, endpoint]: Place,
    before: i64,
) -> Result<Vec<Walked>, Failure> {
    let statement = "\
        select application, message, endpoint, recorded, \
               coalesce(settled_at < $4, false) as over \
        from deliveries \
        where state = 2 and (application, message, endpoint) > ($1, $2, $3) \
        order by application, message, endpoint limit $5";
    let columns = [
        int8(application),
        int8(message),
        int8(endpoint),
        int8(before),
        int8(i64::try_from(MOST_WALKED).unwrap_or(i64::MAX)),
    ];
    let rows = transaction.query(statement, &parameters(&columns)).await?;
    let walked = |row: &Row| {
        let recorded: i64 = field(row, "recorded")?;
        Ok(Walked {
            place: place(row)?,
            rows: u32::try_from(recorded.saturating_add(1)).unwrap_or(u32::MAX),
            over: field(row, "over")?,
        })
    };
    Ok(rows.iter().map(walked).collect::<Result<_, Error>>()?)
}

/// Removes dead letters with their attempts, and returns those that it found: all of them, or those
/// that were settled before a moment. What was replayed meanwhile is none.
pub(crate) async fn remove(
    transaction: &mut Transaction<'_>,
    doomed: &[Place],
    before: Option<i64>,
) -> Result<Vec<Place>, Failure> {
    if doomed.is_empty() {
        return Ok(Vec::new());
    }
    let held = hold(transaction, doomed, before).await?;
    removal::deliveries(transaction, &held).await?;
    Ok(held)
}

/// Locks dead letters, in the order in which a settle locks them, and returns those that still are
/// some. In a statement of its own: the next one sees the attempts of whoever was waited for.
///
/// Index: the primary key of deliveries.
async fn hold(
    transaction: &mut Transaction<'_>,
    doomed: &[Place],
    before: Option<i64>,
) -> Result<Vec<Place>, Failure> {
    let statement = "\
        select d.application, d.message, d.endpoint \
        from unnest($1::bigint[], $2::bigint[], $3::bigint[]) i (application, message, endpoint) \
        join deliveries d using (application, endpoint, message) \
        where d.state = 2 and ($4::bigint is null or d.settled_at < $4) \
        order by d.application, d.endpoint, d.message for update of d";
    let columns = [
        column(doomed, Type::INT8_ARRAY, |place| place[0]),
        column(doomed, Type::INT8_ARRAY, |place| place[1]),
        column(doomed, Type::INT8_ARRAY, |place| place[2]),
        int8(before),
    ];
    let rows = transaction.query(statement, &parameters(&columns)).await?;
    Ok(rows.iter().map(place).collect::<Result<_, Error>>()?)
}

fn place(row: &Row) -> Result<Place, Error> {
    Ok([field(row, "application")?, field(row, "message")?, field(row, "endpoint")?])
}
