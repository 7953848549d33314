//! Burying what an attempt did not bury: expired, or held by an endpoint that is disabled.

use domain::delivery::Delivery;
use domain::time::Timestamp;
use tokio_postgres::types::Type;

use crate::codes;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{column, int2, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::upkeep::{changed, is_current, rollup, rows};
use crate::queue::{Bury, Done, Ending};

/// Buries deliveries of one endpoint that are still as they were loaded.
///
/// Index: the primary key of deliveries. They are locked in the order in which a settle locks them, and
/// compared as they are then. Asked for pending ones only, the planner may walk the index of all of them.
pub(super) async fn bury(transaction: &mut Transaction<'_>, bury: &Bury) -> Result<Done, Failure> {
    if !is_current(transaction, bury.lease).await? {
        return Ok(Done::Fenced);
    }
    let statement = "\
        with held as materialized ( \
            select d.message, d.state, d.recorded, d.settled_at, \
                   i.recorded as loaded, i.ended_before \
            from unnest($3::bigint[], $4::bigint[], $5::bigint[]) \
                i (message, recorded, ended_before) \
            join deliveries d on d.application = $1 and d.endpoint = $2 \
                and d.message = i.message \
            order by d.message for update of d) \
        update deliveries d set state = $8, cause = $6, settled_at = $7 \
        from held \
        where held.state = 0 and held.recorded = held.loaded \
          and held.settled_at is not distinct from held.ended_before \
          and d.application = $1 and d.endpoint = $2 and d.message = held.message";
    let (state, cause) = match bury.ending {
        Ending::Dead(cause) => (Delivery::Dead(cause), Some(codes::cause(cause))),
        Ending::Cancelled => (Delivery::Cancelled, None),
    };
    let doomed = &bury.deliveries;
    let columns = [
        int8(bury.application.0),
        int8(bury.endpoint.0),
        column(doomed, Type::INT8_ARRAY, |one| one.message.0),
        column(doomed, Type::INT8_ARRAY, |one| i64::from(one.recorded)),
        column(doomed, Type::INT8_ARRAY, |one| one.ended_before.map(Timestamp::as_micros)),
        int2(cause),
        int8(bury.at.as_micros()),
        int2(codes::delivery(state)),
    ];
    let buried = transaction.execute(statement, &parameters(&columns)).await?;
    if let (Ending::Dead(cause), 1..) = (bury.ending, buried) {
        let whose = (bury.application, bury.endpoint);
        rollup::bury(transaction, &[(whose, rows(buried))].into(), cause, bury.at).await?;
    }
    Ok(changed(buried))
}
