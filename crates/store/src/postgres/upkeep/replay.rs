//! One chunk of a replay task.
//!
//! Locks are taken in one direction: the gate of the application, the partition, the task, the
//! application, messages, deliveries.

use std::collections::BTreeSet;

use domain::time::Timestamp;
use tokio_postgres::types::Type;

use crate::codes;
use crate::ledger::TaskState;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{bytea, column, int2, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::io::partitions::number;
use crate::postgres::row::field;
use crate::postgres::upkeep::missing::{self, Made};
use crate::postgres::upkeep::{changed, is_current};
use crate::queue::{Done, Order, Replay};

/// Makes settled deliveries pending again, and missing ones, and moves the task on.
pub(crate) async fn replay(
    transaction: &mut Transaction<'_>,
    replay: &Replay,
) -> Result<Done, Failure> {
    if !is_current(transaction, replay.lease).await? || !is_here(transaction, replay).await? {
        return Ok(Done::Fenced);
    }
    hold_orders(transaction, replay).await?;
    let made = match &replay.missing {
        None => Made::default(),
        Some(missing) if missing::is_as_chosen(transaction, missing).await? => {
            missing::make(transaction, missing, replay.at).await?
        }
        Some(_) => return Ok(Done::Fenced),
    };
    let gone = gone(transaction, replay).await?;
    let replayed = revive(transaction, replay).await? + made.made;
    let skipped = made.skipped.saturating_add(u64::from(replay.passed_over)).saturating_add(gone);
    advance(transaction, replay, (replayed, skipped)).await?;
    Ok(changed(replayed))
}

/// Locks the task, if it runs and is where this chunk begins.
///
/// Index: the primary key of replay_tasks.
async fn is_here(transaction: &mut Transaction<'_>, replay: &Replay) -> Result<bool, Failure> {
    let statement = "\
        select 1 from replay_tasks \
        where id = $1 and state = $2 and cursor is not distinct from $3 \
        for update";
    let (id, running) = (replay.task.as_bytes().as_slice(), codes::task_state(TaskState::Running));
    let cursor = replay.cursor.map(|cursor| cursor.0);
    let parameters =
        [(&id as _, Type::BYTEA), (&running as _, Type::INT2), (&cursor as _, Type::INT8)];
    Ok(transaction.one(statement, &parameters).await?.is_some())
}

/// Sees to it that no endpoint changes its order before the transaction ends: who changes one raises
/// the revision of its application first. In a statement of its own, so that the next one sees what
/// was changed before this could lock.
///
/// Index: the primary key of applications.
async fn hold_orders(transaction: &mut Transaction<'_>, replay: &Replay) -> Result<(), Failure> {
    let statement = "select 1 from applications where key = any($1) order by key for share";
    let keys: BTreeSet<i64> = replay.deliveries.iter().map(|it| it.key.application.0).collect();
    if !keys.is_empty() {
        let keys: Vec<i64> = keys.into_iter().collect();
        transaction.query(statement, &[(&keys as _, Type::INT8_ARRAY)]).await?;
    }
    Ok(())
}

/// Counts what is left alone because nothing is left to send, and sees to it that no other payload is
/// expunged before the transaction ends: who expunges one cancels what is pending, and would not see
/// what becomes it here.
///
/// Index: the primary key of messages.
async fn gone(transaction: &mut Transaction<'_>, replay: &Replay) -> Result<u64, Failure> {
    let statement = "\
        with held as materialized ( \
            select m.application, m.key, m.payload is null as gone from messages m \
            where (m.application, m.key) in \
                (select * from unnest($1::bigint[], $2::bigint[])) \
            order by m.application, m.key for share) \
        select count(*) as gone from unnest($1::bigint[], $2::bigint[]) i (application, message) \
        join held on held.application = i.application and held.key = i.message and held.gone";
    if replay.deliveries.is_empty() {
        return Ok(0);
    }
    let columns = [
        column(&replay.deliveries, Type::INT8_ARRAY, |row| row.key.application.0),
        column(&replay.deliveries, Type::INT8_ARRAY, |row| row.key.message.0),
    ];
    let row = transaction.one(statement, &parameters(&columns)).await?;
    let count = row.map(|row| field::<i64>(&row, "gone")).transpose()?;
    Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
}

/// `settled_at` stays: by that a delivery differs from what it was before, whatever else does not,
/// and no verdict on an attempt from before applies to it. They are compared with what was chosen as
/// they are once they are locked: another task may have replayed them until then.
///
/// Indexes: the primary keys of deliveries, endpoints and messages.
async fn revive(transaction: &mut Transaction<'_>, replay: &Replay) -> Result<u64, Failure> {
    let statement = "\
        with input as materialized ( \
            select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], \
                $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], \
                $10::smallint[], $11::bigint[]) \
            with ordinality as i (application, endpoint, message, partition, due, \
                attempts, ambiguous, last_wait, expires_at, chosen, ended_at, position)), \
        held as materialized ( \
            select d.application, d.endpoint, d.message, d.state, d.settled_at, i.position \
            from input i join deliveries d using (application, endpoint, message) \
            order by application, endpoint, message for update of d), \
        turns as materialized ( \
            select i.*, e.ordering, \
                   case when e.ordering = $12 then nextval('numbers') else i.due end as turn \
            from input i join held on held.position = i.position \
            join endpoints e on e.application = i.application and e.key = i.endpoint \
            join messages m on m.application = i.application and m.key = i.message \
            where held.state <> 0 and held.state = i.chosen \
              and held.settled_at is not distinct from i.ended_at and m.payload is not null \
            order by i.position) \
        update deliveries d set \
            state = 0, cause = null, partition = t.partition, \
            ordering = t.ordering, due = t.due, turn = t.turn, attempts = t.attempts, \
            ambiguous = t.ambiguous, last_wait = t.last_wait, expires_at = t.expires_at \
        from turns t \
        where d.application = t.application and d.endpoint = t.endpoint \
          and d.message = t.message";
    let rows = &replay.deliveries;
    let columns = [
        column(rows, Type::INT8_ARRAY, |row| row.key.application.0),
        column(rows, Type::INT8_ARRAY, |row| row.key.endpoint.0),
        column(rows, Type::INT8_ARRAY, |row| row.key.message.0),
        column(rows, Type::INT2_ARRAY, |row| number(row.partition)),
        column(rows, Type::INT8_ARRAY, |row| row.pending.due.as_micros()),
        column(rows, Type::INT8_ARRAY, |row| i64::from(row.pending.budget.attempts)),
        column(rows, Type::INT8_ARRAY, |row| i64::from(row.pending.budget.ambiguous)),
        column(rows, Type::INT8_ARRAY, |row| codes::micros(row.pending.budget.last_wait)),
        column(rows, Type::INT8_ARRAY, |row| {
            row.pending.budget.expires_at.map(Timestamp::as_micros)
        }),
        column(rows, Type::INT2_ARRAY, |row| codes::delivery(row.state)),
        column(rows, Type::INT8_ARRAY, |row| row.ended_at.map(Timestamp::as_micros)),
        int2(codes::order(Order::Fifo)),
    ];
    transaction.execute(statement, &parameters(&columns)).await
}

/// Index: the primary key of replay_tasks.
async fn advance(
    transaction: &mut Transaction<'_>,
    replay: &Replay,
    (replayed, skipped): (u64, u64),
) -> Result<(), Failure> {
    let statement = "\
        update replay_tasks \
        set cursor = $2, state = $3, replayed = replayed + $4, skipped = skipped + $5, \
            updated_at = $6 \
        where id = $1";
    let state = match replay.next_cursor {
        Some(_) => TaskState::Running,
        None => TaskState::Finished,
    };
    let columns = [
        bytea(replay.task.as_bytes().as_slice()),
        int8(replay.next_cursor.map(|cursor| cursor.0)),
        int2(codes::task_state(state)),
        int8(i64::try_from(replayed).unwrap_or(i64::MAX)),
        int8(i64::try_from(skipped).unwrap_or(i64::MAX)),
        int8(replay.at.as_micros()),
    ];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}
