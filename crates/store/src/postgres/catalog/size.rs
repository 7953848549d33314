//! How much an application's endpoints are. It is counted when it is first needed, and kept with the
//! application from then on. Who asks holds the application's row.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::catalog::{Admission, Size};
use crate::keys::ApplicationKey;
use crate::postgres::catalog::endpoint;
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::row::field;
use crate::{Error, Vault};

/// Replaces a part of an application's size by another, if that is admitted. It comes before the change
/// that it is about.
pub(crate) async fn replace(
    transaction: &mut Transaction<'_>,
    (vault, application): (&Vault, ApplicationKey),
    (part, by): (Size, Size),
    admission: &Admission,
) -> Result<(), Failure> {
    if part == by {
        return Ok(());
    }
    let before = match find(transaction, application).await? {
        Some(known) => known,
        None => count(transaction, (vault, application)).await?,
    };
    keep(transaction, application, before.replace((part, by), admission)?).await
}

/// Index: the primary key of applications.
async fn find(
    transaction: &mut Transaction<'_>,
    application: ApplicationKey,
) -> Result<Option<Size>, Failure> {
    let statement = "select endpoints, patterns, bytes from applications where key = $1";
    let row = transaction.one(statement, &[(&application.0, Type::INT8)]).await?;
    Ok(of(&row.ok_or(Error::Missing("application"))?)?)
}

/// Counts an application's endpoints, but those that cannot be read.
///
/// Index: endpoints_id.
async fn count(
    transaction: &mut Transaction<'_>,
    (vault, application): (&Vault, ApplicationKey),
) -> Result<Size, Failure> {
    let statement = "select * from endpoints where application = $1 and state <> 3";
    let rows = transaction.query(statement, &[(&application.0, Type::INT8)]).await?;
    let read = rows.iter().filter_map(|row| endpoint::endpoint(row, vault).ok());
    Ok(read.fold(Size::default(), |size, row| size.and(Size::of(&row))))
}

/// Index: the primary key of applications.
async fn keep(
    transaction: &mut Transaction<'_>,
    application: ApplicationKey,
    size: Size,
) -> Result<(), Failure> {
    let statement =
        "update applications set endpoints = $2, patterns = $3, bytes = $4 where key = $1";
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let columns = [
        int8(application.0),
        int8(number(size.endpoints)),
        int8(number(size.patterns)),
        int8(number(size.bytes)),
    ];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}

fn of(row: &Row) -> Result<Option<Size>, Error> {
    let count = |name| {
        let number: Option<i64> = field(row, name)?;
        Ok::<_, Error>(number.and_then(|number| u64::try_from(number).ok()))
    };
    let Some(endpoints) = count("endpoints")? else { return Ok(None) };
    let (patterns, bytes) = (count("patterns")?, count("bytes")?);
    Ok(patterns.zip(bytes).map(|(patterns, bytes)| Size { endpoints, patterns, bytes }))
}
