//! What an endpoint's owner keeps about it while it runs.

use std::time::Duration;

use domain::breaker::Breaker;
use domain::health::{Health, Level};
use rusqlite::{Connection, OptionalExtension, Result, Row};

use crate::Error;
use crate::keys::EndpointKey;
use crate::queue::Running;
use crate::sqlite::row::{self, odd};

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
            failing_since: row::time_if_any(row, "failing_since")?,
            warned,
        },
        paused_until: row::time_if_any(row, "paused_until")?,
    })
}

fn breaker_of(row: &Row<'_>) -> Result<Breaker> {
    let cooldown = || row.get("cooldown").map(Duration::from_micros);
    Ok(match row.get("breaker")? {
        0 => Breaker::Closed { failures: row.get("failures")? },
        1 => Breaker::Open { until: row::time(row, "open_until")?, cooldown: cooldown()? },
        2 => Breaker::HalfOpen { cooldown: cooldown()? },
        number => return Err(odd("breaker", number)),
    })
}
