//! What an endpoint's owner keeps about it while it runs.

use std::collections::BTreeSet;

use domain::health::Health;
use rusqlite::{Connection, OptionalExtension, Result, Row};

use crate::keys::{ApplicationKey, EndpointKey};
use crate::queue::Running;
use crate::sqlite::catalog::endpoint;
use crate::sqlite::io::reader::Reading;
use crate::sqlite::row;
use crate::{Error, codes};

/// Reads that of endpoints by their rows, without those that are not there.
pub(super) fn by_keys(
    reading: &Reading<'_>,
    application: ApplicationKey,
    keys: &[EndpointKey],
) -> Result<Vec<(EndpointKey, Running)>, Error> {
    reading.at_once(|| {
        let mut found = Vec::with_capacity(keys.len());
        for key in BTreeSet::from_iter(keys) {
            if endpoint::is_there(reading.connection, application, *key)? {
                found.push((*key, find(reading.connection, *key)?));
            }
        }
        Ok(found)
    })
}

/// Reads it; what was never written is as at the beginning. Needs the primary key of
/// `endpoint_state`.
pub(crate) fn find(connection: &Connection, endpoint: EndpointKey) -> Result<Running, Error> {
    let sql = "SELECT breaker, failures, open_until, cooldown, permanent_streak, failing_since,
            warned, paused_until
        FROM endpoint_state WHERE endpoint = ?1";
    let found = connection.prepare_cached(sql)?.query_row([endpoint.0], of).optional()?;
    Ok(found.unwrap_or_default())
}

fn of(row: &Row<'_>) -> Result<Running> {
    let breaker =
        (row.get("breaker")?, row.get("failures")?, row.get("open_until")?, row.get("cooldown")?);
    let warned = row.get::<_, Option<i16>>("warned")?.map(codes::read_percent);
    Ok(Running {
        breaker: codes::read_breaker(breaker)?,
        health: Health {
            permanent_streak: row.get("permanent_streak")?,
            failing_since: row::time_if_any(row, "failing_since")?,
            warned: warned.transpose()?,
        },
        paused_until: row::time_if_any(row, "paused_until")?,
    })
}
