//! What an endpoint's owner keeps about it while it runs.

use domain::health::Health;
use tokio_postgres::Row;

use crate::keys::{ApplicationKey, EndpointKey};
use crate::postgres::Postgres;
use crate::postgres::catalog::secret;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::row::{count, field, optional_moment};
use crate::queue::Running;
use crate::{Error, codes};

/// Returns an endpoint's running state.
pub(crate) async fn find(
    store: &Postgres,
    place: (ApplicationKey, EndpointKey),
) -> Result<Running, Failure> {
    store.reading(async |transaction| find_in(transaction, place).await).await
}

/// Index: the primary key of endpoint_state.
async fn find_in(
    transaction: &mut Transaction<'_>,
    place: (ApplicationKey, EndpointKey),
) -> Result<Running, Failure> {
    secret::check(transaction, place).await?;
    let statement = "select * from endpoint_state where application = $1 and endpoint = $2";
    let columns = [int8(place.0.0), int8(place.1.0)];
    let row = transaction.one(statement, &parameters(&columns)).await?;
    Ok(row.map_or_else(|| Ok(Running::default()), |row| read(&row))?)
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
