//! API tokens.

use domain::ids::ApplicationId;
use domain::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec;
use super::reader::Reading;
use super::walk::{self, List};
use crate::catalog::{Scope, Token};
use crate::keys::ApplicationKey;
use crate::page::{Listed, Page};
use crate::{Error, limits};

/// How many tokens a step of pruning looks at.
const LOOKED_AT: i64 = 256;

/// Keeps a token. Keeping the same one again changes nothing.
pub(super) fn create(connection: &Connection, token: &Token) -> Result<(), Error> {
    match by_id(connection, &token.id)? {
        Some(known) if known == *token => Ok(()),
        Some(known) => Err(Error::Taken { what: "token", name: known.id }),
        None => insert(connection, token),
    }
}

pub(super) fn find(connection: &Connection, id: &str) -> Result<Token, Error> {
    by_id(connection, id)?.ok_or(Error::Missing("token"))
}

/// The first time stands. Needs the primary key of `tokens`.
pub(super) fn revoke(connection: &Connection, id: &str, at: Timestamp) -> Result<(), Error> {
    let sql = "UPDATE tokens SET revoked_at = coalesce(revoked_at, ?1) WHERE id = ?2";
    match connection.prepare_cached(sql)?.execute(params![at.as_micros(), id])? {
        0 => Err(Error::Missing("token")),
        _ => Ok(()),
    }
}

/// Revokes what is not revoked yet. Needs the index `tokens_application`.
pub(super) fn expire(
    connection: &Connection,
    application: ApplicationId,
    at: Timestamp,
) -> Result<u32, Error> {
    let sql = "UPDATE tokens SET revoked_at = ?1 WHERE application = ?2 AND revoked_at IS NULL";
    let parameters = params![at.as_micros(), application.as_bytes()];
    let revoked = connection.prepare_cached(sql)?.execute(parameters)?;
    Ok(u32::try_from(revoked).unwrap_or(u32::MAX))
}

/// Revokes what a deleted application leaves. Needs the primary key of `applications` and the index
/// `tokens_application`.
pub(super) fn expire_with(
    connection: &Connection,
    application: ApplicationKey,
    at: Timestamp,
) -> Result<(), Error> {
    let sql = "UPDATE tokens SET revoked_at = ?1 WHERE revoked_at IS NULL
            AND application = (SELECT id FROM applications WHERE key = ?2)";
    connection.prepare_cached(sql)?.execute([at.as_micros(), application.0])?;
    Ok(())
}

/// Removes tokens of an application. Needs the primary key of `applications` and the index
/// `tokens_application`.
pub(super) fn remove_with(
    connection: &Connection,
    application: ApplicationKey,
    most: usize,
) -> Result<usize, Error> {
    let sql = "DELETE FROM tokens WHERE id IN (
            SELECT id FROM tokens
            WHERE application = (SELECT id FROM applications WHERE key = ?1) LIMIT ?2)";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    Ok(connection.prepare_cached(sql)?.execute([application.0, most])?)
}

/// Forgets tokens that expired or were revoked long enough ago: so many are looked at in a step, from
/// where the last step stopped.
pub(super) fn forget(connection: &Connection, now: Timestamp, most: usize) -> Result<usize, Error> {
    let start = looked_up_to(connection)?;
    let end = end_of_step(connection, &start)?;
    let removed = remove_between(connection, (&start, end.as_deref()), now, most)?;
    // With nothing left of the allowance there may be something left between these.
    let next = if removed < most { end.unwrap_or_default() } else { start.clone() };
    if next != start {
        keep_looked_up_to(connection, &next)?;
    }
    Ok(removed)
}

/// Needs the primary key of `meta`.
fn looked_up_to(connection: &Connection) -> Result<String, Error> {
    let sql = "SELECT value FROM meta WHERE name = 'tokens_up_to'";
    // What cannot be read is a walk that begins anew.
    let read = |row: &Row<'_>| Ok(row.get_ref(0)?.as_str().unwrap_or_default().to_owned());
    let found = connection.prepare_cached(sql)?.query_row([], read).optional()?;
    Ok(found.unwrap_or_default())
}

