//! What is remembered for a while: steps that may come again, answers, sums, tasks, nodes.

use domain::ids::TaskId;
use domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::ledger::TaskState;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{column, parameters, single};
use crate::postgres::io::link::Transaction;
use crate::postgres::row::field;
use crate::postgres::upkeep::{cursor, rows, tokens};
use crate::queue::{Minute, Once};
use crate::{Error, codes, limits};

/// How many subjects of sums a step looks at.
const SUBJECTS: i64 = 64;
/// The name of the place where the walk over sums goes on.
const CURSOR: &str = "sums cursor";

/// Notes a step; answers whether it is new. If another connection is just noting it, this waits for
/// what becomes of that.
///
/// Index: the primary key of done_once.
pub(super) async fn is_new(
    transaction: &mut Transaction<'_>,
    once: &Once,
) -> Result<bool, Failure> {
    let statement = "insert into done_once (at, id) values ($1, $2) on conflict do nothing";
    let columns =
        [single(once.at.as_micros(), Type::INT8), single(once.id.as_slice(), Type::BYTEA)];
    Ok(transaction.execute(statement, &parameters(&columns)).await? > 0)
}

/// Removes what has been remembered for long enough: at most so many rows.
pub(crate) async fn forget(
    transaction: &mut Transaction<'_>,
    now: Timestamp,
    most: u32,
) -> Result<u32, Failure> {
    let mut left = most;
    left -= sums(transaction, now, left).await?.min(left);
    left -= answers(transaction, now, left).await?.min(left);
    left -= steps(transaction, now, left).await?.min(left);
    left -= tasks(transaction, now, left).await?.min(left);
    left -= tokens::forget(transaction, now, left).await?.min(left);
    left -= nodes(transaction, left).await?.min(left);
    Ok(most - left)
}

/// Removes old sums of some subjects, from where the last step stopped.
async fn sums(
    transaction: &mut Transaction<'_>,
    now: Timestamp,
    most: u32,
) -> Result<u32, Failure> {
    let [kind, key] = cursor::read(transaction, CURSOR).await?;
    // Nothing has been kept before the first walk: kinds begin at 0, and the cursor there is zero.
    let subjects = subjects(transaction, (kind, key)).await?;
    let oldest = Minute::of(now.before(limits::ROLLUPS));
    let removed = sums_before(transaction, &subjects, oldest, most).await?;
    if removed < most {
        let enough = i64::try_from(subjects.len()) == Ok(SUBJECTS);
        let reached = subjects.last().filter(|_| enough);
        let next = reached.map_or([0, 0], |(kind, key)| [i64::from(*kind) + 1, *key]);
        cursor::keep(transaction, CURSOR, next).await?;
    }
    Ok(removed)
}

/// Walks from subject to subject, whatever the sums of each. The cursor's first half is the kind
/// and one, so that a walk that begins has a place of its own.
///
/// Index: the primary key of rollups.
async fn subjects(
    transaction: &mut Transaction<'_>,
    (kind, key): (i64, i64),
) -> Result<Vec<(i16, i64)>, Failure> {
    let statement = "\
        with recursive walk as ( \
            (select kind, subject from rollups where (kind, subject) > ($1, $2) \
             order by kind, subject limit 1) \
            union all \
            select next.* from walk \
            cross join lateral ( \
                select kind, subject from rollups \
                where (kind, subject) > (walk.kind, walk.subject) \
                order by kind, subject limit 1) next) \
        select kind, subject from walk limit $3";
    let kind = i16::try_from(kind - 1).unwrap_or(-1);
    let columns = [single(kind, Type::INT2), single(key, Type::INT8), single(SUBJECTS, Type::INT8)];
    let found = transaction.query(statement, &parameters(&columns)).await?;
    let read = |row: &Row| Ok((field(row, "kind")?, field(row, "subject")?));
    Ok(found.iter().map(read).collect::<Result<_, Error>>()?)
}

