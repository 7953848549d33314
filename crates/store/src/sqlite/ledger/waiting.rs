//! What waits.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, params};

use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::queue::turn::SCHEDULED;
use crate::sqlite::io::reader::Reading;

/// Finds the pending delivery of an endpoint that comes first in its order, but for scheduled ones.
pub(crate) const FIRST: &str = "SELECT message, application
    FROM deliveries INDEXED BY deliveries_pending
    WHERE endpoint = ?1 AND state = 0 AND turn < ?2 ORDER BY turn, message LIMIT 1";

/// Returns, of each of some FIFO endpoints, the delivery that comes first in its order. Needs the index
/// `deliveries_pending` and the primary key of `deliveries`.
pub(super) fn first_in_line(
    reading: &Reading<'_>,
    application: ApplicationKey,
    endpoints: &[EndpointKey],
) -> Result<Vec<DeliveryKey>, Error> {
    reading.at_once(|| {
        let mut statement = reading.connection.prepare_cached(FIRST)?;
        let mut found = Vec::with_capacity(endpoints.len());
        for endpoint in BTreeSet::from_iter(endpoints) {
            let read = statement.query_row(params![endpoint.0, SCHEDULED], |row| {
                Ok((MessageKey(row.get(0)?), ApplicationKey(row.get(1)?)))
            });
            let first = read.optional()?.filter(|(_, whose)| *whose == application);
            let key = |message| DeliveryKey { application, endpoint: *endpoint, message };
            found.extend(first.map(|(message, _)| key(message)));
        }
        Ok(found)
    })
}
