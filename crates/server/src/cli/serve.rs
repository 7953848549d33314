//! `redial serve`: the server, from its configuration to its last answer.
//!
//! It prints where it listens and where its data is, and at the first start the admin token. SIGTERM
//! and SIGINT stop it: it says that it is not ready, takes in nothing more, finishes what it began. A
//! second one ends it at once. Whatever hangs, the process is gone soon after its time is over.
//!
//! # Layout
//! - `runtimes`: what all of it runs on
//! - `renamed`: names that a migration had to change

mod renamed;
mod runtimes;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use domain::address::Guard;
use engine::commit::{Bound, Limits, Weight};
use engine::roster::Read;
use sha2::{Digest as _, Sha256};
use store::postgres::{self, Postgres};
use store::sqlite::{self, Sqlite};
use store::{Catalog, Ledger, Queue, Vault};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use self::runtimes::Sending;
use super::{Failure, Streams};
use crate::api;
use crate::app::{App, Parts, Settings};
use crate::clock::{Clock, SystemClock};
use crate::committer::Transactions;
use crate::config::{Configuration, Database, Hidden, Role, Sources};
use crate::http::scraping::{self, Scraping};
use crate::http::{Door, Secure};
use crate::node::{self, Ending, Node, Outward, again_and_again};
use crate::process::{Stops, end_after, raise_file_limit, within_files};
use crate::telemetry::{Measured, Metrics};
use crate::transport::{Resolver, Transport, TransportSettings};
use crate::{dice, telemetry};

/// The most deliveries that wait to be handed over from accepting to sending.
const HANDED_OVER: usize = 16_384;
/// How long closing may take after the time to stop is over, or was cut short. Nothing that still
/// runs then is worth waiting for: what counts is on disk.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);
/// What a stop needs beside the longest attempt: the notice before it, and the last steps after it.
const BESIDE_ATTEMPTS: Duration = Duration::from_secs(5);
/// How often it is looked whether the store's files are still there.
const FILES_LOOKED_FOR_EVERY: Duration = Duration::from_secs(1);
/// For how long a server without its files answers 503, so that whoever spreads requests over servers
/// sees it, before it ends.
const NOTICE_WITHOUT_FILES: Duration = Duration::from_secs(3);
/// What is said when something was still under way.
const UNFINISHED: &str = "not everything has ended in time; what is left goes on at the next start";
/// What is said when somebody does not want to wait.
const HURRIED: &str =
    "stopped at once by a second signal; what was in flight is sent again at the next start";

/// The store's files have gone from under the server. It has an exit code of its own: to start the server
/// again at once would make an empty store.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct FilesGone(String);

