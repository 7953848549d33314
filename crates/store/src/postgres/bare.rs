//! The yardstick for benchmarks: the same rows, written by a loop with nothing around it.
//!
//! One connection, prepared statements, no checks, no answers: a transaction inserts messages from
//! arrays and settles those of the one before. What the store does beside that is what the ratio of
//! the two shows.

use tokio_postgres::{Client, NoTls, Statement};

use crate::postgres::failure::Failure;
use crate::{Error, Headers};

const HEADERS: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];
/// Some moment; nothing depends on it.
const NOW: i64 = 1_800_000_000_000_000;

const ACCEPTS: [&str; 3] = [
    "insert into messages (application, key, id, event_type, channels, received_at, \
         retained_until, idempotency, fan_out, payload) \
     select 1, key, id, 'bench.lifecycle', '[]', $4::bigint, $4, hash, array[1::bigint], \
         convert_to(repeat('x', 512), 'UTF8') \
     from unnest($1::bigint[], $2::bytea[], $3::bytea[]) i (key, id, hash)",
    "insert into idempotency (application, hash, message, received_at) \
     select 1, hash, id, $4::bigint \
     from unnest($1::bigint[], $2::bytea[], $3::bytea[]) i (key, id, hash)",
    "insert into deliveries (application, endpoint, message, partition, ordering, state, due, \
         turn, attempts, ambiguous, last_wait, recorded) \
     select 1, 1, key, 1, 0, 0, $4::bigint + key, $4 + key, 0, 0, 0, 0 \
     from unnest($1::bigint[], $2::bytea[], $3::bytea[]) i (key, id, hash)",
];

const SETTLES: [&str; 2] = [
    "insert into attempts (application, endpoint, id, message, number, applied, began_at, \
         ended_at, trigger, outcome, status, first_byte, request_headers, response_headers, \
         response_body) \
     select 1, 1, id, key, 1, true, $3::bigint, $3, 0, 0, 200, 850, $4::text, $4, \
         convert_to('{\"received\":true}', 'UTF8') \
     from unnest($1::bigint[], $2::bytea[]) i (key, id)",
    "update deliveries d set state = 1, attempts = 1, recorded = 1, last_attempt = i.id, \
         last_attempt_at = $3::bigint, last_status = 200 + length($4::text) * 0, settled_at = $3 \
     from unnest($1::bigint[], $2::bytea[]) i (key, id) \
     where d.application = 1 and d.endpoint = 1 and d.message = i.key",
];

/// A database with the store's schema, and how far the loop has got in it.
pub struct Bare {
    client: Client,
    accepts: Vec<Statement>,
    settles: Vec<Statement>,
    accepted: i64,
    settled: i64,
}

impl Bare {
    /// Connects to a database that a store has been opened in and that is otherwise empty.
    ///
    /// # Errors
    /// If there is no such database.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
        tokio::spawn(connection);
        let (mut accepts, mut settles) = (Vec::new(), Vec::new());
        for text in ACCEPTS {
            accepts.push(client.prepare(text).await.map_err(failed)?);
        }
        for text in SETTLES {
            settles.push(client.prepare(text).await.map_err(failed)?);
        }
        Ok(Self { client, accepts, settles, accepted: 0, settled: 0 })
    }

    /// Accepts and settles so many in one transaction; no more are settled than were accepted.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub async fn transaction(&mut self, accepts: u32, settles: u32) -> Result<(), Error> {
        let accept: Vec<i64> = (self.accepted..self.accepted + i64::from(accepts)).collect();
        let settle_to = (self.settled + i64::from(settles)).min(self.accepted);
        let settle: Vec<i64> = (self.settled..settle_to).collect();
        self.write(&accept, &settle).await.map_err(failed)?;
        self.accepted += i64::from(accepts);
        self.settled = settle_to;
        Ok(())
    }

    /// Returns how many were both accepted and settled.
    #[must_use]
    pub fn lifecycles(&self) -> u64 {
        u64::try_from(self.settled).unwrap_or(0)
    }

    async fn write(&mut self, accept: &[i64], settle: &[i64]) -> Result<(), tokio_postgres::Error> {
        let transaction = self.client.transaction().await?;
        let (ids, hashes): (Vec<_>, Vec<_>) = accept.iter().map(|n| (id(*n), hash(*n))).unzip();
        let ids: Vec<&[u8]> = ids.iter().map(<[u8; 20]>::as_slice).collect();
        let hashes: Vec<&[u8]> = hashes.iter().map(<[u8; 32]>::as_slice).collect();
        for statement in &self.accepts {
            // Each names all columns, so that the arrays are the same for all.
            transaction.execute(statement, &[&accept, &ids, &hashes, &NOW]).await?;
        }
        let headers: Headers = HEADERS.iter().map(|name| (name, "0123456789abcdef")).collect();
        let headers = headers.stored();
        let ids: Vec<_> = settle.iter().map(|number| id(*number)).collect();
        let ids: Vec<&[u8]> = ids.iter().map(<[u8; 20]>::as_slice).collect();
        for statement in &self.settles {
            transaction.execute(statement, &[&settle, &ids, &NOW, &headers]).await?;
        }
        transaction.commit().await
    }
}

fn failed(error: tokio_postgres::Error) -> Error {
    Failure::from(error).into()
}

/// An id that sorts behind those before it.
fn id(number: i64) -> [u8; 20] {
    let mut id = [7; 20];
    id[..8].copy_from_slice(&number.to_be_bytes());
    id
}

/// A hash that is anywhere among the others.
fn hash(number: i64) -> [u8; 32] {
    let mut hash = [3; 32];
    let scattered = number.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash[..8].copy_from_slice(&scattered.to_be_bytes());
    hash
}
