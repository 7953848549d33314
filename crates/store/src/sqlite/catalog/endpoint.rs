//! Endpoints.
//!
//! An endpoint is found only while its application is there. What is confidential about it is
//! sealed for its very row.

use std::collections::BTreeSet;

use domain::ids::EndpointId;
use domain::partition::Partition;
use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::catalog::{
    Admission, Changed, Confidential, Endpoint, EndpointEdit, Name, NewEndpoint, Size, Touches,
    edit,
};
use crate::keys::{ApplicationKey, EndpointKey};
use crate::page::{Direction, Listed, Page};
use crate::sqlite::catalog::{application, secret, size};
use crate::sqlite::io::reader::Reading;
use crate::sqlite::io::writer::Writing;
use crate::sqlite::page::{self, List};
use crate::sqlite::row;
use crate::{Error, Vault, codes, limits};

pub(crate) fn create(
    writing: &mut Writing<'_>,
    new: &NewEndpoint,
    admission: &Admission,
) -> Result<Endpoint, Error> {
    let (connection, vault) = (writing.connection, writing.vault);
    if application::by_key(connection, new.application)?.is_none() {
        return Err(Error::Missing("application"));
    }
    if let Some(known) = by_id(connection, vault, new.application, new.id)? {
        return Ok(known);
    }
    if let Some(uid) = &new.uid {
        free_uid(connection, new.application, uid, None)?;
    }
    size::replace(writing, new.application, (Size::default(), Size::of_new(new)), admission)?;
    let key = insert(connection, new)?;
    // The row's number is part of what it is sealed for, so it comes second.
    seal(writing, new.application, key, &new.confidential)?;
    secret::add(writing, new.application, key, &new.secret)?;
    application::changed(writing, new.application, Touches::FanOut, new.at)?;
    by_key(connection, vault, new.application, key)?.ok_or(Error::Missing("endpoint"))
}

pub(crate) fn find(
    connection: &Connection,
    vault: &Vault,
    application: ApplicationKey,
    name: &Name<EndpointId>,
) -> Result<Endpoint, Error> {
    let found = match name {
        Name::Id(id) => by_id(connection, vault, application, *id)?,
        Name::Uid(uid) => match key_of_uid(connection, application, uid)? {
            Some(key) => by_key(connection, vault, application, key)?,
            None => None,
        },
    };
    found.ok_or(Error::Missing("endpoint"))
}

/// Changes an endpoint by a function of its row as it is.
pub(super) fn change(
    writing: &mut Writing<'_>,
    (application, key): (ApplicationKey, EndpointKey),
    change: &EndpointEdit,
    at: Timestamp,
) -> Result<Changed<Endpoint>, Error> {
    let (connection, vault) = (writing.connection, writing.vault);
    let before = by_key(connection, vault, application, key)?;
    let before = before.ok_or(Error::Missing("endpoint"))?;
    let changed = edit::endpoint(&before, change, at)?;
    let rotated = match &change.secret {
        Some(new) => secret::replace(writing, (application, key), new)?,
        None => false,
    };
    let (after, touches) = match changed {
        Some(changed) => changed,
        None if rotated => (edit::rotated(&before, at), Touches::Rest),
        None => return Ok(Changed::nothing(before)),
    };
    if let Some(uid) = &after.uid {
        free_uid(connection, application, uid, Some(key))?;
    }
    if before.order != after.order && has_pending(connection, key)? {
        return Err(limits::reordered());
    }
    let sizes = (Size::of(&before), Size::of(&after));
    size::replace(writing, application, sizes, &change.admission)?;
    rewrite(connection, &after)?;
    if before.confidential != after.confidential {
        seal(writing, application, key, &after.confidential)?;
    }
    application::changed(writing, application, touches, at)?;
    Ok(Changed { before, after })
}

/// Needs the index `endpoints_id`.
pub(crate) fn list(
    reading: &Reading<'_>,
    application: ApplicationKey,
    page: &Page<EndpointId>,
) -> Result<Listed<Endpoint, EndpointId>, Error> {
    let list = List {
        statement: "SELECT e.key, e.application, e.id, e.uid, e.partition, e.state, e.reason,
                e.turn_order, e.settings, e.confidential, e.created_at, e.updated_at
            FROM endpoints AS e INDEXED BY endpoints_id
            WHERE e.application = ?1 AND e.id {compare} ?2 AND e.state <> 3
                AND EXISTS (SELECT 1 FROM applications AS a
                    WHERE a.key = e.application AND a.deleted_at IS NULL)
            ORDER BY e.id {direction} LIMIT ?3",
        direction: Direction::Descending,
        whose: Some(application.0),
        beginning: page::behind_all_ids(),
        at: page::at_id,
        bytes: Endpoint::bytes,
        page,
    };
    page::page(reading.connection, reading.notes, list, |row| {
        let endpoint = of(row, reading.vault)?;
        Ok((endpoint.id, Some(endpoint)))
    })
}

