//! Secrets: numbered per endpoint, the highest is the current one, each sealed for its very row.

use domain::time::Timestamp;
use rusqlite::{Connection, params};

use crate::catalog::{NewSecret, Secret};
use crate::keys::{ApplicationKey, EndpointKey};
use crate::sqlite::io::writer::Writing;
use crate::sqlite::row;
use crate::{Error, Vault, limits};

/// Makes a secret the current one.
pub(crate) fn add(
    writing: &Writing<'_>,
    application: ApplicationKey,
    endpoint: EndpointKey,
    secret: &Secret,
) -> Result<(), Error> {
    let number = next_number(writing.connection, endpoint)?;
    let place = place(application, endpoint, number);
    let sealed = writing.vault.seal(&place, secret.text.as_bytes())?;
    let sql = "INSERT INTO endpoint_secrets (endpoint, number, sealed, created_at, expires_at)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    writing.connection.prepare_cached(sql)?.execute(params![
        endpoint.0,
        number,
        sealed,
        secret.created_at.as_micros(),
        row::micros_if_any(secret.expires_at),
    ])?;
    Ok(())
}

/// Makes a secret the current one unless it is that already, and tells whether it did.
pub(crate) fn replace(
    writing: &Writing<'_>,
    place: (ApplicationKey, EndpointKey),
    new: &NewSecret,
) -> Result<bool, Error> {
    let secrets = live(writing.connection, writing.vault, place, new.secret.created_at)?;
    if secrets.first().is_some_and(|current| current.text == new.secret.text) {
        return Ok(false);
    }
    push(writing, place, new).map(|()| true)
}

fn push(
    writing: &Writing<'_>,
    (application, endpoint): (ApplicationKey, EndpointKey),
    NewSecret { secret, grace_ends }: &NewSecret,
) -> Result<(), Error> {
    let connection = writing.connection;
    if count_old(connection, endpoint, secret.created_at)? >= limits::OLD_SECRETS {
        return Err(limits::too_many_secrets());
    }
    expire(connection, endpoint, *grace_ends)?;
    add(writing, application, endpoint, &Secret { expires_at: None, ..secret.clone() })
}

/// Returns the secrets that sign at a moment, newest first. Needs the primary key of
/// `endpoint_secrets`.
pub(super) fn live(
    connection: &Connection,
    vault: &Vault,
    (application, endpoint): (ApplicationKey, EndpointKey),
    at: Timestamp,
) -> Result<Vec<Secret>, Error> {
    let sql = "SELECT number, sealed, created_at, expires_at FROM endpoint_secrets
        WHERE endpoint = ?1 AND (expires_at IS NULL OR expires_at > ?2)
        ORDER BY number DESC";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![endpoint.0, at.as_micros()])?;
    let mut secrets = Vec::new();
    while let Some(row) = rows.next()? {
        let place = place(application, endpoint, row.get("number")?);
        let sealed: Vec<u8> = row.get("sealed")?;
        let text = String::from_utf8(vault.open(&place, &sealed)?)
            .map_err(|_| Error::Damaged { what: place, text: "it is no text".to_owned() })?;
        secrets.push(Secret {
            text,
            created_at: row::time(row, "created_at")?,
            expires_at: row::time_if_any(row, "expires_at")?,
        });
    }
    Ok(secrets)
}

/// Needs the primary key of `endpoint_secrets`.
fn next_number(connection: &Connection, endpoint: EndpointKey) -> Result<i64, Error> {
    let sql = "SELECT coalesce(max(number), 0) + 1 FROM endpoint_secrets WHERE endpoint = ?1";
    Ok(connection.prepare_cached(sql)?.query_row([endpoint.0], |row| row.get(0))?)
}

/// Needs the primary key of `endpoint_secrets`.
fn count_old(
    connection: &Connection,
    endpoint: EndpointKey,
    at: Timestamp,
) -> Result<usize, Error> {
    let sql = "SELECT count(*) FROM endpoint_secrets WHERE endpoint = ?1 AND expires_at > ?2";
    let parameters = params![endpoint.0, at.as_micros()];
    Ok(connection.prepare_cached(sql)?.query_row(parameters, |row| row.get(0))?)
}

/// A secret whose end is set already does not live longer because of another one. Needs the
/// primary key of `endpoint_secrets`.
fn expire(connection: &Connection, endpoint: EndpointKey, at: Timestamp) -> Result<(), Error> {
    let sql = "UPDATE endpoint_secrets SET expires_at = min(coalesce(expires_at, ?1), ?1)
        WHERE endpoint = ?2";
    connection.prepare_cached(sql)?.execute(params![at.as_micros(), endpoint.0])?;
    Ok(())
}

/// Names the place that a secret is sealed for.
fn place(application: ApplicationKey, endpoint: EndpointKey, number: i64) -> String {
    let (application, endpoint) = (application.0, endpoint.0);
    format!("endpoint_secrets, application {application}, endpoint {endpoint}, secret {number}")
}
