//! A server with nothing in it, and a customer who sets things up on it.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::partition::PARTITIONS;
use host::clock::Clock;
use testkit::database::Database;
use testkit::server::{Launch, Server};

use super::client::{Closed, Limit, Source, Taken};
use super::customer::{Customer, EVERYBODY, Ingest, messages};
use super::metrics::Counters;
use super::process;
use super::receiver::Group;
use super::scratch;
use super::usage::{Processes, bytes_under};
use super::{Bench, per_second, real};

/// How long nothing may arrive before a run is given up.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether the server has written down what it has just sent.
const LOOK: Duration = Duration::from_millis(5);
/// How often it is looked whether nodes have shared the partitions anew.
const SHARING_LOOK: Duration = Duration::from_millis(100);
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
    /// Other nodes of the same fleet.
    pub(super) others: Vec<Server>,
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

/// An application whose endpoints can be sent to one by one.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) application: String,
    /// The ids of its endpoints.
    pub(super) endpoints: Vec<String>,
    /// The channel of each.
    channels: Vec<String>,
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
        let server = process::start(launch, directory).await?;
        let customer = Customer::of(server.port()).await?;
        Ok(Self { server, others: Vec::new(), customer, database })
    }

    /// Ends all nodes and removes what they wrote. They are killed: to stop takes a second of notice, or
    /// as long as an endpoint hangs, and nobody will look at the store again.
    pub(super) async fn close(mut self) -> anyhow::Result<()> {
        for server in self.others.iter_mut().chain([&mut self.server]) {
            server.kill()?;
        }
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

    /// Makes an application with steady endpoints that can be sent to one by one.
    pub(super) async fn turns(
        &mut self,
        bench: &Bench<'_>,
        endpoints: usize,
    ) -> anyhow::Result<Turns> {
        let name = format!("turns-{}", bench.number());
        let application = self.customer.application(&name).await?;
        let channels: Vec<String> = (0..endpoints).map(|number| format!("c{number}")).collect();
        let mut endpoints = Vec::new();
        for (endpoint, channel) in channels.iter().enumerate() {
            let url = bench.receiver.url(Group::Steady, endpoint);
            endpoints.push(self.customer.endpoint(&application, &url, &[channel]).await?);
        }
        Ok(Turns { application, endpoints, channels })
    }

    /// Returns the bytes of the store on disk.
    pub(super) async fn bytes(&self) -> anyhow::Result<u64> {
        match &self.database {
            Some(database) => database.bytes().await,
            None => Ok(bytes_under(&self.server.data())),
        }
    }

    /// Returns what all nodes count together.
    pub(super) async fn counters(&self) -> anyhow::Result<Counters> {
        let mut all = process::counters(&self.server).await?;
        for other in &self.others {
            all = all.and(process::counters(other).await?);
        }
        Ok(all)
    }

    /// Waits until the server has written down that so many more were delivered than at an earlier
    /// moment: what it has still to do would slow down what is measured next.
    pub(super) async fn settled(
        &self,
        clock: &Arc<dyn Clock>,
        before: Counters,
        deliveries: u64,
    ) -> anyhow::Result<()> {
        let began = clock.now();
        loop {
            let settled = self.counters().await?.since(before).delivered;
            if settled >= real(deliveries) {
                return Ok(());
            }
            anyhow::ensure!(
                clock.now().since(began) < PATIENCE,
                "{deliveries} deliveries have arrived, and only {settled} are written down"
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until the partitions are shared by so many nodes.
    pub(super) async fn shared(&self, clock: &Arc<dyn Clock>, nodes: usize) -> anyhow::Result<()> {
        let Some(database) = &self.database else { return Ok(()) };
        let began = clock.now();
        loop {
            let shares = scratch::shares(database).await?;
            if are_even(&shares, nodes) {
                return Ok(());
            }
            anyhow::ensure!(
                clock.now().since(began) < PATIENCE,
                "{nodes} nodes do not share the partitions evenly, but {shares:?}"
            );
            tokio::time::sleep(SHARING_LOOK).await;
        }
    }

    /// Returns the CPU time of all nodes and the database, whose processes come and go.
    fn cpu_time(&self, bench: &Bench<'_>) -> Duration {
        let nodes = self.others.iter().fold(Processes::of(self.server.process()), |all, other| {
            all.and(&Processes::of(other.process()))
        });
        nodes.and(&bench.database_processes()).cpu_time()
    }

    /// Waits for the server that was started anew.
    pub(super) async fn after_restart(&mut self) -> anyhow::Result<()> {
        self.server.ready().await?;
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

/// Tells whether all partitions are owned, by so many nodes, by each about as many.
fn are_even(shares: &[i64], nodes: usize) -> bool {
    let all = i64::from(PARTITIONS);
    let (least, most) = (shares.iter().min(), shares.iter().max());
    let even = least.zip(most).is_some_and(|(least, most)| most - least <= 2);
    shares.len() == nodes && shares.iter().sum::<i64>() == all && even
}

/// Returns how a batch is handed in to an application with so many endpoints.
pub(super) fn batch_for(fan_out: usize) -> Ingest {
    Ingest::Batch((MOST_DELIVERIES / fan_out.max(1)).clamp(1, BATCH))
}

impl Turns {
    /// Returns messages, or batches, that go to one endpoint after the other.
    pub(super) fn all(&self, ingest: Ingest) -> anyhow::Result<Flow> {
        self.of_first(self.channels.len(), ingest)
    }

    /// Returns messages that all go to the first endpoint.
    pub(super) fn first(&self, ingest: Ingest) -> anyhow::Result<Flow> {
        self.of_first(1, ingest)
    }

    fn of_first(&self, endpoints: usize, ingest: Ingest) -> anyhow::Result<Flow> {
        let source = messages(&self.application, ingest, &self.channels[..endpoints])?;
        Ok(Flow { source, fan_out: 1, endpoints })
    }
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
        let (before, made) = (site.counters().await?, self.source.made());
        let cpu = site.cpu_time(bench);
        let load = Closed {
            port: site.server.port(),
            connections: self.connections(bench),
            source: Arc::clone(&self.source),
            limit: Limit::Messages(messages),
        };
        let sent = load.run(&bench.clock).await?;
        let deliveries = sent.taken.messages * self.deliveries_per_message();
        bench.receiver.wait_for(Group::Steady, deliveries, PATIENCE).await?;
        let elapsed = bench.receiver.last_arrival(Group::Steady).since(sent.began);
        self.check(bench, sent.taken, made..self.source.made())?;
        site.settled(&bench.clock, before, deliveries).await?;
        let cpu = site.cpu_time(bench).saturating_sub(cpu);
        Ok(Delivered {
            deliveries,
            per_second: per_second(deliveries, elapsed),
            cpu_per_delivery: cpu / u32::try_from(deliveries).unwrap_or(u32::MAX).max(1),
            turned_away: sent.taken.turned_away,
        })
    }

    /// A benchmark that loses something is worth nothing: either everybody got everything, or each
    /// what was its turn.
    pub(super) fn check(
        &self,
        bench: &Bench<'_>,
        all: Taken,
        requests: Range<usize>,
    ) -> anyhow::Result<()> {
        // Of a batch a part may have been turned away for good, and nobody knows for whom it was.
        let batch = self.source.messages();
        let counts = bench.receiver.per_endpoint(Group::Steady, self.endpoints);
        for (endpoint, got) in counts.into_iter().enumerate() {
            let sent = if self.fan_out == self.endpoints {
                all.messages
            } else {
                (turns(&requests, endpoint, self.endpoints) * batch).saturating_sub(all.given_up)
            };
            anyhow::ensure!(got >= sent, "endpoint {endpoint} got {got} of {sent} messages");
        }
        Ok(())
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

/// Returns how many of some numbered requests were for one endpoint, if each goes to the next one.
fn turns(requests: &Range<usize>, endpoint: usize, endpoints: usize) -> u64 {
    let up_to = |number: usize| (number + endpoints - 1 - endpoint) / endpoints;
    u64::try_from(up_to(requests.end) - up_to(requests.start)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_has_its_turns() {
        for (start, end) in [(0, 7), (2, 7), (5, 5), (3, 4)] {
            for endpoint in 0..3 {
                let counted = (start..end).filter(|number| number % 3 == endpoint).count();
                let turns = turns(&(start..end), endpoint, 3);
                assert_eq!(turns, u64::try_from(counted).unwrap(), "{start}..{end} {endpoint}");
            }
        }
    }

    #[test]
    fn nodes_share_evenly_when_none_has_much_more() {
        assert!(are_even(&[64], 1) && are_even(&[33, 31], 2));
        assert!(!are_even(&[64], 2) && !are_even(&[40, 24], 2) && !are_even(&[32, 30], 2));
        assert!(!are_even(&[], 1));
    }
}
