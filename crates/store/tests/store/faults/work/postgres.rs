//! The store in PostgreSQL, for whoever kills processes that use it.

use std::sync::Arc;
use std::time::Duration;

use store::conformance::Handle;
use store::postgres::{Postgres, Settings};
use store::{Answer, Error, Vault};
use tokio_postgres::{Client, NoTls};

use super::Backend;

/// How long a server may take until it serves again, in steps.
const STEPS: u32 = 200;
const STEP: Duration = Duration::from_millis(50);

/// A store in PostgreSQL; its place is a URL.
pub(crate) const POSTGRES: Backend = Backend { open, inspect };

fn open(place: &str) -> Answer<'static, Handle> {
    let url = format!("{place}?sslmode=disable");
    Box::pin(async move {
        let client = patiently(&url).await?;
        // Whoever had a lease was killed: nobody has to wait until it ends.
        let ended = client.batch_execute("update nodes set renewed_at = 0").await;
        drop(ended);
        let vault = Vault::new(&mut [7; 32], super::entropy);
        let store = Postgres::connect(Settings::new(url, vault)).await?;
        Ok(Handle::new(Arc::new(store)))
    })
}

/// Compares each partial index with the table that it is of.
fn inspect(place: &str) -> Vec<String> {
    let url = format!("{place}?sslmode=disable");
    let looking = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(look(&url)).map_err(|error| error.to_string())
    });
    match looking.join() {
        Ok(Ok(found)) => found,
        Ok(Err(text)) => vec![text],
        Err(_) => vec!["looking for damage failed".to_owned()],
    }
}

async fn look(url: &str) -> Result<Vec<String>, Error> {
    let client = patiently(url).await?;
    let failed = |error| Error::unavailable("a look at the indexes failed", error);
    let mut found = Vec::new();
    for (state, index) in [(0, "deliveries_pending"), (2, "deliveries_dead")] {
        let count = format!("select count(*) from deliveries where state = {state}");
        let mut counts = Vec::new();
        for (on, off) in
            [("enable_seqscan", "enable_indexscan"), ("enable_indexscan", "enable_seqscan")]
        {
            let settings = format!(
                "set enable_bitmapscan = off; set enable_indexonlyscan = off; \
                 set {on} = on; set {off} = off"
            );
            client.batch_execute(&settings).await.map_err(failed)?;
            counts.push(client.query_one(&count, &[]).await.map_err(failed)?.get::<_, i64>(0));
        }
        if counts[0] != counts[1] {
            found.push(format!("{index} has {} rows, the table {}", counts[1], counts[0]));
        }
    }
    Ok(found)
}

/// Connects to a server that may just be starting.
async fn patiently(url: &str) -> Result<Client, Error> {
    let mut tried = 0;
    loop {
        match tokio_postgres::connect(url, NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                return Ok(client);
            }
            Err(error) if tried == STEPS => {
                return Err(Error::unavailable("the server does not come back", error));
            }
            Err(_) => {
                tried += 1;
                tokio::time::sleep(STEP).await;
            }
        }
    }
}
