//! How many attempts a second the transport makes, beside a bare HTTP client in the same run.
//!
//! `cargo run --release -p redial --example transport_speed [seconds]` starts a bare receiver in a
//! thread of its own and sends to it from another one, first with hyper alone, then through the
//! transport, in turns. What counts is the ratio, and the processor time that each send costs: they
//! change little from machine to machine and under other load.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use domain::address::{Guard, Settings};
use domain::delivery::Pending;
use domain::endpoint::State;
use domain::ids::{ApplicationId, EndpointId, MessageId};
use domain::outcome::Outcome;
use domain::partition::Partition;
use domain::policy;
use domain::time::Timestamp;
use engine::{Member, Number, Sending};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use redial::clock::{Clock as _, SystemClock};
use redial::transport::{NoAddress, Resolver, Transport, TransportSettings};
use rustix::time::{ClockId, clock_gettime};
use store::catalog::{Confidential, Endpoint, EndpointSettings, EndpointView, Secret};
use store::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use store::queue::{Order, PendingDelivery, Running, Trigger};
use testkit::receiver::{Keeping, Receiver, converse, whole};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many attempts are in flight at once.
const IN_FLIGHT: usize = 32;
/// How often the two take turns.
const ROUNDS: usize = 3;
const PAYLOAD_BYTES: usize = 1024;

#[derive(Default)]
struct Score {
    sends: u64,
    elapsed: Duration,
    processor: Duration,
}

#[expect(clippy::print_stdout, reason = "an example reports to whoever ran it")]
fn main() -> anyhow::Result<()> {
    let seconds = std::env::args().nth(1).map_or(Ok(3), |text| text.parse())?;
    let span = Duration::from_secs(seconds);
    let receiver = Receiver::on_a_thread(|tcp, _| converse(tcp, Keeping::Alive, answer))?;
    let address = receiver.address();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut bare, mut ours) = (Score::default(), Score::default());
    for _ in 0..ROUNDS {
        runtime.block_on(send_bare(address, span, &mut bare))?;
        runtime.block_on(send_ours(address, span, &mut ours))?;
    }
    for (name, score) in [("hyper alone", &bare), ("transport", &ours)] {
        println!("{name:>12}: {:>8.0} sends/s, {:>5.1} µs each", score.rate(), score.cost());
    }
    println!(
        "       ratio: {:.2} of the rate, {:.2} of the cost",
        ours.rate() / bare.rate(),
        ours.cost() / bare.cost()
    );
    Ok(())
}

async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
    whole(request).await;
    Response::new(Full::new(Bytes::from_static(b"ok")))
}

async fn send_bare(address: SocketAddr, span: Duration, score: &mut Score) -> anyhow::Result<()> {
    let payload = payload();
    let authority = http::HeaderValue::try_from(address.to_string())?;
    score
        .measure(span, |ends_at, clock| {
            let (payload, authority) = (payload.clone(), authority.clone());
            async move {
                let tcp = TcpStream::connect(address).await?;
                tcp.set_nodelay(true)?;
                let connecting = hyper::client::conn::http1::handshake(TokioIo::new(tcp));
                let (mut sender, connection) = connecting.await?;
                tokio::spawn(connection);
                let mut sends = 0;
                while clock.now() < ends_at {
                    let mut request = Request::post("/hook").body(Full::new(payload.clone()))?;
                    request.headers_mut().insert(http::header::HOST, authority.clone());
                    let response = sender.send_request(request).await?;
                    anyhow::ensure!(response.status() == 200);
                    response.into_body().collect().await?;
                    sender.ready().await?;
                    sends += 1;
                }
                Ok(sends)
            }
        })
        .await
}

