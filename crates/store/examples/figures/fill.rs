//! Filling a store past its traits: millions of rows in minutes.
//!
//! The rows are those of one application, spread evenly over its endpoints. Of what is settled one
//! in a hundred is a dead letter; each has one attempt. Payloads are short, so that the disk of a
//! small machine is enough; idempotency keys are there for what is pending.

use domain::endpoint::State;
use domain::ids::{ApplicationId, AttemptId, EndpointId, MessageId};
use domain::time::Timestamp;
use rusqlite::{Connection, params};
use store::Error;
use store::catalog::{
    ApplicationSettings, Confidential, Endpoint, EndpointSettings, NewApplication, NewEndpoint,
    Secret,
};
use store::conformance::Handle;
use store::keys::ApplicationKey;
use store::queue::Order;

use super::moment;
use super::place::{Place, client, failed};

/// How full.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) settled: u64,
    pub(crate) pending: u64,
    pub(crate) endpoints: u64,
}

/// An application and its endpoints: where callers go, and where to look.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) application: ApplicationKey,
    pub(crate) endpoints: Vec<Endpoint>,
}

impl Site {
    /// Returns the same application with its first endpoints alone.
    pub(crate) fn first(&self, count: usize) -> Self {
        let endpoints = self.endpoints.iter().take(count).cloned().collect();
        Self { application: self.application, endpoints }
    }
}

/// Rows in one transaction.
const CHUNK: u64 = 200_000;
/// What the store would write for two headers.
const HEADERS: &str = "\u{1}60123456789abcdef\u{3}\u{1}80123456789abcdef\u{3}";

/// Fills an empty place.
pub(crate) async fn fill(place: &Place, plan: Plan) -> Result<Site, Error> {
    let store = place.open().await?;
    let site = set_up(&store, plan.endpoints).await?;
    drop(store);
    match place {
        Place::Sqlite(directory) => {
            let file = directory.join("redial.db");
            let connection = Connection::open(&file).map_err(unwell)?;
            fill_sqlite(&connection, &site, plan).map_err(unwell)?;
            drop(connection);
            sync(&file)?;
        }
        Place::Postgres(url) => fill_postgres(url, site.application, plan).await?,
    }
    Ok(site)
}

/// Waits until a file is on disk: what it still owed would be charged to the first sync that is
/// measured.
fn sync(file: &std::path::Path) -> Result<(), Error> {
    let synced = std::fs::File::open(file).and_then(|file| file.sync_all());
    synced.map_err(|error| Error::unavailable("the file cannot be synced", error))
}

/// Fills an empty place with nothing but pending deliveries: of so many endpoints, evenly.
pub(crate) async fn only_pending(place: &Place, pending: u64, endpoints: u64) -> Result<(), Error> {
    drop(place.open().await?);
    let each = pending / endpoints;
    match place {
        Place::Sqlite(directory) => {
            let file = directory.join("redial.db");
            let connection = Connection::open(&file).map_err(unwell)?;
            let text = format!(
                "PRAGMA synchronous = OFF; BEGIN;
                WITH RECURSIVE e (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM e WHERE n < {endpoints})
                INSERT INTO deliveries (endpoint, message, application, partition, turn_order,
                    state, turn, due, attempts, ambiguous, last_wait, recorded)
                SELECT e.n, m.n, 1, e.n % 64, 0, 0, m.n, m.n, 0, 0, 0, 0 FROM e, (
                    WITH RECURSIVE m (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM m WHERE n < {each})
                    SELECT n FROM m) AS m;
                COMMIT; PRAGMA wal_checkpoint(TRUNCATE);"
            );
            connection.execute_batch(&text).map_err(unwell)?;
            drop(connection);
            sync(&file)
        }
        Place::Postgres(url) => {
            let text = format!(
                "set synchronous_commit = off;
                insert into deliveries (endpoint, message, application, partition, ordering, state,
                    turn, due, attempts, ambiguous, last_wait, recorded)
                select e, m, 1, e % 64, 0, 0, m, m, 0, 0, 0, 0
                from generate_series(1, {endpoints}) e, generate_series(1, {each}) m;
                vacuum analyze deliveries; checkpoint"
            );
            for statement in text.split(';') {
                client_run(url, statement).await?;
            }
            Ok(())
        }
    }
}

async fn client_run(url: &str, statement: &str) -> Result<(), Error> {
    client(url).await?.batch_execute(statement).await.map_err(failed)
}

