//! Adding to the sums of a minute, and of an hour.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use domain::delivery::Cause;
use domain::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

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
            add(connection, codes::subject(rollup.subject), rollup)?;
        }
    }
    Ok(())
}

/// Counts deliveries of an endpoint that are buried without an attempt.
pub(super) fn bury(
    connection: &Connection,
    (application, endpoint): (ApplicationKey, EndpointKey),
    (cause, buried): (Cause, usize),
    at: Timestamp,
) -> Result<(), Error> {
    if buried == 0 || !is_living(connection, application)? {
        return Ok(());
    }
    for subject in [Subject::Endpoint(endpoint), Subject::Application(application), Subject::Whole]
    {
        let mut sum = Rollup::empty(subject, Minute::of(at));
        sum.bury(cause, u32::try_from(buried).unwrap_or(u32::MAX));
        add(connection, codes::subject(subject), &sum)?;
    }
    Ok(())
}

/// Needs the primary key of `applications`.
fn is_living(connection: &Connection, application: ApplicationKey) -> Result<bool, Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM applications WHERE key = ?1 AND deleted_at IS NULL)";
    Ok(connection.prepare_cached(sql)?.query_row([application.0], |row| row.get(0))?)
}

/// Needs the primary key of `endpoints`.
pub(super) fn application_of(
    connection: &Connection,
    endpoint: EndpointKey,
) -> Result<Option<i64>, Error> {
    let sql = "SELECT application FROM endpoints WHERE key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([endpoint.0], |row| row.get(0)).optional()?)
}

/// Adds to the sums of a minute, or of an hour, of a subject as its columns say it.
pub(super) fn add(
    connection: &Connection,
    place: (i16, i64),
    rollup: &Rollup,
) -> Result<(), Error> {
    let mut sums = Rollup::empty(rollup.subject, rollup.minute);
    if let Some(known) = find(connection, place, rollup)? {
        sums.add(&known);
    }
    sums.add(rollup);
    put(connection, place, &sums)
}

/// Needs the primary key of `rollups`.
fn find(
    connection: &Connection,
    (subject, key): (i16, i64),
    sought: &Rollup,
) -> Result<Option<Rollup>, Error> {
    let sql = "SELECT * FROM rollups WHERE subject = ?1 AND key = ?2 AND minute = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params![subject, key, sought.minute.0], |row| {
        ledger::rollup::of(row, sought.subject)
    });
    Ok(found.optional()?)
}

/// Needs the primary key of `rollups`.
fn put(connection: &Connection, (subject, key): (i16, i64), rollup: &Rollup) -> Result<(), Error> {
    let sql = "INSERT INTO rollups (
            subject, key, minute, accepted, dead_at_once, succeeded, failed, first_attempts,
            delivered, delivered_at_first, dead, attempt_times, latencies, causes, buried
        ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
        ON CONFLICT (subject, key, minute) DO UPDATE SET
            accepted = excluded.accepted, dead_at_once = excluded.dead_at_once,
            succeeded = excluded.succeeded, failed = excluded.failed,
            first_attempts = excluded.first_attempts, delivered = excluded.delivered,
            delivered_at_first = excluded.delivered_at_first, dead = excluded.dead,
            attempt_times = excluded.attempt_times, latencies = excluded.latencies,
            causes = excluded.causes, buried = excluded.buried";
    let place = [i64::from(subject), key, rollup.minute.0].map(Value::Integer);
    let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let list =
        |list: &Vec<u32>| Value::Blob(list.iter().flat_map(|count| count.to_be_bytes()).collect());
    // In the order of the columns above.
    let sums = rollup.numbers().map(number).into_iter().chain(rollup.lists().map(list));
    let parameters = params_from_iter(place.into_iter().chain(sums));
    connection.prepare_cached(sql)?.execute(parameters)?;
    Ok(())
}
