//! Answers that are given again.

use domain::time::Timestamp;

use crate::ledger::StoredAnswer;
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{bytea, int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::row::field;
use crate::{Error, limits};

/// Remembers an answer, unless another one is remembered; returns the one that is.
pub(super) async fn remember(
    store: &Postgres,
    hash: [u8; 32],
    answer: StoredAnswer,
    at: Timestamp,
) -> Result<StoredAnswer, Failure> {
    let sealed = answer.seal(&store.vault, &hash)?;
    match store
        .writing(async |transaction| remember_in(transaction, &hash, sealed, at).await)
        .await?
    {
        Some(known) => Ok(StoredAnswer::open(&store.vault, &hash, &known)?),
        None => Ok(answer),
    }
}

/// Returns the answer that was there before, if there was one.
async fn remember_in(
    transaction: &mut Transaction<'_>,
    hash: &[u8; 32],
    sealed: Vec<u8>,
    at: Timestamp,
) -> Result<Option<Vec<u8>>, Failure> {
    if put(transaction, hash, sealed, at).await? {
        return Ok(None);
    }
    let known = find(transaction, hash, at).await?;
    // It was there a moment ago, and pruned since.
    let gone = || Error::Unavailable { text: "it has just changed".to_owned(), source: None };
    Ok(Some(known.ok_or_else(gone)?))
}

/// Returns the answer that is remembered under a hash.
pub(super) async fn recall(
    store: &Postgres,
    hash: [u8; 32],
    now: Timestamp,
) -> Result<Option<StoredAnswer>, Failure> {
    let mut transaction = store.look_up().await?;
    let result = find(&mut transaction, &hash, now).await;
    let sealed = transaction.end(result).await?;
    let opened = sealed.map(|sealed| StoredAnswer::open(&store.vault, &hash, &sealed));
    Ok(opened.transpose()?)
}

/// Forgets what was remembered under a hash at a moment or before it.
///
/// Indexes: the primary key of answers, answers_at.
pub(crate) async fn forget(
    store: &Postgres,
    hash: [u8; 32],
    until: Timestamp,
) -> Result<(), Failure> {
    let statement = "delete from answers where hash = $1 and at <= $2";
    let columns = [bytea(hash.as_slice()), int8(until.as_micros())];
    store.execute(statement, &parameters(&columns)).await.map(|_| ())
}

/// Writes an answer, also over one that no longer counts; answers whether it did.
///
/// Indexes: the primary key of answers, answers_at.
async fn put(
    transaction: &mut Transaction<'_>,
    hash: &[u8; 32],
    sealed: Vec<u8>,
    at: Timestamp,
) -> Result<bool, Failure> {
    let statement = "\
        insert into answers as a (hash, at, sealed) values ($1, $2, $3) \
        on conflict (hash) do update set at = excluded.at, sealed = excluded.sealed \
        where a.at <= $4";
    let columns = [
        bytea(hash.as_slice()),
        int8(at.as_micros()),
        bytea(sealed),
        int8(at.before(limits::IDEMPOTENCY).as_micros()),
    ];
    Ok(transaction.execute(statement, &parameters(&columns)).await? > 0)
}

/// Index: the primary key of answers.
async fn find(
    transaction: &mut Transaction<'_>,
    hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<Vec<u8>>, Failure> {
    let statement = "select sealed from answers where hash = $1 and at > $2";
    let columns = [bytea(hash.as_slice()), int8(now.before(limits::IDEMPOTENCY).as_micros())];
    let row = transaction.one(statement, &parameters(&columns)).await?;
    Ok(row.map(|row| field(&row, "sealed")).transpose()?)
}