/// Makes the application and its endpoints as anybody would.
pub(crate) async fn set_up(store: &Handle, count: u64) -> Result<Site, Error> {
    let at = moment();
    let settings = ApplicationSettings { name: "full".to_owned(), ..Default::default() };
    let new = NewApplication { id: ApplicationId::new(at, [9; 16]), uid: None, settings, at };
    let application = store.catalog.create_application(new).await?.key;
    let mut endpoints = Vec::new();
    for number in 0..count {
        let new = NewEndpoint {
            application,
            id: EndpointId::new(at, mixed(number)),
            uid: None,
            state: State::Active,
            order: Order::Due,
            settings: EndpointSettings::default(),
            confidential: Confidential::default(),
            secret: Secret { text: "whsec_full".to_owned(), created_at: at, expires_at: None },
            at,
        };
        endpoints.push(store.catalog.create_endpoint(new).await?);
    }
    Ok(Site { application, endpoints })
}

/// Nobody else has the file open, and a crash would only cost the filling: so there is no journal.
/// The store makes the file's journal a log again when it opens it.
fn fill_sqlite(connection: &Connection, site: &Site, plan: Plan) -> rusqlite::Result<()> {
    let Site { application, endpoints } = site;
    connection.execute_batch(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
         PRAGMA cache_size = -2000000;",
    )?;
    let rows = plan.settled + plan.pending;
    let began = moment();
    for first in (1..=rows).step_by(usize::try_from(CHUNK).unwrap_or(usize::MAX)) {
        connection.execute_batch("BEGIN")?;
        for number in first..(first + CHUNK).min(rows + 1) {
            let place = usize::try_from(number).unwrap_or(0) % endpoints.len();
            let row = Row::of(number, plan, began, &endpoints[place]);
            row.insert(connection, *application)?;
        }
        connection.execute_batch("COMMIT")?;
    }
    connection.execute(
        "INSERT INTO meta (name, value) VALUES ('sequence', ?1)
         ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
        [rows + 1],
    )?;
    Ok(())
}

/// One message with its delivery.
struct Row<'a> {
    number: u64,
    at: Timestamp,
    endpoint: &'a Endpoint,
    /// As both dialects write it.
    state: u8,
}

impl<'a> Row<'a> {
    fn of(number: u64, plan: Plan, now: Timestamp, endpoint: &'a Endpoint) -> Self {
        let every = (plan.settled + plan.pending) / plan.pending.max(1);
        let state = match number {
            _ if number.is_multiple_of(every) => 0,
            _ if number % 100 == 1 => 2,
            _ => 1,
        };
        // A thousand a second, the last of them now.
        let ago = (plan.settled + plan.pending).saturating_sub(number);
        let at = now.before(std::time::Duration::from_millis(ago));
        Self { number, at, endpoint, state }
    }

    fn insert(&self, connection: &Connection, application: ApplicationKey) -> rusqlite::Result<()> {
        let (at, key) = (self.at.as_micros(), self.number);
        let id = MessageId::new(self.at, mixed(self.number));
        let mut hash = [5; 32];
        hash[..16].copy_from_slice(&mixed(self.number));
        let keyed = (self.state == 0).then_some(hash);
        let sql =
            "INSERT INTO messages (key, application, id, event_type, idempotency, received_at,
                retained_until, fan_out, payload)
            VALUES (?1, ?2, ?3, 'bench.full', ?4, ?5, ?6, ?7, ?8)";
        connection.prepare_cached(sql)?.execute(params![
            key,
            application.0,
            id.as_bytes(),
            keyed,
            at,
            at + 30 * 86_400_000_000,
            self.endpoint.key.0.to_be_bytes(),
            [b'x'; 128],
        ])?;
        if let Some(hash) = keyed {
            let sql =
                "INSERT INTO idempotency (application, hash, message, at) VALUES (?1, ?2, ?3, ?4)";
            let row = params![application.0, hash, id.as_bytes(), at];
            connection.prepare_cached(sql)?.execute(row)?;
        }
        self.deliver(connection, application)
    }

    fn deliver(
        &self,
        connection: &Connection,
        application: ApplicationKey,
    ) -> rusqlite::Result<()> {
        let (at, settled) = (self.at.as_micros(), self.state != 0);
        let attempt = AttemptId::new(self.at, mixed(self.number));
        let attempt = settled.then_some(attempt.as_bytes());
        let status = if self.state == 2 { 503 } else { 200 };
        let sql = "INSERT INTO deliveries (endpoint, message, application, partition, turn_order,
                state, cause, turn, due, attempts, ambiguous, last_wait, expires_at, recorded,
                last_attempt, last_attempt_at, last_status, settled_at)
            VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, ?7, ?7, ?8, 0, 0, ?9, ?8, ?10, ?11, ?12, ?11)";
        connection.prepare_cached(sql)?.execute(params![
            self.endpoint.key.0,
            self.number,
            application.0,
            self.endpoint.partition.number(),
            self.state,
            (self.state == 2).then_some(1),
            at,
            u8::from(settled),
            at + 4 * 86_400_000_000,
            attempt,
            settled.then_some(at),
            settled.then_some(status),
        ])?;
        if let Some(id) = attempt {
            let sql = "INSERT INTO attempts (endpoint, id, message, number, applied, began_at,
                    ended_at, trigger, outcome, status, request_headers, response_headers,
                    response_body)
                VALUES (?1, ?2, ?3, 1, 1, ?4, ?4, 0, 0, ?5, ?6, '[]', x'6f6b')";
            let row = params![self.endpoint.key.0, id, self.number, at, status, HEADERS];
            connection.prepare_cached(sql)?.execute(row)?;
        }
        Ok(())
    }
}

