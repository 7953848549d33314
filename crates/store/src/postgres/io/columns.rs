//! A batch as columns: one array for each, to be unnested by the statement.

use tokio_postgres::types::{ToSql, Type};

use crate::postgres::io::link::Parameter;

/// One column of a batch, with the type of its array.
pub(crate) type Column<'a> = (Box<dyn ToSql + Sync + Send + 'a>, Type);

/// Makes a column of the same thing of every item.
pub(crate) fn column<'a, S, T>(
    items: &'a [S],
    array: Type,
    value: impl Fn(&'a S) -> T,
) -> Column<'a>
where
    T: ToSql + Sync + Send + 'a,
{
    (Box::new(items.iter().map(value).collect::<Vec<T>>()), array)
}

/// Makes a parameter of a single value.
pub(crate) fn single<'a, T: ToSql + Sync + Send + 'a>(value: T, kind: Type) -> Column<'a> {
    (Box::new(value), kind)
}

/// Lends columns to a statement, in their order.
pub(crate) fn parameters<'a>(columns: &'a [Column<'_>]) -> Vec<Parameter<'a>> {
    columns.iter().map(|(values, kind)| (&**values as &(dyn ToSql + Sync), kind.clone())).collect()
}
