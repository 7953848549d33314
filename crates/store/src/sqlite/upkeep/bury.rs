//! Burying what an attempt did not bury: expired, or held by an endpoint that is disabled.

use rusqlite::{Connection, params};

use crate::queue::{Bury, Doomed, Ending};
use crate::sqlite::row;
use crate::sqlite::upkeep::rollup;
use crate::{Error, codes};

pub(crate) fn bury(connection: &Connection, bury: &Bury) -> Result<usize, Error> {
    let mut buried = 0;
    for doomed in &bury.deliveries {
        buried += bury_one(connection, bury, doomed)?;
    }
    if let Ending::Dead(cause) = bury.ending {
        let whose = (bury.application, bury.endpoint);
        rollup::bury(connection, whose, (cause, buried), bury.at)?;
    }
    Ok(buried)
}

/// Needs the primary key of `deliveries`; writes to it, `deliveries_pending`, `deliveries_dead`.
fn bury_one(connection: &Connection, bury: &Bury, doomed: &Doomed) -> Result<usize, Error> {
    let sql = "UPDATE deliveries SET state = ?8, cause = ?1, settled_at = ?2
        WHERE endpoint = ?3 AND message = ?4 AND application = ?5
            AND state = 0 AND recorded = ?6 AND settled_at IS ?7";
    let (state, cause) = match bury.ending {
        Ending::Dead(cause) => (codes::DEAD, Some(codes::cause(cause))),
        Ending::Cancelled => (codes::CANCELLED, None),
    };
    Ok(connection.prepare_cached(sql)?.execute(params![
        cause,
        bury.at.as_micros(),
        bury.endpoint.0,
        doomed.message.0,
        bury.application.0,
        doomed.recorded,
        row::micros_if_any(doomed.ended_before),
        state,
    ])?)
}
