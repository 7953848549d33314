//! A look at a database from outside. Nothing is written, and no node is registered.

use domain::time::Timestamp;

use crate::Error;
use crate::postgres::failure::Failure;
use crate::postgres::io::link::{Access, Pool, Transaction};
use crate::postgres::io::tls::Connector;
use crate::postgres::row::{field, unknown};
use crate::postgres::{Settings, migrate};

/// What was found.
#[derive(Debug)]
pub struct Inspection {
    /// The server's version.
    pub version: String,
    /// Whether such a server can be used.
    pub server: Result<(), Error>,
    /// How many steps its schema is behind, or why this version cannot use it.
    pub behind: Result<usize, Error>,
    /// Whether the key fits.
    pub key: Result<(), Error>,
    /// By how many microseconds its clock is ahead of ours; less than none if it is behind.
    pub clock_ahead: i64,
    /// Whether the place to listen for other nodes can be reached, if it is another one.
    pub listener: Option<Result<(), Error>>,
}

/// Looks at a database. `wall` tells the time that its clock is compared with.
///
/// # Errors
/// If it cannot be reached. The text says what to do.
pub async fn inspect(
    settings: Settings,
    wall: impl Fn() -> Timestamp,
) -> Result<Inspection, Error> {
    let Settings { url, listen_url, authorities, vault, patience, .. } = settings;
    let connector = Connector::new(&url, authorities.as_deref())?;
    let pool = Pool::new(connector, 1, patience);
    let mut transaction = pool.begin(Access::Read).await?;
    let result = async {
        let version = version(&mut transaction).await?;
        let before = wall();
        let theirs = clock(&mut transaction).await?;
        let after = wall();
        // Half-way between question and answer is the best guess of when it was answered.
        let ours = i64::midpoint(before.as_micros(), after.as_micros());
        let found = migrate::look(&mut transaction, &vault).await?;
        Ok::<_, Failure>((version, theirs.as_micros().saturating_sub(ours), found))
    };
    let result = result.await;
    let (version, clock_ahead, found) = transaction.end(result).await?;
    let listener = match listen_url {
        Some(url) => {
            let reached = Connector::new(&url, authorities.as_deref())?.connect().await;
            Some(reached.map(|_| ()).map_err(Error::from))
        }
        None => None,
    };
    let migrate::Found { server, behind, key } = found;
    Ok(Inspection { version, server, behind, key, clock_ahead, listener })
}

async fn version(transaction: &mut Transaction<'_>) -> Result<String, Failure> {
    let statement = "select current_setting('server_version') as version";
    let row = transaction.one(statement, &[]).await?;
    let row = row.ok_or_else(|| unknown("the version", "none"))?;
    Ok(field(&row, "version")?)
}

async fn clock(transaction: &mut Transaction<'_>) -> Result<Timestamp, Failure> {
    let statement = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now";
    let row = transaction.one(statement, &[]).await?;
    let row = row.ok_or_else(|| unknown("the time", "none"))?;
    Ok(Timestamp::from_micros(field(&row, "now")?))
}
