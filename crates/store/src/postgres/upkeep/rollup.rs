//! Adding to the sums of a minute, and of an hour.

use std::collections::BTreeMap;

use domain::delivery::Cause;
use domain::time::Timestamp;
use tokio_postgres::types::Type;

use crate::codes;
use crate::keys::{ApplicationKey, EndpointKey, Lease};
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{Column, column, int2, int8_array, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::upkeep::{changed, is_current, memories};
use crate::queue::rollup::{LISTS, NUMBERS};
use crate::queue::{Done, Minute, Once, Rollup, Subject};

/// Whose sums are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Of those who are there, and of the whole.
    Living,
    /// Of those who are there, and of the whole if the application is.
    LivingOnly,
    /// Of old minutes, for their hours.
    Hours,
}

/// Adds to per-minute sums, once, if the lease that they stand under is current.
pub(super) async fn roll_up(
    transaction: &mut Transaction<'_>,
    lease: Option<Lease>,
    (once, rollups): (&Once, &[Rollup]),
) -> Result<Done, Failure> {
    if let Some(lease) = lease
        && !is_current(transaction, lease).await?
    {
        return Ok(Done::Fenced);
    }
    if memories::is_new(transaction, once).await? {
        add(transaction, rollups, Of::Living).await?;
    }
    Ok(changed(u64::try_from(rollups.len()).unwrap_or(u64::MAX)))
}

/// Counts deliveries that are buried without an attempt, by application and endpoint.
pub(super) async fn bury(
    transaction: &mut Transaction<'_>,
    buried: &BTreeMap<(ApplicationKey, EndpointKey), u32>,
    cause: Cause,
    at: Timestamp,
) -> Result<(), Failure> {
    for ((application, endpoint), deliveries) in buried {
        let sum = |subject| {
            let mut sum = Rollup::empty(subject, Minute::of(at));
            sum.bury(cause, *deliveries);
            sum
        };
        let subjects =
            [Subject::Whole, Subject::Application(*application), Subject::Endpoint(*endpoint)];
        add(transaction, &subjects.map(sum), Of::LivingOnly).await?;
    }
    Ok(())
}

/// Adds sums of old minutes to those of their hours.
pub(super) async fn add_to_hours(
    transaction: &mut Transaction<'_>,
    hours: &[Rollup],
) -> Result<(), Failure> {
    add(transaction, hours, Of::Hours).await
}

/// Adds to the sums of those who are there. Both rows are held until the sums are committed: whoever
/// removes an application or an endpoint finds them, or has begun before, and then they are left out.
/// Nobody is waited for; there is nothing to be had from one that is being removed.
///
/// Indexes: the primary keys of applications, endpoints and rollups. Sums are sorted by theirs, so that
/// two nodes cannot deadlock.
async fn add(transaction: &mut Transaction<'_>, rollups: &[Rollup], of: Of) -> Result<(), Failure> {
    let statement = "\
        with living as materialized ( \
            select key from applications \
            where key = any($16) and deleted_at is null for key share skip locked), \
        standing as materialized ( \
            select e.key from living \
            cross join lateral ( \
                select key from endpoints \
                where application = living.key and key = any($17) \
                for key share skip locked) e) \
        insert into rollups as r \
            (kind, subject, minute, accepted, dead_at_once, succeeded, failed, first_attempts, \
             delivered, delivered_at_first, dead, attempt_times, latencies, causes, buried) \
        select kind, subject, minute, accepted, dead_at_once, succeeded, failed, first_attempts, \
             delivered, delivered_at_first, dead, attempt_times::bigint[], latencies::bigint[], \
             causes::bigint[], buried::bigint[] \
        from unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], \
                    $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], \
                    $11::bigint[], $12::text[], $13::text[], $14::text[], $15::text[]) \
            i (kind, subject, minute, accepted, dead_at_once, succeeded, failed, first_attempts, \
               delivered, delivered_at_first, dead, attempt_times, latencies, causes, buried) \
        where $18 = 2 or (kind = 0 and ($18 = 0 or exists (select 1 from living))) \
           or (kind = 1 and subject in (select key from living)) \
           or (kind = 2 and subject in (select key from standing)) \
        order by kind, subject, minute \
        on conflict (kind, subject, minute) do update set \
            accepted = r.accepted + excluded.accepted, \
            dead_at_once = r.dead_at_once + excluded.dead_at_once, \
            succeeded = r.succeeded + excluded.succeeded, failed = r.failed + excluded.failed, \
            first_attempts = r.first_attempts + excluded.first_attempts, \
            delivered = r.delivered + excluded.delivered, \
            delivered_at_first = r.delivered_at_first + excluded.delivered_at_first, \
            dead = r.dead + excluded.dead, \
            attempt_times = array( \
                select coalesce(old, 0) + coalesce(added, 0) \
                from unnest(r.attempt_times, excluded.attempt_times) \
                    with ordinality as both_of_them (old, added, place) \
                order by place), \
            latencies = array( \
                select coalesce(old, 0) + coalesce(added, 0) \
                from unnest(r.latencies, excluded.latencies) \
                    with ordinality as both_of_them (old, added, place) \
                order by place), \
            causes = array( \
                select coalesce(old, 0) + coalesce(added, 0) \
                from unnest(r.causes, excluded.causes) \
                    with ordinality as both_of_them (old, added, place) \
                order by place), \
            buried = array( \
                select coalesce(old, 0) + coalesce(added, 0) \
                from unnest(r.buried, excluded.buried) \
                    with ordinality as both_of_them (old, added, place) \
                order by place)";
    let sums = sums(rollups);
    transaction.execute(statement, &parameters(&columns(&sums, of))).await?;
    Ok(())
}

/// Returns the parameters of [`add`], in the order of its columns.
fn columns(sums: &[Rollup], of: Of) -> Vec<Column<'_>> {
    let place = move |sum: &Rollup| match of {
        Of::Living | Of::LivingOnly => codes::subject(sum.subject),
        Of::Hours => codes::hours_of(sum.subject),
    };
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut columns = vec![
        column(sums, Type::INT2_ARRAY, |sum| place(sum).0),
        column(sums, Type::INT8_ARRAY, |sum| place(sum).1),
        column(sums, Type::INT8_ARRAY, |sum| sum.minute.0),
    ];
    for number in 0..NUMBERS {
        columns.push(column(sums, Type::INT8_ARRAY, |sum| count(sum.numbers()[number])));
    }
    for list in 0..LISTS {
        columns.push(column(sums, Type::TEXT_ARRAY, |sum| array(sum.lists()[list])));
    }
    columns.push(int8_array(keys(sums, 1)));
    columns.push(int8_array(keys(sums, 2)));
    columns.push(int2(match of {
        Of::Living => 0_i16,
        Of::LivingOnly => 1,
        Of::Hours => 2,
    }));
    columns
}

/// Returns the keys of one kind of subject.
fn keys(sums: &[Rollup], kind: i16) -> Vec<i64> {
    let subjects = sums.iter().map(|sum| codes::subject(sum.subject));
    let mut keys: Vec<i64> = subjects.filter(|one| one.0 == kind).map(|(_, key)| key).collect();
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
