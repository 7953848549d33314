//! A server is asked to stop while an attempt hangs and a client has sent half of a request: it ends
//! within the time that it has for everything, or at once when it is asked again. Either way nothing
//! is lost, and what was interrupted does not count. One whose disk hangs ends soon after its time.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use redial::clock::{Clock as _, SystemClock};
use serde_json::json;
use tempfile::TempDir;
use testkit::eventually;
use testkit::receiver::Receiver;
use testkit::server::{Server, free_ports};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::client::Client;
use super::payload::{message, payload};
use super::process::{file_limits, launch, start};
use super::scene::{EVERYBODY, Ground};

/// How long a wait may take, in looks: a minute.
const MOST_LOOKS: u32 = 3_000;
const LOOK: Duration = Duration::from_millis(20);

/// How it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Once,
    Twice,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Report {
    /// From the first question to the end.
    pub(crate) took: Duration,
    /// Whether it ended well.
    pub(crate) good_end: bool,
    /// Whether it raised its limit of open files as far as it could.
    pub(crate) files_raised: bool,
    /// Attempts on record once the message was delivered after the next start.
    pub(crate) attempts: usize,
}

/// A receiver that hangs until it is told to answer.
struct Hanging {
    listening: Receiver,
    arrived: Arc<AtomicUsize>,
    answers: Arc<AtomicBool>,
}

/// Stops a server that has so long for it.
pub(crate) async fn run(ground: &Ground, grace: Duration, asked: Asked) -> anyhow::Result<Report> {
    let (clock, temporary) = (SystemClock::start(), TempDir::new()?);
    let directory = ground.keep.clone().unwrap_or_else(|| temporary.path().to_owned());
    let receiver = Hanging::start().await?;
    let mut launch = launch(ground.executable.clone(), None);
    launch.settings.push(("REDIAL_LIMITS_SHUTDOWN", format!("{}s", grace.as_secs())));
    let mut node = start(&launch, directory).await?;
    let mut client = Client::of(node.port());
    let application = client.create("/app", &json!({ "name": "stops" })).await?;
    let url = receiver.listening.url("/");
    let endpoint = json!({ "url": url, "channels": [EVERYBODY] });
    let endpoint = client.create(&format!("/app/{application}/endpoint"), &endpoint).await?;
    client.send(&application, message(&payload(1, 0), &[EVERYBODY]), "stops").await?;
    eventually("the message arrives", async || (receiver.arrivals() > 0).then_some(())).await;
    let mut half = TcpStream::connect((Ipv4Addr::LOCALHOST, node.port())).await?;
    half.write_all(b"POST /api/v1/app HTTP/1.1\r\nhost: local").await?;
    let (soft, hard) = file_limits(&node)?;

    let asked_at = clock.now();
    node.ask_to_stop()?;
    if asked == Asked::Twice {
        let hears = async || node.said().contains("stopping").then_some(());
        eventually("it hears the first signal", hears).await;
        node.ask_to_stop()?;
    }
    let status = node.end().await?;
    let took = clock.now().since(asked_at);

    receiver.answers.store(true, Ordering::SeqCst);
    node.restart().await?;
    let path = format!("/app/{application}/attempt/endpoint/{endpoint}");
    let mut attempts = 0;
    for _ in 0..MOST_LOOKS {
        let page = client.ask(&path).await?;
        attempts = page["data"].as_array().map_or(0, Vec::len);
        if attempts > 0 {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    node.stop().await?;
    Ok(Report { took, good_end: status.success(), files_raised: soft == hard, attempts })
}

/// How much longer each sync takes on a disk that hangs.
pub(crate) const HUNG: Duration = Duration::from_secs(60);

/// Stops a server whose disk hangs; returns how long that took, and the exit code.
pub(crate) async fn hung(
    ground: &Ground,
    grace: Duration,
) -> anyhow::Result<(Duration, Option<i32>)> {
    let (clock, temporary) = (SystemClock::start(), TempDir::new()?);
    let directory = ground.keep.clone().unwrap_or_else(|| temporary.path().to_owned());
    let mut launch = launch(ground.executable.clone(), None);
    launch.settings.push(("REDIAL_LIMITS_SHUTDOWN", format!("{}s", grace.as_secs())));
    launch.settings.push(("REDIAL_SYNC_DELAY", format!("{}s", HUNG.as_secs())));
    // Taking its partitions is the first thing that it writes, and does not end: it answers, and is not ready.
    let [port] = free_ports()?;
    let mut node = Server::start_answering(launch, directory.join("hung"), port).await?;
    let asked_at = clock.now();
    node.ask_to_stop()?;
    let status = node.end().await?;
    Ok((clock.now().since(asked_at), status.code()))
}

impl Hanging {
    async fn start() -> anyhow::Result<Self> {
        let (arrived, answers) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let own = (Arc::clone(&arrived), Arc::clone(&answers));
        let listening = Receiver::start(move |stream, _| {
            let own = own.clone();
            async move { drop(hang(stream, own).await) }
        })?;
        Ok(Self { listening, arrived, answers })
    }

    fn arrivals(&self) -> usize {
        self.arrived.load(Ordering::SeqCst)
    }
}

/// Reads what comes; it is short enough to come at once.
async fn hang(
    mut stream: TcpStream,
    (arrived, answers): (Arc<AtomicUsize>, Arc<AtomicBool>),
) -> anyhow::Result<()> {
    let mut buffer = [0; 16 << 10];
    while stream.read(&mut buffer).await.context("the sender is gone")? > 0 {
        arrived.fetch_add(1, Ordering::SeqCst);
        if answers.load(Ordering::SeqCst) {
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
        }
    }
    Ok(())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { took, good_end, attempts, .. } = self;
        write!(f, "stopped         in {took:?}, a good end: {good_end}, then {attempts} attempts")
    }
}
