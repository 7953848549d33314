//! Applications.

use domain::ids::ApplicationId;
use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::reader::Reading;
use super::walk::{self, List};
use super::writer::Writing;
use super::{codec, tokens};
use crate::Error;
use crate::catalog::{Application, ApplicationSettings, Name, NewApplication};
use crate::keys::ApplicationKey;
use crate::page::{Listed, Page};

pub(super) fn create(writing: &Writing<'_>, new: &NewApplication) -> Result<Application, Error> {
    let connection = writing.connection;
    if let Some(known) = by_id(connection, new.id)? {
        return Ok(known);
    }
    if let Some(uid) = &new.uid {
        free_uid(connection, uid, None)?;
    }
    insert(connection, new)?;
    by_id(connection, new.id)?.ok_or(Error::Missing("application"))
}

pub(super) fn find(
    connection: &Connection,
    name: &Name<ApplicationId>,
) -> Result<Application, Error> {
    let found = match name {
        Name::Id(id) => by_id(connection, *id)?,
        Name::Uid(uid) => by_uid(connection, uid)?,
    };
    found.ok_or(Error::Missing("application"))
}

/// What an application's owner changes about it.
pub(super) struct Change {
    pub(super) key: ApplicationKey,
    pub(super) uid: Option<String>,
    pub(super) settings: ApplicationSettings,
    pub(super) at: Timestamp,
}

pub(super) fn update(writing: &mut Writing<'_>, change: &Change) -> Result<Application, Error> {
    let connection = writing.connection;
    let missing = Error::Missing("application");
    if by_key(connection, change.key)?.is_none() {
        return Err(missing);
    }
    if let Some(uid) = &change.uid {
        free_uid(connection, uid, Some(change.key))?;
    }
    writing.memo.forget(change.key);
    rewrite(connection, change)?;
    by_key(connection, change.key)?.ok_or(missing)
}

pub(super) fn delete(
    writing: &mut Writing<'_>,
    key: ApplicationKey,
    at: Timestamp,
) -> Result<(), Error> {
    writing.memo.forget(key);
    match bury(writing.connection, key, at)? {
        0 => Err(Error::Missing("application")),
        _ => tokens::expire_with(writing.connection, key, at),
    }
}

/// Needs the index `applications_id`.
pub(super) fn list(
    reading: &Reading<'_>,
    page: &Page<ApplicationId>,
) -> Result<Listed<Application, ApplicationId>, Error> {
    let list = List {
        onwards: "SELECT key, id, uid, revision, settings, created_at, updated_at
            FROM applications WHERE deleted_at IS NULL AND id > ?1 ORDER BY id LIMIT ?2",
        backwards: "SELECT key, id, uid, revision, settings, created_at, updated_at
            FROM applications WHERE deleted_at IS NULL AND id < ?1 ORDER BY id DESC LIMIT ?2",
        whose: None,
        beginning: walk::before_all_ids(),
        at: walk::at_id,
        page,
    };
    walk::page(reading.connection, reading.notes, list, |row| {
        let application = of(row)?;
        Ok((application.id, Some(application)))
    })
}

/// Raises an application's revision: what was fanned out before does not count any more. Needs the
/// primary key of `applications`.
pub(super) fn raise_revision(writing: &mut Writing<'_>, key: ApplicationKey) -> Result<(), Error> {
    writing.memo.forget(key);
    let sql = "UPDATE applications SET revision = revision + 1 WHERE key = ?1";
    writing.connection.prepare_cached(sql)?.execute([key.0])?;
    Ok(())
}

/// Needs the primary key of `applications`.
pub(super) fn by_key(
    connection: &Connection,
    key: ApplicationKey,
) -> Result<Option<Application>, Error> {
    let sql = "SELECT key, id, uid, revision, settings, created_at, updated_at
        FROM applications WHERE key = ?1 AND deleted_at IS NULL";
    Ok(connection.prepare_cached(sql)?.query_row([key.0], of).optional()?)
}

/// Needs the index `applications_id`.
fn by_id(connection: &Connection, id: ApplicationId) -> Result<Option<Application>, Error> {
    let sql = "SELECT key, id, uid, revision, settings, created_at, updated_at
        FROM applications WHERE id = ?1 AND deleted_at IS NULL";
    Ok(connection.prepare_cached(sql)?.query_row([id.as_bytes()], of).optional()?)
}

/// Needs the index `applications_uid`.
fn by_uid(connection: &Connection, uid: &str) -> Result<Option<Application>, Error> {
    let sql = "SELECT key, id, uid, revision, settings, created_at, updated_at
        FROM applications WHERE uid = ?1 AND deleted_at IS NULL";
    Ok(connection.prepare_cached(sql)?.query_row([uid], of).optional()?)
}

fn free_uid(connection: &Connection, uid: &str, own: Option<ApplicationKey>) -> Result<(), Error> {
    match by_uid(connection, uid)? {
        Some(other) if Some(other.key) != own => {
            Err(Error::Taken { what: "uid", name: uid.to_owned() })
        }
        Some(_) | None => Ok(()),
    }
}

fn insert(connection: &Connection, new: &NewApplication) -> Result<(), Error> {
    let sql = "INSERT INTO applications (id, uid, revision, settings, created_at, updated_at)
        VALUES (?1, ?2, 1, ?3, ?4, ?4)";
    connection.prepare_cached(sql)?.execute(params![
        new.id.as_bytes(),
        new.uid,
        codec::text_of(&new.settings)?,
        new.at.as_micros(),
    ])?;
    Ok(())
}

/// Needs the primary key of `applications`.
fn rewrite(connection: &Connection, change: &Change) -> Result<(), Error> {
    let sql = "UPDATE applications SET
            uid = ?1, settings = ?2, updated_at = ?3, revision = revision + 1
        WHERE key = ?4 AND deleted_at IS NULL";
    connection.prepare_cached(sql)?.execute(params![
        change.uid,
        codec::text_of(&change.settings)?,
        change.at.as_micros(),
        change.key.0,
    ])?;
    Ok(())
}

/// Leaves a tombstone without a uid. Needs the primary key of `applications`.
fn bury(connection: &Connection, key: ApplicationKey, at: Timestamp) -> Result<usize, Error> {
    let sql = "UPDATE applications SET
            uid = NULL, updated_at = ?1, deleted_at = ?1, revision = revision + 1
        WHERE key = ?2 AND deleted_at IS NULL";
    Ok(connection.prepare_cached(sql)?.execute(params![at.as_micros(), key.0])?)
}

fn of(row: &Row<'_>) -> rusqlite::Result<Application> {
    Ok(Application {
        key: ApplicationKey(row.get("key")?),
        id: codec::id(row, "id")?,
        uid: row.get("uid")?,
        revision: row.get("revision")?,
        settings: codec::document(row, "settings")?,
        created_at: codec::time(row, "created_at")?,
        updated_at: codec::time(row, "updated_at")?,
    })
}
