//! Numbering: scheduled deliveries of a FIFO endpoint that are due take their places in its order.

use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{int2, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::io::partitions;
use crate::postgres::row::field;
use crate::postgres::upkeep::{is_current, rows};
use crate::queue::{Done, Number, turn};

pub(crate) async fn number(
    transaction: &mut Transaction<'_>,
    number: &Number,
) -> Result<Done, Failure> {
    if !is_current(transaction, number.lease).await? {
        return Ok(Done::Fenced);
    }
    let count = rows(put(transaction, number).await?);
    let next = next(transaction, number).await?.and_then(turn::due_if_scheduled);
    Ok(Done::Numbered { count, next })
}

/// They are chosen and numbered by due time and then by acceptance, and locked in the order in which a
/// settle locks them; one that was cancelled before it was locked gets no number.
///
/// Indexes: deliveries_pending, the primary key of deliveries.
async fn put(transaction: &mut Transaction<'_>, number: &Number) -> Result<u64, Failure> {
    let statement = "\
        with due as materialized ( \
            select message from deliveries \
            where state = 0 and partition = $3 and endpoint = $2 and application = $1 \
                and turn >= $4 and turn <= $5 \
            order by turn, message limit $6), \
        held as materialized ( \
            select d.message, d.state, d.turn from due \
            join deliveries d on d.application = $1 and d.endpoint = $2 \
                and d.message = due.message \
            order by d.message for update of d), \
        numbered as materialized ( \
            select message, nextval('numbers') as turn from ( \
                select message from held where state = 0 and turn >= $4 and turn <= $5 \
                order by turn, message) one) \
        update deliveries d set turn = n.turn from numbered n \
        where d.application = $1 and d.endpoint = $2 and d.message = n.message";
    let columns = [
        int8(number.application.0),
        int8(number.endpoint.0),
        int2(partitions::number(number.lease.partition)),
        int8(turn::SCHEDULED),
        int8(turn::scheduled(number.until)),
        int8(i64::from(number.most)),
    ];
    transaction.execute(statement, &parameters(&columns)).await
}

/// Returns the turn of the first that is still scheduled. In a statement of its own, so that it sees
/// what was numbered.
///
/// Index: deliveries_pending.
async fn next(transaction: &mut Transaction<'_>, number: &Number) -> Result<Option<i64>, Failure> {
    let statement = "\
        select turn from deliveries \
        where state = 0 and partition = $2 and endpoint = $1 and turn >= $3 \
        order by partition, endpoint, turn limit 1";
    let columns = [
        int8(number.endpoint.0),
        int2(partitions::number(number.lease.partition)),
        int8(turn::SCHEDULED),
    ];
    let row = transaction.one(statement, &parameters(&columns)).await?;
    Ok(row.map(|row| field(&row, "turn")).transpose()?)
}
