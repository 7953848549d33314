//! Tombstones: what is pending for deleted endpoints is buried, and what nothing refers to any more
//! goes.
//!
//! There may be many to which messages still refer. They are walked by their key, so many at a step,
//! from where the last step stopped. When all other walks have come to their ends this one goes on
//! alone until it has, too: so everything is looked at between two rests.
//!
//! Of what a step may change, each application whose tombstones it looks at gets its share, and the next
//! step looks at others: however much is pending for one, another's is buried within a lap. After a lap
//! that left something behind comes the next one without a rest.

use std::collections::BTreeMap;

use domain::delivery::Cause;
use domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::keys::{ApplicationKey, EndpointKey};
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{column, int2, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::row::field;
use crate::postgres::upkeep::{cursor, rollup, rows};
use crate::{Error, codes};

/// The name of the place where the walk goes on, and of whether it does so alone.
const CURSOR: &str = "tombstones cursor";
/// What the cursor says besides: that the walk is alone, and that this lap has left something behind.
const ALONE: i64 = 1;
const LEAVES_SOME: i64 = 2;
/// How many tombstones a step looks at.
const LOOKED_AT: usize = 256;

/// Holds some tombstones. Whoever still writes about them holds them, too: so that is there before the
/// statements that follow, or does not come any more.
pub(crate) const HELD: &str = "\
    select 1 from unnest($1::bigint[], $2::bigint[]) e (application, key) \
    cross join lateral ( \
        select 1 from endpoints \
        where application = e.application and key = e.key and state = 3 for update) found \
    limit $3";

/// Removes attempts that are left of some tombstones: those behind a broken chain.
pub(crate) const ATTEMPTS: &str = "\
    delete from attempts where ctid = any(array( \
        select tried.ctid from unnest($1::bigint[], $2::bigint[]) e (application, key) \
        cross join lateral ( \
            select ctid from attempts \
            where application = e.application and endpoint = e.key limit $3) tried \
        limit $3))";

/// Removes the sums of some tombstones, for which nobody can ask any more.
pub(crate) const SUMS: &str = "\
    delete from rollups where ctid = any(array( \
        select sums.ctid from unnest($1::bigint[], $2::bigint[]) e (application, key) \
        cross join lateral ( \
            select ctid from rollups where kind in (2, 5) and subject = e.key limit $3) sums \
        limit $3))";

/// Removes some tombstones, with what else there is of their endpoints.
pub(crate) const TOMBSTONES: &str = "\
    with gone as ( \
        delete from endpoints where ctid = any(array( \
            select found.ctid from unnest($1::bigint[], $2::bigint[]) e (application, key) \
            cross join lateral ( \
                select ctid from endpoints \
                where application = e.application and key = e.key and state = 3 limit 1) found \
            limit $3)) \
        returning application, key), \
    states as ( \
        delete from endpoint_state s using gone \
        where s.application = gone.application and s.endpoint = gone.key returning 1), \
    secrets as ( \
        delete from endpoint_secrets s using gone \
        where s.application = gone.application and s.endpoint = gone.key returning 1) \
    select (select count(*) from gone) + (select count(*) from states) \
         + (select count(*) from secrets) as rows";

/// Finds the next tombstones. Whether a delivery is left is looked up for each of them: asked whether
/// none exists, the planner may read the deliveries of all endpoints there are.
pub(crate) const NEXT: &str = "\
    select e.application, e.key, e.partition, used.found is null as unused \
    from ( \
        select application, key, partition from endpoints \
        where state = 3 and (application, key) > ($1, $2) \
        order by application, key limit $3) e \
    left join lateral ( \
        select true as found from deliveries \
        where application = e.application and endpoint = e.key limit 1) used on true \
    order by e.application, e.key";

/// Where the walk is.
pub(crate) struct Walk {
    place: (i64, i64),
    /// Whether everything else has been looked at since the last rest.
    pub(crate) is_alone: bool,
    /// Whether something was left behind in this lap.
    leaves_some: bool,
    /// How many rows it changed.
    pub(crate) changed: u32,
}

/// A tombstone as the walk sees it.
struct Walked {
    place: (i64, i64),
    partition: i16,
    /// Whether no delivery refers to it. None can come: accepting knows that it was deleted.
    unused: bool,
}

impl Walk {
    /// Walks on, and changes at most so many rows.
    pub(crate) async fn on(
        transaction: &mut Transaction<'_>,
        now: Timestamp,
        most: u32,
    ) -> Result<Self, Failure> {
        let [application, key, flags] = cursor::read(transaction, CURSOR).await?;
        let start = (application, key);
        let walked = next(transaction, start).await?;
        let mut left = most;
        left -= bury(transaction, &walked, now, left).await?.min(left);
        left -= remove(transaction, &walked, left).await?.min(left);
        let enough = walked.len() >= LOOKED_AT;
        let place = walked.last().filter(|_| enough).map_or((0, 0), |last| last.place);
        // What was changed may have been a share of it.
        let changed = most - left;
        let leaves_some = flags & LEAVES_SOME != 0 || changed > 0 || most == 0;
        Ok(Self { place, is_alone: flags & ALONE != 0, leaves_some, changed })
    }

    /// Keeps where it goes on. Tells whether it is to go on alone before there is a rest: if the
    /// other walks have come to their ends.
    pub(super) async fn keep(
        self,
        transaction: &mut Transaction<'_>,
        others_walk_on: bool,
    ) -> Result<bool, Failure> {
        let ends = self.place == (0, 0);
        let alone = !others_walk_on && !ends;
        let flags = if alone { ALONE } else { 0 };
        let flags = if self.leaves_some && !ends { flags | LEAVES_SOME } else { flags };
        cursor::keep(transaction, CURSOR, [self.place.0, self.place.1, flags]).await?;
        Ok(alone || self.leaves_some && ends)
    }
}

/// Indexes: endpoints_deleted; the primary key of deliveries, endpoint by endpoint.
async fn next(
    transaction: &mut Transaction<'_>,
    (application, key): (i64, i64),
) -> Result<Vec<Walked>, Failure> {
    let columns =
        [int8(application), int8(key), int8(i64::try_from(LOOKED_AT).unwrap_or(i64::MAX))];
    let rows = transaction.query(NEXT, &parameters(&columns)).await?;
    let walked = |row: &Row| {
        Ok(Walked {
            place: (field(row, "application")?, field(row, "key")?),
            partition: field(row, "partition")?,
            unused: field(row, "unused")?,
        })
    };
    Ok(rows.iter().map(walked).collect::<Result<_, Error>>()?)
}

/// Buries what is pending for these.
///
/// Indexes: deliveries_pending, endpoint by endpoint; the primary key of deliveries. What is locked is
/// pending and stays so: asking again would make the planner walk the whole index of pending rows,
/// which it takes for short.
async fn bury(
    transaction: &mut Transaction<'_>,
    walked: &[Walked],
    now: Timestamp,
    most: u32,
) -> Result<u32, Failure> {
    let used: Vec<&Walked> = walked.iter().filter(|one| !one.unused).collect();
    if used.is_empty() {
        return Ok(0);
    }
    // They are walked by application.
    let mut applications: Vec<i64> = used.iter().map(|one| one.place.0).collect();
    applications.dedup();
    let count = u32::try_from(applications.len()).unwrap_or(u32::MAX);
    let statement = "\
        with doomed as ( \
            select d.application, d.endpoint, d.message \
            from unnest($7::bigint[]) a (key) \
            cross join lateral ( \
                select d.application, d.endpoint, d.message \
                from unnest($4::bigint[], $5::smallint[], $8::bigint[]) \
                    e (key, partition, application) \
                cross join lateral ( \
                    select application, endpoint, message from deliveries \
                    where state = 0 and partition = e.partition and endpoint = e.key \
                    order by turn, message limit $6 for update) d \
                where e.application = a.key limit $6) d \
            limit $3) \
        update deliveries d set state = 2, cause = $1, settled_at = $2 \
        from doomed \
        where d.application = doomed.application and d.endpoint = doomed.endpoint \
          and d.message = doomed.message \
        returning d.application, d.endpoint";
    let columns = [
        int2(codes::cause(Cause::EndpointDeleted)),
        int8(now.as_micros()),
        int8(i64::from(most)),
        column(&used, Type::INT8_ARRAY, |one| one.place.1),
        column(&used, Type::INT2_ARRAY, |one| one.partition),
        int8(i64::from((most / count.max(1)).max(1))),
        column(&applications, Type::INT8_ARRAY, |one| *one),
        column(&used, Type::INT8_ARRAY, |one| one.place.0),
    ];
    let found = transaction.query(statement, &parameters(&columns)).await?;
    let mut buried = BTreeMap::new();
    for row in &found {
        let whose =
            (ApplicationKey(field(row, "application")?), EndpointKey(field(row, "endpoint")?));
        *buried.entry(whose).or_insert(0) += 1;
    }
    rollup::bury(transaction, &buried, Cause::EndpointDeleted, now).await?;
    Ok(u32::try_from(found.len()).unwrap_or(u32::MAX))
}

/// Removes those of these to which nothing refers, when nothing else is left of them.
///
/// Indexes: the primary keys of attempts, rollups, endpoints and what belongs to endpoints.
async fn remove(
    transaction: &mut Transaction<'_>,
    walked: &[Walked],
    most: u32,
) -> Result<u32, Failure> {
    let unused: Vec<&Walked> = walked.iter().filter(|one| one.unused).collect();
    let mut left = most;
    if unused.is_empty() || left == 0 {
        return Ok(0);
    }
    let columns = |left: u32| {
        [
            column(&unused, Type::INT8_ARRAY, |one| one.place.0),
            column(&unused, Type::INT8_ARRAY, |one| one.place.1),
            int8(i64::from(left)),
        ]
    };
    transaction.query(HELD, &parameters(&columns(left))).await?;
    for statement in [ATTEMPTS, SUMS] {
        let columns = columns(left);
        left -= transaction.execute(statement, &parameters(&columns)).await.map(rows)?.min(left);
        // Whether there was more of it is seen the next time.
        if left == 0 {
            return Ok(most);
        }
    }
    let columns = columns(left);
    let row = transaction.one(TOMBSTONES, &parameters(&columns)).await?;
    let removed = row.map_or(Ok(0), |row| field(&row, "rows").map(codes::count))?;
    Ok(most - left + removed)
}
