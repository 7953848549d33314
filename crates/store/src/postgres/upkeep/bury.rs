//! Burying what an attempt did not bury: expired, or held by an endpoint that is disabled.

use tokio_postgres::types::Type;

use super::super::codes;
use super::super::failure::Failure;
use super::super::link::Transaction;
use super::{changed, is_current};
use crate::queue::{Bury, Done};

/// Buries pending deliveries of one endpoint.
///
/// Index: the primary key of deliveries. They are locked in the order in which a settle locks them.
pub(super) async fn bury(transaction: &mut Transaction<'_>, bury: &Bury) -> Result<Done, Failure> {
    if !is_current(transaction, bury.lease).await? {
        return Ok(Done::Fenced);
    }
    let statement = "\
        with held as ( \
            select message from deliveries \
            where application = $1 and endpoint = $2 and message = any($3) and state = 0 \
            order by message for update) \
        update deliveries d set state = 2, cause = $4, settled_at = $5 \
        from held \
        where d.application = $1 and d.endpoint = $2 and d.message = held.message";
    let messages: Vec<i64> = bury.messages.iter().map(|message| message.0).collect();
    let (cause, at) = (codes::cause(bury.cause), bury.at.as_micros());
    let parameters = [
        (&bury.application.0 as _, Type::INT8),
        (&bury.endpoint.0 as _, Type::INT8),
        (&messages as _, Type::INT8_ARRAY),
        (&cause as _, Type::INT2),
        (&at as _, Type::INT8),
    ];
    transaction.execute(statement, &parameters).await.map(changed)
}
