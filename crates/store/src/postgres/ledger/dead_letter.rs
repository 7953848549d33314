//! Dead letters of a whole application.

use tokio_postgres::types::Type;

use super::super::Postgres;
use super::super::columns::{parameters, single};
use super::super::failure::Failure;
use super::super::link::Transaction;
use super::super::page::{Order, Walk};
use super::delivery::{entry, is_wanted};
use crate::Error;
use crate::keys::{ApplicationKey, EndpointKey, MessageKey};
use crate::ledger::{DeliveryEntry, DeliveryFilter};
use crate::page::{Listed, Page};

type Place = (MessageKey, EndpointKey);

/// Lists an application's dead letters, newest message first.
pub(super) async fn list(
    store: &Postgres,
    application: ApplicationKey,
    filter: DeliveryFilter,
    page: Page<Place>,
) -> Result<Listed<DeliveryEntry, Place>, Failure> {
    let mut walk = Walk::new(page, Order::Descending);
    let mut transaction = store.read().await?;
    let result = walk_list(&mut transaction, application, &filter, &mut walk).await;
    transaction.end(result).await?;
    Ok(walk.finish())
}

/// Indexes: deliveries_dead, the primary key of messages.
async fn walk_list(
    transaction: &mut Transaction<'_>,
    application: ApplicationKey,
    filter: &DeliveryFilter,
    walk: &mut Walk<DeliveryEntry, Place>,
) -> Result<(), Failure> {
    let statement = "\
        select d.*, m.id, m.event_type, m.received_at \
        from ( \
            select * from deliveries \
            where application = $1 and state = 2 \
              and ($2::bigint is null or (message, endpoint) {compare} ($2, $3)) \
            order by message {direction}, endpoint {direction} limit $4) d \
        join messages m on m.application = d.application and m.key = d.message \
        order by d.message {direction}, d.endpoint {direction}";
    let statement = walk.direct(statement);
    while let Some((place, rows)) = walk.next() {
        let columns = [
            single(application.0, Type::INT8),
            single(place.map(|(message, _)| message.0), Type::INT8),
            single(place.map(|(_, endpoint)| endpoint.0), Type::INT8),
            single(rows, Type::INT8),
        ];
        let rows = transaction.query(&statement, &parameters(&columns)).await?;
        let entries = rows.iter().map(|row| {
            let entry = entry(row)?;
            let place = (entry.key.message, entry.key.endpoint);
            Ok((place, Some(entry).filter(|entry| is_wanted(entry, filter))))
        });
        walk.take(entries.collect::<Result<_, Error>>()?);
    }
    Ok(())
}
