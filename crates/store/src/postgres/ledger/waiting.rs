//! What waits.

use domain::partition::Partition;
use domain::time::Timestamp;
use tokio_postgres::types::Type;

use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{Depth, MOST_COUNTED, MOST_WALKED, Tally, Within};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{int8, int8_array, parameters, single};
use crate::postgres::io::link::Access;
use crate::postgres::io::partitions::number;
use crate::postgres::queue::load;
use crate::postgres::row::{count, field, optional_moment, unknown};
use crate::queue::Backlog;
use crate::queue::turn::{self, SCHEDULED};

/// Returns, of each of some FIFO endpoints, the delivery that comes first in its order.
///
/// Index: deliveries_pending, by way of the endpoint's partition.
pub(super) async fn first_in_line(
    store: &Postgres,
    application: ApplicationKey,
    endpoints: Vec<EndpointKey>,
) -> Result<Vec<DeliveryKey>, Failure> {
    let statement = "\
        select e.key, first.message from endpoints e \
        cross join lateral ( \
            select message from deliveries d \
            where d.state = 0 and d.partition = e.partition and d.endpoint = e.key \
                and d.application = e.application and d.turn < $3 \
            order by d.partition, d.endpoint, d.turn, d.message limit 1) first \
        where e.application = $1 and e.key = any($2) order by e.key";
    let endpoints: Vec<i64> = endpoints.iter().map(|endpoint| endpoint.0).collect();
    let columns = [int8(application.0), int8_array(endpoints), int8(SCHEDULED)];
    let rows = store.pool.query(Access::ReadPending, statement, &parameters(&columns)).await?;
    let found = rows.iter().map(|row| {
        let endpoint = EndpointKey(field(row, "key")?);
        Ok(DeliveryKey { application, endpoint, message: MessageKey(field(row, "message")?) })
    });
    Ok(found.collect::<Result<_, Error>>()?)
}

/// Counts what waits, up to a limit, and finds the earliest due time of those whose turn is first.
pub(super) async fn depth(store: &Postgres, within: Within) -> Result<Depth, Failure> {
    let (counted, oldest_due) = match within {
        Within::Whole => {
            let waiting = load::waiting(&store.pool, Partition::all().collect()).await?;
            (count_all(store).await?, Backlog::of(&waiting).oldest_due)
        }
        Within::Application(application) => of_endpoints(store, application, None).await?,
        Within::Endpoint(application, endpoint) => {
            of_endpoints(store, application, Some(endpoint)).await?
        }
    };
    Ok(Depth { waiting: Tally::up_to(MOST_COUNTED, counted, counted), oldest_due })
}

/// Index: deliveries_pending.
async fn count_all(store: &Postgres) -> Result<u32, Failure> {
    let statement = "\
        select count(*) as waiting from ( \
            select 1 from unnest($1::smallint[]) wanted (number) \
            cross join lateral ( \
                select 1 from deliveries \
                where state = 0 and partition = wanted.number limit $2) d \
            limit $2) counted";
    let numbers: Vec<i16> = Partition::all().map(number).collect();
    let columns = [single(numbers, Type::INT2_ARRAY), int8(i64::from(MOST_COUNTED) + 1)];
    let row = store.pool.query(Access::ReadPending, statement, &parameters(&columns)).await?.pop();
    Ok(count(&row.ok_or_else(|| unknown("a count", "none"))?, "waiting")?)
}

/// Counts for an application's endpoints, or for one of them.
///
/// Indexes: deliveries_pending, by way of each endpoint's partition; the primary key of endpoints.
async fn of_endpoints(
    store: &Postgres,
    application: ApplicationKey,
    endpoint: Option<EndpointKey>,
) -> Result<(u32, Option<Timestamp>), Failure> {
    let statement = "\
        with theirs as materialized ( \
            select key, partition from endpoints \
            where application = $1 and ($2::bigint is null or key = $2) limit $5), \
        firsts as ( \
            select first.turn, first.due, later.turn as scheduled from theirs e \
            cross join lateral ( \
                select turn, due from deliveries d \
                where d.state = 0 and d.partition = e.partition and d.endpoint = e.key \
                order by d.partition, d.endpoint, d.turn, d.message limit 1) first \
            left join lateral ( \
                select turn from deliveries d \
                where d.state = 0 and d.partition = e.partition and d.endpoint = e.key \
                    and d.turn >= $3 \
                order by d.partition, d.endpoint, d.turn, d.message limit 1) later on true) \
        select (select count(*) from ( \
                select 1 from theirs e \
                cross join lateral ( \
                    select 1 from deliveries d \
                    where d.state = 0 and d.partition = e.partition and d.endpoint = e.key \
                    limit $4) d \
                limit $4) counted) as waiting, \
            (select min(due) from firsts where turn < $3) as due, \
            (select min(scheduled) from firsts) as scheduled";
    let columns = [
        int8(application.0),
        int8(endpoint.map(|endpoint| endpoint.0)),
        int8(SCHEDULED),
        int8(i64::from(MOST_COUNTED) + 1),
        int8(i64::from(MOST_WALKED)),
    ];
    let row = store.pool.query(Access::ReadPending, statement, &parameters(&columns)).await?.pop();
    let row = row.ok_or_else(|| unknown("a count", "none"))?;
    let scheduled = field::<Option<i64>>(&row, "scheduled")?.and_then(turn::due_if_scheduled);
    let due = optional_moment(&row, "due")?.into_iter().chain(scheduled).min();
    Ok((count(&row, "waiting")?, due))
}
