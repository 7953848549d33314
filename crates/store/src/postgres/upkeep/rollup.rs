//! Adding to the sums of a minute.

use std::collections::BTreeMap;

use tokio_postgres::types::Type;

use crate::codes::subject;
use crate::keys::Lease;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{column, int8_array, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::upkeep::{changed, is_current, memories};
use crate::queue::{Done, Minute, Once, Rollup, Subject};

/// Adds to per-minute sums, once, if the lease is current.
pub(super) async fn roll_up(
    transaction: &mut Transaction<'_>,
    lease: Lease,
    (once, rollups): (&Once, &[Rollup]),
) -> Result<Done, Failure> {
    if !is_current(transaction, lease).await? {
        return Ok(Done::Fenced);
    }
    if memories::is_new(transaction, once).await? {
        add(transaction, rollups).await?;
    }
    Ok(changed(u64::try_from(rollups.len()).unwrap_or(u64::MAX)))
}

/// Adds to the sums of those who are there. Both rows are held until the sums are committed: whoever
/// removes an application or an endpoint finds them, or has begun before, and then they are left out.
/// Nobody is waited for; there is nothing to be had from one that is being removed.
///
/// Indexes: the primary keys of applications, endpoints and rollups. Sums are sorted by theirs, so that
/// two nodes cannot deadlock.
async fn add(transaction: &mut Transaction<'_>, rollups: &[Rollup]) -> Result<(), Failure> {
    let statement = "\
        with living as materialized ( \
            select key from applications \
            where key = any($9) and deleted_at is null for key share skip locked), \
        standing as materialized ( \
            select e.key from living \
            cross join lateral ( \
                select key from endpoints \
                where application = living.key and key = any($10) \
                for key share skip locked) e) \
        insert into rollups as r \
            (kind, subject, minute, succeeded, failed, delivered, dead, latencies) \
        select kind, subject, minute, succeeded, failed, delivered, dead, latencies::bigint[] \
        from unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], \
                    $6::bigint[], $7::bigint[], $8::text[]) \
            i (kind, subject, minute, succeeded, failed, delivered, dead, latencies) \
        where kind = 0 or (kind = 1 and subject in (select key from living)) \
           or (kind = 2 and subject in (select key from standing)) \
        order by kind, subject, minute \
        on conflict (kind, subject, minute) do update set \
            succeeded = r.succeeded + excluded.succeeded, failed = r.failed + excluded.failed, \
            delivered = r.delivered + excluded.delivered, dead = r.dead + excluded.dead, \
            latencies = array( \
                select coalesce(old, 0) + coalesce(added, 0) \
                from unnest(r.latencies, excluded.latencies) \
                    with ordinality as both_of_them (old, added, bucket) \
                order by bucket)";
    let sums = sums(rollups);
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let columns = [
        column(&sums, Type::INT2_ARRAY, |sum| subject(sum.subject).0),
        column(&sums, Type::INT8_ARRAY, |sum| subject(sum.subject).1),
        column(&sums, Type::INT8_ARRAY, |sum| sum.minute.0),
        column(&sums, Type::INT8_ARRAY, |sum| count(sum.succeeded)),
        column(&sums, Type::INT8_ARRAY, |sum| count(sum.failed)),
        column(&sums, Type::INT8_ARRAY, |sum| count(sum.delivered)),
        column(&sums, Type::INT8_ARRAY, |sum| count(sum.dead)),
        column(&sums, Type::TEXT_ARRAY, |sum| array(&sum.latencies)),
        int8_array(keys(&sums, 1)),
        int8_array(keys(&sums, 2)),
    ];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}

/// Returns the keys of one kind of subject.
fn keys(sums: &[Rollup], kind: i16) -> Vec<i64> {
    let subjects = sums.iter().map(|sum| subject(sum.subject)).filter(|one| one.0 == kind);
    let mut keys: Vec<i64> = subjects.map(|(_, key)| key).collect();
    keys.dedup();
    keys
}

/// Adds up what is there more than once: one statement touches each row once.
fn sums(rollups: &[Rollup]) -> Vec<Rollup> {
    let mut sums: BTreeMap<(Subject, Minute), Rollup> = BTreeMap::new();
    for rollup in rollups {
        let Rollup { subject, minute, .. } = *rollup;
        let sum = sums.entry((subject, minute));
        sum.or_insert_with(|| Rollup::empty(subject, minute)).add(rollup);
    }
    sums.into_values().collect()
}

/// Writes an array as text: arrays of arrays do not unnest.
fn array(counts: &[u32]) -> String {
    let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
    format!("{{{}}}", counts.join(","))
}
