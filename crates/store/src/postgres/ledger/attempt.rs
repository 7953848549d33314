//! Attempts: of a delivery by their chain, of an endpoint by their ids.

use bytes::Bytes;
use domain::ids::AttemptId;
use domain::outcome::Outcome;
use domain::replay::StatusClass;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::Error;
use crate::codes::{self, OutcomeColumns};
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{AttemptEntry, AttemptFilter};
use crate::page::{Listed, Page};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{parameters, single};
use crate::postgres::io::link::Transaction;
use crate::postgres::page::{Order, Walk};
use crate::postgres::row::{self, count, field, headers, id, is_missing, moment, optional_moment};
use crate::queue::{AttemptRecord, Phases};

/// Returns the attempts of a delivery, newest first.
///
/// Indexes: the primary keys of deliveries, attempts and messages.
pub(super) async fn of_delivery(
    store: &Postgres,
    key: DeliveryKey,
) -> Result<Vec<AttemptEntry>, Failure> {
    let statement = "\
        with recursive chain as ( \
            select a.* from deliveries d \
            join attempts a on a.application = d.application and a.endpoint = d.endpoint \
                and a.id = d.last_attempt \
            where d.application = $1 and d.endpoint = $2 and d.message = $3 \
            union all \
            select a.* from chain \
            join attempts a on a.application = chain.application \
                and a.endpoint = chain.endpoint and a.id = chain.previous) \
        select chain.*, m.id as message_id, m.event_type \
        from chain join messages m on m.application = chain.application and m.key = chain.message \
        order by chain.number desc";
    let columns = [
        single(key.application.0, Type::INT8),
        single(key.endpoint.0, Type::INT8),
        single(key.message.0, Type::INT8),
    ];
    let mut transaction = store.read().await?;
    let result = transaction.query(statement, &parameters(&columns)).await;
    let rows = transaction.end(result).await?;
    Ok(row::readable(&store.notes, &rows, entry)?)
}

/// Lists an endpoint's attempts, newest first.
pub(crate) async fn list(
    store: &Postgres,
    place: (ApplicationKey, EndpointKey),
    filter: AttemptFilter,
    page: Page<AttemptId>,
) -> Result<Listed<AttemptEntry, AttemptId>, Failure> {
    let mut walk = Walk::new(&store.notes, page, Order::Descending);
    let mut transaction = store.read().await?;
    let result = walk_list(&mut transaction, place, &filter, &mut walk).await;
    transaction.end(result).await?;
    Ok(walk.finish())
}

/// Indexes: the primary keys of attempts and messages.
async fn walk_list(
    transaction: &mut Transaction<'_>,
    (application, endpoint): (ApplicationKey, EndpointKey),
    filter: &AttemptFilter,
    walk: &mut Walk<'_, AttemptEntry, AttemptId>,
) -> Result<(), Failure> {
    let statement = "\
        select a.*, m.id as message_id, m.event_type \
        from ( \
            select * from attempts \
            where application = $1 and endpoint = $2 and ($3::bytea is null or id {compare} $3) \
            order by id {direction} limit $4) a \
        left join messages m on m.application = a.application and m.key = a.message \
        order by a.id {direction}";
    let statement = walk.direct(statement);
    while let Some((place, rows)) = walk.next() {
        let columns = [
            single(application.0, Type::INT8),
            single(endpoint.0, Type::INT8),
            single(place.as_ref().map(|id| id.as_bytes().as_slice()), Type::BYTEA),
            single(rows, Type::INT8),
        ];
        let rows = transaction.query(&statement, &parameters(&columns)).await?;
        walk.take(&rows, |row| {
            // Its message may be gone without it, if the chain to it was broken.
            if is_missing(row, "message_id")? {
                return Ok((id(row, "id")?, None));
            }
            let entry = entry(row)?;
            Ok((entry.record.id, Some(entry).filter(|entry| is_wanted(entry, filter))))
        })?;
    }
    Ok(())
}

/// Removes what an attempt sent and got back.
///
/// Index: the primary key of attempts.
pub(super) async fn expunge(
    store: &Postgres,
    key: DeliveryKey,
    id: AttemptId,
) -> Result<(), Failure> {
    let statement = "\
        update attempts \
        set request_headers = '[]', response_headers = '[]', response_body = ''::bytea \
        where application = $1 and endpoint = $2 and id = $3 and message = $4";
    let columns = [
        single(key.application.0, Type::INT8),
        single(key.endpoint.0, Type::INT8),
        single(id.as_bytes().as_slice(), Type::BYTEA),
        single(key.message.0, Type::INT8),
    ];
    let mut transaction = store.write().await?;
    let result = transaction.execute(statement, &parameters(&columns)).await;
    match transaction.end(result).await? {
        0 => Err(Error::Missing("attempt").into()),
        _ => Ok(()),
    }
}

fn is_wanted(entry: &AttemptEntry, filter: &AttemptFilter) -> bool {
    let status = match entry.record.outcome {
        Outcome::Answered { status, .. } => Some(status),
        Outcome::TimedOut
        | Outcome::Unreachable(_)
        | Outcome::TlsFailed
        | Outcome::BrokenAnswer
        | Outcome::Blocked
        | Outcome::Interrupted => None,
    };
    let class = StatusClass::of(status);
    let succeeded = class == StatusClass::Success;
    filter.succeeded.is_none_or(|wanted| wanted == succeeded)
        && filter.status_class.is_none_or(|wanted| wanted == class)
        && (filter.event_types.is_empty() || filter.event_types.contains(&entry.event_type))
        && filter.since.is_none_or(|since| entry.record.began_at >= since)
        && filter.until.is_none_or(|until| entry.record.began_at < until)
}

fn entry(row: &Row) -> Result<AttemptEntry, Error> {
    let key = DeliveryKey {
        application: ApplicationKey(field(row, "application")?),
        endpoint: EndpointKey(field(row, "endpoint")?),
        message: MessageKey(field(row, "message")?),
    };
    Ok(AttemptEntry {
        key,
        message: id(row, "message_id")?,
        event_type: field(row, "event_type")?,
        number: count(row, "number")?,
        next_due: optional_moment(row, "next_due")?,
        record: record(row)?,
    })
}

fn record(row: &Row) -> Result<AttemptRecord, Error> {
    let outcome = codes::read_outcome(OutcomeColumns {
        outcome: field(row, "outcome")?,
        status: row::status(row, "status")?,
        retry_after: field(row, "retry_after_seconds")?,
        retry_after_at: field(row, "retry_after_at")?,
    })?;
    let span = |name| Ok::<_, Error>(field::<Option<i64>>(row, name)?.map(codes::span));
    let phases = Phases {
        dns: span("dns")?,
        connect: span("connect")?,
        tls: span("tls")?,
        first_byte: span("first_byte")?,
        reused: field(row, "reused")?,
    };
    Ok(AttemptRecord {
        id: id(row, "id")?,
        began_at: moment(row, "began_at")?,
        ended_at: moment(row, "ended_at")?,
        trigger: codes::read_trigger(field(row, "trigger")?)?,
        outcome,
        retry_after_kept: span("retry_after_kept")?,
        phases,
        request_headers: headers(row, "request_headers")?,
        response_headers: headers(row, "response_headers")?,
        response_body: Bytes::from(field::<Vec<u8>>(row, "response_body")?),
        error: field(row, "error")?,
    })
}