/// Returns an application's endpoints by row. Needs the index `endpoints_id`.
pub(crate) fn all(
    reading: &Reading<'_>,
    application: ApplicationKey,
) -> Result<Vec<Endpoint>, Error> {
    let sql = "SELECT key, application, id, uid, partition, state, reason, turn_order, settings,
            confidential, created_at, updated_at
        FROM endpoints WHERE application = ?1 AND state <> 3 ORDER BY key";
    let mut statement = reading.connection.prepare_cached(sql)?;
    let rows = statement.query_and_then([application.0], |row| of(row, reading.vault))?;
    rows.collect()
}

/// Returns how much an application's endpoints are, but those that cannot be read. Needs the index
/// `endpoints_id`.
pub(super) fn size(writing: &Writing<'_>, application: ApplicationKey) -> Result<Size, Error> {
    let sql = "SELECT key, application, id, uid, partition, state, reason, turn_order, settings,
            confidential, created_at, updated_at
        FROM endpoints WHERE application = ?1 AND state <> 3";
    let mut statement = writing.connection.prepare_cached(sql)?;
    let mut rows = statement.query([application.0])?;
    let mut size = Size::default();
    while let Some(row) = rows.next()? {
        size = size.and(of(row, writing.vault).map_or(Size::default(), |row| Size::of(&row)));
    }
    Ok(size)
}

/// Returns endpoints by row, tombstones included, as long as their application is there.
pub(super) fn by_keys(
    reading: &Reading<'_>,
    application: ApplicationKey,
    keys: &[EndpointKey],
) -> Result<Vec<Endpoint>, Error> {
    reading.at_once(|| {
        if application::by_key(reading.connection, application)?.is_none() {
            return Ok(Vec::new());
        }
        let mut endpoints = Vec::with_capacity(keys.len());
        for key in BTreeSet::from_iter(keys) {
            let found = by_row(reading.connection, reading.vault, *key)?;
            endpoints.extend(found.filter(|endpoint| endpoint.application == application));
        }
        Ok(endpoints)
    })
}

/// Returns the ids of endpoints by row, tombstones included. Needs the primary keys of `endpoints` and
/// `applications`.
pub(super) fn ids_of(
    reading: &Reading<'_>,
    application: ApplicationKey,
    keys: &[EndpointKey],
) -> Result<Vec<(EndpointKey, EndpointId)>, Error> {
    let sql = "SELECT e.id FROM endpoints AS e JOIN applications AS a ON a.key = e.application
        WHERE e.key = ?1 AND e.application = ?2 AND a.deleted_at IS NULL";
    reading.at_once(|| {
        let mut statement = reading.connection.prepare_cached(sql)?;
        let mut found = Vec::with_capacity(keys.len());
        for key in BTreeSet::from_iter(keys) {
            let id = statement.query_row([key.0, application.0], |row| row::id(row, "id"));
            found.extend(id.optional()?.map(|id| (*key, id)));
        }
        Ok(found)
    })
}

/// Finds an endpoint's row, tombstones included, as long as its application is there. Needs the index
/// `endpoints_id` and the primary key of `applications`.
pub(super) fn key_of(
    reading: &Reading<'_>,
    application: ApplicationKey,
    id: EndpointId,
) -> Result<EndpointKey, Error> {
    let sql = "SELECT e.key FROM endpoints AS e JOIN applications AS a ON a.key = e.application
        WHERE e.application = ?1 AND e.id = ?2 AND a.deleted_at IS NULL";
    let mut statement = reading.connection.prepare_cached(sql)?;
    let key = statement.query_row(params![application.0, id.as_bytes()], |row| row.get(0));
    key.optional()?.map(EndpointKey).ok_or(Error::Missing("endpoint"))
}

/// Sees to it that an endpoint and its application are there.
pub(crate) fn exists(
    connection: &Connection,
    application: ApplicationKey,
    key: EndpointKey,
) -> Result<(), Error> {
    match is_there(connection, application, key)? {
        true => Ok(()),
        false => Err(Error::Missing("endpoint")),
    }
}

/// Tells whether an endpoint and its application are there. Needs the primary keys of both.
pub(crate) fn is_there(
    connection: &Connection,
    application: ApplicationKey,
    key: EndpointKey,
) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM endpoints AS e JOIN applications AS a ON a.key = e.application
        WHERE e.key = ?1 AND e.application = ?2 AND e.state <> 3 AND a.deleted_at IS NULL";
    Ok(connection.prepare_cached(sql)?.exists(params![key.0, application.0])?)
}

fn by_key(
    connection: &Connection,
    vault: &Vault,
    application: ApplicationKey,
    key: EndpointKey,
) -> Result<Option<Endpoint>, Error> {
    match is_there(connection, application, key)? {
        true => by_row(connection, vault, key),
        false => Ok(None),
    }
}

/// Needs the primary key of `endpoints`.
fn by_row(
    connection: &Connection,
    vault: &Vault,
    key: EndpointKey,
) -> Result<Option<Endpoint>, Error> {
    let sql = "SELECT key, application, id, uid, partition, state, reason, turn_order, settings,
            confidential, created_at, updated_at
        FROM endpoints WHERE key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([key.0])?;
    rows.next()?.map(|row| of(row, vault)).transpose()
}

