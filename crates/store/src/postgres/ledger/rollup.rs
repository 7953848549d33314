//! Sums by minute.

use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{int2, int8, parameters};
use crate::postgres::row::field;
use crate::queue::{Minute, Rollup, Subject};
use crate::{Error, codes};

/// Returns a subject's sums from one minute up to, but without, another.
///
/// Index: the primary key of rollups.
pub(crate) async fn list(
    store: &Postgres,
    subject: Subject,
    from: Minute,
    to: Minute,
) -> Result<Vec<Rollup>, Failure> {
    let statement = "\
        select minute, succeeded, failed, delivered, dead, latencies from rollups \
        where kind = $1 and subject = $2 and minute >= $3 and minute < $4 order by minute";
    let (kind, key) = codes::subject(subject);
    let columns = [int2(kind), int8(key), int8(from.0), int8(to.0)];
    let rows = store.query(statement, &parameters(&columns)).await?;
    let sums = rows.iter().map(|row| {
        let count = |name| Ok::<_, Error>(u64::try_from(field::<i64>(row, name)?).unwrap_or(0));
        let latencies: Vec<i64> = field(row, "latencies")?;
        Ok(Rollup {
            subject,
            minute: Minute(field(row, "minute")?),
            succeeded: count("succeeded")?,
            failed: count("failed")?,
            delivered: count("delivered")?,
            dead: count("dead")?,
            latencies: latencies.into_iter().map(codes::count).collect(),
        })
    });
    Ok(sums.collect::<Result<_, Error>>()?)
}
