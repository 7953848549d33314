//! A write that tells whether anything can be written.

use crate::postgres::failure::Failure;
use crate::postgres::io::link::{Access, Pool};

/// Notes the time in a row of its own, on the connection that messages are accepted on.
///
/// Index: the primary key of meta.
pub(crate) async fn probe(pool: &Pool) -> Result<(), Failure> {
    let statement = "\
        insert into meta (name, value) \
        values ('probe', int8send((extract(epoch from clock_timestamp()) * 1000000)::bigint)) \
        on conflict (name) do update set value = excluded.value";
    let mut transaction = pool.begin(Access::Write).await?;
    let result = transaction.execute(statement, &[]).await;
    transaction.end(result).await.map(drop)
}