#[derive(Debug, Args)]
// Other commands take the same options, and clap wants each group to be named once.
#[group(skip)]
pub(crate) struct Arguments {
    /// Where the API listens
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The data directory
    #[arg(long, value_name = "PATH")]
    data: Option<String>,
    /// A PostgreSQL URL; nodes with the same one form a fleet
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// What this node does: all, api or worker
    #[arg(long)]
    role: Option<String>,
    /// A private range that endpoints may be in; may be given more than once
    #[arg(long, value_name = "CIDR")]
    allow_egress: Vec<String>,
    /// The policy where nothing nearer sets one: a preset, or a document
    #[arg(long)]
    policy: Option<String>,
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Any other setting of docs/configuration.md
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Arguments {
    fn options(&self) -> Result<Vec<(String, String)>, Failure> {
        let given = [
            ("listen", &self.listen),
            ("data", &self.data),
            ("database", &self.database),
            ("role", &self.role),
            ("policy", &self.policy),
        ];
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        let mut options: Vec<_> = given.map(|(name, value)| (name.to_owned(), value)).collect();
        if !self.allow_egress.is_empty() {
            options.push(("allow_egress".to_owned(), self.allow_egress.join(",")));
        }
        for text in &self.set {
            let pair = text.split_once('=').ok_or_else(|| {
                Failure::Usage(format!("--set: `{text}` has no `=`; write KEY=VALUE"))
            })?;
            options.push((pair.0.to_owned(), pair.1.to_owned()));
        }
        Ok(options)
    }

    /// Reads the configuration that these arguments, the environment and the file make together.
    pub(crate) fn configuration(&self) -> Result<Configuration, Failure> {
        let usage = |problem: crate::config::Problem| Failure::Usage(problem.to_string());
        let sources = Sources::of_process(self.config.clone(), self.options()?).map_err(usage)?;
        Configuration::read(sources).map_err(usage)
    }
}

pub(crate) fn run_command(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let configuration = arguments.configuration()?;
    telemetry::begin(&configuration.log).map_err(Failure::Usage)?;
    raise_file_limit();
    let shutdown = configuration.limits.shutdown;
    let (answering, sending) = (runtimes::answering()?, Sending::start()?);
    let served = answering.block_on(async {
        let listen = configuration.listen;
        let listener = TcpListener::bind(listen).await;
        let listener = listener.with_context(|| format!("cannot listen on {listen}"));
        let listener = listener.map_err(Failure::Other)?;
        let server = Server::open_on(configuration, listener, sending.handle()).await;
        let server = server.map_err(Failure::Other)?;
        // Before anybody is told that the server is there, and could stop it.
        let [mut first, mut second] = [Stops::listen()?, Stops::listen()?];
        server.announce(streams.out)?;
        let asked = async {
            first.next().await;
            end_after(shutdown.saturating_add(CLOSED_WITHIN));
        };
        let hurried = async {
            second.next().await;
            second.next().await;
            end_after(CLOSED_WITHIN);
        };
        tokio::select! {
            served = server.run(asked) => served.map_err(Failure::Other),
            () = hurried => Err(Failure::Other(anyhow::anyhow!(HURRIED))),
        }
    });
    if served.is_ok() {
        sending.end();
    } else {
        // Nothing that still runs is worth waiting for: what counts is on disk. But what sends is
        // told first: its settles are committed by the other one.
        sending.let_go();
        answering.shutdown_background();
    }
    served
}

/// Opens the store and serves until `shutdown` is done.
///
/// # Errors
/// If the store cannot be opened; the text says what to do.
pub async fn run(
    configuration: Configuration,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    Server::open(configuration, listener).await?.run(shutdown).await
}

/// A server that is open and does not serve yet.
pub struct Server {
    configuration: Configuration,
    listener: TcpListener,
    secure: Option<Secure>,
    metrics: Option<TcpListener>,
    scraping: Scraping,
    app: Arc<App>,
    node: Node,
    tasks: Vec<JoinHandle<()>>,
    first_token: Option<String>,
}

/// A store, by what it is used for.
pub(super) struct Store {
    catalog: Arc<dyn Catalog>,
    ledger: Arc<dyn Ledger>,
    queue: Arc<dyn Queue>,
}

impl Server {
    /// Opens the store, and makes the admin token at the first start.
    ///
    /// # Errors
    /// If the store cannot be opened.
    pub async fn open(configuration: Configuration, listener: TcpListener) -> anyhow::Result<Self> {
        Self::open_on(configuration, listener, &Handle::current()).await
    }

