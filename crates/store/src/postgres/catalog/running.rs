//! What an endpoint's owner keeps about it while it runs.

use domain::health::Health;
use tokio_postgres::Row;

use crate::keys::{ApplicationKey, EndpointKey};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{int8, int8_array, parameters};
use crate::postgres::row::{count, field, optional_moment};
use crate::queue::Running;
use crate::{Error, codes};

/// Returns the running state of endpoints by their rows, without those that are not there.
///
/// Indexes: the primary keys of endpoints, applications and endpoint_state.
pub(super) async fn by_keys(
    store: &Postgres,
    application: ApplicationKey,
    keys: Vec<EndpointKey>,
) -> Result<Vec<(EndpointKey, Running)>, Failure> {
    let statement = "\
        select e.key, s.* from endpoints e \
        join applications a on a.key = e.application and a.deleted_at is null \
        left join endpoint_state s on s.application = e.application and s.endpoint = e.key \
        where e.application = $1 and e.key = any($2) and e.state <> 3 order by e.key";
    let keys: Vec<i64> = keys.iter().map(|key| key.0).collect();
    let columns = [int8(application.0), int8_array(keys)];
    let rows = store.query(statement, &parameters(&columns)).await?;
    let running = rows.iter().map(|row| Ok((EndpointKey(field(row, "key")?), read(row)?)));
    Ok(running.collect::<Result<_, Error>>()?)
}

/// Reads the columns of endpoint_state; without a row they are all missing.
pub(crate) fn read(row: &Row) -> Result<Running, Error> {
    let Some(breaker) = field::<Option<i16>>(row, "breaker")? else {
        return Ok(Running::default());
    };
    let (failures, open_until) = (field(row, "failures")?, field(row, "open_until")?);
    let breaker = codes::read_breaker((breaker, failures, open_until, field(row, "cooldown")?))?;
    let warned = field::<Option<i16>>(row, "warned")?.map(codes::read_level).transpose()?;
    let health = Health {
        permanent_streak: count(row, "permanent_streak")?,
        failing_since: optional_moment(row, "failing_since")?,
        warned,
    };
    Ok(Running { breaker, health, paused_until: optional_moment(row, "paused_until")? })
}
