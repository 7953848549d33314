//! An endpoint's running state, outside of a settle.

use domain::time::Timestamp;
use tokio_postgres::types::Type;

use super::super::codes;
use super::super::columns::{parameters, single};
use super::super::failure::Failure;
use super::super::link::Transaction;
use super::changed;
use crate::keys::{ApplicationKey, EndpointKey};
use crate::queue::{Done, Running};

/// Writes it, if there is such an endpoint.
///
/// Indexes: the primary keys of endpoints and endpoint_state.
pub(super) async fn run(
    transaction: &mut Transaction<'_>,
    (application, endpoint): (ApplicationKey, EndpointKey),
    running: &Running,
) -> Result<Done, Failure> {
    let statement = "\
        insert into endpoint_state (application, endpoint, breaker, failures, open_until, \
            cooldown, permanent_streak, failing_since, warned, paused_until) \
        select application, key, $3, $4, $5, $6, $7, $8, $9, $10 \
        from endpoints where application = $1 and key = $2 \
        on conflict (application, endpoint) do update set \
            breaker = excluded.breaker, failures = excluded.failures, \
            open_until = excluded.open_until, cooldown = excluded.cooldown, \
            permanent_streak = excluded.permanent_streak, \
            failing_since = excluded.failing_since, warned = excluded.warned, \
            paused_until = excluded.paused_until";
    let (breaker, failures, open_until, cooldown) = codes::breaker(running.breaker);
    let health = running.health;
    let columns = [
        single(application.0, Type::INT8),
        single(endpoint.0, Type::INT8),
        single(breaker, Type::INT2),
        single(failures, Type::INT8),
        single(open_until, Type::INT8),
        single(cooldown, Type::INT8),
        single(i64::from(health.permanent_streak), Type::INT8),
        single(health.failing_since.map(Timestamp::as_micros), Type::INT8),
        single(health.warned.map(codes::level), Type::INT2),
        single(running.paused_until.map(Timestamp::as_micros), Type::INT8),
    ];
    transaction.execute(statement, &parameters(&columns)).await.map(changed)
}