    /// Opens it with what sends on a runtime of its own.
    async fn open_on(
        configuration: Configuration,
        listener: TcpListener,
        sending: &Handle,
    ) -> anyhow::Result<Self> {
        let secure = match &configuration.tls {
            Some(tls) => Some(Secure::listen(tls).await?),
            None => None,
        };
        let figures = match configuration.metrics {
            Some(address) => Some(scraping::listen(address).await?),
            None => None,
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let store = open_store(&configuration, &clock).await?;
        renamed::tell(&*store.catalog).await?;
        let metrics = Metrics::new();
        let guard = Guard::new(configuration.egress.clone());
        let resolver = Resolver::system().context("the system's name servers cannot be read")?;
        let mut transport = TransportSettings::new(guard.clone(), resolver);
        transport.signing = configuration.signing.clone();
        let transport = Arc::new(Transport::new(transport));
        let parts = node::Parts {
            queue: Arc::new(Measured {
                queue: Arc::clone(&store.queue),
                metrics: Arc::clone(&metrics),
                clock: Arc::clone(&clock),
            }),
            catalog: Arc::clone(&store.catalog),
            ledger: Arc::clone(&store.ledger),
            carrier: Arc::new(Outward {
                transport: Arc::clone(&transport),
                clock: Arc::clone(&clock),
                in_flight: metrics.in_flight(),
            }),
            clock: Arc::clone(&clock),
            answering: Handle::current(),
        };
        let node = sending.spawn(Node::start(parts, node_settings(&configuration))).await??;
        let tasks = vec![
            sending.spawn(look_after(transport, clock)),
            sending.spawn(Arc::clone(&metrics).listen(node.announcements())),
        ];
        let scraping = Scraping {
            metrics,
            queue: store.queue,
            ledger: Arc::clone(&store.ledger),
            clock: node.clock(),
        };
        let settings = settings(&configuration, listener.local_addr()?);
        let app = Arc::new(App::new(Parts {
            catalog: store.catalog,
            ledger: store.ledger,
            accepting: Arc::new(node.intake()),
            clock: node.clock(),
            guard: Arc::new(RwLock::new(guard)),
            settings,
        }));
        let first_token = app.first_token().await?;
        Ok(Self {
            configuration,
            listener,
            secure,
            metrics: figures,
            scraping,
            app,
            node,
            tasks,
            first_token,
        })
    }

    /// Returns where it listens.
    ///
    /// # Errors
    /// If the listener is gone.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns where it listens for TLS, and where `/metrics` is, if anywhere.
    #[must_use]
    pub fn other_addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let address = |listener: &TcpListener| listener.local_addr().ok();
        let secure = self.secure.as_ref().and_then(|secure| address(&secure.listener));
        (secure, self.metrics.as_ref().and_then(address))
    }

    /// Returns the admin token, if this start made it.
    #[must_use]
    pub fn first_token(&self) -> Option<&str> {
        self.first_token.as_deref()
    }

    /// Says where it listens, where the data is and, at the first start, what the token is.
    fn announce(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        writeln!(out, "listening on http://{}", self.address()?)?;
        let (secure, metrics) = self.other_addresses();
        if let Some(address) = secure {
            writeln!(out, "listening on https://{address}")?;
        }
        if let Some(address) = metrics {
            writeln!(out, "metrics are at http://{address}/metrics")?;
        }
        match &self.configuration.database {
            Some(_) => writeln!(out, "data is in PostgreSQL")?,
            None => writeln!(out, "data is in {}", self.configuration.data.display())?,
        }
        writeln!(out, "{}", self.configuration.egress.proxying.announcement())?;
        if let Some(token) = &self.first_token {
            writeln!(out, "admin token, shown this once: {token}")?;
        }
        out.flush()
    }

    /// Serves until `shutdown` is done, then finishes what was begun, within `limits.shutdown`.
    ///
    /// # Errors
    /// If a part fails without which the server would take messages in and do nothing about them, or
    /// if not everything has ended in time.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Self { configuration, listener, secure, metrics, scraping, app, node, .. } = self;
        let mut tasks = self.tasks;
        let queue = Arc::clone(&scraping.queue);
        tasks.extend(metrics.map(|listener| tokio::spawn(scraping.serve(listener))));
        let limits = configuration.limits;
        let service = api::service(Arc::clone(&app), limits.clone(), configuration.role);
        let door = Door::new(service, &limits);
        tokio::select! {
            () = shutdown => {}
            what = node.failed() => return Err(broken(what)),
            text = files_gone(queue) => {
                tracing::error!("{text}");
                app.stop();
                let open = door.open(&listener, secure.as_ref());
                let _over = tokio::time::timeout(NOTICE_WITHOUT_FILES, open).await;
                return Err(FilesGone(text).into());
            }
            () = door.open(&listener, secure.as_ref()) => {}
        }
        app.stop();
        let seconds = limits.shutdown.as_secs_f64();
        tracing::info!(seconds, "stopping; a second signal ends it at once");
        // Whoever spreads requests over servers has to see that this one is not ready any more,
        // and until then goes on sending.
        tokio::select! {
            () = tokio::time::sleep(limits.notice()) => {}
            what = node.failed() => return Err(broken(what)),
            () = door.open(&listener, secure.as_ref()) => {}
        }
        drop((listener, secure));
        // Nothing is sent any more while the last requests are answered.
        let ending = node.stop_beside(door.close()).await;
        tasks.iter().for_each(JoinHandle::abort);
        match ending {
            Ending::InTime => Ok(()),
            Ending::TooLate => Err(anyhow::anyhow!(UNFINISHED)),
            Ending::Broken(what) => Err(broken(what)),
        }
    }
}

