//! Where a walk of upkeep goes on: some numbers under a name.

use tokio_postgres::types::Type;

use super::super::failure::Failure;
use super::super::link::Transaction;
use super::super::row::field;

/// Returns where a walk goes on; zeros if it begins.
///
/// Index: the primary key of meta.
pub(super) async fn read<const N: usize>(
    transaction: &mut Transaction<'_>,
    name: &str,
) -> Result<[i64; N], Failure> {
    let statement = "select value from meta where name = $1";
    let row = transaction.one(statement, &[(&name, Type::TEXT)]).await?;
    let Some(row) = row else {
        return Ok([0; N]);
    };
    let value: &[u8] = field(&row, "value")?;
    let (numbers, rest) = value.as_chunks::<8>();
    let numbers: Vec<i64> = numbers.iter().map(|bytes| i64::from_be_bytes(*bytes)).collect();
    // What cannot be read is a walk that begins anew.
    let whole = numbers.try_into().ok().filter(|_| rest.is_empty());
    Ok(whole.unwrap_or([0; N]))
}

/// Keeps where a walk goes on.
///
/// Index: the primary key of meta.
pub(super) async fn keep<const N: usize>(
    transaction: &mut Transaction<'_>,
    name: &str,
    place: [i64; N],
) -> Result<(), Failure> {
    let statement = "\
        insert into meta (name, value) values ($1, $2) \
        on conflict (name) do update set value = excluded.value \
        where meta.value <> excluded.value";
    let value = place.map(i64::to_be_bytes).concat();
    transaction.execute(statement, &[(&name, Type::TEXT), (&value, Type::BYTEA)]).await?;
    Ok(())
}
