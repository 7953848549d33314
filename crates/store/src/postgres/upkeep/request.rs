//! Requests to the owner of an endpoint.

use tokio_postgres::types::Type;

use crate::codes;
use crate::keys::{Lease, MessageKey};
use crate::postgres::failure::Failure;
use crate::postgres::io::link::Transaction;
use crate::postgres::io::partitions::number;
use crate::postgres::upkeep::{changed, is_current};
use crate::queue::turn::SCHEDULED;
use crate::queue::{Done, Request, RequestKind};

/// Leaves a request. A delivery that is to be sent now is made due at the same time, so that it is
/// even if the request is lost with its owner.
pub(crate) async fn ask(
    transaction: &mut Transaction<'_>,
    request: &Request,
) -> Result<(), Failure> {
    insert(transaction, request).await?;
    match request.kind {
        RequestKind::RetryNow(message) => hurry(transaction, request, message).await,
        RequestKind::ResetBreaker
        | RequestKind::EndPause
        | RequestKind::Refresh
        | RequestKind::Cancel(_) => Ok(()),
    }
}

/// Index: the primary key of requests.
async fn insert(transaction: &mut Transaction<'_>, request: &Request) -> Result<(), Failure> {
    let statement = "\
        insert into requests (partition, application, endpoint, kind, message, asked_at) \
        values ($1, $2, $3, $4, $5, $6)";
    let (kind, message) = codes::request(request.kind);
    let (partition, at) = (number(request.partition), request.at.as_micros());
    let parameters = [
        (&partition as _, Type::INT2),
        (&request.application.0 as _, Type::INT8),
        (&request.endpoint.0 as _, Type::INT8),
        (&kind as _, Type::INT2),
        (&message as _, Type::INT8),
        (&at as _, Type::INT8),
    ];
    transaction.execute(statement, &parameters).await?;
    Ok(())
}

/// One that is scheduled gets its number next.
///
/// Index: the primary key of deliveries.
async fn hurry(
    transaction: &mut Transaction<'_>,
    request: &Request,
    message: MessageKey,
) -> Result<(), Failure> {
    let statement = "\
        update deliveries \
        set due = least(due, $4), \
            turn = case when ordering = 0 then least(due, $4) \
                when turn >= $5 then $5 + least(due, $4) else turn end \
        where application = $1 and endpoint = $2 and message = $3 and state = 0";
    let at = request.at.as_micros();
    let parameters = [
        (&request.application.0 as _, Type::INT8),
        (&request.endpoint.0 as _, Type::INT8),
        (&message.0 as _, Type::INT8),
        (&at as _, Type::INT8),
        (&SCHEDULED as _, Type::INT8),
    ];
    transaction.execute(statement, &parameters).await?;
    Ok(())
}

/// Removes requests that their owner has consumed.
///
/// Index: the primary key of requests.
pub(super) async fn consume(
    transaction: &mut Transaction<'_>,
    lease: Lease,
    requests: &[i64],
) -> Result<Done, Failure> {
    if !is_current(transaction, lease).await? {
        return Ok(Done::Fenced);
    }
    let statement = "delete from requests where partition = $1 and number = any($2)";
    let partition = number(lease.partition);
    let parameters = [(&partition as _, Type::INT2), (&requests as _, Type::INT8_ARRAY)];
    transaction.execute(statement, &parameters).await.map(changed)
}