/// Waits until the store's files are gone, and says which.
async fn files_gone(queue: Arc<dyn Queue>) -> String {
    let mut turn = tokio::time::interval(FILES_LOOKED_FOR_EVERY);
    loop {
        turn.tick().await;
        let queue = Arc::clone(&queue);
        // A file system may take its time.
        let looked = tokio::task::spawn_blocking(move || queue.missing_files()).await;
        if let Ok(Some(text)) = looked {
            return text;
        }
    }
}

/// Closes old connections and reads this machine's own addresses again and again, come what may: the
/// address guard must know them.
async fn look_after(transport: Arc<Transport>, clock: Arc<dyn Clock>) {
    let upkeep = move || {
        let (transport, clock) = (Arc::clone(&transport), Arc::clone(&clock));
        async move { transport.upkeep(clock.as_ref()).await }
    };
    again_and_again("looking after the way out", upkeep).await;
}

/// What is said when a part of the node is gone that nothing goes on without.
fn broken(what: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "{what} panicked, and without it nothing goes on; the log says where. Start the server \
         again: nothing that was acknowledged is lost"
    )
}

pub(super) async fn open_store(
    configuration: &Configuration,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Store> {
    if let Some(database) = &configuration.database {
        return open_postgres(configuration, database).await;
    }
    let rows = Arc::clone(clock);
    let timeline: sqlite::Clock = Arc::new(move || rows.now());
    let mut settings = sqlite::Settings::new(&configuration.data, dice::entropy, timeline);
    settings.key = configuration.encryption_key.as_ref().map(|Hidden(key)| *key);
    settings.dead_letters_kept = configuration.retention.dead_letters;
    settings.sync_delay = configuration.sync_delay.unwrap_or_default();
    let opened = tokio::task::spawn_blocking(move || Sqlite::open(settings)).await?;
    let store = Arc::new(opened?);
    Ok(Store { catalog: Arc::clone(&store) as _, ledger: Arc::clone(&store) as _, queue: store })
}

async fn open_postgres(
    configuration: &Configuration,
    database: &Database,
) -> anyhow::Result<Store> {
    let key = configuration.encryption_key.as_ref().context("encryption_key is missing")?;
    let mut key = key.0;
    let vault = Vault::new(&mut key, dice::entropy);
    let mut settings = postgres::Settings::new(&database.url.0, vault);
    settings.listen_url = database.listen_url.as_ref().map(|Hidden(url)| url.clone());
    settings.connections = database.connections;
    settings.dead_letters_kept = configuration.retention.dead_letters;
    let store = Arc::new(Postgres::connect(settings).await?);
    Ok(Store { catalog: Arc::clone(&store) as _, ledger: Arc::clone(&store) as _, queue: store })
}

/// Tells whether a stop may be over before an attempt that began just before it.
fn stops_before(timeout: Duration, shutdown: Duration) -> bool {
    timeout.saturating_add(BESIDE_ATTEMPTS) > shutdown
}

fn node_settings(configuration: &Configuration) -> node::Settings {
    let limits = &configuration.limits;
    let shared = configuration.database.is_some();
    let mut engine = engine::Settings::of(node::unique_name("redial"));
    // The rest is for clients, the store, and connections in waiting.
    engine.in_flight = within_files(limits.in_flight);
    engine.hanging = within_files(limits.hanging);
    if (engine.in_flight, engine.hanging) != (limits.in_flight, limits.hanging) {
        let (in_flight, hanging) = (engine.in_flight, engine.hanging);
        tracing::warn!(
            in_flight,
            hanging,
            "fewer attempts at a time: this process may open few files"
        );
    }
    let (timeout, shutdown) = (configuration.policy.policy.timeouts.whole(), limits.shutdown);
    if stops_before(timeout, shutdown) {
        tracing::warn!(
            ?timeout,
            ?shutdown,
            "a stop may interrupt attempts, which are sent again: raise limits.shutdown"
        );
    }
    engine.payload_bytes = limits.payload_memory;
    engine.roster_memory = limits.roster_memory;
    if shared {
        // They share statements, and another node may call with something for many endpoints.
        engine.loads = 32;
    } else {
        // Nobody else writes: what memory knows is what there is, unless a hand-over got lost.
        engine.walk_every = Duration::from_secs(30);
    }
    node::Settings {
        engine,
        lanes: Limits {
            lane: Weight { rows: limits.lane_rows, bytes: limits.lane_bytes },
            waiting: Bound { items: limits.waiting_messages, bytes: limits.waiting_bytes },
            wait: limits.lane_wait,
            ..Limits::default()
        },
        transactions: if shared { Transactions::Apart } else { Transactions::Together },
        policy: Read::from(&configuration.policy),
        sends: match configuration.role {
            Role::All | Role::Worker => true,
            Role::Api => false,
        },
        handed_over: HANDED_OVER,
        grace: limits.shutdown.saturating_sub(limits.notice()),
    }
}

fn settings(configuration: &Configuration, address: SocketAddr) -> Settings {
    let limits = &configuration.limits;
    let token = configuration.admin_token.as_ref();
    let public_url = configuration.public_url.as_ref().map(|url| url.as_str().to_owned());
    let public_url = public_url.unwrap_or_else(|| format!("http://{address}"));
    Settings {
        policy: configuration.policy.clone(),
        signing: configuration.signing.clone(),
        retention: configuration.retention.messages,
        admin_token: token.map(|Hidden(token)| Sha256::digest(token.as_bytes()).into()),
        public_url: public_url.trim_end_matches('/').to_owned(),
        batch_messages: limits.batch_messages,
        batch_concurrency: limits.batch_concurrency,
        shared: configuration.database.is_some(),
        token_age: limits.token_age,
        configuration_rate: limits.configuration_rate,
        caps: limits.caps,
        cached_tokens: limits.cached_tokens,
        cached_applications: limits.cached_applications,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use domain::time::Timestamp;

    use super::*;
    use crate::transport::NoAddress;

    /// Panics when it is asked for the second time.
    #[derive(Default)]
    struct Moody(AtomicU32);

    impl Clock for Moody {
        fn now(&self) -> Timestamp {
            assert_ne!(self.0.fetch_add(1, Ordering::SeqCst), 1, "as told");
            Timestamp::EPOCH
        }

        fn wall(&self) -> Timestamp {
            Timestamp::EPOCH
        }
    }

    #[test]
    fn a_stop_has_to_leave_time_for_the_notice_and_for_what_is_written() {
        let usual = Duration::from_secs(30);
        for (timeout, interrupts) in [(20, false), (25, false), (26, true), (60, true)] {
            let timeout = Duration::from_secs(timeout);
            assert_eq!(stops_before(timeout, usual), interrupts, "{timeout:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_way_out_is_looked_after_also_after_a_panic() {
        let nobody = Resolver::from_fn(|_| Box::pin(async { Err(NoAddress::Absent) }));
        let settings = TransportSettings::new(Guard::new(Default::default()), nobody);
        let (transport, clock) = (Arc::new(Transport::new(settings)), Arc::new(Moody::default()));
        let looking = look_after(transport, Arc::clone(&clock) as _);
        assert!(tokio::time::timeout(Duration::from_secs(10), looking).await.is_err());
        assert!(clock.0.load(Ordering::SeqCst) > 4);
    }
}
