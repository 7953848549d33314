//! What decides about an item: its application, its own id, its keys, its endpoints.

use domain::ids::MessageId;
use domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::keys::MessageKey;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{column, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::row::{at_row, field, optional_id, optional_moment};
use crate::queue::{Accept, Accepted};
use crate::{Error, codes, limits};

/// An earlier use of an idempotency key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) message: MessageId,
    pub(crate) at: Timestamp,
}

/// What was found about one item.
pub(crate) struct Seen {
    /// The application's revision, if it is there. It does not change before the transaction ends.
    pub(crate) revision: Option<i64>,
    /// The uid that the application bears; nor does this change.
    pub(crate) uid: Option<String>,
    /// The item's own message, if it had taken effect before.
    pub(crate) own: Option<MessageKey>,
    /// Who used its idempotency key, unless the row that says so is damaged.
    pub(crate) same_key: Result<Option<Used>, Error>,
    /// The message that has its event id, unless its row is damaged.
    pub(crate) same_event_id: Result<Option<MessageId>, Error>,
    /// An endpoint that is not there.
    pub(crate) unknown_endpoint: Option<i64>,
}

/// Looks at these items of a batch, and holds their applications' revisions. Also takes so many
/// numbers from the sequence, ascending.
///
/// Indexes: the primary keys of applications, idempotency and endpoints; messages_id and
/// messages_event_id.
pub(crate) async fn look(
    transaction: &mut Transaction<'_>,
    accepts: &[Accept],
    round: &[usize],
    numbers: usize,
) -> Result<(Vec<Seen>, Vec<i64>), Failure> {
    let statement = "\
        with input as materialized ( \
            select * from unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::text[], $5::bigint[]) \
                with ordinality as i (application, id, hash, event_id, received_at, position)), \
        held as materialized ( \
            select key, revision, uid from applications \
            where key = any($1) and deleted_at is null \
            order by key for share), \
        unknown as ( \
            select d.position, min(d.endpoint) as endpoint \
            from unnest($6::bigint[], $7::bigint[], $8::bigint[]) d (position, application, endpoint) \
            where not exists ( \
                select 1 from endpoints e \
                where e.application = d.application and e.key = d.endpoint) \
            group by d.position) \
        select i.position, i.application, held.revision, held.uid, own.key as own, \
               k.hash, k.message as same_key, k.received_at as used_at, taken.key, taken.id as same_event_id, \
               unknown.endpoint as unknown_endpoint, \
               case when i.position = 1 then array( \
                   select nextval('numbers') from generate_series(1, $10)) end as numbers \
        from input i \
        left join held on held.key = i.application \
        left join messages own on own.application = i.application and own.id = i.id \
        left join idempotency k on k.application = i.application and k.hash = i.hash \
            and i.received_at - k.received_at < $9 \
        left join messages taken \
            on taken.application = i.application and taken.event_id = i.event_id \
        left join unknown on unknown.position = i.position \
        order by i.position";
    let items: Vec<&Accept> = round.iter().map(|position| &accepts[*position]).collect();
    let named = named(&items);
    let columns = [
        column(&items, Type::INT8_ARRAY, |item| item.application.0),
        column(&items, Type::BYTEA_ARRAY, |item| item.message.id.as_bytes().as_slice()),
        column(&items, Type::BYTEA_ARRAY, |item| item.idempotency.as_ref().map(|k| k.as_slice())),
        column(&items, Type::TEXT_ARRAY, |item| {
            // What has a NUL in it is nobody's event id here, and is refused later.
            item.message.event_id.as_deref().filter(|event_id| !event_id.contains('\0'))
        }),
        column(&items, Type::INT8_ARRAY, |item| item.message.received_at.as_micros()),
        column(&named, Type::INT8_ARRAY, |named| named.0),
        column(&named, Type::INT8_ARRAY, |named| named.1),
        column(&named, Type::INT8_ARRAY, |named| named.2),
        int8(codes::micros(limits::IDEMPOTENCY)),
        int8(i64::try_from(numbers).unwrap_or(0)),
    ];
    let rows = transaction.query(statement, &parameters(&columns)).await?;
    let seen = rows.iter().map(|row| {
        Ok(Seen {
            revision: field(row, "revision")?,
            uid: field(row, "uid")?,
            own: field::<Option<i64>>(row, "own")?.map(MessageKey),
            same_key: used(row).map_err(|error| at_row(row, error)),
            same_event_id: optional_id(row, "same_event_id").map_err(|error| at_row(row, error)),
            unknown_endpoint: field(row, "unknown_endpoint")?,
        })
    });
    let seen = seen.collect::<Result<_, Failure>>()?;
    let taken = rows.first().map(|row| field::<Vec<i64>>(row, "numbers")).transpose()?;
    Ok((seen, taken.unwrap_or_default()))
}

fn used(row: &Row) -> Result<Option<Used>, Error> {
    let (message, at) = (optional_id(row, "same_key")?, optional_moment(row, "used_at")?);
    Ok(message.zip(at).map(|(message, at)| Used { message, at }))
}

/// Lists the endpoints that the items name: the item's position from 1, application, endpoint.
fn named(items: &[&Accept]) -> Vec<(i64, i64, i64)> {
    let mut named = Vec::new();
    for (position, item) in (1..).zip(items) {
        let endpoints = item.deliveries.iter().map(|delivery| delivery.endpoint.0);
        named.extend(endpoints.map(|endpoint| (position, item.application.0, endpoint)));
    }
    named
}

/// Answers an item that had taken effect before, as it was answered then.
///
/// Index: the primary key of deliveries.
pub(crate) async fn own(
    transaction: &mut Transaction<'_>,
    accept: &Accept,
    message: MessageKey,
) -> Result<Accepted, Failure> {
    let statement = "\
        select coalesce(d.turn, 0) as turn \
        from unnest($3::bigint[]) with ordinality as i (endpoint, position) \
        left join deliveries d \
            on d.application = $1 and d.endpoint = i.endpoint and d.message = $2 \
        order by i.position";
    let endpoints: Vec<i64> = accept.deliveries.iter().map(|d| d.endpoint.0).collect();
    let parameters = [
        (&accept.application.0 as _, Type::INT8),
        (&message.0 as _, Type::INT8),
        (&endpoints as _, Type::INT8_ARRAY),
    ];
    let rows = transaction.query(statement, &parameters).await?;
    let turns = rows.iter().map(|row| field(row, "turn")).collect::<Result<_, _>>()?;
    Ok(Accepted::New { message, turns })
}
