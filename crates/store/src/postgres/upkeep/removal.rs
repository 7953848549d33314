//! What pruning removes, by kind: at most so many rows of each.

use domain::time::Timestamp;
use tokio_postgres::types::Type;

use super::super::codes;
use super::super::columns::{column, parameters, single};
use super::super::failure::Failure;
use super::super::link::Transaction;
use super::super::row::field;
use super::rows;

/// What belongs to an application, in the order in which it goes. Indexes: the primary keys, which
/// begin with the application, replay_tasks_application and tokens_application; requests are few. Sums
/// are found endpoint by endpoint: left to itself the planner reads those of all endpoints there are.
///
/// Deliveries, attempts and states may still be written by those who have not heard of it, and nothing
/// else would ever remove them. They are locked first, in the order in which others lock them, and go by
/// their keys: a row that was changed meanwhile is no longer at its place, and would be passed over.
pub(super) const BELONGINGS: [&str; 11] = [
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
            select ctid from rollups where kind = 1 and subject = $1 \
            union all \
            select of_one.ctid from endpoints e \
            cross join lateral ( \
                select ctid from rollups where kind = 2 and subject = e.key limit $2) of_one \
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
pub(super) async fn secrets(
    transaction: &mut Transaction<'_>,
    now: Timestamp,
    most: u32,
) -> Result<u32, Failure> {
    let statement = "\
        delete from endpoint_secrets where ctid = any(array( \
            select ctid from endpoint_secrets \
            where expires_at is not null and expires_at <= $1 limit $2))";
    let columns = [single(now.as_micros(), Type::INT8), single(i64::from(most), Type::INT8)];
    transaction.execute(statement, &parameters(&columns)).await.map(rows)
}

/// Removes what belongs to one deleted application, and the application itself when nothing was left
/// to remove: what somebody added or changed meanwhile can be found only as long as it is there.
///
/// Index: applications_deleted.
pub(super) async fn applications(
    transaction: &mut Transaction<'_>,
    most: u32,
) -> Result<u32, Failure> {
    let statement = "\
        select key from applications where deleted_at is not null order by key limit 1 for update";
    let Some(row) = transaction.one(statement, &[]).await? else {
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
        let columns = [single(application, Type::INT8), single(i64::from(left), Type::INT8)];
        let removed = rows(transaction.execute(statement, &parameters(&columns)).await?);
        left -= removed.min(left);
        if left == 0 {
            break;
        }
    }
    Ok(left)
}

/// Removes messages with their deliveries, attempts and idempotency keys.
///
/// Indexes: the primary keys of messages, deliveries, attempts and idempotency; attempts are found by walking
/// back from each delivery's last one.
pub(super) async fn messages(
    transaction: &mut Transaction<'_>,
    doomed: &[(i64, i64)],
) -> Result<u32, Failure> {
    if doomed.is_empty() {
        return Ok(0);
    }
    let statement = "\
        with recursive doomed as materialized ( \
            select m.application, m.key, m.id, m.idempotency, m.fan_out \
            from unnest($1::bigint[], $2::bigint[]) i (application, message) \
            join messages m on m.application = i.application and m.key = i.message), \
        lost as ( \
            delete from deliveries d \
            using doomed, unnest(doomed.fan_out) sent (endpoint) \
            where d.application = doomed.application and d.endpoint = sent.endpoint \
              and d.message = doomed.key \
            returning d.application, d.endpoint, d.last_attempt), \
        chain as ( \
            select application, endpoint, last_attempt as id from lost \
            where last_attempt is not null \
            union all \
            select a.application, a.endpoint, a.previous \
            from chain join attempts a on a.application = chain.application \
                and a.endpoint = chain.endpoint and a.id = chain.id \
            where a.previous is not null), \
        tried as ( \
            delete from attempts a using chain \
            where a.application = chain.application and a.endpoint = chain.endpoint \
              and a.id = chain.id \
            returning 1), \
        keys as ( \
            delete from idempotency k using doomed \
            where k.application = doomed.application and k.hash = doomed.idempotency \
              and k.message = doomed.id), \
        gone as ( \
            delete from messages m using doomed \
            where m.application = doomed.application and m.key = doomed.key returning 1) \
        select (select count(*) from lost) + (select count(*) from tried) \
             + (select count(*) from gone) as rows";
    let columns = [
        column(doomed, Type::INT8_ARRAY, |place| place.0),
        column(doomed, Type::INT8_ARRAY, |place| place.1),
    ];
    let row = transaction.one(statement, &parameters(&columns)).await?;
    Ok(row.map_or(Ok(0), |row| field(&row, "rows").map(codes::count))?)
}
