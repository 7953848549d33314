//! Who owns which partition.
//!
//! The lease time is on the node's row, so that one update renews everything; the epoch is on the
//! partition's row, which changes only when it changes hands. All times here are the database's.
//!
//! Whatever a node does here begins with a lock on its own row, and a take also holds the rows of
//! the dead whose partitions it takes. So nobody comes back to life while it is being robbed: a
//! statement that waited for a row would still see the lease as it was before. Every owner has such a
//! row: pruning leaves it until the last of its partitions was taken or given back, and a take adds it
//! where it is missing all the same.

use domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::keys::{Epoch, Lease, Node};
use crate::postgres::failure::Failure;
use crate::postgres::io::link::{Access, Pool, Transaction};
use crate::postgres::io::partitions::number;
use crate::postgres::io::wake::{FREE, call};
use crate::postgres::row::{field, partition, unknown};
use crate::queue::{Confirmed, Renewal};
use crate::{Error, codes, limits};

/// Tells the database's time. No row is read.
pub(crate) async fn now(pool: &Pool) -> Result<Timestamp, Failure> {
    let statement = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now";
    let mut transaction = pool.begin(Access::Read).await?;
    let result = transaction.one(statement, &[]).await;
    time(transaction.end(result).await?)
}

/// Registers or renews a node.
pub(super) async fn renew(pool: &Pool, node: &Node) -> Result<Renewal, Failure> {
    let mut transaction = pool.begin(Access::Write).await?;
    let result = renew_in(&mut transaction, node).await;
    transaction.end(result).await
}

async fn renew_in(transaction: &mut Transaction<'_>, node: &Node) -> Result<Renewal, Failure> {
    let now = touch(transaction, node).await?;
    let owned = owned(transaction, node).await?;
    let others = others(transaction, node).await?;
    let free = free(transaction).await?;
    Ok(Renewal::of(now, owned, &others, free))
}

/// The time is told once the row is locked, so that of two renewals under way the later one counts, and
/// none counts for longer than the clock says, which may have been set back.
///
/// Index: the primary key of nodes.
async fn touch(transaction: &mut Transaction<'_>, node: &Node) -> Result<Timestamp, Failure> {
    let statement = "\
        insert into nodes (name, renewed_at) \
        values ($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) \
        on conflict (name) do update \
        set renewed_at = (extract(epoch from clock_timestamp()) * 1000000)::bigint \
        returning (extract(epoch from clock_timestamp()) * 1000000)::bigint as now";
    time(transaction.one(statement, &[(&node.0, Type::TEXT)]).await?)
}

fn time(row: Option<Row>) -> Result<Timestamp, Failure> {
    let row = row.ok_or_else(|| unknown("the time", "none"))?;
    Ok(Timestamp::from_micros(field(&row, "now")?))
}

/// Partitions are so few that they are read from end to end.
async fn owned(transaction: &mut Transaction<'_>, node: &Node) -> Result<Vec<Lease>, Failure> {
    let statement = "select number, epoch from partitions where owner = $1 order by number";
    let rows = transaction.query(statement, &[(&node.0, Type::TEXT)]).await?;
    Ok(rows.iter().map(lease).collect::<Result<_, _>>()?)
}

/// Nodes are so few that they are read from end to end.
async fn others(transaction: &mut Transaction<'_>, node: &Node) -> Result<Vec<Timestamp>, Failure> {
    let statement = "\
        select renewed_at from nodes \
        where name <> $1 \
          and renewed_at > (extract(epoch from clock_timestamp()) * 1000000)::bigint - $2";
    let lease = codes::micros(limits::LEASE);
    let parameters = [(&node.0 as _, Type::TEXT), (&lease as _, Type::INT8)];
    let rows = transaction.query(statement, &parameters).await?;
    let renewed = |row: &Row| field(row, "renewed_at").map(Timestamp::from_micros);
    Ok(rows.iter().map(renewed).collect::<Result<_, _>>()?)
}

/// Counts the partitions that nobody owns. They and the nodes are so few that they are read from end
/// to end.
async fn free(transaction: &mut Transaction<'_>) -> Result<u8, Failure> {
    let statement = "\
        select count(*) as free from partitions p \
        where not exists ( \
            select 1 from nodes n where n.name = p.owner \
              and n.renewed_at > (extract(epoch from clock_timestamp()) * 1000000)::bigint - $1)";
    let lease = codes::micros(limits::LEASE);
    let row = transaction.one(statement, &[(&lease, Type::INT8)]).await?;
    let free: i64 = row.map_or(Ok(0), |row| field(&row, "free"))?;
    Ok(u8::try_from(free).unwrap_or(u8::MAX))
}

/// Takes partitions that nobody owns, or whose owner has not renewed its lease.
pub(crate) async fn take(pool: &Pool, node: &Node, most: u8) -> Result<Vec<Lease>, Failure> {
    let mut transaction = pool.begin(Access::Write).await?;
    let result = take_in(&mut transaction, node, most).await;
    let rows = transaction.end(result).await?;
    let mut leases: Vec<Lease> = rows.iter().map(lease).collect::<Result<_, _>>()?;
    leases.sort_unstable();
    Ok(leases)
}

/// Rows that a settle holds are skipped: its owner is still at work, and the next call gets them.
async fn take_in(
    transaction: &mut Transaction<'_>,
    node: &Node,
    most: u8,
) -> Result<Vec<Row>, Failure> {
    let statement = "\
        with free as ( \
            select p.number from partitions p \
            where p.owner is null or p.owner = any($3) \
            order by p.number \
            limit $2 \
            for update of p skip locked) \
        update partitions p set owner = $1, epoch = p.epoch + 1 \
        from free where p.number = free.number \
        returning p.number, p.epoch";
    touch(transaction, node).await?;
    add_missing(transaction).await?;
    let dead = dead(transaction).await?;
    let most = i64::from(most);
    let parameters =
        [(&node.0 as _, Type::TEXT), (&most as _, Type::INT8), (&dead as _, Type::TEXT_ARRAY)];
    transaction.query(statement, &parameters).await
}

