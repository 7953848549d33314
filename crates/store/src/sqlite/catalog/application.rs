//! Applications.

use domain::ids::ApplicationId;
use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::catalog::{
    Application, Change, Changed, Check, Edit, Name, NewApplication, Touches, edit,
};
use crate::keys::ApplicationKey;
use crate::page::{Direction, Listed, Page};
use crate::sqlite::catalog::token;
use crate::sqlite::io::reader::Reading;
use crate::sqlite::io::writer::Writing;
use crate::sqlite::page::{self, List};
use crate::sqlite::row;
use crate::{Error, limits};

pub(crate) fn create(writing: &Writing<'_>, new: &NewApplication) -> Result<Application, Error> {
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

pub(crate) fn find(
    connection: &Connection,
    name: &Name<ApplicationId>,
) -> Result<Application, Error> {
    let found = match name {
        Name::Id(id) => by_id(connection, *id)?,
        Name::Uid(uid) => by_uid(connection, uid)?,
    };
    found.ok_or(Error::Missing("application"))
}

/// Changes an application by a function of its row as it is.
pub(super) fn change(
    writing: &mut Writing<'_>,
    key: ApplicationKey,
    change: &Edit<Application>,
    at: Timestamp,
) -> Result<Changed<Application>, Error> {
    let connection = writing.connection;
    let before = by_key(connection, key)?.ok_or(Error::Missing("application"))?;
    let Some((after, touches)) = edit::application(&before, change, at)? else {
        return Ok(Changed::nothing(before));
    };
    if let Some(uid) = &after.uid {
        free_uid(connection, uid, Some(key))?;
    }
    rewrite(connection, &after)?;
    changed(writing, key, touches, at)?;
    let after = by_key(writing.connection, key)?.ok_or(Error::Missing("application"))?;
    Ok(Changed { before, after })
}

pub(super) fn delete(
    writing: &mut Writing<'_>,
    key: ApplicationKey,
    check: &Check<Application>,
    at: Timestamp,
) -> Result<(), Error> {
    let connection = writing.connection;
    let application = by_key(connection, key)?.ok_or(Error::Missing("application"))?;
    check(&application).map_err(Error::Declined)?;
    bury(connection, key, at)?;
    changed(writing, key, Touches::FanOut, at)?;
    token::expire_with(connection, key, at)
}

/// Needs the index `applications_id`.
pub(crate) fn list(
    reading: &Reading<'_>,
    page: &Page<ApplicationId>,
) -> Result<Listed<Application, ApplicationId>, Error> {
    let list = List {
        statement: "SELECT key, id, uid, revision, version, settings, created_at, updated_at
            FROM applications WHERE deleted_at IS NULL AND id {compare} ?1 ORDER BY id {direction} LIMIT ?2",
        direction: Direction::Ascending,
        whose: None,
        beginning: page::before_all_ids(),
        at: page::at_id,
        bytes: Application::bytes,
        page,
    };
    page::page(reading.connection, reading.notes, list, |row| {
        let application = of(row)?;
        Ok((application.id, Some(application)))
    })
}

/// Notes that an application, or anything that is its, is changed by this transaction. Needs the
/// primary key of `applications`.
pub(crate) fn changed(
    writing: &mut Writing<'_>,
    key: ApplicationKey,
    touches: Touches,
    at: Timestamp,
) -> Result<(), Error> {
    writing.memo.forget(key);
    let sql = "UPDATE applications SET
            revision = revision + ?2, other_changes = other_changes + ?3, changed_at = ?4
        WHERE key = ?1";
    let (revision, others) = touches.raises();
    let parameters = params![key.0, revision, others, at.as_micros()];
    writing.connection.prepare_cached(sql)?.execute(parameters)?;
    Ok(())
}

/// Returns what has changed since a moment. Needs the index `applications_changed`.
pub(crate) fn changes(
    connection: &Connection,
    (now, since): (Timestamp, Option<Timestamp>),
    after: Option<Change>,
) -> Result<Vec<Change>, Error> {
    let sql = "SELECT key, version, changed_at FROM applications
        WHERE changed_at >= ?1 AND (changed_at, key) > (?2, ?3)
        ORDER BY changed_at, key LIMIT ?4";
    let (at, key) =
        after.map_or((i64::MIN, i64::MIN), |last| (last.at.as_micros(), last.application.0));
    let since = since.unwrap_or(now.before(limits::CHANGING));
    let most = i64::try_from(limits::CHANGES).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![since.as_micros(), at, key, most], |row| {
        Ok(Change {
            application: ApplicationKey(row.get("key")?),
            version: row.get("version")?,
            at: row::time(row, "changed_at")?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Needs the primary key of `applications`.
pub(crate) fn by_key(
    connection: &Connection,
    key: ApplicationKey,
) -> Result<Option<Application>, Error> {
    let sql = "SELECT key, id, uid, revision, version, settings, created_at, updated_at
        FROM applications WHERE key = ?1 AND deleted_at IS NULL";
    Ok(connection.prepare_cached(sql)?.query_row([key.0], of).optional()?)
}

/// Needs the index `applications_id`.
fn by_id(connection: &Connection, id: ApplicationId) -> Result<Option<Application>, Error> {
    let sql = "SELECT key, id, uid, revision, version, settings, created_at, updated_at
        FROM applications WHERE id = ?1 AND deleted_at IS NULL";
    Ok(connection.prepare_cached(sql)?.query_row([id.as_bytes()], of).optional()?)
}

/// Needs the index `applications_uid`.
fn by_uid(connection: &Connection, uid: &str) -> Result<Option<Application>, Error> {
    let sql = "SELECT key, id, uid, revision, version, settings, created_at, updated_at
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
        row::text_of(&new.settings)?,
        new.at.as_micros(),
    ])?;
    Ok(())
}

/// Needs the primary key of `applications`.
fn rewrite(connection: &Connection, application: &Application) -> Result<(), Error> {
    let sql = "UPDATE applications SET uid = ?1, settings = ?2, updated_at = ?3 WHERE key = ?4";
    connection.prepare_cached(sql)?.execute(params![
        application.uid,
        row::text_of(&application.settings)?,
        application.updated_at.as_micros(),
        application.key.0,
    ])?;
    Ok(())
}

/// Leaves a tombstone without a uid. Needs the primary key of `applications`.
fn bury(connection: &Connection, key: ApplicationKey, at: Timestamp) -> Result<(), Error> {
    let sql = "UPDATE applications SET
            uid = NULL, updated_at = ?1, deleted_at = ?1
        WHERE key = ?2 AND deleted_at IS NULL";
    connection.prepare_cached(sql)?.execute(params![at.as_micros(), key.0])?;
    Ok(())
}

fn of(row: &Row<'_>) -> rusqlite::Result<Application> {
    Ok(Application {
        key: ApplicationKey(row.get("key")?),
        id: row::id(row, "id")?,
        uid: row.get("uid")?,
        revision: row.get("revision")?,
        version: row.get("version")?,
        settings: row::document(row, "settings")?,
        created_at: row::time(row, "created_at")?,
        updated_at: row::time(row, "updated_at")?,
    })
}
