//! Where a walk of upkeep goes on: some numbers, or a text, under a name.

use tokio_postgres::types::Type;

use crate::postgres::failure::Failure;
use crate::postgres::io::link::Transaction;
use crate::postgres::row::field;

/// Returns where a walk goes on; zeros if it begins.
pub(crate) async fn read<const N: usize>(
    transaction: &mut Transaction<'_>,
    name: &str,
) -> Result<[i64; N], Failure> {
    let value = find(transaction, name).await?;
    let (numbers, rest) = value.as_chunks::<8>();
    let numbers: Vec<i64> = numbers.iter().map(|bytes| i64::from_be_bytes(*bytes)).collect();
    // What cannot be read is a walk that begins anew.
    let whole = numbers.try_into().ok().filter(|_| rest.is_empty());
    Ok(whole.unwrap_or([0; N]))
}

/// Keeps where a walk goes on.
pub(super) async fn keep<const N: usize>(
    transaction: &mut Transaction<'_>,
    name: &str,
    place: [i64; N],
) -> Result<(), Failure> {
    put(transaction, name, place.map(i64::to_be_bytes).concat()).await
}

/// Returns the text where a walk goes on; an empty one if it begins.
pub(super) async fn read_text(
    transaction: &mut Transaction<'_>,
    name: &str,
) -> Result<String, Failure> {
    Ok(String::from_utf8(find(transaction, name).await?).unwrap_or_default())
}

/// Keeps the text where a walk goes on.
pub(super) async fn keep_text(
    transaction: &mut Transaction<'_>,
    name: &str,
    place: String,
) -> Result<(), Failure> {
    put(transaction, name, place.into_bytes()).await
}

/// Index: the primary key of meta.
async fn find(transaction: &mut Transaction<'_>, name: &str) -> Result<Vec<u8>, Failure> {
    let statement = "select value from meta where name = $1";
    let row = transaction.one(statement, &[(&name, Type::TEXT)]).await?;
    Ok(row.map_or(Ok(Vec::new()), |row| field(&row, "value"))?)
}

/// Index: the primary key of meta.
async fn put(transaction: &mut Transaction<'_>, name: &str, value: Vec<u8>) -> Result<(), Failure> {
    let statement = "\
        insert into meta (name, value) values ($1, $2) \
        on conflict (name) do update set value = excluded.value \
        where meta.value <> excluded.value";
    transaction.execute(statement, &[(&name, Type::TEXT), (&value, Type::BYTEA)]).await?;
    Ok(())
}
