//! A scene: servers with one application, its endpoints, and receivers behind them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use domain::ids::EndpointId;
use domain::partition::Partition;
use redial::clock::SystemClock;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::database::Database;
use testkit::server::Server;

use super::books::{Books, Outage};
use super::client::Client;
use super::database;
use super::process::{self, launch};
use super::receiver::{Manner, Receiver, secret};
use super::senders::{Ledger, Plan, Senders};
use super::stalls::Stalls;

/// How long nothing may happen before a wait is given up, in looks: a minute.
const PATIENCE: u32 = 600;
const LOOK: Duration = Duration::from_millis(100);

/// What is tested, and on what.
#[derive(Debug, Clone)]
pub(crate) struct Ground {
    /// The server's binary.
    pub(crate) executable: PathBuf,
    /// The URL of a PostgreSQL server on which databases may be made; without it, SQLite.
    pub(crate) postgres: Option<String>,
    /// What everything random follows from.
    pub(crate) seed: u64,
    /// Where servers write and their logs stay; without it, in a place that vanishes.
    pub(crate) keep: Option<PathBuf>,
}

/// An endpoint as it is set up.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) manner: Manner,
    /// The channel it listens on.
    pub(crate) channel: &'static str,
    pub(crate) fifo: bool,
    pub(crate) in_flight: u32,
    pub(crate) rate: u32,
}

impl Endpoint {
    /// Describes an endpoint on the channel of everybody, with hardly a limit.
    pub(crate) fn of(manner: Manner) -> Self {
        Self { manner, channel: EVERYBODY, fifo: false, in_flight: 16, rate: 10_000 }
    }
}

/// The channel of everybody.
pub(crate) const EVERYBODY: &str = "everybody";

/// Servers, endpoints and receivers.
pub(crate) struct Scene {
    pub(crate) clock: SystemClock,
    pub(crate) nodes: Vec<Server>,
    pub(crate) receiver: Receiver,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) application: String,
    /// The endpoints' ids, in the same order.
    pub(crate) ids: Vec<String>,
    database: Option<Database>,
    stalls: Option<Stalls>,
    _temporary: TempDir,
}

impl Scene {
    /// Starts so many servers and sets endpoints up.
    pub(crate) async fn open(
        ground: &Ground,
        nodes: usize,
        endpoints: Vec<Endpoint>,
    ) -> anyhow::Result<Self> {
        let clock = SystemClock::start();
        let temporary = TempDir::new()?;
        let directory = ground.keep.clone().unwrap_or_else(|| temporary.path().to_owned());
        let database = match &ground.postgres {
            Some(server) => Some(database::on(server, temporary.path()).await?),
            None => None,
        };
        let url = database.as_ref().map(|database| database.url().to_owned());
        let launch = launch(ground.executable.clone(), url);
        let mut started = Vec::new();
        for number in 0..nodes {
            let place = directory.join(format!("node-{number}"));
            started.push(process::start(&launch, place).await?);
        }
        let stalls = launch.database.clone().map(Stalls::watch);
        let manners: Vec<Manner> = endpoints.iter().map(|endpoint| endpoint.manner).collect();
        let receiver = Receiver::start(&manners, ground.seed, clock).await?;
        let mut client = Client::of(started.first().context("no server")?.port());
        let application = client.create("/app", &json!({ "name": "faults" })).await?;
        let mut ids = Vec::new();
        for (number, endpoint) in endpoints.iter().enumerate() {
            let what = describe(endpoint, number, &receiver.url(number))?;
            let path = format!("/app/{application}/endpoint");
            ids.push(client.create(&path, &what).await?);
        }
        let nodes = started;
        let _temporary = temporary;
        Ok(Self {
            clock,
            nodes,
            receiver,
            endpoints,
            application,
            ids,
            database,
            stalls,
            _temporary,
        })
    }

