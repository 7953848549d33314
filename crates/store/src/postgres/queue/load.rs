//! Reading the index of pending deliveries, and the requests to owners.

use bytes::Bytes;
use domain::partition::Partition;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::damage::Notes;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::postgres::failure::Failure;
use crate::postgres::io::link::{Access, Pool, Transaction, closed};
use crate::postgres::io::partitions::number;
use crate::postgres::row::{
    at_row, count, field, id, moment, optional_moment, partition, pending, readable,
};
use crate::queue::turn::{self, SCHEDULED};
use crate::queue::{Load, Loaded, PendingDelivery, Request, Waiting};
use crate::{Error, codes, limits};

/// The most payload bytes that loads bring together, but for the first row of each.
const BYTES_TOGETHER: i64 = 32 << 20;

/// Returns the earliest pending deliveries of endpoints, of each as many as its load asks for.
///
/// Indexes: deliveries_pending, by way of the endpoint's partition; the primary key of messages.
pub(crate) async fn load_all(
    pool: &Pool,
    notes: &Notes,
    loads: &[Load],
) -> Result<Vec<Loaded>, Failure> {
    // One row more than asked for tells whether there are more. Sizes are known without reading the
    // payloads themselves; the first row always gets its own. The body is not among the columns, and
    // what is left out does not count: one endpoint's large payloads are no reason to leave out others'.
    let statement = "\
        select w.number, n.place, n.application, n.endpoint, n.message, n.partition, n.turn, n.due, \
               n.attempts, n.ambiguous, n.last_wait, n.expires_at, n.recorded, n.settled_at, \
               n.last_attempt_at, n.id, n.event_type, n.received_at, n.policy, n.content_type, \
               case when n.place = 1 or (n.place <= w.most and n.bytes <= w.bytes and \
                   sum(case when n.place <= w.most and n.bytes <= w.bytes \
                       then octet_length(n.body) else 0 end) over (rows unbounded preceding) <= $6) \
               then n.body end as payload, n.body is null as expunged \
        from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], \
                $7::bigint[]) \
             with ordinality as w (application, endpoint, first, most, bytes, until, number) \
        cross join lateral ( \
            select d.application, d.endpoint, d.message, d.partition, d.turn, d.due, d.attempts, \
                   d.ambiguous, d.last_wait, d.expires_at, d.recorded, d.settled_at, \
                   d.last_attempt_at, \
                   m.id, m.event_type, m.received_at, m.policy, m.content_type, m.payload as body, \
                   row_number() over walk as place, \
                   sum(coalesce(octet_length(m.payload), 0)) over walk as bytes \
            from ( \
                select * from deliveries \
                where state = 0 and application = w.application and endpoint = w.endpoint \
                    and turn >= w.first and turn < w.until and partition = (select partition from endpoints \
                        where application = w.application and key = w.endpoint) \
                order by turn, message limit w.most + 1) d \
            left join messages m on m.application = d.application and m.key = d.message \
            window walk as (order by d.turn, d.message)) n";
    let column = |value: fn(&Load) -> i64| loads.iter().map(value).collect::<Vec<_>>();
    let columns = [
        column(|load| load.application.0),
        column(|load| load.endpoint.0),
        column(|load| load.from),
        column(|load| load.most.into()),
        column(|load| i64::try_from(load.most_bytes).unwrap_or(i64::MAX)),
        column(Load::until),
    ];
    let [applications, endpoints, first, most, bytes, until] = &columns;
    let parameters = [
        (applications as _, Type::INT8_ARRAY),
        (endpoints as _, Type::INT8_ARRAY),
        (first as _, Type::INT8_ARRAY),
        (most as _, Type::INT8_ARRAY),
        (bytes as _, Type::INT8_ARRAY),
        (&BYTES_TOGETHER as _, Type::INT8),
        (until as _, Type::INT8_ARRAY),
    ];
    let mut transaction = pool.begin(Access::ReadPending).await?;
    let result = transaction.query(statement, &parameters).await;
    let rows = transaction.end(result).await?;
    let mut answers: Vec<Vec<(i64, &Row)>> = loads.iter().map(|_| Vec::new()).collect();
    for row in &rows {
        let (number, place): (i64, i64) = (field(row, "number")?, field(row, "place")?);
        let answer = usize::try_from(number - 1).ok().and_then(|number| answers.get_mut(number));
        answer.ok_or_else(closed)?.push((place, row));
    }
    let answers = loads.iter().zip(answers).map(|(load, rows)| loaded(notes, *load, rows));
    Ok(answers.collect::<Result<_, _>>()?)
}

/// Reads what came for one load, in whatever order.
fn loaded(notes: &Notes, load: Load, mut rows: Vec<(i64, &Row)>) -> Result<Loaded, Error> {
    rows.sort_unstable_by_key(|(place, _)| *place);
    let most = usize::try_from(load.most).unwrap_or(usize::MAX);
    let complete = rows.len() <= most;
    let mut deliveries = Vec::with_capacity(rows.len());
    for (_, row) in rows.into_iter().take(most) {
        // A damaged one is passed over: it must not stop those behind it.
        let read = pending_delivery(row).map_err(|error| at_row(row, error));
        deliveries.extend(notes.readable(read)?);
    }
    Ok(Loaded { deliveries, complete })
}

