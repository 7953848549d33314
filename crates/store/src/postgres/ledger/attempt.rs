//! Attempts: of a delivery by their chain, of an endpoint by their ids.

use std::collections::BTreeMap;

use bytes::Bytes;
use domain::ids::AttemptId;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::Error;
use crate::codes::{self, OutcomeColumns};
use crate::damage::Notes;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{AttemptEntry, AttemptFilter, DeliveriesOf, EXPUNGED, MOST_WALKED};
use crate::page::{Direction, Listed, Page, of_rows};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{bytea, column, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::page::Walk;
use crate::postgres::row::{self, count, field, headers, id, is_missing, moment, optional_moment};
use crate::queue::{AttemptRecord, Phases};

/// An attempt on a page, which is read whole when the page is known.
struct Walked {
    endpoint: EndpointKey,
    id: AttemptId,
    bytes: usize,
}

const NEWEST_FIRST: (Direction, fn(&Walked) -> usize) = (Direction::Descending, |one| one.bytes);

/// Finds an attempt of a message by way of the message's endpoints.
///
/// Indexes: the primary keys of messages and attempts.
pub(super) async fn find(
    store: &Postgres,
    (application, message): (ApplicationKey, MessageKey),
    attempt: AttemptId,
) -> Result<AttemptEntry, Failure> {
    let statement = "\
        select a.*, m.id as message_id, m.event_type \
        from messages m \
        cross join lateral unnest(m.fan_out) sent (endpoint) \
        join attempts a on a.application = m.application and a.endpoint = sent.endpoint \
            and a.id = $3 and a.message = m.key \
        where m.application = $1 and m.key = $2";
    let columns = [int8(application.0), int8(message.0), bytea(attempt.as_bytes().as_slice())];
    let row = store.one(statement, &parameters(&columns)).await?;
    Ok(entry(&row.ok_or(Error::Missing("attempt"))?)?)
}

/// Lists the attempts of a message's deliveries, newest first: only those of the page are read whole.
pub(super) async fn of_deliveries(
    store: &Postgres,
    of: DeliveriesOf,
    filter: AttemptFilter,
    page: Page<AttemptId>,
) -> Result<Listed<AttemptEntry, AttemptId>, Failure> {
    let read = async |transaction: &mut Transaction<'_>| {
        let chains = chains(transaction, of).await?;
        let mut rows = BTreeMap::new();
        for row in &chains {
            let found = of_chain(row, &filter).map_err(|error| row::at_row(row, error));
            let found = store.notes.readable(found)?.flatten();
            rows.extend(found.map(|walked| (walked.id, walked)));
        }
        let keep = |_: &AttemptId, walked| Ok::<_, Failure>(Some(walked));
        let listed = of_rows(rows.into_iter(), NEWEST_FIRST, &page, keep)?;
        whole(transaction, &store.notes, of.application, listed).await
    };
    store.reading(read).await
}

/// Walks from the last attempt of each delivery to the one before it.
///
/// Indexes: the primary keys of messages, deliveries and attempts.
async fn chains(transaction: &mut Transaction<'_>, of: DeliveriesOf) -> Result<Vec<Row>, Failure> {
    let statement = "\
        with recursive chain as ( \
            select a.endpoint, a.id, a.previous, a.status, a.began_at, m.event_type, 1 as walked, \
                octet_length(a.request_headers) + octet_length(a.response_headers) \
                    + octet_length(a.response_body) + coalesce(octet_length(a.error), 0) as bytes \
            from messages m \
            cross join lateral unnest(m.fan_out) sent (endpoint) \
            join deliveries d on d.application = m.application and d.endpoint = sent.endpoint \
                and d.message = m.key \
            join attempts a on a.application = d.application and a.endpoint = d.endpoint \
                and a.id = d.last_attempt \
            where m.application = $1 and m.key = $2 \
                and ($3::bigint is null or sent.endpoint = $3) \
            union all \
            select a.endpoint, a.id, a.previous, a.status, a.began_at, c.event_type, c.walked + 1, \
                octet_length(a.request_headers) + octet_length(a.response_headers) \
                    + octet_length(a.response_body) + coalesce(octet_length(a.error), 0) \
            from chain c \
            join attempts a on a.application = $1 and a.endpoint = c.endpoint and a.id = c.previous \
            where c.walked < $4) \
        select * from chain";
    let columns = [
        int8(of.application.0),
        int8(of.message.0),
        int8(of.endpoint.map(|endpoint| endpoint.0)),
        int8(i64::from(MOST_WALKED)),
    ];
    transaction.query(statement, &parameters(&columns)).await
}

