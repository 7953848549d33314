//! Dead letters of a whole application.

use std::collections::BTreeSet;

use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{DeliveryEntry, DeliveryFilter};
use crate::page::{Direction, Listed, Page};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{boolean, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::ledger::delivery::entry;
use crate::postgres::page::Walk;
use crate::postgres::row::{field, is_missing};
use crate::postgres::upkeep::dead_letters;

type Place = (MessageKey, EndpointKey);

const NEWEST_FIRST: (Direction, fn(&DeliveryEntry) -> usize) =
    (Direction::Descending, DeliveryEntry::bytes);

/// Lists an application's dead letters, newest message first.
pub(crate) async fn list(
    store: &Postgres,
    application: ApplicationKey,
    filter: DeliveryFilter,
    page: Page<Place>,
) -> Result<Listed<DeliveryEntry, Place>, Failure> {
    let mut walk = Walk::new(&store.notes, page, NEWEST_FIRST);
    store
        .reading(async |transaction| walk_list(transaction, application, &filter, &mut walk).await)
        .await?;
    Ok(walk.finish())
}

/// Indexes: deliveries_dead, the primary key of messages.
async fn walk_list(
    transaction: &mut Transaction<'_>,
    application: ApplicationKey,
    filter: &DeliveryFilter,
    walk: &mut Walk<'_, DeliveryEntry, Place>,
) -> Result<(), Failure> {
    let statement = "\
        select d.*, m.id, m.event_type, m.received_at, case when $5 then m.policy end as policy \
        from ( \
            select * from deliveries \
            where application = $1 and state = 2 \
              and ($2::bigint is null or (message, endpoint) {compare} ($2, $3)) \
            order by message {direction}, endpoint {direction} limit $4) d \
        left join messages m on m.application = d.application and m.key = d.message \
        order by d.message {direction}, d.endpoint {direction}";
    let statement = walk.direct(statement);
    while let Some((place, rows)) = walk.next() {
        let columns = [
            int8(application.0),
            int8(place.map(|(message, _)| message.0)),
            int8(place.map(|(_, endpoint)| endpoint.0)),
            int8(rows),
            boolean(filter.with_policy),
        ];
        let rows = transaction.query(&statement, &parameters(&columns)).await?;
        walk.take(&rows, |row| {
            let place = (MessageKey(field(row, "message")?), EndpointKey(field(row, "endpoint")?));
            if is_missing(row, "id")? {
                return Ok((place, None));
            }
            let entry = entry(row)?;
            Ok((place, filter.takes(entry)))
        })?;
    }
    Ok(())
}

/// Removes the dead letters of a page, and their attempts.
pub(super) async fn purge(
    store: &Postgres,
    application: ApplicationKey,
    filter: DeliveryFilter,
    page: Page<Place>,
) -> Result<Listed<DeliveryKey, Place>, Failure> {
    let mut walk = Walk::new(&store.notes, page, NEWEST_FIRST);
    let mut transaction = store.write().await?;
    let result = match walk_list(&mut transaction, application, &filter, &mut walk).await {
        Ok(()) => purge_in(&mut transaction, walk.finish()).await,
        Err(failure) => Err(failure),
    };
    transaction.end(result).await
}

async fn purge_in(
    transaction: &mut Transaction<'_>,
    listed: Listed<DeliveryEntry, Place>,
) -> Result<Listed<DeliveryKey, Place>, Failure> {
    let Listed { entries, reached, done } = listed;
    let place = |key: &DeliveryKey| [key.application.0, key.message.0, key.endpoint.0];
    let mut entries: Vec<_> = entries.into_iter().map(|entry| entry.key).collect();
    let doomed: Vec<_> = entries.iter().map(place).collect();
    let removed: BTreeSet<_> =
        dead_letters::remove(transaction, &doomed, None).await?.into_iter().collect();
    // What is missing was replayed, or removed by somebody else, in the meantime.
    entries.retain(|key| removed.contains(&place(key)));
    Ok(Listed { entries, reached, done })
}