fn pending_delivery(row: &Row) -> Result<PendingDelivery, Error> {
    let key = DeliveryKey {
        application: ApplicationKey(field(row, "application")?),
        endpoint: EndpointKey(field(row, "endpoint")?),
        message: MessageKey(field(row, "message")?),
    };
    Ok(PendingDelivery {
        key,
        partition: partition(row, "partition")?,
        turn: field(row, "turn")?,
        pending: pending(row)?,
        recorded: count(row, "recorded")?,
        ended_before: optional_moment(row, "settled_at")?,
        last_attempt_at: optional_moment(row, "last_attempt_at")?,
        message: id(row, "id")?,
        event_type: field(row, "event_type")?,
        received_at: moment(row, "received_at")?,
        policy: field(row, "policy")?,
        content_type: field(row, "content_type")?,
        payload: field::<Option<Vec<u8>>>(row, "payload")?.map(Bytes::from),
        expunged: field(row, "expunged")?,
    })
}

/// Returns the endpoints of these partitions that have pending deliveries.
///
/// Index: deliveries_pending, walked loosely: one look-up for each endpoint, whatever its backlog.
pub(crate) async fn waiting(
    pool: &Pool,
    partitions: Vec<Partition>,
) -> Result<Vec<Waiting>, Failure> {
    let statement = "\
        with recursive walk as ( \
            select first.* from unnest($1::smallint[]) wanted (number) \
            cross join lateral ( \
                select partition, endpoint, application, ordering, turn, due from deliveries \
                where state = 0 and partition = wanted.number \
                order by partition, endpoint, turn, message limit 1) first \
            union all \
            select next.* from walk \
            cross join lateral ( \
                select partition, endpoint, application, ordering, turn, due from deliveries \
                where state = 0 and partition = walk.partition and endpoint > walk.endpoint \
                order by partition, endpoint, turn, message limit 1) next) \
        select partition, endpoint, application, turn, due, \
               case when ordering <> 0 then ( \
                   select one.turn from deliveries one \
                   where one.state = 0 and one.partition = walk.partition \
                       and one.endpoint = walk.endpoint and one.turn >= $2 \
                   order by one.partition, one.endpoint, one.turn limit 1) end as scheduled \
        from walk";
    let mut numbers: Vec<i16> = partitions.into_iter().map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let parameters = [(&numbers as _, Type::INT2_ARRAY), (&SCHEDULED as _, Type::INT8)];
    let mut transaction = pool.begin(Access::ReadPending).await?;
    let result = transaction.query(statement, &parameters).await;
    let rows = transaction.end(result).await?;
    let mut found = rows
        .iter()
        .map(|row| {
            let (turn, due) = (field::<i64>(row, "turn")?, moment(row, "due")?);
            let scheduled = field::<Option<i64>>(row, "scheduled")?;
            Ok(Waiting {
                application: ApplicationKey(field(row, "application")?),
                endpoint: EndpointKey(field(row, "endpoint")?),
                partition: partition(row, "partition")?,
                due: (turn < SCHEDULED).then_some(due),
                scheduled: scheduled.and_then(turn::due_if_scheduled),
            })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    found.sort_unstable_by_key(|waiting| waiting.endpoint);
    Ok(found)
}

/// Returns the requests for these partitions that can be read, as many as are read at once: first some
/// of each application, then the oldest. They come oldest first.
///
/// Indexes: requests_application, walked loosely; the primary key of requests.
pub(crate) async fn requests(
    pool: &Pool,
    notes: &Notes,
    partitions: Vec<Partition>,
) -> Result<Vec<Request>, Failure> {
    let statement = "\
        with of_each as materialized ( \
            select one.number from unnest($3::bigint[]) asking (application) \
            cross join lateral ( \
                select number from requests \
                where application = asking.application and partition = any($1) \
                order by number limit $4) one \
            order by one.number limit $2), \
        oldest as materialized ( \
            select number from requests where partition = any($1) order by number limit $2) \
        select r.number, r.application, r.endpoint, r.partition, r.kind, r.message, r.asked_at \
        from ( \
            select number, min(place) as place from ( \
                select number, 0 as place from of_each \
                union all select number, 1 as place from oldest) all_of_them \
            group by number order by 2, 1 limit $2) found \
        join requests r on r.number = found.number and r.partition = any($1) \
        order by r.number";
    let numbers: Vec<i16> = partitions.into_iter().map(number).collect();
    let most = i64::try_from(limits::REQUESTS).unwrap_or(i64::MAX);
    let mut transaction = pool.begin(Access::Read).await?;
    let result = async {
        let applications = asking(&mut transaction).await?;
        let share = limits::requests_of_each(applications.len());
        let share = i64::try_from(share).unwrap_or(i64::MAX);
        let parameters = [
            (&numbers as _, Type::INT2_ARRAY),
            (&most as _, Type::INT8),
            (&applications as _, Type::INT8_ARRAY),
            (&share as _, Type::INT8),
        ];
        transaction.query(statement, &parameters).await
    };
    let result = result.await;
    let rows = transaction.end(result).await?;
    Ok(readable(notes, &rows, request)?)
}

/// Returns the applications that requests are about.
///
/// Index: requests_application, of which it looks up one entry for each.
async fn asking(transaction: &mut Transaction<'_>) -> Result<Vec<i64>, Failure> {
    let statement = "\
        with recursive asking (application) as ( \
            select min(application) from requests \
            union all \
            select (select min(application) from requests where application > asking.application) \
            from asking where application is not null) \
        select application from asking where application is not null";
    let rows = transaction.query(statement, &[]).await?;
    let applications = rows.iter().map(|row| field(row, "application"));
    Ok(applications.collect::<Result<_, Error>>()?)
}

fn request(row: &Row) -> Result<Request, Error> {
    Ok(Request {
        number: field(row, "number")?,
        application: ApplicationKey(field(row, "application")?),
        endpoint: EndpointKey(field(row, "endpoint")?),
        partition: partition(row, "partition")?,
        kind: codes::read_request(field(row, "kind")?, field(row, "message")?)?,
        at: moment(row, "asked_at")?,
    })
}
