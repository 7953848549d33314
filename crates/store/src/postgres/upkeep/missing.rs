//! Missing deliveries: made by a replay task for messages that an endpoint did not get.
//!
//! A message keeps the list of its endpoints; whatever is made later is added to it. The message is
//! locked first, as pruning does, so that none is pruned while it gets something pending.

use domain::time::Timestamp;
use tokio_postgres::types::Type;

use crate::codes;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{column, int2, int8, int8_array, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::io::partitions::number;
use crate::postgres::row::field;
use crate::queue::turn::SCHEDULED;
use crate::queue::{Missing, Order};

/// What became of a chunk's missing deliveries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Made {
    pub(crate) made: u64,
    /// Those with nothing to send.
    pub(crate) skipped: u64,
}

/// Tells whether nothing has changed since they were chosen, and sees to it that nothing does.
///
/// Index: the primary key of applications.
pub(super) async fn is_as_chosen(
    transaction: &mut Transaction<'_>,
    missing: &Missing,
) -> Result<bool, Failure> {
    let statement = "\
        select 1 from applications \
        where key = $1 and revision = $2 and deleted_at is null for share";
    let columns = [int8(missing.application.0), int8(missing.revision)];
    Ok(transaction.one(statement, &parameters(&columns)).await?.is_some())
}

/// Makes them, but for what is there already, or was.
pub(super) async fn make(
    transaction: &mut Transaction<'_>,
    missing: &Missing,
    at: Timestamp,
) -> Result<Made, Failure> {
    lock(transaction, missing).await?;
    let row = insert(transaction, missing, at).await?;
    let Some((made, skipped)) = row else { return Ok(Made::default()) };
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(Made { made: count(made), skipped: count(skipped) })
}

/// In a statement of its own, so that the next one sees what others did before this could lock.
///
/// Index: the primary key of messages.
async fn lock(transaction: &mut Transaction<'_>, missing: &Missing) -> Result<(), Failure> {
    let statement = "\
        select 1 from messages where application = $1 and key = any($2) \
        order by application, key for update";
    let keys: Vec<i64> = missing.deliveries.iter().map(|row| row.0.message.0).collect();
    let columns = [int8(missing.application.0), int8_array(keys)];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}

/// What is large in a message is stored apart from its row and is not written again by this.
///
/// Indexes: the primary keys of messages, endpoints and deliveries.
async fn insert(
    transaction: &mut Transaction<'_>,
    missing: &Missing,
    at: Timestamp,
) -> Result<Option<(i64, i64)>, Failure> {
    let statement = "\
        with input as materialized ( \
            select * from unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::smallint[], \
                $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[]) \
            with ordinality as i (endpoint, message, partition, ordering, due, attempts, \
                ambiguous, last_wait, expires_at, position)), \
        absent as materialized ( \
            select i.*, m.payload is null or m.retained_until < $12 as gone \
            from input i \
            join messages m on m.application = $1 and m.key = i.message \
            join endpoints e on e.application = $1 and e.key = i.endpoint and e.state <> 3 \
            where i.endpoint <> all(m.fan_out) \
            order by i.position), \
        turns as materialized ( \
            select *, case when ordering <> $11 then due when due > $12 then $13 + due \
                else nextval('numbers') end as turn \
            from absent where not gone order by position), \
        made as ( \
            insert into deliveries (application, endpoint, message, partition, ordering, state, \
                due, turn, attempts, ambiguous, last_wait, expires_at, recorded) \
            select $1, endpoint, message, partition, ordering, 0, due, turn, attempts, ambiguous, \
                last_wait, expires_at, 0 \
            from turns order by endpoint, message \
            on conflict do nothing returning endpoint, message), \
        listed as ( \
            update messages m set fan_out = m.fan_out || added.endpoints \
            from (select message, array_agg(endpoint) as endpoints from made group by message) added \
            where m.application = $1 and m.key = added.message) \
        select (select count(*) from made) as made, \
               (select count(*) from absent where gone) as skipped";
    let theirs = |row: &&_| is_of(missing, row);
    let rows: Vec<_> = missing.deliveries.iter().filter(theirs).collect();
    let columns = [
        int8(missing.application.0),
        column(&rows, Type::INT8_ARRAY, |row| row.0.endpoint.0),
        column(&rows, Type::INT8_ARRAY, |row| row.0.message.0),
        column(&rows, Type::INT2_ARRAY, |row| number(row.1)),
        column(&rows, Type::INT2_ARRAY, |row| codes::order(row.2)),
        column(&rows, Type::INT8_ARRAY, |row| row.3.due.as_micros()),
        column(&rows, Type::INT8_ARRAY, |row| i64::from(row.3.budget.attempts)),
        column(&rows, Type::INT8_ARRAY, |row| i64::from(row.3.budget.ambiguous)),
        column(&rows, Type::INT8_ARRAY, |row| codes::micros(row.3.budget.last_wait)),
        column(&rows, Type::INT8_ARRAY, |row| row.3.budget.expires_at.map(Timestamp::as_micros)),
        int2(codes::order(Order::Fifo)),
        int8(at.as_micros()),
        int8(SCHEDULED),
    ];
    let row = transaction.one(statement, &parameters(&columns)).await?;
    let counts =
        row.map(|row| Ok::<_, crate::Error>((field(&row, "made")?, field(&row, "skipped")?)));
    Ok(counts.transpose()?)
}

type Row =
    (crate::keys::DeliveryKey, domain::partition::Partition, Order, domain::delivery::Pending);

fn is_of(missing: &Missing, row: &Row) -> bool {
    row.0.application == missing.application
}
