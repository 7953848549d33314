//! Messages.

use std::collections::BTreeMap;

use bytes::Bytes;
use domain::ids::MessageId;
use tokio_postgres::Row;

use crate::Error;
use crate::catalog::Name;
use crate::keys::{ApplicationKey, EndpointKey, MessageKey};
use crate::ledger::{MessageEntry, MessageFilter, Payload};
use crate::page::{Direction, Listed, Page};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{boolean, bytea, int8, int8_array, parameters, text};
use crate::postgres::io::link::Transaction;
use crate::postgres::page::Walk;
use crate::postgres::row::{damaged, field, id, moment, optional_moment};

const MISSING: Error = Error::Missing("message");

/// Finds a message, with its payload.
pub(crate) async fn find(
    store: &Postgres,
    application: ApplicationKey,
    name: Name<MessageId>,
) -> Result<MessageEntry, Failure> {
    let row = find_row(store, application, &name, true).await?;
    let mut found = entry(&row)?;
    if let Some(payload) = field::<Option<Vec<u8>>>(&row, "payload")? {
        found.payload = Payload::Kept(Bytes::from(payload));
    }
    Ok(found)
}

/// Finds a message, without its payload.
pub(super) async fn find_without_payload(
    store: &Postgres,
    application: ApplicationKey,
    name: Name<MessageId>,
) -> Result<MessageEntry, Failure> {
    Ok(entry(&find_row(store, application, &name, false).await?)?)
}

/// Indexes: messages_id, messages_event_id.
async fn find_row(
    store: &Postgres,
    application: ApplicationKey,
    name: &Name<MessageId>,
    with_payload: bool,
) -> Result<Row, Failure> {
    let statement = "\
        select application, key, id, event_type, event_id, channels::text as channels, \
               content_type, policy, deliver_at, only_endpoint, received_at, \
               payload is null as gone, case when $4 then payload end as payload \
        from messages \
        where application = $1 \
          and case when $2::bytea is not null then id = $2 else event_id = $3 end";
    let (by_id, by_event_id) = match name {
        Name::Id(id) => (Some(id.as_bytes().as_slice()), None),
        Name::Uid(event_id) => (None, Some(event_id.as_str())),
    };
    let columns = [int8(application.0), bytea(by_id), text(by_event_id), boolean(with_payload)];
    Ok(store.one(statement, &parameters(&columns)).await?.ok_or(MISSING)?)
}

/// A message on a page, whose payload is read when the page is known.
struct Walked {
    entry: MessageEntry,
    payload_bytes: usize,
}

impl Walked {
    fn bytes(&self) -> usize {
        self.entry.bytes() + self.payload_bytes
    }
}

/// Lists an application's messages, newest first. Payloads are fetched for the page only, not for
/// what was passed over.
pub(crate) async fn list(
    store: &Postgres,
    application: ApplicationKey,
    filter: MessageFilter,
    page: Page<MessageId>,
) -> Result<Listed<MessageEntry, MessageId>, Failure> {
    let newest_first = (Direction::Descending, Walked::bytes as fn(&_) -> _);
    let mut walk = Walk::new(&store.notes, page, newest_first);
    store
        .reading(async |transaction| walk_list(transaction, application, &filter, &mut walk).await)
        .await?;
    let Listed { entries, reached, done } = walk.finish();
    let entries = entries.into_iter().map(|walked| walked.entry).collect();
    let mut listed = Listed { entries, reached, done };
    if filter.with_payload {
        let mut payloads = store
            .reading(async |transaction| payloads(transaction, application, &listed.entries).await)
            .await?;
        for entry in &mut listed.entries {
            if let Some(payload) = payloads.remove(&entry.key.0) {
                entry.payload = Payload::Kept(payload);
            }
        }
    }
    Ok(listed)
}

/// Index: messages_id.
async fn walk_list(
    transaction: &mut Transaction<'_>,
    application: ApplicationKey,
    filter: &MessageFilter,
    walk: &mut Walk<'_, Walked, MessageId>,
) -> Result<(), Failure> {
    let statement = "\
        select * from ( \
            select m.*, sum(m.row_bytes) over (order by m.id {direction}) as so_far \
            from ( \
                select application, key, id, event_type, event_id, channels::text as channels, \
                       content_type, policy, deliver_at, only_endpoint, received_at, \
                       payload is null as gone, octet_length(payload) as payload_bytes, \
                       coalesce(octet_length(policy), 0) as row_bytes \
                from messages \
                where application = $1 and ($2::bytea is null or id {compare} $2) \
                order by id {direction} limit $3) m) m \
        where so_far - row_bytes < $4 order by id {direction}";
    let statement = walk.direct(statement);
    while let Some((place, rows)) = walk.next() {
        let columns = [
            int8(application.0),
            bytea(place.as_ref().map(|id| id.as_bytes().as_slice())),
            int8(rows),
            int8(walk.most_bytes()),
        ];
        let rows = transaction.query(&statement, &parameters(&columns)).await?;
        walk.take(&rows, |row| {
            let entry = entry(row)?;
            let wanted = filter.wants(&entry.event_type, &entry.channels, entry.received_at);
            let payload = field::<Option<i32>>(row, "payload_bytes")?;
            let payload = payload.filter(|_| filter.with_payload);
            let payload_bytes = payload.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(0));
            Ok((entry.id, wanted.then_some(Walked { entry, payload_bytes })))
        })?;
    }
    Ok(())
}

/// Index: the primary key of messages.
async fn payloads(
    transaction: &mut Transaction<'_>,
    application: ApplicationKey,
    entries: &[MessageEntry],
) -> Result<BTreeMap<i64, Bytes>, Failure> {
    let statement = "\
        select key, payload from messages \
        where application = $1 and key = any($2) and payload is not null";
    let keys: Vec<i64> = entries.iter().map(|entry| entry.key.0).collect();
    let columns = [int8(application.0), int8_array(keys)];
    let rows = transaction.query(statement, &parameters(&columns)).await?;
    let payloads = rows
        .iter()
        .map(|row| Ok((field(row, "key")?, Bytes::from(field::<Vec<u8>>(row, "payload")?))));
    payloads.collect()
}

fn entry(row: &Row) -> Result<MessageEntry, Error> {
    let channels: &str = field(row, "channels")?;
    let gone: bool = field(row, "gone")?;
    Ok(MessageEntry {
        key: MessageKey(field(row, "key")?),
        application: ApplicationKey(field(row, "application")?),
        id: id(row, "id")?,
        event_type: field(row, "event_type")?,
        event_id: field(row, "event_id")?,
        channels: serde_json::from_str(channels).map_err(|error| damaged("channels", error))?,
        content_type: field(row, "content_type")?,
        policy: field(row, "policy")?,
        deliver_at: optional_moment(row, "deliver_at")?,
        only: field::<Option<i64>>(row, "only_endpoint")?.map(EndpointKey),
        received_at: moment(row, "received_at")?,
        payload: if gone { Payload::Gone } else { Payload::Omitted },
    })
}