    /// Returns the ports of all servers.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(Server::port).collect()
    }

    /// Begins to send messages to the application, at all servers.
    pub(crate) fn send(&self, plan: Plan) -> Senders {
        Senders::start(plan, self.clock)
    }

    /// Waits until everything that was acknowledged has arrived, as long as something still does.
    pub(crate) async fn drain(
        &self,
        ledger: &Ledger,
        channels: fn(u64) -> &'static [&'static str],
    ) -> anyhow::Result<()> {
        let (mut before, mut idle) = (0, 0);
        while idle < PATIENCE {
            let arrivals = self.receiver.arrivals();
            let (endpoints, outages) = (&self.endpoints[..], &[][..]);
            let books = Books { endpoints, channels, ledger, arrivals: &arrivals, outages };
            if books.missing() == 0 {
                return self.settled().await;
            }
            idle = if arrivals.len() > before { 0 } else { idle + 1 };
            before = arrivals.len();
            tokio::time::sleep(LOOK).await;
        }
        // What is missing is in the books.
        Ok(())
    }

    /// Waits until the servers themselves say that nothing waits any more.
    async fn settled(&self) -> anyhow::Result<()> {
        let mut client = Client::of(self.nodes[0].port());
        for id in &self.ids {
            let mut looks = 0;
            while self.standing(&mut client, id).await?["pending"] != 0 {
                looks += 1;
                anyhow::ensure!(looks < PATIENCE, "deliveries of {id} stay pending");
                tokio::time::sleep(LOOK).await;
            }
        }
        Ok(())
    }

    async fn standing(&self, client: &mut Client, endpoint: &str) -> anyhow::Result<Value> {
        let path = format!("/app/{}/endpoint/{endpoint}/stats", self.application);
        client.ask(&path).await
    }

    /// Compares what the servers count as dead with what should be.
    pub(crate) async fn dead_letters(&self) -> anyhow::Result<Vec<String>> {
        let mut client = Client::of(self.nodes[0].port());
        let mut wrong = Vec::new();
        for (endpoint, id) in self.endpoints.iter().zip(&self.ids) {
            let standing = self.standing(&mut client, id).await?;
            let refuses = matches!(endpoint.manner, Manner::Refuses);
            let counts = [&standing["success"], &standing["fail"]].map(|it| it != &json!(0));
            if counts[0] == refuses || counts[1] != refuses {
                wrong.push(format!("{:?} stands at {standing}", endpoint.manner));
            }
        }
        Ok(wrong)
    }

    /// Returns how often partitions changed hands; only a fleet has owners.
    pub(crate) async fn changes_of_owner(&self) -> anyhow::Result<i64> {
        Ok(self.owners().await?.iter().map(|(epoch, _)| epoch).sum())
    }

    /// Returns epoch and owner of each partition; only a fleet has them.
    pub(crate) async fn owners(&self) -> anyhow::Result<Vec<(i64, Option<String>)>> {
        let Some(database) = &self.database else { return Ok(Vec::new()) };
        database::owners(database.url()).await
    }

    /// Returns the attempts on record; only those of a fleet can be read.
    pub(crate) async fn attempts(&self) -> anyhow::Result<Vec<database::Attempt>> {
        let Some(database) = &self.database else { return Ok(Vec::new()) };
        database::attempts(database.url()).await
    }

    /// Waits until every partition has an owner, and each of the servers has some.
    pub(crate) async fn shared_out(&self) -> anyhow::Result<()> {
        for _ in 0..PATIENCE {
            let owners = self.owners().await?;
            let distinct: BTreeSet<_> = owners.iter().filter_map(|it| it.1.as_ref()).collect();
            let all = owners.iter().all(|it| it.1.is_some());
            if all && distinct.len() == self.nodes.len() {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        anyhow::bail!("the partitions are not shared out: {:?}", self.owners().await?)
    }

    /// Returns the partition of an endpoint.
    pub(crate) fn partition(&self, endpoint: usize) -> anyhow::Result<usize> {
        let id: EndpointId = self.ids[endpoint].parse()?;
        Ok(usize::from(Partition::of(&id).number()))
    }

    /// Returns the times in which a server could not renew its lease, though it was there.
    pub(crate) fn stalls(&self) -> Vec<Outage> {
        self.stalls.as_ref().map(Stalls::seen).unwrap_or_default()
    }

    /// Stops all servers as planned, and removes what they wrote.
    pub(crate) async fn close(mut self) -> anyhow::Result<Vec<String>> {
        drop(self.stalls.take());
        let mut panics = Vec::new();
        for node in &mut self.nodes {
            node.stop().await?;
            panics.extend(process::panics(node));
        }
        if let Some(database) = self.database.take() {
            database.remove().await?;
        }
        Ok(panics)
    }
}

/// Retries come soon, and nothing is given up: what is not answered well now will be.
pub(crate) fn patient_policy() -> Value {
    json!({
        "extends": "redial",
        "policy": {
            "max_attempts": 1000,
            "give_up_after": "24h",
            "schedule": { "kind": "exponential", "base": "100ms", "factor": 1.5, "cap": "500ms" },
            "timeouts": { "connect": "30s", "whole": "60s" },
        },
        "endpoint": {
            "breaker": {
                "threshold": 5,
                "cooldown": "200ms",
                "growth": 1,
                "longest_cooldown": "200ms",
                "while_open": "hold",
            },
            "disable": { "permanent_streak": "never", "without_success": "never" },
        },
    })
}

fn describe(endpoint: &Endpoint, number: usize, url: &str) -> anyhow::Result<Value> {
    Ok(json!({
        "url": url,
        "channels": [endpoint.channel],
        "fifo": endpoint.fifo,
        "inFlight": endpoint.in_flight,
        "throttleRate": endpoint.rate,
        "secret": *secret(number)?.reveal(),
        "policy": patient_policy(),
    }))
}