fn by_id(
    connection: &Connection,
    vault: &Vault,
    application: ApplicationKey,
    id: EndpointId,
) -> Result<Option<Endpoint>, Error> {
    match key_of_id(connection, application, id)? {
        Some(key) => by_key(connection, vault, application, key),
        None => Ok(None),
    }
}

/// Needs the index `endpoints_id`.
fn key_of_id(
    connection: &Connection,
    application: ApplicationKey,
    id: EndpointId,
) -> Result<Option<EndpointKey>, Error> {
    let sql = "SELECT key FROM endpoints WHERE application = ?1 AND id = ?2 AND state <> 3";
    let mut statement = connection.prepare_cached(sql)?;
    let key = statement.query_row(params![application.0, id.as_bytes()], |row| row.get(0));
    Ok(key.optional()?.map(EndpointKey))
}

/// Needs the index `endpoints_uid`.
fn key_of_uid(
    connection: &Connection,
    application: ApplicationKey,
    uid: &str,
) -> Result<Option<EndpointKey>, Error> {
    let sql = "SELECT key FROM endpoints WHERE application = ?1 AND uid = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let key = statement.query_row(params![application.0, uid], |row| row.get(0));
    Ok(key.optional()?.map(EndpointKey))
}

fn free_uid(
    connection: &Connection,
    application: ApplicationKey,
    uid: &str,
    own: Option<EndpointKey>,
) -> Result<(), Error> {
    match key_of_uid(connection, application, uid)? {
        Some(other) if Some(other) != own => {
            Err(Error::Taken { what: "uid", name: uid.to_owned() })
        }
        Some(_) | None => Ok(()),
    }
}

/// Needs the index `deliveries_pending`.
fn has_pending(connection: &Connection, key: EndpointKey) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM deliveries INDEXED BY deliveries_pending
        WHERE endpoint = ?1 AND state = 0";
    Ok(connection.prepare_cached(sql)?.exists([key.0])?)
}

fn insert(connection: &Connection, new: &NewEndpoint) -> Result<EndpointKey, Error> {
    let (state, reason) = codes::state(new.state);
    let sql = "INSERT INTO endpoints (
            application, id, uid, partition, state, reason, turn_order, settings, confidential,
            created_at, updated_at
        ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, x'', ?9, ?9)";
    let key = connection.prepare_cached(sql)?.insert(params![
        new.application.0,
        new.id.as_bytes(),
        new.uid,
        Partition::of(&new.id).number(),
        state,
        reason,
        codes::order(new.order),
        row::text_of(&new.settings)?,
        new.at.as_micros(),
    ])?;
    Ok(EndpointKey(key))
}

/// Needs the primary key of `endpoints`.
fn rewrite(connection: &Connection, endpoint: &Endpoint) -> Result<(), Error> {
    let (state, reason) = codes::state(endpoint.state);
    let sql = "UPDATE endpoints SET
            uid = ?1, state = ?2, reason = ?3, turn_order = ?4, settings = ?5, updated_at = ?6
        WHERE key = ?7";
    connection.prepare_cached(sql)?.execute(params![
        endpoint.uid,
        state,
        reason,
        codes::order(endpoint.order),
        row::text_of(&endpoint.settings)?,
        endpoint.updated_at.as_micros(),
        endpoint.key.0,
    ])?;
    Ok(())
}

/// Needs the primary key of `endpoints`.
fn seal(
    writing: &Writing<'_>,
    application: ApplicationKey,
    key: EndpointKey,
    confidential: &Confidential,
) -> Result<(), Error> {
    let plain = row::text_of(confidential)?;
    let sealed = writing.vault.seal(&place(application, key), plain.as_bytes())?;
    let sql = "UPDATE endpoints SET confidential = ?1 WHERE key = ?2";
    writing.connection.prepare_cached(sql)?.execute(params![sealed, key.0])?;
    Ok(())
}

/// Names the place that the confidential part of an endpoint is sealed for.
fn place(application: ApplicationKey, key: EndpointKey) -> String {
    format!("endpoints, application {}, endpoint {}, confidential", application.0, key.0)
}

fn of(row: &Row<'_>, vault: &Vault) -> Result<Endpoint, Error> {
    let application = ApplicationKey(row.get("application")?);
    let key = EndpointKey(row.get("key")?);
    let place = place(application, key);
    let plain = vault.open(&place, row.get_ref("confidential")?.as_blob().map_err(odd_blob)?)?;
    let confidential = serde_json::from_slice(&plain)
        // The error could quote what it could not read.
        .map_err(|_| Error::Damaged { what: place, text: "it is no document".to_owned() })?;
    Ok(Endpoint {
        key,
        application,
        id: row::id(row, "id")?,
        uid: row.get("uid")?,
        partition: row::partition(row)?,
        state: row::endpoint_state_of(row)?,
        order: row::order_of(row)?,
        settings: row::document(row, "settings")?,
        confidential,
        created_at: row::time(row, "created_at")?,
        updated_at: row::time(row, "updated_at")?,
    })
}

fn odd_blob(error: rusqlite::types::FromSqlError) -> rusqlite::Error {
    row::odd("confidential", error)
}