async fn send_ours(address: SocketAddr, span: Duration, score: &mut Score) -> anyhow::Result<()> {
    let allowed = vec!["127.0.0.1".parse()?];
    let guard = Guard::new(Settings { allowed, ..Settings::default() });
    let nobody = Resolver::from_fn(|_| Box::pin(async { Err(NoAddress::Absent) }));
    let settings = TransportSettings::new(guard, nobody);
    let transport = Arc::new(Transport::new(settings));
    let sending = Arc::new(sending(address)?);
    score
        .measure(span, |ends_at, clock| {
            let (transport, sending) = (Arc::clone(&transport), Arc::clone(&sending));
            async move {
                let mut sends = 0;
                while clock.now() < ends_at {
                    let record = transport.send(&sending, clock.now(), &clock).await;
                    anyhow::ensure!(record.outcome == Outcome::answered(200), "{record:?}");
                    sends += 1;
                }
                Ok(sends)
            }
        })
        .await
}

impl Score {
    async fn measure<Work>(
        &mut self,
        span: Duration,
        work: impl Fn(Timestamp, SystemClock) -> Work,
    ) -> anyhow::Result<()>
    where
        Work: Future<Output = anyhow::Result<u64>> + Send + 'static,
    {
        let clock = SystemClock::start();
        let (began, processor) = (clock.now(), processor_time());
        let mut workers = JoinSet::new();
        for _ in 0..IN_FLIGHT {
            workers.spawn(work(began.after(span), clock));
        }
        while let Some(done) = workers.join_next().await {
            self.sends += done??;
        }
        self.elapsed += clock.now().since(began);
        self.processor += processor_time().saturating_sub(processor);
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "nobody reads the last digits of a rate")]
    fn rate(&self) -> f64 {
        self.sends as f64 / self.elapsed.as_secs_f64()
    }

    /// The processor time of one send, in microseconds.
    #[expect(clippy::cast_precision_loss, reason = "nobody reads the last digits of a cost")]
    fn cost(&self) -> f64 {
        self.processor.as_secs_f64() * 1e6 / self.sends as f64
    }
}

/// The processor time of this thread, which does all the sending.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

fn payload() -> Bytes {
    Bytes::from(vec![b'x'; PAYLOAD_BYTES])
}

fn sending(address: SocketAddr) -> anyhow::Result<Sending> {
    let preset = policy::preset("redial")?;
    let partition = Partition::from_number(0).context("there is a first partition")?;
    let (application, endpoint) = (ApplicationKey(1), EndpointKey(1));
    let secret = Secret {
        text: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD".to_owned(),
        created_at: Timestamp::EPOCH,
        expires_at: None,
    };
    let origin = format!("http://{address}");
    let path_and_query = "/hook".to_owned();
    let view = EndpointView {
        endpoint: Endpoint {
            key: endpoint,
            application,
            id: EndpointId::from_bytes([1; 20]),
            uid: None,
            partition,
            state: State::Active,
            order: Order::Due,
            // The rate is not what is measured.
            settings: EndpointSettings { origin, rate: Some(1_000_000), ..Default::default() },
            confidential: Confidential { path_and_query, ..Confidential::default() },
            created_at: Timestamp::EPOCH,
            updated_at: Timestamp::EPOCH,
        },
        secrets: vec![secret],
        running: Running::default(),
    };
    let defaults = Arc::new(preset.endpoint.clone());
    let member = Member {
        application: ApplicationId::from_bytes([1; 20]),
        view,
        policy: None,
        defaults,
        complaint: None,
    };
    let delivery = PendingDelivery {
        key: DeliveryKey { application, endpoint, message: MessageKey(1) },
        partition,
        turn: 0,
        pending: Pending::fresh(&preset.policy.limits, Timestamp::EPOCH),
        recorded: 0,
        ended_before: None,
        last_attempt_at: None,
        message: MessageId::from_bytes([9; 20]),
        event_type: "invoice.paid".to_owned(),
        received_at: Timestamp::EPOCH,
        policy: None,
        content_type: None,
        payload: Some(payload()),
        expunged: false,
    };
    Ok(Sending {
        version: 1,
        attempt: Number(1),
        member: Arc::new(member),
        delivery,
        policy: Arc::new(preset.policy.clone()),
        trigger: Trigger::Scheduled,
    })
}
