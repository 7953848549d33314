//! Sums per minute.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rusqlite::{Connection, OptionalExtension, params};

use crate::keys::{ApplicationKey, EndpointKey};
use crate::queue::{Minute, Rollup, Subject};
use crate::sqlite::ledger;
use crate::{Error, codes};

/// Adds to the sums of those who are there.
pub(super) fn add_all(connection: &Connection, rollups: &[Rollup]) -> Result<(), Error> {
    let mut living: BTreeMap<i64, bool> = BTreeMap::new();
    for rollup in rollups {
        if let Subject::Application(key) = rollup.subject
            && let Entry::Vacant(unknown) = living.entry(key.0)
        {
            unknown.insert(is_living(connection, key)?);
        }
    }
    let is_living = |application: &i64| living.get(application).copied().unwrap_or(false);
    for rollup in rollups {
        let is_there = match rollup.subject {
            Subject::Whole => true,
            Subject::Application(key) => is_living(&key.0),
            Subject::Endpoint(key) => {
                application_of(connection, key)?.is_some_and(|its| is_living(&its))
            }
        };
        if is_there {
            add(connection, rollup)?;
        }
    }
    Ok(())
}

/// Needs the primary key of `applications`.
fn is_living(connection: &Connection, application: ApplicationKey) -> Result<bool, Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM applications WHERE key = ?1 AND deleted_at IS NULL)";
    Ok(connection.prepare_cached(sql)?.query_row([application.0], |row| row.get(0))?)
}

/// Needs the primary key of `endpoints`.
fn application_of(connection: &Connection, endpoint: EndpointKey) -> Result<Option<i64>, Error> {
    let sql = "SELECT application FROM endpoints WHERE key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([endpoint.0], |row| row.get(0)).optional()?)
}

/// Adds to the sums of a minute.
fn add(connection: &Connection, rollup: &Rollup) -> Result<(), Error> {
    let known = find(connection, rollup.subject, rollup.minute)?;
    let mut sums = known.unwrap_or_else(|| Rollup::empty(rollup.subject, rollup.minute));
    sums.add(rollup);
    put(connection, &sums)
}

/// Needs the primary key of `rollups`.
fn find(connection: &Connection, whose: Subject, minute: Minute) -> Result<Option<Rollup>, Error> {
    let sql = "SELECT minute, succeeded, failed, delivered, dead, latencies FROM rollups
        WHERE subject = ?1 AND key = ?2 AND minute = ?3";
    let (number, key) = codes::subject(whose);
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement
        .query_row(params![number, key, minute.0], |row| ledger::rollup::of(row, whose))
        .optional()?)
}

/// Needs the primary key of `rollups`.
fn put(connection: &Connection, rollup: &Rollup) -> Result<(), Error> {
    let sql = "INSERT INTO rollups (
            subject, key, minute, succeeded, failed, delivered, dead, latencies
        ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
        ON CONFLICT (subject, key, minute) DO UPDATE SET
            succeeded = excluded.succeeded, failed = excluded.failed,
            delivered = excluded.delivered, dead = excluded.dead, latencies = excluded.latencies";
    let (subject, key) = codes::subject(rollup.subject);
    let bytes: Vec<u8> = rollup.latencies.iter().flat_map(|count| count.to_be_bytes()).collect();
    let sum = |sum: u64| i64::try_from(sum).unwrap_or(i64::MAX);
    connection.prepare_cached(sql)?.execute(params![
        subject,
        key,
        rollup.minute.0,
        sum(rollup.succeeded),
        sum(rollup.failed),
        sum(rollup.delivered),
        sum(rollup.dead),
        bytes,
    ])?;
    Ok(())
}
