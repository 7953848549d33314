//! The yardstick for benchmarks: the same rows, written by a loop with nothing around it.
//!
//! No threads, no checks, no answers: a transaction inserts messages and settles those of the one
//! before, with prepared statements, on a file with the store's own schema and promises. What the
//! store does beside that is what the ratio of the two shows.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::sqlite::io::connection::Place;
use crate::sqlite::migrate;
use crate::{Error, Headers};

const PAYLOAD: [u8; 512] = [b'x'; 512];
const RESPONSE_BODY: &[u8] = b"{\"received\":true}";
/// Some moment; nothing depends on it.
const NOW: i64 = 1_800_000_000_000_000;

/// A file and how far the loop has got in it.
pub struct Bare {
    connection: Connection,
    request_headers: Headers,
    response_headers: Headers,
    accepted: i64,
    settled: i64,
}

impl Bare {
    /// Makes an empty file with the store's schema.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn create(directory: &Path) -> Result<Self, Error> {
        let place = Place { file: directory.join("bare.db") };
        let mut connection = place.create()?;
        migrate::migrate(&mut connection)?;
        // It has no thread that checkpoints, so it does so by itself, as SQLite's default is.
        connection.pragma_update_and_check(None, "wal_autocheckpoint", 1_000, |_| Ok(()))?;
        let headers = |names: &[&str]| names.iter().map(|it| (it, "0123456789abcdef")).collect();
        Ok(Self {
            connection,
            request_headers: headers(&["webhook-id", "webhook-timestamp", "webhook-signature"]),
            response_headers: headers(&["content-type", "date"]),
            accepted: 0,
            settled: 0,
        })
    }

    /// Accepts and settles so many in one transaction; no more are settled than were accepted.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn transaction(&mut self, accepts: u32, settles: u32) -> Result<(), Error> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let settle_to = (self.settled + i64::from(settles)).min(self.accepted);
        for number in self.accepted..self.accepted + i64::from(accepts) {
            self.accept(number)?;
        }
        for number in self.settled..settle_to {
            self.settle(number)?;
        }
        self.connection.execute_batch("COMMIT")?;
        self.accepted += i64::from(accepts);
        self.settled = settle_to;
        Ok(())
    }

    /// Returns how many were both accepted and settled.
    #[must_use]
    pub fn lifecycles(&self) -> u64 {
        u64::try_from(self.settled).unwrap_or(0)
    }

    fn accept(&self, number: i64) -> Result<(), Error> {
        let (id, hash) = (id(number), hash(number));
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO messages (key, application, id, event_type, idempotency, received_at,
                 retained_until, fan_out, payload)
             VALUES (?1, 1, ?2, 'bench.lifecycle', ?3, ?4, ?4, ?5, ?6)",
        )?;
        statement.execute(params![number, id, hash, NOW, 1_i64.to_be_bytes(), PAYLOAD])?;
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO idempotency (application, hash, message, at) VALUES (1, ?1, ?2, ?3)",
        )?;
        statement.execute(params![hash, id, NOW])?;
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO deliveries (endpoint, message, application, partition, turn_order, state,
                 turn, due, attempts, ambiguous, last_wait, expires_at, recorded)
             VALUES (1, ?1, 1, 1, 0, 0, ?2, ?2, 0, 0, 0, ?2, 0)",
        )?;
        statement.execute(params![number, NOW + number])?;
        Ok(())
    }

    fn settle(&self, number: i64) -> Result<(), Error> {
        let id = id(number);
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO attempts (endpoint, id, message, number, applied, began_at, ended_at,
                 trigger, outcome, status, first_byte, request_headers, response_headers,
                 response_body)
             VALUES (1, ?1, ?2, 1, 1, ?3, ?3, 0, 0, 200, 850, ?4, ?5, ?6)",
        )?;
        statement.execute(params![
            id,
            number,
            NOW,
            self.request_headers.stored(),
            self.response_headers.stored(),
            RESPONSE_BODY
        ])?;
        let mut statement = self.connection.prepare_cached(
            "UPDATE deliveries SET state = 1, attempts = 1, recorded = 1, last_attempt = ?1,
                 last_attempt_at = ?2, last_status = 200, settled_at = ?2
             WHERE endpoint = 1 AND message = ?3",
        )?;
        statement.execute(params![id, NOW, number])?;
        Ok(())
    }
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
