//! An endpoint's running state, outside of a settle.

use domain::time::Timestamp;

use crate::codes;
use crate::keys::{ApplicationKey, EndpointKey};
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{int2, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::upkeep::changed;
use crate::queue::{Done, Running};

/// Writes it, if there is such an endpoint. Its row is held until then, and that of its application,
/// unless somebody is removing it: nothing would ever find a state that came after that.
///
/// Indexes: the primary keys of applications, endpoints and endpoint_state.
pub(crate) async fn run(
    transaction: &mut Transaction<'_>,
    (application, endpoint): (ApplicationKey, EndpointKey),
    running: &Running,
) -> Result<Done, Failure> {
    let statement = "\
        with standing as materialized ( \
            select e.application, e.key from endpoints e \
            join applications a on a.key = e.application \
            where e.application = $1 and e.key = $2 \
            for key share of a, e skip locked) \
        insert into endpoint_state (application, endpoint, breaker, failures, open_until, \
            cooldown, permanent_streak, failing_since, warned, paused_until) \
        select application, key, $3, $4, $5, $6, $7, $8, $9, $10 from standing \
        on conflict (application, endpoint) do update set \
            breaker = excluded.breaker, failures = excluded.failures, \
            open_until = excluded.open_until, cooldown = excluded.cooldown, \
            permanent_streak = excluded.permanent_streak, \
            failing_since = excluded.failing_since, warned = excluded.warned, \
            paused_until = excluded.paused_until";
    let (breaker, failures, open_until, cooldown) = codes::breaker(running.breaker);
    let health = running.health;
    let columns = [
        int8(application.0),
        int8(endpoint.0),
        int2(breaker),
        int8(failures),
        int8(open_until),
        int8(cooldown),
        int8(i64::from(health.permanent_streak)),
        int8(health.failing_since.map(Timestamp::as_micros)),
        int2(health.warned.map(codes::level)),
        int8(running.paused_until.map(Timestamp::as_micros)),
    ];
    transaction.execute(statement, &parameters(&columns)).await.map(changed)
}