/// Needs the primary key of `meta`.
fn keep_looked_up_to(connection: &Connection, id: &str) -> Result<(), Error> {
    let sql = "INSERT INTO meta (name, value) VALUES ('tokens_up_to', ?1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute([id])?;
    Ok(())
}

/// Returns the last token that a step looks at; none if it comes to the end. Needs the primary key
/// of `tokens`.
fn end_of_step(connection: &Connection, start: &str) -> Result<Option<String>, Error> {
    let sql = "SELECT id FROM tokens WHERE id > ?1 ORDER BY id LIMIT 1 OFFSET ?2";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row(params![start, LOOKED_AT - 1], |row| row.get(0)).optional()?)
}

/// Needs the primary key of `tokens`.
fn remove_between(
    connection: &Connection,
    (start, end): (&str, Option<&str>),
    now: Timestamp,
    most: usize,
) -> Result<usize, Error> {
    let sql = "DELETE FROM tokens WHERE id IN (
            SELECT id FROM tokens WHERE id > ?1 AND (?2 IS NULL OR id <= ?2)
                AND (expires_at < ?3 OR revoked_at < ?3)
            ORDER BY id LIMIT ?4)";
    let before = now.before(limits::TOKENS).as_micros();
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    Ok(connection.prepare_cached(sql)?.execute(params![start, end, before, most])?)
}

/// Needs the primary key of `tokens`.
pub(super) fn list(
    reading: &Reading<'_>,
    page: &Page<String>,
) -> Result<Listed<Token, String>, Error> {
    let list = List {
        onwards: "SELECT id, hash, name, application, read_only, created_at, expires_at, revoked_at
            FROM tokens WHERE id > ?1 ORDER BY id LIMIT ?2",
        backwards: "SELECT id, hash, name, application, read_only, created_at, expires_at,
                revoked_at
            FROM tokens WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
        whose: None,
        beginning: vec![Value::Text(String::new())],
        at: |name: &String| vec![Value::Text(name.clone())],
        page,
    };
    walk::page(reading.connection, reading.notes, list, |row| {
        let token = of(row)?;
        Ok((token.id.clone(), Some(token)))
    })
}

/// Needs the primary key of `tokens`.
fn by_id(connection: &Connection, id: &str) -> Result<Option<Token>, Error> {
    let sql = "SELECT id, hash, name, application, read_only, created_at, expires_at, revoked_at
        FROM tokens WHERE id = ?1";
    Ok(connection.prepare_cached(sql)?.query_row([id], of).optional()?)
}

fn insert(connection: &Connection, token: &Token) -> Result<(), Error> {
    let application = match &token.scope {
        Scope::Admin => None,
        Scope::Application(id) => Some(id.as_bytes()),
    };
    let sql = "INSERT INTO tokens (
            id, hash, name, application, read_only, created_at, expires_at, revoked_at
        ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    connection.prepare_cached(sql)?.execute(params![
        token.id,
        token.hash,
        token.name,
        application,
        token.read_only,
        token.created_at.as_micros(),
        codec::micros_if_any(token.expires_at),
        codec::micros_if_any(token.revoked_at),
    ])?;
    Ok(())
}

fn of(row: &Row<'_>) -> rusqlite::Result<Token> {
    Ok(Token {
        id: row.get("id")?,
        hash: row.get("hash")?,
        name: row.get("name")?,
        scope: codec::id_if_any(row, "application")?.map_or(Scope::Admin, Scope::Application),
        read_only: row.get("read_only")?,
        created_at: codec::time(row, "created_at")?,
        expires_at: codec::time_if_any(row, "expires_at")?,
        revoked_at: codec::time_if_any(row, "revoked_at")?,
    })
}
