//! Event types.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::Postgres;
use super::super::columns::{parameters, single};
use super::super::failure::Failure;
use super::super::page::{Order, Walk};
use super::super::row::{document, field, moment, write};
use crate::Error;
use crate::catalog::EventType;
use crate::page::{Listed, Page};

const MISSING: Error = Error::Missing("event type");

/// Creates an event type.
///
/// Index: the primary key of event_types.
pub(super) async fn create(store: &Postgres, event_type: EventType) -> Result<(), Failure> {
    let statement = "\
        insert into event_types (name, settings, created_at, updated_at) values ($1, $2, $3, $4) \
        on conflict (name) do nothing";
    let name = event_type.name.clone();
    match write_with(store, statement, event_type).await? {
        0 => Err(Error::Taken { what: "event type", name }.into()),
        _ => Ok(()),
    }
}

/// Creates or replaces an event type.
///
/// Index: the primary key of event_types.
pub(super) async fn put(store: &Postgres, event_type: EventType) -> Result<(), Failure> {
    let statement = "\
        insert into event_types (name, settings, created_at, updated_at) values ($1, $2, $3, $4) \
        on conflict (name) do update set settings = excluded.settings, \
            created_at = excluded.created_at, updated_at = excluded.updated_at";
    write_with(store, statement, event_type).await.map(drop)
}

/// Returns how many rows it wrote.
async fn write_with(
    store: &Postgres,
    statement: &str,
    event_type: EventType,
) -> Result<u64, Failure> {
    let columns = [
        single(event_type.name, Type::TEXT),
        single(write("settings", &event_type.settings)?, Type::TEXT),
        single(event_type.created_at.as_micros(), Type::INT8),
        single(event_type.updated_at.as_micros(), Type::INT8),
    ];
    let mut transaction = store.write().await?;
    let result = transaction.execute(statement, &parameters(&columns)).await;
    transaction.end(result).await
}

/// Index: the primary key of event_types.
pub(super) async fn find(store: &Postgres, name: String) -> Result<EventType, Failure> {
    let statement = "select * from event_types where name = $1";
    let mut transaction = store.read().await?;
    let result = transaction.one(statement, &[(&name, Type::TEXT)]).await;
    let row = transaction.end(result).await?;
    Ok(event_type(&row.ok_or(MISSING)?)?)
}

/// Index: the primary key of event_types.
pub(super) async fn remove(store: &Postgres, name: String) -> Result<(), Failure> {
    let statement = "delete from event_types where name = $1";
    let mut transaction = store.write().await?;
    let result = transaction.execute(statement, &[(&name, Type::TEXT)]).await;
    match transaction.end(result).await? {
        0 => Err(MISSING.into()),
        _ => Ok(()),
    }
}

/// Index: the primary key of event_types.
pub(super) async fn list(
    store: &Postgres,
    page: Page<String>,
) -> Result<Listed<EventType, String>, Failure> {
    let statement = "\
        select * from event_types where $1::text is null or name {compare} $1 \
        order by name {direction} limit $2";
    let mut walk = Walk::new(&store.notes, page, Order::Ascending);
    let statement = walk.direct(statement);
    while let Some((place, rows)) = walk.next() {
        let mut transaction = store.read().await?;
        let parameters = [(&place as _, Type::TEXT), (&rows as _, Type::INT8)];
        let result = transaction.query(&statement, &parameters).await;
        let rows = transaction.end(result).await?;
        walk.take(&rows, |row| {
            let entry = event_type(row)?;
            Ok((entry.name.clone(), Some(entry)))
        })?;
    }
    Ok(walk.finish())
}

fn event_type(row: &Row) -> Result<EventType, Error> {
    Ok(EventType {
        name: field(row, "name")?,
        settings: document(row, "settings")?,
        created_at: moment(row, "created_at")?,
        updated_at: moment(row, "updated_at")?,
    })
}
