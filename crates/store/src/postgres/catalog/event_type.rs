//! Event types.

use domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::Error;
use crate::catalog::{Changed, Check, Edit, EventType, Schemas, edit};
use crate::page::{Direction, Listed, Page};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{int8, parameters, text};
use crate::postgres::io::link::Transaction;
use crate::postgres::io::wake::{CHANGED, call};
use crate::postgres::page::Walk;
use crate::postgres::row::{document, field, moment, write};

const MISSING: Error = Error::Missing("event type");

/// Creates an event type.
///
/// Index: the primary key of event_types.
pub(crate) async fn create(store: &Postgres, event_type: EventType) -> Result<(), Failure> {
    let statement = "\
        insert into event_types (name, settings, created_at, updated_at) values ($1, $2, $3, $4) \
        on conflict (name) do nothing";
    let name = event_type.name.clone();
    let columns = [
        text(event_type.name),
        text(write("settings", &event_type.settings)?),
        int8(event_type.created_at.as_micros()),
        int8(event_type.updated_at.as_micros()),
    ];
    let mut transaction = store.write().await?;
    let result = async {
        match transaction.execute(statement, &parameters(&columns)).await? {
            0 => Err(Error::Taken { what: "event type", name }.into()),
            _ => changed(&mut transaction).await,
        }
    }
    .await;
    transaction.end(result).await
}

/// Changes an event type by a function of its row as it is.
pub(super) async fn change(
    store: &Postgres,
    name: String,
    change: Edit<EventType>,
    at: Timestamp,
) -> Result<Changed<EventType>, Failure> {
    let mut transaction = store.write().await?;
    let result = change_in(&mut transaction, &name, &change, at).await;
    transaction.end(result).await
}

async fn change_in(
    transaction: &mut Transaction<'_>,
    name: &str,
    change: &Edit<EventType>,
    at: Timestamp,
) -> Result<Changed<EventType>, Failure> {
    let before = hold(transaction, name).await?;
    let Some(after) = edit::event_type(&before, change, at)? else {
        return Ok(Changed::nothing(before));
    };
    rewrite(transaction, &after).await?;
    changed(transaction).await?;
    Ok(Changed { before, after })
}

/// Reads an event type's row and holds it until the transaction ends.
///
/// Index: the primary key of event_types.
async fn hold(transaction: &mut Transaction<'_>, name: &str) -> Result<EventType, Failure> {
    let statement = "select * from event_types where name = $1 for update";
    let row = transaction.one(statement, &[(&name, Type::TEXT)]).await?;
    Ok(event_type(&row.ok_or(MISSING)?)?)
}

/// Index: the primary key of event_types.
async fn rewrite(transaction: &mut Transaction<'_>, event_type: &EventType) -> Result<(), Failure> {
    let statement = "update event_types set settings = $2, updated_at = $3 where name = $1";
    let columns = [
        text(event_type.name.as_str()),
        text(write("settings", &event_type.settings)?),
        int8(event_type.updated_at.as_micros()),
    ];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}

/// Counts a change and calls the other nodes, so that they read event types again.
///
/// Index: the primary key of counters.
async fn changed(transaction: &mut Transaction<'_>) -> Result<(), Failure> {
    let statement = "update counters set value = value + 1 where name = 'event_types'";
    transaction.execute(statement, &[]).await?;
    call(transaction, CHANGED).await
}

/// Index: the primary key of event_types.
pub(crate) async fn find(store: &Postgres, name: String) -> Result<EventType, Failure> {
    let statement = "select * from event_types where name = $1";
    let row = store.one(statement, &[(&name, Type::TEXT)]).await?;
    Ok(event_type(&row.ok_or(MISSING)?)?)
}

/// Removes an event type if a check of its row allows it.
pub(crate) async fn remove(
    store: &Postgres,
    name: String,
    check: Check<EventType>,
) -> Result<(), Failure> {
    store.writing(async |transaction| remove_in(transaction, &name, &check).await).await
}

/// Index: the primary key of event_types.
async fn remove_in(
    transaction: &mut Transaction<'_>,
    name: &str,
    check: &Check<EventType>,
) -> Result<(), Failure> {
    check(&hold(transaction, name).await?).map_err(Error::Declined)?;
    let statement = "delete from event_types where name = $1";
    transaction.execute(statement, &[(&name, Type::TEXT)]).await?;
    changed(transaction).await
}

/// Index: the primary key of event_types.
pub(crate) async fn list(
    store: &Postgres,
    schemas: Schemas,
    page: Page<String>,
) -> Result<Listed<EventType, String>, Failure> {
    let statement = "\
        select * from ( \
            select t.*, sum(t.row_bytes) over (order by t.name {direction}) as so_far \
            from ( \
                select *, octet_length(settings) as row_bytes from event_types \
                where $1::text is null or name {compare} $1 \
                order by name {direction} limit $2) t) t \
        where so_far - row_bytes < $3 order by name {direction}";
    let by_name = (Direction::Ascending, EventType::bytes as fn(&_) -> _);
    let mut walk = Walk::new(&store.notes, page, by_name);
    let statement = walk.direct(statement);
    while let Some((place, rows)) = walk.next() {
        let mut transaction = store.read().await?;
        let most_bytes = walk.most_bytes();
        let parameters =
            [(&place as _, Type::TEXT), (&rows as _, Type::INT8), (&most_bytes as _, Type::INT8)];
        let result = transaction.query(&statement, &parameters).await;
        let rows = transaction.end(result).await?;
        walk.take(&rows, |row| {
            let entry = event_type(row)?.with(schemas);
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
