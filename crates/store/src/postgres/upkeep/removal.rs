//! What pruning removes, by kind: at most so many rows of each.

use domain::time::Timestamp;
use tokio_postgres::types::Type;

use crate::limits;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{column, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::row::field;
use crate::postgres::upkeep::rows;

/// What belongs to an application, in the order in which it goes. Indexes: the primary keys, which
/// begin with the application, replay_tasks_application, tokens_application and requests_application. Sums
/// are found endpoint by endpoint: left to itself the planner reads those of all endpoints there are.
///
/// Deliveries, attempts and states may still be written by those who have not heard of it, and nothing
/// else would ever remove them. They are locked first, in the order in which others lock them, and go by
/// their keys: a row that was changed meanwhile is no longer at its place, and would be passed over.
pub(crate) const BELONGINGS: [&str; 11] = [
    "with held as materialized ( \
        select endpoint, message from deliveries where application = $1 \
        order by application, endpoint, message limit $2 for update) \
    delete from deliveries d using held \
    where d.application = $1 and d.endpoint = held.endpoint and d.message = held.message",
    "with held as materialized ( \
        select endpoint, id from attempts where application = $1 \
        order by application, endpoint, id limit $2 for update) \
    delete from attempts a using held \
    where a.application = $1 and a.endpoint = held.endpoint and a.id = held.id",
    "delete from messages where ctid = any(array( \
        select ctid from messages where application = $1 limit $2))",
    "delete from idempotency where ctid = any(array( \
        select ctid from idempotency where application = $1 limit $2))",
    "with held as materialized ( \
        select endpoint from endpoint_state where application = $1 \
        order by application, endpoint limit $2 for update) \
    delete from endpoint_state s using held \
    where s.application = $1 and s.endpoint = held.endpoint",
    "delete from endpoint_secrets where ctid = any(array( \
        select ctid from endpoint_secrets where application = $1 limit $2))",
    "delete from rollups where ctid = any(array( \
        select ctid from ( \
            select ctid from rollups where kind in (1, 4) and subject = $1 \
            union all \
            select of_one.ctid from endpoints e \
            cross join lateral ( \
                select ctid from rollups where kind in (2, 5) and subject = e.key limit $2) of_one \
            where e.application = $1) sums \
        limit $2))",
    "delete from endpoints where ctid = any(array( \
        select ctid from endpoints where application = $1 limit $2))",
    "delete from requests where ctid = any(array( \
        select ctid from requests where application = $1 limit $2))",
    "delete from replay_tasks where ctid = any(array( \
        select ctid from replay_tasks where application = $1 limit $2))",
    "delete from tokens where ctid = any(array( \
        select ctid from tokens \
        where application = (select id from applications where key = $1) limit $2))",
];

/// Removes secrets that sign no more.
///
/// Index: endpoint_secrets_expiring.
pub(crate) async fn secrets(
    transaction: &mut Transaction<'_>,
    now: Timestamp,
    most: u32,
) -> Result<u32, Failure> {
    let statement = "\
        delete from endpoint_secrets where ctid = any(array( \
            select ctid from endpoint_secrets \
            where expires_at is not null and expires_at <= $1 limit $2))";
    let columns = [int8(now.as_micros()), int8(i64::from(most))];
    transaction.execute(statement, &parameters(&columns)).await.map(rows)
}

/// Removes what belongs to one deleted application, and the application itself when nothing was left
/// to remove: what somebody added or changed meanwhile can be found only as long as it is there.
///
/// Index: applications_deleted.
pub(crate) async fn applications(
    transaction: &mut Transaction<'_>,
    now: Timestamp,
    most: u32,
) -> Result<u32, Failure> {
    if most == 0 {
        return Ok(0);
    }
    let statement = "\
        select key from applications where deleted_at is not null and deleted_at <= $1 \
        order by key limit 1 for update";
    // Until then each node finds its deletion among the changes.
    let before = now.before(limits::CHANGING).as_micros();
    let Some(row) = transaction.one(statement, &[(&before, Type::INT8)]).await? else {
        return Ok(0);
    };
    let application: i64 = field(&row, "key")?;
    let mut left = most;
    loop {
        let before = left;
        left = belongings(transaction, application, left).await?;
        // Whether there was more of it is seen the next time.
        if left == 0 {
            return Ok(most);
        }
        if left == before {
            break;
        }
    }
    let statement = "delete from applications where key = $1";
    transaction.execute(statement, &[(&application, Type::INT8)]).await?;
    Ok(most - left + 1)
}

/// Removes so many rows of what belongs to an application, and returns how many more may be.
async fn belongings(
    transaction: &mut Transaction<'_>,
    application: i64,
    mut left: u32,
) -> Result<u32, Failure> {
    for statement in BELONGINGS {
        let columns = [int8(application), int8(i64::from(left))];
        let removed = rows(transaction.execute(statement, &parameters(&columns)).await?);
        left -= removed.min(left);
        if left == 0 {
            break;
        }
    }
    Ok(left)
}

/// Removes deliveries that are locked, with their attempts. Each is named by its application, message
/// and endpoint.
///
/// Indexes: the primary keys of deliveries and attempts. Attempts are found by walking back from each
/// delivery's last.
pub(crate) async fn deliveries(
    transaction: &mut Transaction<'_>,
    held: &[[i64; 3]],
) -> Result<(), Failure> {
    if held.is_empty() {
        return Ok(());
    }
    let statement = "\
        with recursive lost as ( \
            delete from deliveries d \
            using unnest($1::bigint[], $2::bigint[], $3::bigint[]) \
                i (application, message, endpoint) \
            where d.application = i.application and d.endpoint = i.endpoint \
              and d.message = i.message \
            returning d.application, d.endpoint, d.last_attempt), \
        chain as ( \
            select application, endpoint, last_attempt as id from lost \
            where last_attempt is not null \
            union all \
            select a.application, a.endpoint, a.previous \
            from chain join attempts a on a.application = chain.application \
                and a.endpoint = chain.endpoint and a.id = chain.id \
            where a.previous is not null) \
        delete from attempts a using chain \
        where a.application = chain.application and a.endpoint = chain.endpoint \
          and a.id = chain.id";
    let columns = [
        column(held, Type::INT8_ARRAY, |place| place[0]),
        column(held, Type::INT8_ARRAY, |place| place[1]),
        column(held, Type::INT8_ARRAY, |place| place[2]),
    ];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}

/// Removes messages that have no deliveries left, with their idempotency keys. Each is named by its
/// application and key, and how many deliveries it ever had: one for which another was made meanwhile
/// stays. They are locked first, as whoever makes a delivery locks them.
///
/// Indexes: the primary keys of messages and idempotency.
pub(crate) async fn messages(
    transaction: &mut Transaction<'_>,
    empty: &[(i64, i64, u32)],
) -> Result<(), Failure> {
    if empty.is_empty() {
        return Ok(());
    }
    let statement = "\
        with doomed as materialized ( \
            select m.application, m.key, m.id, m.idempotency \
            from unnest($1::bigint[], $2::bigint[], $3::bigint[]) \
                i (application, message, deliveries) \
            join messages m on m.application = i.application and m.key = i.message \
            where cardinality(m.fan_out) = i.deliveries \
            order by m.application, m.key for update of m), \
        keys as ( \
            delete from idempotency k using doomed \
            where k.application = doomed.application and k.hash = doomed.idempotency \
              and k.message = doomed.id) \
        delete from messages m using doomed \
        where m.application = doomed.application and m.key = doomed.key";
    let columns = [
        column(empty, Type::INT8_ARRAY, |message| message.0),
        column(empty, Type::INT8_ARRAY, |message| message.1),
        column(empty, Type::INT8_ARRAY, |message| i64::from(message.2)),
    ];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}
