//! What waits.

use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{int8, int8_array, parameters};
use crate::postgres::io::link::Access;
use crate::postgres::row::field;
use crate::queue::turn::SCHEDULED;

/// Returns, of each of some FIFO endpoints, the delivery that comes first in its order.
///
/// Index: deliveries_pending, by way of the endpoint's partition.
pub(super) async fn first_in_line(
    store: &Postgres,
    application: ApplicationKey,
    endpoints: Vec<EndpointKey>,
) -> Result<Vec<DeliveryKey>, Failure> {
    let statement = "\
        select e.key, first.message from endpoints e \
        cross join lateral ( \
            select message from deliveries d \
            where d.state = 0 and d.partition = e.partition and d.endpoint = e.key \
                and d.application = e.application and d.turn < $3 \
            order by d.partition, d.endpoint, d.turn, d.message limit 1) first \
        where e.application = $1 and e.key = any($2) order by e.key";
    let endpoints: Vec<i64> = endpoints.iter().map(|endpoint| endpoint.0).collect();
    let columns = [int8(application.0), int8_array(endpoints), int8(SCHEDULED)];
    let rows = store.pool.query(Access::ReadPending, statement, &parameters(&columns)).await?;
    let found = rows.iter().map(|row| {
        let endpoint = EndpointKey(field(row, "key")?);
        Ok(DeliveryKey { application, endpoint, message: MessageKey(field(row, "message")?) })
    });
    Ok(found.collect::<Result<_, Error>>()?)
}
