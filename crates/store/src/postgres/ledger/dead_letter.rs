//! Dead letters of a whole application.

use std::collections::BTreeSet;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::Postgres;
use super::super::columns::{column, parameters, single};
use super::super::failure::Failure;
use super::super::link::Transaction;
use super::super::page::{Order, Walk};
use super::super::row::field;
use super::delivery::entry;
use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
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
    let mut walk = Walk::new(&store.notes, page, Order::Descending);
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
    walk: &mut Walk<'_, DeliveryEntry, Place>,
) -> Result<(), Failure> {
    let statement = "\
        select d.*, m.id, m.event_type, m.received_at, m.policy \
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
        walk.take(&rows, |row| {
            let entry = entry(row)?;
            let place = (entry.key.message, entry.key.endpoint);
            Ok((place, Some(entry).filter(|entry| filter.wants(entry))))
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
    let mut walk = Walk::new(&store.notes, page, Order::Descending);
    let mut transaction = store.write().await?;
    let result = match walk_list(&mut transaction, application, &filter, &mut walk).await {
        Ok(()) => purge_in(&mut transaction, application, walk.finish()).await,
        Err(failure) => Err(failure),
    };
    transaction.end(result).await
}

async fn purge_in(
    transaction: &mut Transaction<'_>,
    application: ApplicationKey,
    listed: Listed<DeliveryEntry, Place>,
) -> Result<Listed<DeliveryKey, Place>, Failure> {
    let Listed { entries, reached, done } = listed;
    let mut entries: Vec<_> = entries.into_iter().map(|entry| entry.key).collect();
    let removed = remove(transaction, application, &entries).await?;
    // What is missing was replayed, or removed by somebody else, in the meantime.
    entries.retain(|key| removed.contains(&(key.message, key.endpoint)));
    Ok(Listed { entries, reached, done })
}

/// Indexes: the primary keys of deliveries and attempts. Deliveries are locked in the order in which
/// a settle locks them; attempts are found by walking back from each one's last.
async fn remove(
    transaction: &mut Transaction<'_>,
    application: ApplicationKey,
    keys: &[DeliveryKey],
) -> Result<BTreeSet<Place>, Failure> {
    let statement = "\
        with recursive held as materialized ( \
            select d.endpoint, d.message, d.last_attempt \
            from unnest($2::bigint[], $3::bigint[]) i (endpoint, message) \
            join deliveries d on d.application = $1 and d.endpoint = i.endpoint \
                and d.message = i.message \
            where d.state = 2 \
            order by d.endpoint, d.message for update of d), \
        lost as ( \
            delete from deliveries d using held \
            where d.application = $1 and d.endpoint = held.endpoint \
              and d.message = held.message), \
        chain as ( \
            select endpoint, last_attempt as id from held where last_attempt is not null \
            union all \
            select a.endpoint, a.previous \
            from chain join attempts a on a.application = $1 and a.endpoint = chain.endpoint \
                and a.id = chain.id \
            where a.previous is not null), \
        tried as ( \
            delete from attempts a using chain \
            where a.application = $1 and a.endpoint = chain.endpoint and a.id = chain.id) \
        select endpoint, message from held";
    let columns = [
        single(application.0, Type::INT8),
        column(keys, Type::INT8_ARRAY, |key| key.endpoint.0),
        column(keys, Type::INT8_ARRAY, |key| key.message.0),
    ];
    let rows = transaction.query(statement, &parameters(&columns)).await?;
    let place =
        |row: &Row| Ok((MessageKey(field(row, "message")?), EndpointKey(field(row, "endpoint")?)));
    Ok(rows.iter().map(place).collect::<Result<_, Error>>()?)
}
