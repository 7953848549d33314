//! Values as parameters of a statement, and a batch as columns: one array for each, to be unnested.

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

pub(crate) fn int2<'a, T: ToSql + Sync + Send + 'a>(value: T) -> Column<'a> {
    single(value, Type::INT2)
}

pub(crate) fn int8<'a, T: ToSql + Sync + Send + 'a>(value: T) -> Column<'a> {
    single(value, Type::INT8)
}

pub(crate) fn text<'a, T: ToSql + Sync + Send + 'a>(value: T) -> Column<'a> {
    single(value, Type::TEXT)
}

pub(crate) fn bytea<'a, T: ToSql + Sync + Send + 'a>(value: T) -> Column<'a> {
    single(value, Type::BYTEA)
}

pub(crate) fn boolean<'a, T: ToSql + Sync + Send + 'a>(value: T) -> Column<'a> {
    single(value, Type::BOOL)
}

pub(crate) fn int8_array<'a, T: ToSql + Sync + Send + 'a>(value: T) -> Column<'a> {
    single(value, Type::INT8_ARRAY)
}

pub(crate) fn text_array<'a, T: ToSql + Sync + Send + 'a>(value: T) -> Column<'a> {
    single(value, Type::TEXT_ARRAY)
}

/// Lends columns to a statement, in their order.
pub(crate) fn parameters<'a>(columns: &'a [Column<'_>]) -> Vec<Parameter<'a>> {
    columns.iter().map(|(values, kind)| (&**values as &(dyn ToSql + Sync), kind.clone())).collect()
}
