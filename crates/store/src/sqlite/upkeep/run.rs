//! An endpoint's running state, as its owner writes it.

use domain::health::Level;
use rusqlite::{Connection, Result, params};

use crate::keys::{ApplicationKey, EndpointKey};
use crate::queue::Running;
use crate::sqlite::row;
use crate::{Error, codes};

/// Writes it, if the application has such an endpoint; returns the number of rows. Needs the
/// primary key of `endpoints`; writes to `endpoint_state`.
pub(crate) fn put(
    connection: &Connection,
    application: ApplicationKey,
    endpoint: EndpointKey,
    running: &Running,
) -> Result<usize, Error> {
    let (breaker, failures, open_until, cooldown) = codes::breaker(running.breaker);
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
        open_until,
        cooldown,
        running.health.permanent_streak,
        row::micros_if_any(running.health.failing_since),
        running.health.warned.map(Level::percent),
        row::micros_if_any(running.paused_until),
    ])?)
}