/// Returns what a page has to know of an attempt, if it is wanted.
fn of_chain(row: &Row, filter: &AttemptFilter) -> Result<Option<Walked>, Error> {
    let (status, began_at) = (row::status(row, "status")?, moment(row, "began_at")?);
    if !filter.wants(status, field(row, "event_type")?, began_at) {
        return Ok(None);
    }
    let bytes: i32 = field(row, "bytes")?;
    Ok(Some(Walked {
        endpoint: EndpointKey(field(row, "endpoint")?),
        id: id(row, "id")?,
        bytes: usize::try_from(bytes).unwrap_or(0),
    }))
}

/// Lists an endpoint's attempts, newest first: only those of the page are read whole.
pub(crate) async fn list(
    store: &Postgres,
    place: (ApplicationKey, EndpointKey),
    filter: AttemptFilter,
    page: Page<AttemptId>,
) -> Result<Listed<AttemptEntry, AttemptId>, Failure> {
    let mut walk = Walk::new(&store.notes, page, NEWEST_FIRST);
    let read = async |transaction: &mut Transaction<'_>| {
        walk_list(transaction, place, &filter, &mut walk).await?;
        whole(transaction, &store.notes, place.0, walk.finish()).await
    };
    store.reading(read).await
}

/// Indexes: the primary keys of attempts and messages.
async fn walk_list(
    transaction: &mut Transaction<'_>,
    (application, endpoint): (ApplicationKey, EndpointKey),
    filter: &AttemptFilter,
    walk: &mut Walk<'_, Walked, AttemptId>,
) -> Result<(), Failure> {
    let statement = "\
        select a.endpoint, a.id, a.status, a.began_at, a.bytes, m.id as message_id, m.event_type \
        from ( \
            select application, endpoint, id, message, status, began_at, \
                octet_length(request_headers) + octet_length(response_headers) \
                    + octet_length(response_body) + coalesce(octet_length(error), 0) as bytes \
            from attempts \
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
            Ok((id(row, "id")?, of_chain(row, filter)?))
        })?;
    }
    Ok(())
}

/// Reads the attempts of a page whole.
///
/// Indexes: the primary keys of attempts and messages.
async fn whole(
    transaction: &mut Transaction<'_>,
    notes: &Notes,
    application: ApplicationKey,
    listed: Listed<Walked, AttemptId>,
) -> Result<Listed<AttemptEntry, AttemptId>, Failure> {
    let Listed { entries, reached, done } = listed;
    let statement = "\
        select a.*, m.id as message_id, m.event_type \
        from unnest($2::bigint[], $3::bytea[]) wanted (endpoint, id) \
        join attempts a on a.application = $1 and a.endpoint = wanted.endpoint and a.id = wanted.id \
        join messages m on m.application = a.application and m.key = a.message \
        order by a.id desc";
    let columns = [
        int8(application.0),
        column(&entries, Type::INT8_ARRAY, |walked| walked.endpoint.0),
        column(&entries, Type::BYTEA_ARRAY, |walked| walked.id.as_bytes().as_slice()),
    ];
    let rows = transaction.query(statement, &parameters(&columns)).await?;
    Ok(Listed { entries: row::readable(notes, &rows, entry)?, reached, done })
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
        set request_headers = '[]', response_headers = '[]', response_body = $5 \
        where application = $1 and endpoint = $2 and id = $3 and message = $4";
    let columns = [
        int8(key.application.0),
        int8(key.endpoint.0),
        bytea(id.as_bytes().as_slice()),
        int8(key.message.0),
        bytea(EXPUNGED.as_bytes()),
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
    })
}
