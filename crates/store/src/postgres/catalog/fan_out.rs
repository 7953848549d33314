//! All that fanning out and sending needs, as of one revision: one transaction sees one state.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::catalog::{ApplicationSettings, EndpointView, FanOut, Secret};
use crate::keys::{ApplicationKey, EndpointKey};
use crate::postgres::Postgres;
use crate::postgres::catalog::endpoint::endpoint;
use crate::postgres::catalog::{running, secret};
use crate::postgres::failure::Failure;
use crate::postgres::io::columns::{int8, parameters};
use crate::postgres::io::link::Transaction;
use crate::postgres::row::{document, field, id};
use crate::{Error, Vault};

/// How many endpoints are few enough to be opened between two answers.
const FEW: usize = 64;

/// Returns all endpoints of an application with their secrets and running states.
pub(crate) async fn fan_out(
    store: &Postgres,
    application: ApplicationKey,
    at: Timestamp,
) -> Result<FanOut, Failure> {
    let found = store.reading(async |transaction| read(transaction, application, at).await).await?;
    let vault = Arc::clone(&store.vault);
    if found.endpoints.len() <= FEW {
        return Ok(found.open(application, &vault)?);
    }
    // Apart, because nothing else is answered on this thread meanwhile.
    let opened = tokio::task::spawn_blocking(move || found.open(application, &vault)).await;
    let broke = |error| Error::unavailable("an application's endpoints could not be read", error);
    Ok(opened.map_err(broke)??)
}

/// The rows that say all about an application's endpoints.
struct Found {
    application: Row,
    secrets: Vec<Row>,
    endpoints: Vec<Row>,
}

async fn read(
    transaction: &mut Transaction<'_>,
    key: ApplicationKey,
    at: Timestamp,
) -> Result<Found, Failure> {
    let statement = "\
        select id, revision, version, settings from applications where key = $1 and deleted_at is null";
    let application = transaction.one(statement, &[(&key.0, Type::INT8)]).await?;
    let application = application.ok_or(Error::Missing("application"))?;
    let secrets = secrets(transaction, key, at).await?;
    let endpoints = endpoints(transaction, key).await?;
    Ok(Found { application, secrets, endpoints })
}

impl Found {
    fn open(self, key: ApplicationKey, vault: &Vault) -> Result<FanOut, Error> {
        let mut secrets: BTreeMap<i64, Vec<Secret>> = BTreeMap::new();
        for row in &self.secrets {
            let endpoint = field(row, "endpoint")?;
            let secret = secret::secret(row, vault, (key, EndpointKey(endpoint)))?;
            secrets.entry(endpoint).or_default().push(secret);
        }
        let view = |row: &Row| {
            let endpoint = endpoint(row, vault)?;
            let secrets = secrets.remove(&endpoint.key.0).unwrap_or_default();
            Ok(EndpointView { endpoint, secrets, running: running::read(row)? })
        };
        let endpoints = self.endpoints.iter().map(view).collect::<Result<_, Error>>()?;
        let application = &self.application;
        let settings: ApplicationSettings = document(application, "settings")?;
        let ApplicationSettings { policy, rate, .. } = settings;
        Ok(FanOut {
            application: id(application, "id")?,
            revision: field(application, "revision")?,
            version: field(application, "version")?,
            policy,
            rate,
            endpoints,
        })
    }
}

/// Indexes: the primary keys of endpoints and endpoint_state.
async fn endpoints(
    transaction: &mut Transaction<'_>,
    application: ApplicationKey,
) -> Result<Vec<Row>, Failure> {
    let statement = "\
        select e.*, s.breaker, s.failures, s.open_until, s.cooldown, s.permanent_streak, \
               s.failing_since, s.warned, s.paused_until \
        from endpoints e \
        left join endpoint_state s on s.application = e.application and s.endpoint = e.key \
        where e.application = $1 and e.state <> 3 order by e.key";
    transaction.query(statement, &[(&application.0, Type::INT8)]).await
}

/// Index: the primary key of endpoint_secrets.
async fn secrets(
    transaction: &mut Transaction<'_>,
    application: ApplicationKey,
    at: Timestamp,
) -> Result<Vec<Row>, Failure> {
    let statement = "\
        select * from endpoint_secrets \
        where application = $1 and (expires_at is null or expires_at > $2) \
        order by endpoint, number desc";
    let columns = [int8(application.0), int8(at.as_micros())];
    transaction.query(statement, &parameters(&columns)).await
}
