//! Rates, as a receiver sees them: when connections are ready together, and when it takes its time
//! before it takes them in.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::outcome::Outcome;
use domain::time::Timestamp;
use futures_util::future::join_all;
use redial::clock::{Clock as _, SystemClock};
use redial::transport::{Resolver, Transport};
use store::queue::AttemptRecord;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

use super::receiver::read_request;
use super::scene::{Scene, loopback, settings, took};

const ANSWER: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const SECOND: Duration = Duration::from_secs(1);

/// A receiver that answers one request on each connection, and remembers when it came.
#[derive(Clone)]
struct Watchful {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Timestamp>>>,
    clock: SystemClock,
    /// How long it takes to answer.
    takes: Duration,
}

impl Watchful {
    /// Starts one whose system takes connections in, and whose program does so only after a while.
    async fn after(while_idle: Duration) -> Self {
        Self::start(while_idle, Duration::ZERO).await
    }

    async fn start(while_idle: Duration, takes: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, clock) = (Arc::default(), SystemClock::start());
        let receiver = Self { address, seen, clock, takes };
        let serving = receiver.clone();
        tokio::spawn(async move {
            tokio::time::sleep(while_idle).await;
            while let Ok((tcp, _)) = listener.accept().await {
                tokio::spawn(serving.clone().answer(tcp));
            }
        });
        receiver
    }

    async fn answer(self, mut tcp: TcpStream) {
        if read_request(&mut tcp, 0).await.is_some() {
            self.seen.lock().unwrap().push(self.clock.now());
            tokio::time::sleep(self.takes).await;
            drop(tcp.write_all(ANSWER.as_bytes()).await);
        }
    }

    fn arrivals(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    fn most_in_a_second(&self) -> usize {
        let mut seen = self.seen.lock().unwrap().clone();
        seen.sort_unstable();
        let from = |(index, first): (usize, &Timestamp)| {
            seen[index..].iter().take_while(|at| at.since(*first) < SECOND).count()
        };
        seen.iter().enumerate().map(from).max().unwrap_or(0)
    }
}

/// Gives nobody an address before so many have asked for it.
fn all_together(count: usize) -> Resolver {
    let barrier = Arc::new(Barrier::new(count));
    Resolver::from_fn(move |_| {
        let barrier = Arc::clone(&barrier);
        Box::pin(async move {
            barrier.wait().await;
            Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])
        })
    })
}

async fn send_at_once(scene: &Scene, count: usize) -> Vec<AttemptRecord> {
    let (clock, sending) = (SystemClock::start(), scene.sending(&scene.member()));
    join_all((0..count).map(|_| scene.transport.send(&sending, clock.now(), &clock))).await
}

fn answered(records: &[AttemptRecord]) -> usize {
    records.iter().filter(|it| it.outcome == Outcome::answered(200)).count()
}

#[tokio::test]
async fn connections_that_are_ready_together_do_not_bring_more_than_the_rate() {
    let (receiver, count) = (Watchful::after(Duration::ZERO).await, 14);
    let transport = Transport::new(settings(loopback(), all_together(count)));
    let url = format!("http://receiver.example:{}/", receiver.address.port());
    let mut scene = Scene::with(&url, transport);
    scene.settings.rate = Some(10);
    let records = send_at_once(&scene, count).await;
    assert_eq!((answered(&records), receiver.arrivals()), (count, count), "{records:?}");
    let most = receiver.most_in_a_second();
    assert!(most <= 10, "{most} in a second");
}

#[tokio::test]
async fn a_receiver_that_takes_waiting_connections_in_at_once_gets_no_more_than_the_rate() {
    let (receiver, count) = (Watchful::after(SECOND * 3 / 2).await, 7);
    let mut scene = Scene::new(&format!("http://{}/", receiver.address));
    scene.settings.rate = Some(4);
    let records = send_at_once(&scene, count).await;
    assert_eq!((answered(&records), receiver.arrivals()), (count, count), "{records:?}");
    let most = receiver.most_in_a_second();
    assert!(most <= 4, "{most} in a second");
}

#[tokio::test]
async fn an_attempt_whose_turn_does_not_come_in_time_is_none() {
    let receiver = Watchful::after(Duration::ZERO).await;
    let limit = Duration::from_millis(400);
    let mut scene = Scene::new(&format!("http://{}/", receiver.address)).within(limit, limit);
    scene.settings.rate = Some(1);
    let records = send_at_once(&scene, 2).await;
    assert_eq!(answered(&records), 1, "{records:?}");
    assert!(records.iter().any(|it| it.outcome == Outcome::Interrupted), "{records:?}");
    assert_eq!(receiver.arrivals(), 1);
}

#[tokio::test]
async fn an_attempt_whose_endpoint_was_changed_while_it_waited_is_none() {
    let receiver = Watchful::after(Duration::ZERO).await;
    let mut scene = Scene::new(&format!("http://{}/", receiver.address));
    scene.settings.rate = Some(1);
    let (clock, sending) = (SystemClock::start(), scene.sending(&scene.member()));
    assert_eq!(answered(&send_at_once(&scene, 1).await), 1);
    // It asks when its turn has come, and not before.
    let asked = Mutex::new(Vec::new());
    let in_force = || {
        asked.lock().unwrap().push(clock.now());
        false
    };
    let began = clock.now();
    let record = scene.transport.send_while(&sending, (began, &clock), &in_force).await;
    assert_eq!(record.outcome, Outcome::Interrupted, "{record:?}");
    assert_eq!((receiver.arrivals(), asked.lock().unwrap().len()), (1, 1));
}

#[tokio::test]
async fn waiting_for_its_turn_takes_nothing_from_the_time_that_a_receiver_has() {
    // The second passes a second after the first was answered, when half of its time would be over.
    let receiver = Watchful::start(Duration::ZERO, SECOND * 3 / 5).await;
    let limit = SECOND * 2;
    let mut scene = Scene::new(&format!("http://{}/", receiver.address)).within(limit, limit);
    scene.settings.rate = Some(1);
    let records = send_at_once(&scene, 2).await;
    assert_eq!((answered(&records), receiver.arrivals()), (2, 2), "{records:?}");
}

#[tokio::test]
async fn waiting_for_its_turn_is_no_part_of_the_time_that_an_attempt_took() {
    let receiver = Watchful::after(Duration::ZERO).await;
    let mut scene = Scene::new(&format!("http://{}/", receiver.address));
    scene.settings.rate = Some(1);
    let clock = SystemClock::start();
    let began = clock.now();
    let records = send_at_once(&scene, 2).await;
    let whole = clock.now().since(began);
    assert_eq!(answered(&records), 2, "{records:?}");
    assert!(whole >= SECOND, "the second had to wait: {whole:?}");
    assert!(records.iter().all(|it| took(it) < SECOND / 2), "{records:?}");
}

#[tokio::test]
async fn when_a_server_stops_what_waits_for_its_turn_is_interrupted_and_what_is_written_ends() {
    let receiver = Watchful::start(Duration::ZERO, SECOND * 3 / 5).await;
    let mut scene = Scene::new(&format!("http://{}/", receiver.address));
    scene.settings.rate = Some(1);
    let stop = async {
        while receiver.arrivals() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        scene.transport.stop_waiting();
    };
    let (records, ()) = tokio::join!(send_at_once(&scene, 3), stop);
    let interrupted = records.iter().filter(|it| it.outcome == Outcome::Interrupted);
    assert!(interrupted.clone().all(|it| took(it) < SECOND / 2), "{records:?}");
    assert_eq!((answered(&records), interrupted.count(), receiver.arrivals()), (1, 2, 1));
}
