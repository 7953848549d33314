//! What an endpoint's owner keeps about it while it runs.

use std::time::Duration;

use domain::breaker::Breaker;
use domain::health::{Health, Level};
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::codec::{self, odd};
use crate::Error;
use crate::keys::{ApplicationKey, EndpointKey};
use crate::queue::Running;

/// Writes it, if the application has such an endpoint; returns the number of rows. Needs the
/// primary key of `endpoints`; writes to `endpoint_state`.
pub(super) fn put(
    connection: &Connection,
    application: ApplicationKey,
    endpoint: EndpointKey,
    running: &Running,
) -> Result<usize, Error> {
    let (breaker, failures, open_until, cooldown) = match running.breaker {
        Breaker::Closed { failures } => (0, failures, None, None),
        Breaker::Open { until, cooldown } => (1, 0, Some(until), Some(cooldown)),
        Breaker::HalfOpen { cooldown } => (2, 0, None, Some(cooldown)),
    };
    let sql = "INSERT INTO endpoint_state (
            endpoint, breaker, failures, open_until, cooldown, permanent_streak, failing_since,
            warned, paused_until
        ) SELECT key, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
        FROM endpoints WHERE key = ?1 AND application = ?2
        ON CONFLICT (endpoint) DO UPDATE SET
            breaker = excluded.breaker, failures = excluded.failures,
            open_until = excluded.open_until, cooldown = excluded.cooldown,
            permanent_streak = excluded.permanent_streak,
            failing_since = excluded.failing_since, warned = excluded.warned,
            paused_until = excluded.paused_until";
    Ok(connection.prepare_cached(sql)?.execute(params![
        endpoint.0,
        application.0,
        breaker,
        failures,
        codec::micros_if_any(open_until),
        cooldown.map(codec::span),
        running.health.permanent_streak,
        codec::micros_if_any(running.health.failing_since),
        running.health.warned.map(Level::percent),
        codec::micros_if_any(running.paused_until),
    ])?)
}

/// Reads it; what was never written is as at the beginning. Needs the primary key of
/// `endpoint_state`.
pub(super) fn find(connection: &Connection, endpoint: EndpointKey) -> Result<Running, Error> {
    let sql = "SELECT breaker, failures, open_until, cooldown, permanent_streak, failing_since,
            warned, paused_until
        FROM endpoint_state WHERE endpoint = ?1";
    let found = connection.prepare_cached(sql)?.query_row([endpoint.0], of).optional()?;
    Ok(found.unwrap_or_default())
}

fn of(row: &Row<'_>) -> Result<Running> {
    let warned = match row.get::<_, Option<u8>>("warned")? {
        None => None,
        Some(percent) => {
            let levels = [Level::Half, Level::Most, Level::Nearly];
            let level = levels.into_iter().find(|level| level.percent() == percent);
            Some(level.ok_or_else(|| odd("warned", percent))?)
        }
    };
    Ok(Running {
        breaker: breaker_of(row)?,
        health: Health {
            permanent_streak: row.get("permanent_streak")?,
            failing_since: codec::time_if_any(row, "failing_since")?,
            warned,
        },
        paused_until: codec::time_if_any(row, "paused_until")?,
    })
}

fn breaker_of(row: &Row<'_>) -> Result<Breaker> {
    let cooldown = || row.get("cooldown").map(Duration::from_micros);
    Ok(match row.get("breaker")? {
        0 => Breaker::Closed { failures: row.get("failures")? },
        1 => Breaker::Open { until: codec::time(row, "open_until")?, cooldown: cooldown()? },
        2 => Breaker::HalfOpen { cooldown: cooldown()? },
        number => return Err(odd("breaker", number)),
    })
}