/// Adds the rows of owners that have none, as of nodes that died long ago. If such a node comes back at
/// this moment, one of both waits for the other, and then sees what it did. Nodes and partitions are so
/// few that they are read from end to end.
async fn add_missing(transaction: &mut Transaction<'_>) -> Result<(), Failure> {
    let statement = "\
        insert into nodes (name, renewed_at) \
        select distinct owner, 0 from partitions \
        where owner is not null and not exists (select 1 from nodes where name = owner) \
        order by owner \
        on conflict do nothing";
    transaction.execute(statement, &[]).await?;
    Ok(())
}

/// Names the nodes whose lease has run out, and keeps them so until the transaction ends. One that
/// does something at this moment is not dead. Nodes are so few that they are read from end to end.
async fn dead(transaction: &mut Transaction<'_>) -> Result<Vec<String>, Failure> {
    let statement = "\
        select name from nodes \
        where renewed_at <= (extract(epoch from clock_timestamp()) * 1000000)::bigint - $1 \
        for update skip locked";
    let lease = codes::micros(limits::LEASE);
    let rows = transaction.query(statement, &[(&lease, Type::INT8)]).await?;
    Ok(rows.iter().map(|row| field(row, "name")).collect::<Result<_, _>>()?)
}

/// Gives partitions back.
pub(super) async fn release(pool: &Pool, node: &Node, leases: &[Lease]) -> Result<(), Failure> {
    let mut transaction = pool.begin(Access::Write).await?;
    let result = release_in(&mut transaction, node, leases).await;
    transaction.end(result).await
}

async fn release_in(
    transaction: &mut Transaction<'_>,
    node: &Node,
    leases: &[Lease],
) -> Result<(), Failure> {
    let lock = "select 1 as locked from nodes where name = $1 for update";
    transaction.query(lock, &[(&node.0, Type::TEXT)]).await?;
    // In the order in which a settle locks them, so that neither waits for the other.
    let statement = "\
        with held as materialized ( \
            select p.number \
            from partitions p \
            join unnest($2::smallint[], $3::bigint[]) given (number, epoch) using (number, epoch) \
            where p.owner = $1 \
            order by p.number for update of p) \
        update partitions p set owner = null from held where p.number = held.number";
    let numbers: Vec<i16> = leases.iter().map(|lease| number(lease.partition)).collect();
    let epochs: Vec<i64> = leases.iter().map(|lease| lease.epoch.0).collect();
    let parameters = [
        (&node.0 as _, Type::TEXT),
        (&numbers as _, Type::INT2_ARRAY),
        (&epochs as _, Type::INT8_ARRAY),
    ];
    transaction.execute(statement, &parameters).await?;
    retire(transaction, node).await?;
    call(transaction, FREE).await
}

/// Notes up to which moment a node has confirmed changes of the catalog. Index: the primary key of
/// confirmations.
pub(crate) async fn confirm(pool: &Pool, node: &Node, heard: Timestamp) -> Result<(), Failure> {
    let statement = "\
        insert into confirmations (node, heard_at) values ($1, $2) \
        on conflict (node) do update \
        set heard_at = greatest(confirmations.heard_at, excluded.heard_at)";
    let heard = heard.as_micros();
    let mut transaction = pool.begin(Access::Write).await?;
    let parameters = [(&node.0 as _, Type::TEXT), (&heard as _, Type::INT8)];
    let result = transaction.execute(statement, &parameters).await;
    transaction.end(result).await.map(drop)
}

/// Returns up to which moment every node with a current lease has confirmed changes of the catalog.
/// Nodes are so few that they are read from end to end.
pub(crate) async fn confirmed(pool: &Pool) -> Result<Confirmed, Failure> {
    let statement = "\
        select c.heard_at from nodes n left join confirmations c on c.node = n.name \
        where n.renewed_at > (extract(epoch from clock_timestamp()) * 1000000)::bigint - $1";
    let lease = codes::micros(limits::LEASE);
    let mut transaction = pool.begin(Access::Read).await?;
    let result = transaction.query(statement, &[(&lease, Type::INT8)]).await;
    let rows = transaction.end(result).await?;
    let heard = rows.iter().map(|row| Ok(field::<Option<i64>>(row, "heard_at")?));
    let heard: Vec<_> = heard.collect::<Result<_, Failure>>()?;
    Ok(Confirmed::of(heard.into_iter().map(|heard| heard.map(Timestamp::from_micros))))
}

/// Ends the lease of a node that owns nothing, so that others do not leave it a share. Its row
/// stays to be locked, and is pruned like that of a dead one. Index: the primary key of nodes.
async fn retire(transaction: &mut Transaction<'_>, node: &Node) -> Result<(), Failure> {
    let statement = "\
        update nodes set renewed_at = least( \
            renewed_at, (extract(epoch from clock_timestamp()) * 1000000)::bigint - $2) \
        where name = $1 and not exists (select 1 from partitions where owner = $1)";
    let lease = codes::micros(limits::LEASE);
    transaction.execute(statement, &[(&node.0, Type::TEXT), (&lease, Type::INT8)]).await?;
    Ok(())
}

fn lease(row: &Row) -> Result<Lease, Error> {
    Ok(Lease { partition: partition(row, "number")?, epoch: Epoch(field(row, "epoch")?) })
}
