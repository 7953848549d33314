//! Signing secrets, sealed for their endpoint.

use domain::time::Timestamp;
use tokio_postgres::Row;

use crate::catalog::{NewSecret, Secret};
use crate::keys::{ApplicationKey, EndpointKey};
use crate::postgres::Postgres;
use crate::postgres::catalog::endpoint::MISSING;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{bytea, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::row::{damaged, field, moment, optional_moment};
use crate::{Error, Vault, limits};

/// Where an endpoint is.
type Place = (ApplicationKey, EndpointKey);

/// Returns the secrets that sign now, newest first.
///
/// Index: the primary key of endpoint_secrets.
pub(super) async fn live(
    store: &Postgres,
    place: Place,
    at: Timestamp,
) -> Result<Vec<Secret>, Failure> {
    let rows = store.reading(async |transaction| live_in(transaction, place, at).await).await?;
    Ok(rows.iter().map(|row| secret(row, &store.vault, place)).collect::<Result<_, _>>()?)
}

async fn live_in(
    transaction: &mut Transaction<'_>,
    place: Place,
    at: Timestamp,
) -> Result<Vec<Row>, Failure> {
    check(transaction, place).await?;
    let statement = "\
        select * from endpoint_secrets \
        where application = $1 and endpoint = $2 and (expires_at is null or expires_at > $3) \
        order by number desc";
    let (application, endpoint) = place;
    let columns = [int8(application.0), int8(endpoint.0), int8(at.as_micros())];
    transaction.query(statement, &parameters(&columns)).await
}

/// Makes a secret the current one unless it is that already, and tells whether it did.
pub(crate) async fn replace(
    transaction: &mut Transaction<'_>,
    vault: &Vault,
    place: Place,
    new: &NewSecret,
) -> Result<bool, Failure> {
    let living = live_in(transaction, place, new.secret.created_at).await?;
    let current = living.first().map(|row| secret(row, vault, place)).transpose()?;
    if current.is_some_and(|current| current.text == new.secret.text) {
        return Ok(false);
    }
    push(transaction, vault, (place, &living), new).await.map(|()| true)
}

async fn push(
    transaction: &mut Transaction<'_>,
    vault: &Vault,
    (place, living): (Place, &[Row]),
    NewSecret { secret, grace_ends }: &NewSecret,
) -> Result<(), Failure> {
    let ends = living.iter().map(|row| optional_moment(row, "expires_at"));
    let old = ends.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().count();
    if old >= limits::OLD_SECRETS {
        return Err(limits::too_many_secrets().into());
    }
    retire(transaction, place, *grace_ends).await?;
    let current = Secret { expires_at: None, ..secret.clone() };
    insert(transaction, vault, place, &current).await
}

/// A secret whose end is set already does not live longer because of another one.
///
/// Index: the primary key of endpoint_secrets.
async fn retire(
    transaction: &mut Transaction<'_>,
    (application, endpoint): Place,
    grace_ends: Timestamp,
) -> Result<(), Failure> {
    let statement = "\
        update endpoint_secrets set expires_at = least(expires_at, $3) \
        where application = $1 and endpoint = $2";
    let columns = [int8(application.0), int8(endpoint.0), int8(grace_ends.as_micros())];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}

/// Index: the primary key of endpoint_secrets.
pub(crate) async fn insert(
    transaction: &mut Transaction<'_>,
    vault: &Vault,
    place: Place,
    secret: &Secret,
) -> Result<(), Failure> {
    let statement = "\
        insert into endpoint_secrets (application, endpoint, sealed, created_at, expires_at) \
        values ($1, $2, $3, $4, $5)";
    let (application, endpoint) = place;
    let columns = [
        int8(application.0),
        int8(endpoint.0),
        bytea(vault.seal(&context(place), secret.text.as_bytes())?),
        int8(secret.created_at.as_micros()),
        int8(secret.expires_at.map(Timestamp::as_micros)),
    ];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}

/// Reads a secret's row.
pub(super) fn secret(row: &Row, vault: &Vault, place: Place) -> Result<Secret, Error> {
    let text = vault.open(&context(place), field(row, "sealed")?)?;
    let text = String::from_utf8(text).map_err(|_| damaged("sealed", "it is no text"))?;
    let (created_at, expires_at) =
        (moment(row, "created_at")?, optional_moment(row, "expires_at")?);
    Ok(Secret { text, created_at, expires_at })
}

/// Tells a missing endpoint from one without secrets.
///
/// Index: the primary key of endpoints.
pub(super) async fn check(
    transaction: &mut Transaction<'_>,
    (application, endpoint): Place,
) -> Result<(), Failure> {
    let statement = "\
        select 1 from endpoints e \
        join applications a on a.key = e.application and a.deleted_at is null \
        where e.application = $1 and e.key = $2 and e.state <> 3";
    let columns = [int8(application.0), int8(endpoint.0)];
    let row = transaction.one(statement, &parameters(&columns)).await?;
    row.map(drop).ok_or_else(|| MISSING.into())
}

fn context((application, endpoint): Place) -> String {
    format!("endpoint_secrets, application {}, endpoint {}, secret", application.0, endpoint.0)
}