/// The same rows, made by the server itself.
async fn fill_postgres(url: &str, application: ApplicationKey, plan: Plan) -> Result<(), Error> {
    let rows = plan.settled + plan.pending;
    let every = rows / plan.pending.max(1);
    let now = moment().as_micros();
    let app = application.0;
    // Seconds since the beginning of the ids' time, as the head of an id.
    let rows_of = |first: u64, last: u64| {
        format!(
            "from (select n, {now} - ({rows} - n) * 1000 as at, \
                 case when n % {every} = 0 then 0 when n % 100 = 1 then 2 else 1 end as state, \
                 int4send((({now} - ({rows} - n) * 1000) / 1000000 - 1400000000)::integer) \
                     || decode(md5(n::text), 'hex') as id, \
                 1 + n % {endpoints} as endpoint \
             from generate_series({first}::bigint, {last}::bigint) n) r",
            endpoints = plan.endpoints,
        )
    };
    let setting = client(url).await?;
    setting.batch_execute("set synchronous_commit = off").await.map_err(failed)?;
    for first in (1..=rows).step_by(usize::try_from(CHUNK).unwrap_or(usize::MAX)) {
        let source = rows_of(first, (first + CHUNK - 1).min(rows));
        let text = format!(
            "insert into messages (application, key, id, event_type, channels, received_at, \
                 retained_until, idempotency, fan_out, payload) \
             select {app}, n, id, 'bench.full', '[]', at, at + 2592000000000, \
                 case when state = 0 then sha256(id) end, array[endpoint::bigint], \
                 convert_to(repeat('x', 128), 'UTF8') {source}; \
             insert into idempotency (application, hash, message, received_at) \
             select {app}, sha256(id), id, at {source} where state = 0; \
             insert into deliveries (application, endpoint, message, partition, ordering, state, \
                 cause, due, turn, attempts, ambiguous, last_wait, expires_at, recorded, \
                 last_attempt, last_attempt_at, last_status, settled_at) \
             select {app}, endpoint, n, (select partition from endpoints e \
                     where e.application = {app} and e.key = endpoint), 0, state, \
                 case when state = 2 then 1 end, at, at, least(state, 1), 0, 0, at + 345600000000, \
                 least(state, 1), case when state > 0 then id end, case when state > 0 then at end, \
                 case state when 1 then 200 when 2 then 503 end, case when state > 0 then at end \
                 {source}; \
             insert into attempts (application, endpoint, id, message, number, applied, began_at, \
                 ended_at, trigger, outcome, status, request_headers, response_headers, \
                 response_body) \
             select {app}, endpoint, id, n, 1, true, at, at, 0, 0, \
                 case state when 1 then 200 else 503 end, '{HEADERS}', '[]', 'ok' \
                 {source} where state > 0"
        );
        setting.batch_execute(&text).await.map_err(failed)?;
    }
    let text = format!("select setval('numbers', {rows})");
    setting.batch_execute(&text).await.map_err(failed)?;
    // Or the server would begin with it by itself, in the middle of what is measured.
    for table in ["messages", "idempotency", "deliveries", "attempts"] {
        let text = format!("vacuum (freeze, analyze) {table}");
        setting.batch_execute(&text).await.map_err(failed)?;
    }
    setting.batch_execute("checkpoint").await.map_err(failed)?;
    Ok(())
}

fn unwell(error: rusqlite::Error) -> Error {
    Error::unavailable("SQLite said no", error)
}

/// Bytes that look like chance and differ for each number.
fn mixed(number: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    bytes
}
