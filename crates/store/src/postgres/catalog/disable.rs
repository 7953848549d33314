//! Disabling an endpoint, whatever else is changed about it at the same time.

use domain::endpoint::{Reason, State};
use domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::columns::{parameters, single};
use super::super::failure::Failure;
use super::super::link::Transaction;
use super::super::{Postgres, codes};
use super::application::changed;
use super::endpoint::{MISSING, endpoint, hidden};
use crate::catalog::{Endpoint, Touches};
use crate::keys::{ApplicationKey, EndpointKey};

/// Disables an endpoint that is not disabled yet.
pub(super) async fn disable(
    store: &Postgres,
    place: (ApplicationKey, EndpointKey),
    reason: Reason,
    at: Timestamp,
) -> Result<Endpoint, Failure> {
    let mut turn = store.turn(place.0).await?;
    loop {
        let mut transaction = turn.begin().await?;
        let result = disable_in(&mut transaction, place, reason, at).await;
        match transaction.end(result).await {
            Err(failure) if turn.again(&failure) => {}
            result => return Ok(endpoint(&result?, &store.vault)?),
        }
    }
}

async fn disable_in(
    transaction: &mut Transaction<'_>,
    place: (ApplicationKey, EndpointKey),
    reason: Reason,
    at: Timestamp,
) -> Result<Row, Failure> {
    // The application first, as every change of the catalog does; but its revision is raised only
    // if there is something to see.
    hold(transaction, place.0).await?;
    match change(transaction, place, reason, at).await? {
        Some(row) => {
            changed(transaction, place.0, Touches::FanOut).await.map_err(hidden)?;
            Ok(row)
        }
        None => Ok(as_it_is(transaction, place).await?.ok_or(MISSING)?),
    }
}

/// Index: the primary key of applications.
async fn hold(transaction: &mut Transaction<'_>, key: ApplicationKey) -> Result<(), Failure> {
    let statement = "\
        select 1 from applications where key = $1 and deleted_at is null for no key update";
    match transaction.one(statement, &[(&key.0, Type::INT8)]).await? {
        Some(_) => Ok(()),
        None => Err(MISSING.into()),
    }
}

/// Index: the primary key of endpoints.
async fn change(
    transaction: &mut Transaction<'_>,
    (application, key): (ApplicationKey, EndpointKey),
    reason: Reason,
    at: Timestamp,
) -> Result<Option<Row>, Failure> {
    let statement = "\
        update endpoints set state = $3, reason = $4, updated_at = $5 \
        where application = $1 and key = $2 and state <> 3 and state <> $3 \
        returning *";
    let (state, reason) = codes::state(State::Disabled(reason));
    let columns = [
        single(application.0, Type::INT8),
        single(key.0, Type::INT8),
        single(state, Type::INT2),
        single(reason, Type::INT2),
        single(at.as_micros(), Type::INT8),
    ];
    transaction.one(statement, &parameters(&columns)).await
}

/// Index: the primary key of endpoints.
async fn as_it_is(
    transaction: &mut Transaction<'_>,
    (application, key): (ApplicationKey, EndpointKey),
) -> Result<Option<Row>, Failure> {
    let statement = "select * from endpoints where application = $1 and key = $2 and state <> 3";
    let columns = [single(application.0, Type::INT8), single(key.0, Type::INT8)];
    transaction.one(statement, &parameters(&columns)).await
}
