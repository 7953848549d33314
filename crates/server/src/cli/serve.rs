//! `redial serve`: the server, from its configuration to its last answer.
//!
//! It prints where it listens and where its data is, and at the first start the admin token. SIGTERM
//! and SIGINT stop it: it says that it is not ready, takes in nothing more, finishes what it began. A
//! second one ends it at once. Whatever hangs, the process is gone soon after its time is over. SIGHUP has
//! it read its certificate again.
//!
//! # Layout
//! - `settings`: what its parts are told of the configuration; `opening`: its store
//! - `runtimes`: what all of it runs on; `banner`: what it says when it is ready
//! - `renamed`: names that a migration had to change; `tokens`: an admin token that has changed

mod banner;
mod opening;
mod renamed;
mod runtimes;
mod settings;
mod tokens;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use domain::address::Guard;
use store::{Ledger, Queue};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use self::banner::Banner;
use self::opening::Store;
pub(super) use self::opening::open_store;
use self::runtimes::Sending;
pub(super) use self::settings::disk;
use self::settings::{app_settings, node_settings};
use super::access::Access;
use super::{Failure, Streams, access, token};
use crate::app::{App, Parts};
use crate::clock::{Clock, SystemClock};
use crate::config::{Configuration, Role, Sources};
use crate::http::scraping::Scraping;
use crate::http::{Door, Identity, Secure, listen};
use crate::node::{self, Ending, Node, Outward, again_and_again};
use crate::process::{Hangups, Stops, end_after, raise_file_limit};
use crate::telemetry::{Measured, Metrics};
use crate::transport::{Resolver, Transport, TransportSettings};
use crate::{api, telemetry};

