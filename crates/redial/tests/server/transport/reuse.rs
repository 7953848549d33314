//! Connections that are used again, and those that must not be.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use domain::ids::ApplicationId;
use domain::outcome::{Outcome, Unreachable};
use redial::clock::SystemClock;
use redial::transport::{PoolLimits, Transport};
use tokio::sync::Notify;

use super::receiver::{OK, Receiver};
use super::scene::{Scene, loopback, resolving, settings};

#[tokio::test]
async fn a_connection_is_used_again_and_the_record_shows_it() {
    let receiver = Receiver::saying(OK).await;
    let scene = Scene::new(&receiver.url());
    let (first, second) = (scene.send().await, scene.send().await);
    assert!(first.phases.connect.is_some());
    assert!(second.phases.connect.is_none());
    assert!(second.phases.first_byte.is_some());
    assert_eq!((first.phases.reused, second.phases.reused), (Some(false), Some(true)));
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn a_changed_endpoint_keeps_its_connection_and_loses_its_old_headers() {
    let receiver = Receiver::saying(OK).await;
    let mut scene = Scene::new(&receiver.url());
    scene.settings.headers.insert("x-team".into(), "old".into());
    scene.send().await;
    scene.settings.headers.insert("x-team".into(), "new".into());
    scene.send().await;
    assert_eq!(receiver.seen().pop().unwrap().header("x-team"), Some("new"));
    assert_eq!(receiver.connections(), 1);
}

/// A receiver in a thread of its own: it answers one request on each connection, closes it when it
/// is told to, and says so.
fn closing_receiver() -> (SocketAddr, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ((close, closing), (tell, told)) = (mpsc::channel(), mpsc::channel());
    std::thread::spawn(move || {
        while let Ok((mut tcp, _)) = listener.accept() {
            let mut request = [0; 4096];
            assert!(tcp.read(&mut request).unwrap() > 0);
            tcp.write_all(OK.as_bytes()).unwrap();
            if closing.recv().is_err() {
                return;
            }
            drop(tcp);
            tell.send(()).unwrap();
        }
    });
    (address, close, told)
}

#[tokio::test]
async fn a_connection_that_its_peer_closed_meanwhile_costs_no_attempt() {
    let (address, close, closed) = closing_receiver();
    let scene = Scene::new(&format!("http://{address}/"));
    for attempt in 0..20 {
        let record = scene.send().await;
        assert_eq!(record.outcome, Outcome::answered(200), "{attempt}: {:?}", record.error);
        assert!(record.phases.connect.is_some());
        assert_eq!(record.phases.reused, Some(false), "{attempt}");
        assert_eq!(scene.transport.idle_connections(), 1);
        // The thread is blocked on purpose: the runtime cannot look at its sockets meanwhile.
        close.send(()).unwrap();
        closed.recv().unwrap();
    }
}

#[tokio::test]
async fn a_request_that_has_left_is_never_sent_again() {
    let receiver = Receiver::start(|mut talk| async move {
        talk.request().await;
        talk.say(OK).await;
        // The second request is read, and the connection closed without an answer.
        talk.request().await;
    })
    .await;
    let scene = Scene::new(&receiver.url());
    assert_eq!(scene.send().await.outcome, Outcome::answered(200));
    let record = scene.send().await;
    assert_eq!(record.outcome, Outcome::Unreachable(Unreachable::Reset));
    assert_eq!((receiver.seen().len(), receiver.connections()), (2, 1));
}

#[tokio::test]
async fn a_receiver_that_wants_to_close_is_not_kept() {
    let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let receiver = Receiver::saying(answer).await;
    let scene = Scene::new(&receiver.url());
    scene.send().await;
    assert_eq!(scene.transport.idle_connections(), 0);
    assert_eq!(scene.send().await.outcome, Outcome::answered(200));
    assert_eq!(receiver.connections(), 2);
}

#[tokio::test]
async fn bytes_that_nobody_asked_for_end_a_connection() {
    let receiver = Receiver::saying(format!("{OK}HTTP/1.1 500 Forged\r\n\r\n")).await;
    let scene = Scene::new(&receiver.url());
    for _ in 0..2 {
        assert_eq!(scene.send().await.outcome, Outcome::answered(200));
    }
    assert_eq!(receiver.connections(), 2);
}

/// A receiver in a thread of its own: it answers one request on each connection, says what nobody
/// asked for when it is told to, and tells when it has.
fn talkative_receiver() -> (SocketAddr, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ((talk, talking), (tell, told)) = (mpsc::channel(), mpsc::channel());
    std::thread::spawn(move || {
        let mut open = Vec::new();
        while let Ok((mut tcp, _)) = listener.accept() {
            assert!(tcp.read(&mut [0; 4096]).unwrap() > 0);
            tcp.write_all(OK.as_bytes()).unwrap();
            if talking.recv().is_err() {
                return;
            }
            tcp.write_all(b"HTTP/1.1 500 Forged\r\ncontent-length: 0\r\n\r\n").unwrap();
            open.push(tcp);
            tell.send(()).unwrap();
        }
    });
    (address, talk, told)
}

#[tokio::test]
async fn what_comes_while_a_connection_waits_is_not_taken_for_the_next_answer() {
    let (address, talk, told) = talkative_receiver();
    let scene = Scene::new(&format!("http://{address}/"));
    for attempt in 0..20 {
        let record = scene.send().await;
        assert_eq!(record.outcome, Outcome::answered(200), "{attempt}: {:?}", record.error);
        assert_eq!(record.phases.reused, Some(false), "{attempt}");
        // The thread is blocked on purpose: the runtime cannot look at its sockets meanwhile.
        talk.send(()).unwrap();
        told.recv().unwrap();
    }
}

fn with_limits(limits: PoolLimits) -> Transport {
    let mut settings = settings(loopback(), resolving(&[]));
    settings.pool = limits;
    Transport::new(settings)
}

#[tokio::test]
async fn old_connections_are_not_used_again() {
    let receiver = Receiver::saying(OK).await;
    for limits in [
        PoolLimits { age: Duration::ZERO, ..PoolLimits::default() },
        PoolLimits { idle_time: Duration::ZERO, ..PoolLimits::default() },
        PoolLimits { idle_per_site: 0, ..PoolLimits::default() },
    ] {
        let scene = Scene::with(&receiver.url(), with_limits(limits));
        let before = receiver.connections();
        scene.send().await;
        scene.send().await;
        assert_eq!(receiver.connections(), before + 2, "{limits:?}");
    }
}

#[tokio::test]
async fn a_full_pool_lets_the_longest_waiting_go() {
    let receivers = [Receiver::saying(OK).await, Receiver::saying(OK).await];
    let limits = PoolLimits { idle_overall: 1, ..PoolLimits::default() };
    let mut scene = Scene::with(&receivers[0].url(), with_limits(limits));
    scene.send().await;
    scene.goes_to(&receivers[1].url());
    scene.send().await;
    assert_eq!(scene.transport.idle_connections(), 1);
    scene.send().await;
    assert_eq!(receivers[1].connections(), 1);
}

#[tokio::test]
async fn connections_of_one_application_are_not_given_to_another() {
    let receiver = Receiver::saying(OK).await;
    let scene = Scene::new(&receiver.url());
    let own = scene.member();
    let mut foreign = Arc::unwrap_or_clone(scene.member());
    foreign.application = ApplicationId::from_bytes([8; 20]);
    foreign.view.endpoint.key.0 += 1;
    scene.send_as(&own).await;
    let record = scene.send_as(&Arc::new(foreign)).await;
    assert!(record.phases.connect.is_some());
    assert_eq!(receiver.connections(), 2);
}

#[tokio::test]
async fn upkeep_closes_what_its_peer_has_closed() {
    let close = Arc::new(Notify::new());
    let closing = Arc::clone(&close);
    let receiver = Receiver::start(move |mut talk| {
        let closing = Arc::clone(&closing);
        async move {
            talk.request().await;
            talk.say(OK).await;
            closing.notified().await;
        }
    })
    .await;
    let scene = Scene::new(&receiver.url());
    scene.send().await;
    assert_eq!(scene.transport.idle_connections(), 1);
    close.notify_one();
    let clock = SystemClock::start();
    let swept = async {
        while scene.transport.idle_connections() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waiting = tokio::time::timeout(Duration::from_secs(30), swept);
    tokio::select! {
        () = scene.transport.upkeep(&clock) => {}
        done = waiting => done.unwrap(),
    }
}

#[tokio::test]
async fn dropping_an_attempt_closes_its_connection() {
    let closed = Arc::new(Notify::new());
    let (arrived, closing) = (Arc::new(Notify::new()), Arc::clone(&closed));
    let arriving = Arc::clone(&arrived);
    let receiver = Receiver::start(move |mut talk| {
        let (arriving, closing) = (Arc::clone(&arriving), Arc::clone(&closing));
        async move {
            talk.request().await;
            arriving.notify_one();
            talk.until_closed().await;
            closing.notify_one();
        }
    })
    .await;
    let scene = Scene::new(&receiver.url());
    tokio::select! {
        record = scene.send() => panic!("there was an answer: {record:?}"),
        () = arrived.notified() => {}
    }
    tokio::time::timeout(Duration::from_secs(10), closed.notified()).await.unwrap();
    assert_eq!(scene.transport.idle_connections(), 0);
}
