//! Sums by minute, and by hour once they are old.

use tokio_postgres::Row;

use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{int2, int8, parameters};
use crate::postgres::row::field;
use crate::queue::{Minute, Rollup, Rollups, Subject};
use crate::{Error, codes};

/// Returns a subject's sums from one minute up to, but without, another: those of minutes and of hours as
/// of one moment, because in between sums could go from the one to the other.
///
/// Index: the primary key of rollups.
pub(crate) async fn list(
    store: &Postgres,
    subject: Subject,
    from: Minute,
    to: Minute,
) -> Result<Rollups, Failure> {
    let statement = "\
        select * from rollups \
        where kind in ($1, $2) and subject = $3 and minute >= $4 and minute < $5 \
        order by kind, minute";
    let ((minutes, key), (hours, _)) = (codes::subject(subject), codes::hours_of(subject));
    let columns = [int2(minutes), int2(hours), int8(key), int8(from.0), int8(to.0)];
    let rows = store.query(statement, &parameters(&columns)).await?;
    let mut rollups = Rollups::default();
    for row in &rows {
        let kind: i16 = field(row, "kind")?;
        let list = if kind == hours { &mut rollups.hours } else { &mut rollups.minutes };
        list.push(of(row, subject)?);
    }
    Ok(rollups)
}

/// Reads the sums of a row.
pub(crate) fn of(row: &Row, subject: Subject) -> Result<Rollup, Error> {
    let mut sums = Rollup::empty(subject, Minute(field(row, "minute")?));
    let numbers = [
        "accepted",
        "dead_at_once",
        "succeeded",
        "failed",
        "first_attempts",
        "delivered",
        "delivered_at_first",
        "dead",
    ];
    for (sum, name) in sums.numbers_mut().into_iter().zip(numbers) {
        *sum = u64::try_from(field::<i64>(row, name)?).unwrap_or(0);
    }
    let lists = ["attempt_times", "latencies", "causes", "buried"];
    for (list, name) in sums.lists_mut().into_iter().zip(lists) {
        let counts: Vec<i64> = field(row, name)?;
        *list = counts.into_iter().map(codes::count).collect();
    }
    Ok(sums)
}
