//! Folding: the sums of old minutes are added to those of their hour, so that a range of months is read
//! in a few thousand rows.

use domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{column, int2, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::ledger::rollup;
use crate::postgres::row::field;
use crate::postgres::upkeep::rollup::add_to_hours;
use crate::postgres::upkeep::{changed, cursor};
use crate::queue::{Done, Minute, Rollup};
use crate::{Error, codes, limits};

/// How many subjects a step looks at.
const SUBJECTS: usize = 64;
/// The name of the place where the walk goes on.
const CURSOR: &str = "fold cursor";

/// Folds the oldest minutes of some subjects, from where the last step stopped. Answers how many minutes
/// that were.
pub(super) async fn fold(
    transaction: &mut Transaction<'_>,
    now: Timestamp,
    most: u32,
) -> Result<Done, Failure> {
    let until = Minute::of(now.before(limits::MINUTES)).hour();
    let [begun, kind, key] = cursor::read(transaction, CURSOR).await?;
    let place = if begun == 0 { (-1, 0) } else { (i16::try_from(kind).unwrap_or(-1), key) };
    let subjects = subjects(transaction, place).await?;
    let minutes = take(transaction, &subjects, until, most).await?;
    let hours = minutes.iter().map(|sum| Rollup { minute: sum.minute.hour(), ..sum.clone() });
    add_to_hours(transaction, &hours.collect::<Vec<_>>()).await?;
    let folded = u64::try_from(minutes.len()).unwrap_or(u64::MAX);
    // Of these subjects there may be more, if the allowance was not enough.
    if folded < u64::from(most) {
        let reached = subjects.last().filter(|_| subjects.len() == SUBJECTS);
        let next = reached.map_or([0, 0, 0], |(kind, key)| [1, i64::from(*kind), *key]);
        cursor::keep(transaction, CURSOR, next).await?;
    }
    Ok(changed(folded))
}

/// Walks from subject to subject that has sums by minute, whatever the sums of each.
///
/// Index: the primary key of rollups.
async fn subjects(
    transaction: &mut Transaction<'_>,
    (kind, key): (i16, i64),
) -> Result<Vec<(i16, i64)>, Failure> {
    let statement = "\
        with recursive walk as ( \
            (select kind, subject from rollups where (kind, subject) > ($1, $2) and kind < 3 \
             order by kind, subject limit 1) \
            union all \
            select next.* from walk \
            cross join lateral ( \
                select kind, subject from rollups \
                where (kind, subject) > (walk.kind, walk.subject) and kind < 3 \
                order by kind, subject limit 1) next) \
        select kind, subject from walk limit $3";
    let columns = [int2(kind), int8(key), int8(i64::try_from(SUBJECTS).unwrap_or(i64::MAX))];
    let found = transaction.query(statement, &parameters(&columns)).await?;
    let read = |row: &Row| Ok((field(row, "kind")?, field(row, "subject")?));
    Ok(found.iter().map(read).collect::<Result<_, Error>>()?)
}

/// Removes sums of minutes before a moment, and returns them. A sum that somebody adds to meanwhile stays
/// for the next time.
///
/// Index: the primary key of rollups.
async fn take(
    transaction: &mut Transaction<'_>,
    subjects: &[(i16, i64)],
    until: Minute,
    most: u32,
) -> Result<Vec<Rollup>, Failure> {
    let statement = "\
        delete from rollups where ctid = any(array( \
            select old.ctid from unnest($1::smallint[], $2::bigint[]) s (kind, subject) \
            cross join lateral ( \
                select ctid from rollups r \
                where r.kind = s.kind and r.subject = s.subject and r.minute < $3 \
                order by r.minute limit $4) old \
            limit $4)) \
        returning *";
    let columns = [
        column(subjects, Type::INT2_ARRAY, |subject| subject.0),
        column(subjects, Type::INT8_ARRAY, |subject| subject.1),
        int8(until.0),
        int8(i64::from(most)),
    ];
    let rows = transaction.query(statement, &parameters(&columns)).await?;
    let taken = rows.iter().map(|row| {
        let subject = codes::read_subject((field(row, "kind")?, field(row, "subject")?));
        let subject =
            subject.ok_or_else(|| crate::postgres::row::unknown("a subject of sums", "it"))?;
        rollup::of(row, subject)
    });
    Ok(taken.collect::<Result<_, Error>>()?)
}
