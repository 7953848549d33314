//! API tokens.

use domain::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::Error;
use crate::catalog::token::{open_admin, seal_admin};
use crate::catalog::{Ends, Expiry, Granted, Scope, Token};
use crate::keys::ApplicationKey;
use crate::page::{Direction, Listed, Page};
use crate::sqlite::io::reader::Reading;
use crate::sqlite::io::writer::Writing;
use crate::sqlite::page::{self, List};
use crate::sqlite::row;

/// Keeps a token. Keeping the same one again changes nothing.
pub(crate) fn create(connection: &Connection, token: &Token) -> Result<(), Error> {
    match by_id(connection, &token.id)? {
        Some(known) if known == *token => Ok(()),
        Some(known) => Err(Error::Taken { what: "token", name: known.id }),
        None => match insert(connection, token)? {
            0 => Err(Error::Missing("application")),
            _ => Ok(()),
        },
    }
}

/// Keeps the hash of the configured admin token, and returns the one before. What stays as it was is not
/// written. Needs the primary key of `meta`.
pub(super) fn keep_admin(
    writing: &mut Writing<'_>,
    hash: Option<[u8; 32]>,
) -> Result<Option<[u8; 32]>, Error> {
    let find = "SELECT value FROM meta WHERE name = 'admin token'";
    let sealed: Option<Vec<u8>> =
        writing.connection.prepare_cached(find)?.query_row([], |row| row.get(0)).optional()?;
    let before = sealed.and_then(|sealed| open_admin(writing.vault, &sealed));
    if before == hash {
        return Ok(before);
    }
    let put = "INSERT INTO meta (name, value) VALUES ('admin token', ?1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    match hash {
        Some(hash) => {
            let sealed = seal_admin(writing.vault, &hash)?;
            writing.connection.prepare_cached(put)?.execute([sealed])?;
        }
        None => {
            let forget = "DELETE FROM meta WHERE name = 'admin token'";
            writing.connection.prepare_cached(forget)?.execute([])?;
        }
    }
    Ok(before)
}

pub(crate) fn find(connection: &Connection, id: &str) -> Result<Token, Error> {
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

/// Ends what is not revoked yet. Needs the index `tokens_application`.
pub(super) fn expire(connection: &Connection, expiry: &Expiry) -> Result<u32, Error> {
    let sql = match expiry.ends {
        Ends::Now(_) => {
            "UPDATE tokens SET revoked_at = ?1 WHERE application = ?2 AND revoked_at IS NULL
                AND (?3 IS NULL OR session IN (SELECT value FROM json_each(?3)))"
        }
        Ends::Later(_) => {
            "UPDATE tokens SET expires_at = min(coalesce(expires_at, ?1), ?1)
                WHERE application = ?2 AND revoked_at IS NULL
                AND (?3 IS NULL OR session IN (SELECT value FROM json_each(?3)))"
        }
    };
    let (Ends::Now(at) | Ends::Later(at)) = expiry.ends;
    let sessions = Some(&expiry.sessions).filter(|sessions| !sessions.is_empty());
    let sessions = sessions.map(row::text_of).transpose()?;
    let parameters = params![at.as_micros(), expiry.application.as_bytes(), sessions];
    let ended = connection.prepare_cached(sql)?.execute(parameters)?;
    Ok(u32::try_from(ended).unwrap_or(u32::MAX))
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

/// Needs the primary key of `tokens`.
pub(crate) fn list(
    reading: &Reading<'_>,
    page: &Page<String>,
) -> Result<Listed<Token, String>, Error> {
    let list = List {
        statement:
            "SELECT id, hash, name, application, read_only, grants, session, created_at, expires_at,
                revoked_at
            FROM tokens WHERE id {compare} ?1 ORDER BY id {direction} LIMIT ?2",
        direction: Direction::Ascending,
        whose: None,
        beginning: vec![Value::Text(String::new())],
        at: |name: &String| vec![Value::Text(name.clone())],
        bytes: Token::bytes,
        page,
    };
    page::page(reading.connection, reading.notes, list, |row| {
        let token = of(row)?;
        Ok((token.id.clone(), Some(token)))
    })
}

/// Needs the primary key of `tokens`.
fn by_id(connection: &Connection, id: &str) -> Result<Option<Token>, Error> {
    let sql =
        "SELECT id, hash, name, application, read_only, grants, session, created_at, expires_at,
            revoked_at
        FROM tokens WHERE id = ?1";
    Ok(connection.prepare_cached(sql)?.query_row([id], of).optional()?)
}

/// Inserts nothing if the token is for an application that is not there. Needs the index
/// `applications_id`.
fn insert(connection: &Connection, token: &Token) -> Result<usize, Error> {
    let application = match &token.scope {
        Scope::Admin => None,
        Scope::Application(id) => Some(id.as_bytes()),
    };
    let granted = Some(&token.granted).filter(|granted| **granted != Granted::default());
    let sql = "INSERT INTO tokens (
            id, hash, name, application, read_only, created_at, expires_at, revoked_at, grants,
            session
        ) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 WHERE ?4 IS NULL
            OR EXISTS (SELECT 1 FROM applications WHERE id = ?4 AND deleted_at IS NULL)";
    Ok(connection.prepare_cached(sql)?.execute(params![
        token.id,
        token.hash,
        token.name,
        application,
        token.read_only,
        token.created_at.as_micros(),
        row::micros_if_any(token.expires_at),
        row::micros_if_any(token.revoked_at),
        granted.map(row::text_of).transpose()?,
        token.session,
    ])?)
}

fn of(row: &Row<'_>) -> rusqlite::Result<Token> {
    Ok(Token {
        id: row.get("id")?,
        hash: row.get("hash")?,
        name: row.get("name")?,
        scope: row::id_if_any(row, "application")?.map_or(Scope::Admin, Scope::Application),
        read_only: row.get("read_only")?,
        granted: row::document_if_any(row, "grants")?.unwrap_or_default(),
        session: row.get("session")?,
        created_at: row::time(row, "created_at")?,
        expires_at: row::time_if_any(row, "expires_at")?,
        revoked_at: row::time_if_any(row, "revoked_at")?,
    })
}
