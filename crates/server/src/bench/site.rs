//! A server with nothing in it, and a customer who sets things up on it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::client::{Closed, Limit, Source};
use super::customer::{Customer, EVERYBODY, Ingest, messages};
use super::metrics::Counters;
use super::process::Server;
use super::receiver::Group;
use super::scratch::Database;
use super::usage::{Processes, bytes_under};
use super::{Bench, per_second};
use crate::clock::Clock;
use crate::process::Launch;

/// How long nothing may arrive before a run is given up.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How long the server gets to write down what it has just sent, before its CPU time is read.
const SETTLING: Duration = Duration::from_millis(100);
/// The messages of a batch, unless they would have too many deliveries.
const BATCH: usize = 100;
/// One in so many connections hands in batches: each of them waits for many messages at once, and
/// more than three at a time are more than one application may have waiting.
const BATCHERS: usize = 96;
/// The most deliveries that one batch leads to.
const MOST_DELIVERIES: usize = 1_000;

/// A server with nothing in it.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) server: Server,
    pub(super) customer: Customer,
    database: Option<Database>,
}

/// Messages that go to an application's endpoints.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub(super) source: Arc<Source>,
    /// The endpoints that each message goes to.
    pub(super) fan_out: usize,
    /// The endpoints that there are.
    pub(super) endpoints: usize,
}

/// What came of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivered {
    pub(super) deliveries: u64,
    pub(super) per_second: f64,
    /// Of the server and the database.
    pub(super) cpu_per_delivery: Duration,
    /// How often a message was turned away, because the server was full.
    pub(super) turned_away: u64,
}

impl Site {
    /// Starts a server with nothing in it.
    pub(super) async fn open(bench: &Bench<'_>, name: &str) -> anyhow::Result<Self> {
        Self::open_as(bench, name, bench.launch.clone()).await
    }

    /// Starts a server with nothing in it in another way than usual.
    pub(super) async fn open_as(
        bench: &Bench<'_>,
        name: &str,
        mut launch: Launch,
    ) -> anyhow::Result<Self> {
        let database = match &bench.launch.database {
            Some(server) => Some(Database::beside(server, &bench.database_name()).await?),
            None => None,
        };
        launch.database = database.as_ref().map(|it| it.url().to_owned());
        let directory = bench.fresh_directory(name);
        let server = Server::start(&launch, &directory, &bench.clock).await?;
        let customer = Customer::of(server.port()).await?;
        Ok(Self { server, customer, database })
    }

    /// Stops the server and removes what it wrote.
    pub(super) async fn close(mut self, clock: &Arc<dyn Clock>) -> anyhow::Result<()> {
        let data = self.server.data();
        self.server.stop(clock).await?;
        remove(&data, self.database).await
    }

    /// Kills the server, which would wait for endpoints that hang, and removes what it wrote.
    pub(super) async fn discard(mut self) -> anyhow::Result<()> {
        self.server.kill()?;
        remove(&self.server.data(), self.database).await
    }

    /// Makes an application with steady endpoints that get every message.
    pub(super) async fn flow(
        &mut self,
        bench: &Bench<'_>,
        fan_out: usize,
        ingest: Ingest,
    ) -> anyhow::Result<Flow> {
        let name = format!("fan-out-{fan_out}-{}", bench.number());
        let application = self.customer.application(&name).await?;
        for endpoint in 0..fan_out {
            let url = bench.receiver.url(Group::Steady, endpoint);
            self.customer.endpoint(&application, &url, &[]).await?;
        }
        let source = messages(&application, ingest, &EVERYBODY)?;
        Ok(Flow { source, fan_out, endpoints: fan_out })
    }

    /// Makes an application with steady endpoints that get messages in turn.
    pub(super) async fn turns(
        &mut self,
        bench: &Bench<'_>,
        endpoints: usize,
    ) -> anyhow::Result<Flow> {
        let name = format!("turns-{}", bench.number());
        let application = self.customer.application(&name).await?;
        let channels: Vec<String> = (0..endpoints).map(|number| format!("c{number}")).collect();
        for (endpoint, channel) in channels.iter().enumerate() {
            let url = bench.receiver.url(Group::Steady, endpoint);
            self.customer.endpoint(&application, &url, &[channel]).await?;
        }
        let source = messages(&application, Ingest::Single, &channels)?;
        Ok(Flow { source, fan_out: 1, endpoints })
    }

