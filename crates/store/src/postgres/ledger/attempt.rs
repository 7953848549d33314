//! Attempts: of a delivery by their chain, of an endpoint by their ids.

use bytes::Bytes;
use domain::ids::AttemptId;
use tokio_postgres::Row;

use crate::Error;
use crate::codes::{self, OutcomeColumns};
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{AttemptEntry, AttemptFilter};
use crate::page::{Direction, Listed, Page};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{bytea, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::page::Walk;
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
    let columns = [int8(key.application.0), int8(key.endpoint.0), int8(key.message.0)];
    let rows = store.query(statement, &parameters(&columns)).await?;
    Ok(row::readable(&store.notes, &rows, entry)?)
}

/// Lists an endpoint's attempts, newest first.
pub(crate) async fn list(
    store: &Postgres,
    place: (ApplicationKey, EndpointKey),
    filter: AttemptFilter,
    page: Page<AttemptId>,
) -> Result<Listed<AttemptEntry, AttemptId>, Failure> {
    let mut walk = Walk::new(&store.notes, page, Direction::Descending);
    store
        .reading(async |transaction| walk_list(transaction, place, &filter, &mut walk).await)
        .await?;
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
            int8(application.0),
            int8(endpoint.0),
            bytea(place.as_ref().map(|id| id.as_bytes().as_slice())),
            int8(rows),
        ];
        let rows = transaction.query(&statement, &parameters(&columns)).await?;
        walk.take(&rows, |row| {
            // Its message may be gone without it, if the chain to it was broken.
            if is_missing(row, "message_id")? {
                return Ok((id(row, "id")?, None));
            }
            let entry = entry(row)?;
            let AttemptEntry { record, event_type, .. } = &entry;
            let wanted = filter.wants(record.outcome.status(), event_type, record.began_at);
            Ok((record.id, wanted.then_some(entry)))
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
        int8(key.application.0),
        int8(key.endpoint.0),
        bytea(id.as_bytes().as_slice()),
        int8(key.message.0),
    ];
    match store.execute(statement, &parameters(&columns)).await? {
        0 => Err(Error::Missing("attempt").into()),
        _ => Ok(()),
    }
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
        refusal: field(row, "refusal")?,
        hops: row::optional_document(row, "hops")?.unwrap_or_default(),
    })
}