/// How long closing may take after the time to stop is over, or was cut short. Nothing that still
/// runs then is worth waiting for: what counts is on disk.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);
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
    /// The IP address and port where the API listens, such as 127.0.0.1:8071
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The data directory, for a store in a file
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
    /// The policy where nothing nearer sets one: a preset, or a .toml or .json file
    #[arg(long)]
    policy: Option<String>,
    /// The configuration file; redial.toml in this directory otherwise, if it is there
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Any other setting of docs/configuration.md; may be given more than once
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
    for warning in &configuration.warnings {
        tracing::warn!("{warning}");
    }
    raise_file_limit();
    let shutdown = configuration.limits.shutdown;
    let (answering, sending) = (runtimes::answering()?, Sending::start()?);
    let served = answering.block_on(async {
        // Before anything takes its time: a terminal that closes must not end it in the middle.
        let hangups = Hangups::listen()?;
        let listener = listen("listen", configuration.listen).await.map_err(Failure::Other)?;
        let server =
            Server::open_on(configuration, listener, (sending.handle(), |ledger| ledger)).await;
        let server = server.map_err(Failure::Other)?;
        // Before anybody is told that the server is there, and could stop it.
        let [mut first, mut second] = [Stops::listen()?, Stops::listen()?];
        server.banner()?.write(server.configuration.log.format, streams.out)?;
        let identity = server.secure.as_ref().map(|secure| Arc::clone(&secure.identity));
        tokio::spawn(read_again(hangups, identity));
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
    access: Option<Access>,
}

impl Server {
    /// Opens the store, and makes the admin token at the first start.
    ///
    /// # Errors
    /// If the store cannot be opened.
    pub async fn open(configuration: Configuration, listener: TcpListener) -> anyhow::Result<Self> {
        Self::open_with(configuration, listener, |ledger| ledger).await
    }

    /// As [`Server::open`], with another ledger in place of the store's own, such as one that a test holds up.
    ///
    /// # Errors
    /// If the store cannot be opened.
    pub async fn open_with(
        configuration: Configuration,
        listener: TcpListener,
        ledger: impl FnOnce(Arc<dyn Ledger>) -> Arc<dyn Ledger>,
    ) -> anyhow::Result<Self> {
        Self::open_on(configuration, listener, (&Handle::current(), ledger)).await
    }

    /// Opens it with what sends on a runtime of its own.
    async fn open_on(
        configuration: Configuration,
        listener: TcpListener,
        (sending, ledger): (&Handle, impl FnOnce(Arc<dyn Ledger>) -> Arc<dyn Ledger>),
    ) -> anyhow::Result<Self> {
        let secure = match &configuration.tls {
            Some(tls) => Some(Secure::listen(tls).await?),
            None => None,
        };
        let figures = match configuration.metrics {
            Some(address) => Some(listen("metrics.listen", address).await?),
            None => None,
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let store = open_store(&configuration, &clock).await?;
        let store = Store { ledger: ledger(store.ledger), ..store };
        renamed::tell(&*store.catalog).await?;
        let metrics = Metrics::new();
        let guard = Guard::new(configuration.egress.clone());
        let resolver = Resolver::system().context("the system's name servers cannot be read")?;
        let transport = TransportSettings::new(guard.clone(), resolver);
        let transport = Arc::new(Transport::new(transport));
        let parts = node_parts(&store, &transport, &metrics, &clock);
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
            data: disk(&configuration).map(|disk| disk.directory),
        };
        let address = listener.local_addr()?;
        let (access, local) = access::grant(&configuration, address);
        let settings = app_settings(&configuration, (address, local));
        let app = Arc::new(App::new(Parts {
            catalog: store.catalog,
            ledger: store.ledger,
            vault: store.vault,
            accepting: Arc::new(node.intake()),
            clock: node.clock(),
            guard: Arc::new(RwLock::new(guard)),
            settings,
        }));
        tokens::tell(&app).await?;
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
            access,
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

    /// Puts together what is said once it is ready.
    fn banner(&self) -> std::io::Result<Banner> {
        let address = self.address()?;
        let (secure, metrics) = self.other_addresses();
        // What somebody on this machine can open.
        let near = token::url_at(address).map_or_else(|_| String::new(), |url| url.to_string());
        let public = self.configuration.public_url.as_ref().map(ToString::to_string);
        let base = public.unwrap_or(near);
        let serves_api = match self.configuration.role {
            Role::All | Role::Api => true,
            Role::Worker => false,
        };
        Ok(Banner {
            api: format!("http://{address}"),
            tls: secure.map(|address| format!("https://{address}")),
            metrics: metrics.map(|address| format!("http://{address}/metrics")),
            docs: serves_api.then(|| format!("{}/docs", base.trim_end_matches('/'))),
            data: match &self.configuration.database {
                Some(_) => "PostgreSQL".to_owned(),
                None => self.configuration.data.display().to_string(),
            },
            egress: self.configuration.egress.proxying.announcement(),
            first_token: self.first_token.clone(),
            at: SystemClock::start().wall(),
        })
    }

    /// Serves until `shutdown` is done, then finishes what was begun, within `limits.shutdown`.
    ///
    /// # Errors
    /// If a part fails without which the server would take messages in and do nothing about them, or
    /// if not everything has ended in time.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Self { configuration, listener, secure, metrics, scraping, app, node, .. } = self;
        let (mut tasks, access) = (self.tasks, self.access);
        let queue = Arc::clone(&scraping.queue);
        tasks.extend(metrics.map(|listener| tokio::spawn(scraping.serve(listener))));
        let limits = configuration.limits;
        let service = api::service(Arc::clone(&app), limits.clone(), configuration.role);
        let door = Door::new(move |client| service.serving(client), &limits);
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
        // While the store is still open here, so that it is not the next server's that goes.
        drop(access);
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

/// Has certificate and key read again at each SIGHUP, if there are any.
async fn read_again(mut hangups: Hangups, identity: Option<Arc<Identity>>) {
    loop {
        hangups.next().await;
        match identity.as_ref().map(|identity| identity.read_again()) {
            Some(Ok(())) => tracing::info!("SIGHUP: certificate and key were read again"),
            Some(Err(error)) => {
                tracing::error!("SIGHUP: the certificate before stays in use: {error:#}");
            }
            None => tracing::info!("SIGHUP: nothing is read again, as there is no tls.certificate"),
        }
    }
}

/// Puts together what a node is made of.
fn node_parts(
    store: &Store,
    transport: &Arc<Transport>,
    metrics: &Arc<Metrics>,
    clock: &Arc<dyn Clock>,
) -> node::Parts {
    node::Parts {
        queue: Arc::new(Measured {
            queue: Arc::clone(&store.queue),
            metrics: Arc::clone(metrics),
            clock: Arc::clone(clock),
        }),
        catalog: Arc::clone(&store.catalog),
        ledger: Arc::clone(&store.ledger),
        carrier: Arc::new(Outward {
            transport: Arc::clone(transport),
            clock: Arc::clone(clock),
            in_flight: metrics.in_flight(),
        }),
        clock: Arc::clone(clock),
        answering: Handle::current(),
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
