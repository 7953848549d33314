//! Names that a migration had to change.

use tokio_postgres::types::Type;

use crate::catalog::{Renamed, Whose};
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::link::Transaction;
use crate::postgres::row::field;
use crate::{Error, limits};

/// Forgets those that were told of, and returns the next.
pub(crate) async fn next(store: &Postgres, told: Vec<Renamed>) -> Result<Vec<Renamed>, Failure> {
    store.writing(async |transaction| next_in(transaction, &told).await).await
}

/// Index: the primary key of renamed.
async fn next_in(
    transaction: &mut Transaction<'_>,
    told: &[Renamed],
) -> Result<Vec<Renamed>, Failure> {
    if let Some(last) = told.iter().map(|one| one.number).max() {
        let statement = "delete from renamed where number <= $1";
        transaction.execute(statement, &[(&last, Type::INT8)]).await?;
    }
    let statement = "select number, kind, id, old, new from renamed order by number limit $1";
    let rows = transaction.query(statement, &[(&limits::RENAMED, Type::INT8)]).await?;
    let renamed = rows.iter().map(|row| {
        let whose = Whose::of(field::<i16>(row, "kind")?.into());
        Ok(Renamed {
            number: field(row, "number")?,
            whose,
            id: whose.shown(field(row, "id")?),
            old: field(row, "old")?,
            new: field(row, "new")?,
        })
    });
    Ok(renamed.collect::<Result<_, Error>>()?)
}
