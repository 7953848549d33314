//! A database of our own on somebody's PostgreSQL server, and what its tables say about a fleet.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use domain::ids::{EndpointId, MessageId};
use domain::time::Timestamp;
use testkit::database::{Database, connect};
use tokio_postgres::Row;

/// How many databases this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Makes a database with a name of its own: that of the run's directory and a number.
pub(crate) async fn on(server: &str, directory: &Path) -> anyhow::Result<Database> {
    let unique = directory.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let unique = unique.replace(|c: char| !c.is_ascii_alphanumeric(), "");
    let name = format!("faults_{unique}_{}", MADE.fetch_add(1, Ordering::Relaxed));
    Database::beside(server, &name).await
}

/// Returns epoch and owner of each partition.
pub(crate) async fn owners(url: &str) -> anyhow::Result<Vec<(i64, Option<String>)>> {
    let statement = "select epoch, owner from partitions order by number";
    let rows = connect(url).await?.query(statement, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Returns when each server last renewed its lease, in microseconds since 1970.
pub(crate) async fn renewals(url: &str) -> anyhow::Result<Vec<(String, i64)>> {
    let statement = "select name, renewed_at from nodes";
    let rows = connect(url).await?.query(statement, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// An attempt on record.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) endpoint: String,
    pub(crate) message: String,
    pub(crate) began_at: Timestamp,
    /// When its request was written, at the latest.
    pub(crate) written_at: Timestamp,
}

/// Returns all attempts on record.
pub(crate) async fn attempts(url: &str) -> anyhow::Result<Vec<Attempt>> {
    let statement = "\
        select e.id, m.id, a.began_at, a.ended_at - coalesce(a.first_byte, 0) from attempts a \
        join endpoints e on e.application = a.application and e.key = a.endpoint \
        join messages m on m.application = a.application and m.key = a.message";
    let rows = connect(url).await?.query(statement, &[]).await?;
    let read = |row: &Row| {
        let endpoint: [u8; 20] = row.get::<_, Vec<u8>>(0).as_slice().try_into()?;
        let message: [u8; 20] = row.get::<_, Vec<u8>>(1).as_slice().try_into()?;
        Ok(Attempt {
            endpoint: EndpointId::from_bytes(endpoint).to_string(),
            message: MessageId::from_bytes(message).to_string(),
            began_at: Timestamp::from_micros(row.get(2)),
            written_at: Timestamp::from_micros(row.get(3)),
        })
    };
    rows.iter().map(read).collect()
}
