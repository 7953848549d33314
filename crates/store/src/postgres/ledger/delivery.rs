//! Deliveries.

use domain::ids::{DeliveryId, MessageId};
use domain::partition::Partition;
use domain::time::Timestamp;
use tokio_postgres::Row;

use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{DeliveryEntry, DeliveryFilter, settled_at};
use crate::page::{Direction, Listed, Page};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{boolean, bytea, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::page::Walk;
use crate::postgres::row::{
    self, count, field, id, is_missing, moment, optional_id, optional_moment, status,
};
use crate::postgres::upkeep::request;
use crate::queue::{Request, RequestKind};

const MISSING: Error = Error::Missing("delivery");

/// Finds a delivery by its id: the message is among the few whose ids begin alike, and with it the
/// id tells the endpoint.
pub(crate) async fn find(
    store: &Postgres,
    application: ApplicationKey,
    id: DeliveryId,
) -> Result<DeliveryEntry, Failure> {
    store.reading(async |transaction| find_in(transaction, application, id).await).await
}

async fn find_in(
    transaction: &mut Transaction<'_>,
    application: ApplicationKey,
    id: DeliveryId,
) -> Result<DeliveryEntry, Failure> {
    for (message, message_id) in near(transaction, application, id).await? {
        let Ok(endpoint) = i64::try_from(id.endpoint_row(&message_id)) else {
            continue;
        };
        let key = DeliveryKey { application, endpoint: EndpointKey(endpoint), message };
        if let Some(found) = at(transaction, key).await? {
            return Ok(found);
        }
    }
    Err(MISSING.into())
}

/// Index: messages_id.
async fn near(
    transaction: &mut Transaction<'_>,
    application: ApplicationKey,
    delivery: DeliveryId,
) -> Result<Vec<(MessageKey, MessageId)>, Failure> {
    let statement = "\
        select key, id from messages where application = $1 and id between $2 and $3 limit 100";
    let (low, high) = delivery.message_range();
    let columns =
        [int8(application.0), bytea(low.as_bytes().as_slice()), bytea(high.as_bytes().as_slice())];
    let rows = transaction.query(statement, &parameters(&columns)).await?;
    rows.iter().map(|row| Ok((MessageKey(field(row, "key")?), id(row, "id")?))).collect()
}

/// Indexes: the primary keys of deliveries and messages.
async fn at(
    transaction: &mut Transaction<'_>,
    key: DeliveryKey,
) -> Result<Option<DeliveryEntry>, Failure> {
    let statement = "\
        select d.*, m.id, m.event_type, m.received_at, m.policy \
        from deliveries d join messages m on m.application = d.application and m.key = d.message \
        where d.application = $1 and d.endpoint = $2 and d.message = $3";
    let columns = [int8(key.application.0), int8(key.endpoint.0), int8(key.message.0)];
    let row = transaction.one(statement, &parameters(&columns)).await?;
    Ok(row.map(|row| entry(&row)).transpose()?)
}

/// Returns all deliveries of a message, by endpoint.
///
/// Indexes: the primary keys of messages and deliveries, by way of the message's fan-out.
pub(super) async fn of_message(
    store: &Postgres,
    application: ApplicationKey,
    message: MessageKey,
) -> Result<Vec<DeliveryEntry>, Failure> {
    let statement = "\
        select d.*, m.id, m.event_type, m.received_at, null::text as policy \
        from messages m \
        cross join lateral unnest(m.fan_out) sent (endpoint) \
        join deliveries d on d.application = m.application and d.endpoint = sent.endpoint \
            and d.message = m.key \
        where m.application = $1 and m.key = $2 order by d.endpoint";
    let columns = [int8(application.0), int8(message.0)];
    let rows = store.query(statement, &parameters(&columns)).await?;
    Ok(row::readable(&store.notes, &rows, entry)?)
}

/// Lists an endpoint's deliveries, newest message first.
pub(crate) async fn list(
    store: &Postgres,
    place: (ApplicationKey, EndpointKey),
    filter: DeliveryFilter,
    page: Page<MessageKey>,
) -> Result<Listed<DeliveryEntry, MessageKey>, Failure> {
    let newest_first = (Direction::Descending, DeliveryEntry::bytes as fn(&_) -> _);
    let mut walk = Walk::new(&store.notes, page, newest_first);
    store
        .reading(async |transaction| walk_list(transaction, place, &filter, &mut walk).await)
        .await?;
    Ok(walk.finish())
}

/// Indexes: the primary keys of deliveries and messages.
async fn walk_list(
    transaction: &mut Transaction<'_>,
    (application, endpoint): (ApplicationKey, EndpointKey),
    filter: &DeliveryFilter,
    walk: &mut Walk<'_, DeliveryEntry, MessageKey>,
) -> Result<(), Failure> {
    let statement = "\
        select d.*, m.id, m.event_type, m.received_at, case when $5 then m.policy end as policy \
        from ( \
            select * from deliveries \
            where application = $1 and endpoint = $2 and ($3::bigint is null or message {compare} $3) \
            order by message {direction} limit $4) d \
        left join messages m on m.application = d.application and m.key = d.message \
        order by d.message {direction}";
    let statement = walk.direct(statement);
    while let Some((place, rows)) = walk.next() {
        let columns = [
            int8(application.0),
            int8(endpoint.0),
            int8(place.map(|message| message.0)),
            int8(rows),
            boolean(filter.with_policy),
        ];
        let rows = transaction.query(&statement, &parameters(&columns)).await?;
        walk.take(&rows, |row| {
            if is_missing(row, "id")? {
                return Ok((MessageKey(field(row, "message")?), None));
            }
            let entry = entry(row)?;
            Ok((entry.key.message, filter.takes(entry)))
        })?;
    }
    Ok(())
}

/// Cancels a pending delivery, and leaves a request for its owner to forget it.
pub(super) async fn cancel(
    store: &Postgres,
    key: DeliveryKey,
    when: Timestamp,
) -> Result<DeliveryEntry, Failure> {
    let (cancelled, partition) =
        store.writing(async |transaction| cancel_in(transaction, key, when).await).await?;
    store.wake.others([partition].into_iter().collect());
    Ok(cancelled)
}

async fn cancel_in(
    transaction: &mut Transaction<'_>,
    key: DeliveryKey,
    when: Timestamp,
) -> Result<(DeliveryEntry, Partition), Failure> {
    let partition = call_off(transaction, key, when).await?;
    let entry = at(transaction, key).await?.ok_or(MISSING)?;
    let Some(partition) = partition else {
        return Err(match entry.state.cancel() {
            Err(refusal) => Error::Refused(refusal.to_string()).into(),
            // It became pending between the two statements, by a replay.
            Ok(_) => {
                Error::Unavailable { text: "it has just changed".to_owned(), source: None }.into()
            }
        });
    };
    let DeliveryKey { application, endpoint, message } = key;
    let kind = RequestKind::Cancel(message);
    let request = Request { number: 0, application, endpoint, partition, kind, at: when };
    request::ask(transaction, &request).await?;
    Ok((entry, partition))
}

/// Makes a pending delivery due, and leaves a request for its owner to send it.
pub(super) async fn retry_now(
    store: &Postgres,
    key: DeliveryKey,
    when: Timestamp,
) -> Result<DeliveryEntry, Failure> {
    let (hurried, partition) =
        store.writing(async |transaction| retry_now_in(transaction, key, when).await).await?;
    store.wake.others([partition].into_iter().collect());
    Ok(hurried)
}

async fn retry_now_in(
    transaction: &mut Transaction<'_>,
    key: DeliveryKey,
    when: Timestamp,
) -> Result<(DeliveryEntry, Partition), Failure> {
    let partition = hold(transaction, key).await?.ok_or(MISSING)?;
    let entry = at(transaction, key).await?.ok_or(MISSING)?;
    entry.state.retry_now(when).map_err(|refusal| Error::Refused(refusal.to_string()))?;
    let DeliveryKey { application, endpoint, message } = key;
    let kind = RequestKind::RetryNow(message);
    let request = Request { number: 0, application, endpoint, partition, kind, at: when };
    request::ask(transaction, &request).await?;
    Ok((at(transaction, key).await?.ok_or(MISSING)?, partition))
}

/// Locks a delivery, so that what is read of it next stays true.
///
/// Index: the primary key of deliveries.
async fn hold(
    transaction: &mut Transaction<'_>,
    key: DeliveryKey,
) -> Result<Option<Partition>, Failure> {
    let statement = "\
        select partition from deliveries \
        where application = $1 and endpoint = $2 and message = $3 for update";
    let columns = [int8(key.application.0), int8(key.endpoint.0), int8(key.message.0)];
    let row = transaction.one(statement, &parameters(&columns)).await?;
    Ok(row.map(|row| row::partition(&row, "partition")).transpose()?)
}

/// Index: the primary key of deliveries.
async fn call_off(
    transaction: &mut Transaction<'_>,
    key: DeliveryKey,
    when: Timestamp,
) -> Result<Option<Partition>, Failure> {
    let statement = "\
        update deliveries set state = 3, settled_at = $4 \
        where application = $1 and endpoint = $2 and message = $3 and state = 0 \
        returning partition";
    let columns = [
        int8(key.application.0),
        int8(key.endpoint.0),
        int8(key.message.0),
        int8(when.as_micros()),
    ];
    let row = transaction.one(statement, &parameters(&columns)).await?;
    Ok(row.map(|row| row::partition(&row, "partition")).transpose()?)
}

/// Reads a delivery's row, joined to its message's id, event type, time and policy.
pub(crate) fn entry(row: &Row) -> Result<DeliveryEntry, Error> {
    let key = DeliveryKey {
        application: ApplicationKey(field(row, "application")?),
        endpoint: EndpointKey(field(row, "endpoint")?),
        message: MessageKey(field(row, "message")?),
    };
    let message: MessageId = id(row, "id")?;
    let state = row::delivery(row)?;
    Ok(DeliveryEntry {
        key,
        id: DeliveryId::derive(&message, key.endpoint.0.cast_unsigned()),
        message,
        event_type: field(row, "event_type")?,
        received_at: moment(row, "received_at")?,
        policy: field(row, "policy")?,
        state,
        settled_at: settled_at(state, optional_moment(row, "settled_at")?),
        recorded: count(row, "recorded")?,
        last_attempt: optional_id(row, "last_attempt")?,
        last_status: status(row, "last_status")?,
    })
}
