//! Tokens that expired or were revoked long ago: they go, so many at a step.
//!
//! There may be many, one for each visit to a portal, and no index of when they end. They are walked
//! by id, from where the last step stopped; the walk is slow beside the time they are kept.

use domain::time::Timestamp;

use crate::limits;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{int8, parameters, text};
use crate::postgres::io::link::Transaction;
use crate::postgres::row::field;
use crate::postgres::upkeep::{cursor, rows};

/// The name of the place where the walk goes on.
const CURSOR: &str = "tokens cursor";
/// How many tokens a step looks at.
const LOOKED_AT: i64 = 256;

/// Walks on, and removes at most so many.
pub(crate) async fn forget(
    transaction: &mut Transaction<'_>,
    now: Timestamp,
    most: u32,
) -> Result<u32, Failure> {
    let start = cursor::read_text(transaction, CURSOR).await?;
    let end = end_of_step(transaction, &start).await?;
    let removed = remove_between(transaction, (&start, end.as_deref()), now, most).await?;
    // With nothing left of the allowance there may be something left between these.
    if removed < most {
        cursor::keep_text(transaction, CURSOR, end.unwrap_or_default()).await?;
    }
    Ok(removed)
}

/// Returns the last token that a step looks at; none if it comes to the end.
///
/// Index: the primary key of tokens.
async fn end_of_step(
    transaction: &mut Transaction<'_>,
    start: &str,
) -> Result<Option<String>, Failure> {
    let statement = "select id from tokens where id > $1 order by id offset $2 limit 1";
    let columns = [text(start), int8(LOOKED_AT - 1)];
    let row = transaction.one(statement, &parameters(&columns)).await?;
    Ok(row.map(|row| field(&row, "id")).transpose()?)
}

/// Index: the primary key of tokens.
async fn remove_between(
    transaction: &mut Transaction<'_>,
    (start, end): (&str, Option<&str>),
    now: Timestamp,
    most: u32,
) -> Result<u32, Failure> {
    let statement = "\
        delete from tokens where ctid = any(array( \
            select ctid from tokens \
            where id > $1 and ($2::text is null or id <= $2) \
              and (expires_at < $3 or revoked_at < $3) \
            order by id limit $4))";
    let columns = [
        text(start),
        text(end),
        int8(now.before(limits::TOKENS).as_micros()),
        int8(i64::from(most)),
    ];
    transaction.execute(statement, &parameters(&columns)).await.map(rows)
}
