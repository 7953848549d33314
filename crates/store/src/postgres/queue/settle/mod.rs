//! The settle lane: verdicts, attempts and running states, under current epochs only.

mod write;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::keys::Lease;
use crate::postgres::failure::{Failure, said};
use crate::postgres::io::columns::{column, parameters};
use crate::postgres::io::link::{Pool, Transaction};
use crate::postgres::io::partitions::number;
use crate::postgres::queue::batch::{Again, Parts};
use crate::postgres::queue::settle::write::{
    STATEMENT, attempts, ended_before, hops, refusal, retry_after_kept, reused, running, verdicts,
};
use crate::postgres::row::field;
use crate::queue::{AttemptRecord, Settle, Settled};
use crate::{Error, Headers, codes};

/// Settles a batch and answers each of its items.
pub(crate) async fn commit(pool: &Pool, settles: &[Settle]) -> Result<Vec<Settled>, Failure> {
    let mut answers = vec![Settled::Refused; settles.len()];
    let mut parts = Parts::of(settles.len());
    while let Some(part) = parts.next() {
        match repeat(pool, &settles[part.clone()]).await {
            Ok(settled) => answers[part].clone_from_slice(&settled),
            Err(Failure::Data { source, .. }) => {
                if let Some(bad) = parts.split(part) {
                    answers[bad] = without_record(pool, &settles[bad], &said(&source)).await?;
                }
            }
            Err(Failure::Slow(_)) if parts.cut(&part) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(answers)
}

/// Settles what the database refused, with what it can surely hold of the attempt: that the attempt
/// was made, and how it ended, must not get lost over a header.
async fn without_record(pool: &Pool, settle: &Settle, said: &str) -> Result<Settled, Failure> {
    let attempt = AttemptRecord {
        request_headers: Headers::default(),
        response_headers: Headers::default(),
        response_body: Bytes::new(),
        error: Some(format!("the record of this attempt could not be kept: {said}")),
        refusal: None,
        hops: Vec::new(),
        ..settle.attempt.clone()
    };
    let settle = Settle { attempt, ..settle.clone() };
    match repeat(pool, std::slice::from_ref(&settle)).await {
        Ok(settled) => Ok(settled.first().copied().unwrap_or(Settled::Refused)),
        Err(Failure::Data { .. }) => Ok(Settled::Refused),
        Err(failure) => Err(failure),
    }
}

/// Repeats after conflicts and lost connections. What had taken effect all the same is recognised
/// by its attempts.
async fn repeat(pool: &Pool, settles: &[Settle]) -> Result<Vec<Settled>, Failure> {
    let mut again = Again::default();
    loop {
        let mut transaction = again.begin(pool).await?;
        let result = answer(&mut transaction, settles, again.is_repetition()).await;
        match transaction.end(result).await {
            Err(failure) if again.after(&failure).await => {}
            result => return result,
        }
    }
}

async fn answer(
    transaction: &mut Transaction<'_>,
    settles: &[Settle],
    repetition: bool,
) -> Result<Vec<Settled>, Failure> {
    if repetition {
        outlast(transaction, settles).await?;
    }
    let mut answers = Vec::with_capacity(settles.len());
    for run in runs(settles) {
        answers.extend(settle(transaction, run).await?);
    }
    Ok(answers)
}

/// Splits a batch before every item whose delivery, or attempt, was there since the last split: one
/// statement sees each row only as it was before it.
fn runs(settles: &[Settle]) -> Vec<&[Settle]> {
    let mut runs = Vec::new();
    let (mut start, mut deliveries, mut attempts) = (0, BTreeSet::new(), BTreeSet::new());
    for (position, settle) in settles.iter().enumerate() {
        let delivery_is_new = deliveries.insert(settle.key);
        let attempt_is_new = attempts.insert((settle.key.endpoint, settle.attempt.id));
        if !delivery_is_new || !attempt_is_new {
            runs.push(&settles[start..position]);
            start = position;
            deliveries = BTreeSet::from([settle.key]);
            attempts = BTreeSet::from([(settle.key.endpoint, settle.attempt.id)]);
        }
    }
    runs.push(&settles[start..]);
    runs
}

/// Waits until nobody holds these deliveries: the first try may still be committing on a connection
/// that we lost, and the statement after this one has to see what it did.
///
/// Index: the primary key of deliveries.
async fn outlast(transaction: &mut Transaction<'_>, settles: &[Settle]) -> Result<(), Failure> {
    let statement = "\
        select 1 from deliveries d \
        join unnest($1::bigint[], $2::bigint[], $3::bigint[]) i (application, endpoint, message) \
            using (application, endpoint, message) \
        order by application, endpoint, message \
        for update of d";
    let columns = [
        column(settles, Type::INT8_ARRAY, |settle| settle.key.application.0),
        column(settles, Type::INT8_ARRAY, |settle| settle.key.endpoint.0),
        column(settles, Type::INT8_ARRAY, |settle| settle.key.message.0),
    ];
    transaction.query(statement, &parameters(&columns)).await?;
    Ok(())
}

/// Settles items that share neither delivery nor attempt, in one statement.
async fn settle(
    transaction: &mut Transaction<'_>,
    settles: &[Settle],
) -> Result<Vec<Settled>, Failure> {
    let mut columns = verdicts(settles);
    columns.extend(attempts(settles));
    columns.extend(running(settles));
    columns.push(ended_before(settles));
    columns.push(reused(settles));
    columns.push(retry_after_kept(settles));
    columns.push(hops(settles));
    columns.push(refusal(settles));
    let rows = transaction.query(STATEMENT, &parameters(&columns)).await?;
    let (mut found, mut current) = (BTreeMap::new(), BTreeSet::new());
    for row in &rows {
        match field::<Option<i64>>(row, "position")? {
            Some(position) => {
                found.insert(position, settled(row)?);
            }
            None => {
                current.insert((field::<i16>(row, "partition")?, field::<i64>(row, "epoch")?));
            }
        }
    }
    let answer = |(position, settle): (i64, &Settle)| {
        let Lease { partition, epoch } = settle.lease;
        let otherwise = match current.contains(&(number(partition), epoch.0)) {
            true => Settled::Missing,
            false => Settled::Fenced,
        };
        found.remove(&position).unwrap_or(otherwise)
    };
    Ok((1..).zip(settles).map(answer).collect())
}

fn settled(row: &Row) -> Result<Settled, Error> {
    if !field::<bool>(row, "applied")? {
        return Ok(Settled::LeftAlone);
    }
    let pending = field::<i16>(row, "state")? == codes::PENDING;
    let turn = if pending { Some(field(row, "turn")?) } else { None };
    Ok(Settled::Applied { turn })
}