    /// Returns the bytes of the store on disk.
    pub(super) async fn bytes(&self) -> anyhow::Result<u64> {
        match &self.database {
            Some(database) => database.bytes().await,
            None => Ok(bytes_under(&self.server.data())),
        }
    }

    /// Returns what the server counts.
    pub(super) async fn counters(&mut self) -> Counters {
        let text = self.customer.metrics().await;
        text.map(|text| Counters::read(&text)).unwrap_or_default()
    }

    /// Returns the CPU time of the server and the database, whose processes come and go.
    fn cpu_time(&self, bench: &Bench<'_>) -> Duration {
        Processes::of(self.server.process()).and(&bench.database_processes()).cpu_time()
    }

    /// Waits for the server that was started anew.
    pub(super) async fn after_restart(&mut self, bench: &Bench<'_>) -> anyhow::Result<()> {
        self.server.ready(&bench.clock).await?;
        self.customer = Customer::of(self.server.port()).await?;
        Ok(())
    }

    /// Returns the URL of the database, if there is one.
    pub(super) fn database_url(&self) -> Option<&str> {
        self.database.as_ref().map(Database::url)
    }
}

async fn remove(data: &Path, database: Option<Database>) -> anyhow::Result<()> {
    // It would be removed at the end anyway; until then it takes room.
    drop(std::fs::remove_dir_all(data));
    match database {
        Some(database) => database.remove().await,
        None => Ok(()),
    }
}

/// Returns how a batch is handed in to an application with so many endpoints.
pub(super) fn batch_for(fan_out: usize) -> Ingest {
    Ingest::Batch((MOST_DELIVERIES / fan_out.max(1)).clamp(1, BATCH))
}

impl Flow {
    /// Returns how many deliveries one message leads to.
    pub(super) fn deliveries_per_message(&self) -> u64 {
        u64::try_from(self.fan_out).unwrap_or(u64::MAX).max(1)
    }

    /// Returns over how many connections it is handed in: for batches, a few are enough.
    fn connections(&self, bench: &Bench<'_>) -> usize {
        let all = bench.plan.connections;
        if self.source.messages() > 1 { all.div_ceil(BATCHERS) } else { all }
    }

    /// Hands in so many messages, and waits until everything has arrived: what was accepted and is
    /// still on its way does not count as fast.
    pub(super) async fn run(
        &self,
        bench: &Bench<'_>,
        site: &Site,
        messages: u64,
    ) -> anyhow::Result<Delivered> {
        bench.receiver.forget();
        let cpu = site.cpu_time(bench);
        let load = Closed {
            port: site.server.port(),
            connections: self.connections(bench),
            source: Arc::clone(&self.source),
            limit: Limit::Messages(messages),
        };
        let sent = load.run(&bench.clock).await?;
        let deliveries = sent.messages * self.deliveries_per_message();
        bench.receiver.wait_for(Group::Steady, deliveries, PATIENCE).await?;
        self.check(bench, sent.messages)?;
        let elapsed = bench.receiver.last_arrival(Group::Steady).since(sent.began);
        tokio::time::sleep(SETTLING).await;
        let cpu = site.cpu_time(bench).saturating_sub(cpu);
        Ok(Delivered {
            deliveries,
            per_second: per_second(deliveries, elapsed),
            cpu_per_delivery: cpu / u32::try_from(deliveries).unwrap_or(u32::MAX).max(1),
            turned_away: sent.turned_away,
        })
    }

    /// A benchmark that loses something is worth nothing.
    fn check(&self, bench: &Bench<'_>, messages: u64) -> anyhow::Result<()> {
        if self.fan_out < self.endpoints {
            return Ok(());
        }
        let counts = bench.receiver.per_endpoint(Group::Steady, self.fan_out);
        let short = counts.iter().position(|count| *count < messages);
        match short {
            Some(endpoint) => {
                anyhow::bail!("endpoint {endpoint} got {} of {messages} messages", counts[endpoint])
            }
            None => Ok(()),
        }
    }

    /// Finds out, after some warming up, how many messages take about so long.
    pub(super) async fn size(&self, bench: &Bench<'_>, site: &Site) -> anyhow::Result<u64> {
        let connections = u64::try_from(bench.plan.connections).unwrap_or(64);
        let few = connections.max(1_000 / self.deliveries_per_message());
        self.run(bench, site, few).await?;
        let warm = self.run(bench, site, few).await?;
        let deliveries = warm.per_second * bench.plan.run.as_secs_f64();
        Ok((super::whole(deliveries) / self.deliveries_per_message()).max(few))
    }
}