/// Index: the primary key of rollups.
async fn sums_before(
    transaction: &mut Transaction<'_>,
    subjects: &[(i16, i64)],
    oldest: Minute,
    most: u32,
) -> Result<u32, Failure> {
    let statement = "\
        delete from rollups where ctid = any(array( \
            select old.ctid from unnest($1::smallint[], $2::bigint[]) s (kind, subject) \
            cross join lateral ( \
                select ctid from rollups r \
                where r.kind = s.kind and r.subject = s.subject and r.minute < $3) old \
            limit $4))";
    let columns = [
        column(subjects, Type::INT2_ARRAY, |subject| subject.0),
        column(subjects, Type::INT8_ARRAY, |subject| subject.1),
        single(oldest.0, Type::INT8),
        single(i64::from(most), Type::INT8),
    ];
    transaction.execute(statement, &parameters(&columns)).await.map(rows)
}

/// Index: answers_at.
async fn answers(
    transaction: &mut Transaction<'_>,
    now: Timestamp,
    most: u32,
) -> Result<u32, Failure> {
    let statement = "\
        delete from answers where ctid = any(array( \
            select ctid from answers where at <= $1 order by at limit $2))";
    let over = now.before(limits::IDEMPOTENCY).as_micros();
    let columns = [single(over, Type::INT8), single(i64::from(most), Type::INT8)];
    transaction.execute(statement, &parameters(&columns)).await.map(rows)
}

/// Index: the primary key of done_once.
async fn steps(
    transaction: &mut Transaction<'_>,
    now: Timestamp,
    most: u32,
) -> Result<u32, Failure> {
    let statement = "\
        delete from done_once where ctid = any(array( \
            select ctid from done_once where at <= $1 order by at, id limit $2))";
    let over = now.before(limits::REMEMBERED).as_micros();
    let columns = [single(over, Type::INT8), single(i64::from(most), Type::INT8)];
    transaction.execute(statement, &parameters(&columns)).await.map(rows)
}

/// Forgets tasks that finished long enough ago. Their ids tell when they were started, so that
/// younger ones are not looked at.
///
/// Index: the primary key of replay_tasks.
async fn tasks(
    transaction: &mut Transaction<'_>,
    now: Timestamp,
    most: u32,
) -> Result<u32, Failure> {
    let statement = "\
        delete from replay_tasks where ctid = any(array( \
            select ctid from replay_tasks \
            where id < $1 and state = $2 and updated_at < $3 order by id limit $4))";
    let before = now.before(limits::TASKS);
    let columns = [
        single(TaskId::first_at(before).as_bytes().to_vec(), Type::BYTEA),
        single(codes::task_state(TaskState::Finished), Type::INT2),
        single(before.as_micros(), Type::INT8),
        single(i64::from(most), Type::INT8),
    ];
    transaction.execute(statement, &parameters(&columns)).await.map(rows)
}

/// Forgets nodes that are gone and own nothing, and what they have confirmed. A take of what one of them
/// owned holds its row. Their time is the database's, like that of their leases. Nodes and partitions are
/// so few that they are read from end to end.
async fn nodes(transaction: &mut Transaction<'_>, most: u32) -> Result<u32, Failure> {
    let statement = "\
        with gone as ( \
            delete from nodes where ctid = any(array( \
                select ctid from nodes \
                where renewed_at < (extract(epoch from clock_timestamp()) * 1000000)::bigint - $1 \
                  and not exists (select 1 from partitions where owner = nodes.name) \
                limit $2 for update skip locked)) \
            returning name), \
        unsaid as (delete from confirmations using gone where node = gone.name) \
        select 1 from gone";
    let columns = [
        single(codes::micros(limits::LEASE + limits::NODES), Type::INT8),
        single(i64::from(most), Type::INT8),
    ];
    transaction.execute(statement, &parameters(&columns)).await.map(rows)
}
