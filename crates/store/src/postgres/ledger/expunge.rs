//! Expunging: a message's payload goes, and what is pending of it is cancelled with it.

use domain::partition::Partition;
use domain::time::Timestamp;

use crate::keys::{ApplicationKey, MessageKey};
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{int2, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::queue::batch::Again;
use crate::postgres::{Postgres, row};
use crate::queue::RequestKind;
use crate::{Error, codes};

const MISSING: Error = Error::Missing("message");

/// Returns the partitions of what was cancelled, and wakes their owners. It is repeated after a
/// conflict: deliveries of many endpoints are locked here.
pub(super) async fn expunge(
    store: &Postgres,
    message: (ApplicationKey, MessageKey),
    at: Timestamp,
) -> Result<Vec<Partition>, Failure> {
    let mut again = Again::default();
    loop {
        match store.writing(async |transaction| expunge_in(transaction, message, at).await).await {
            Err(failure) if again.after(&failure).await => {}
            Err(failure) => return Err(failure),
            Ok(partitions) => {
                store.wake.others(partitions.iter().copied().collect());
                return Ok(partitions);
            }
        }
    }
}

async fn expunge_in(
    transaction: &mut Transaction<'_>,
    message: (ApplicationKey, MessageKey),
    at: Timestamp,
) -> Result<Vec<Partition>, Failure> {
    if forget_payload(transaction, message).await? == 0 {
        return Err(MISSING.into());
    }
    cancel_all(transaction, message, at).await
}

/// Locks the message, too, as whoever makes a delivery of it pending does.
///
/// Index: the primary key of messages.
async fn forget_payload(
    transaction: &mut Transaction<'_>,
    (application, message): (ApplicationKey, MessageKey),
) -> Result<u64, Failure> {
    let statement = "update messages set payload = null where application = $1 and key = $2";
    let columns = [int8(application.0), int8(message.0)];
    transaction.execute(statement, &parameters(&columns)).await
}

/// Cancels what is pending, and leaves requests for the owners to forget it. In a statement of its own,
/// so that it sees what was made pending before the message could be locked.
///
/// Indexes: the primary keys of messages, deliveries and requests.
async fn cancel_all(
    transaction: &mut Transaction<'_>,
    (application, message): (ApplicationKey, MessageKey),
    at: Timestamp,
) -> Result<Vec<Partition>, Failure> {
    let statement = "\
        with held as materialized ( \
            select d.endpoint, d.state from messages m \
            cross join lateral unnest(m.fan_out) as one (endpoint) \
            join deliveries d on d.application = $1 and d.endpoint = one.endpoint \
                and d.message = $2 \
            where m.application = $1 and m.key = $2 \
            order by d.endpoint for update of d), \
        off as ( \
            update deliveries d set state = 3, settled_at = $3 from held \
            where held.state = 0 and d.application = $1 and d.endpoint = held.endpoint \
                and d.message = $2 \
            returning d.endpoint, d.partition), \
        asked as ( \
            insert into requests (partition, application, endpoint, kind, message, asked_at) \
            select partition, $1, endpoint, $4, $2, $3 from off order by endpoint) \
        select distinct partition from off order by partition";
    let (kind, _) = codes::request(RequestKind::Cancel(message));
    let columns = [int8(application.0), int8(message.0), int8(at.as_micros()), int2(kind)];
    let rows = transaction.query(statement, &parameters(&columns)).await?;
    let partitions = rows.iter().map(|row| row::partition(row, "partition"));
    Ok(partitions.collect::<Result<_, _>>()?)
}
