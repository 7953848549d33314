use host::clock::SystemClock;
use http::Method;
use testkit::connection::Connection;

use super::*;
use crate::body::Body;
use crate::client::{Closed, Limit, Source};
use crate::pace::Open;

const PATIENCE: Duration = Duration::from_secs(10);

fn receiver() -> (Receiver, Arc<dyn Clock>) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    (Receiver::start(Arc::clone(&clock)).unwrap(), clock)
}

fn source(path: &str) -> Arc<Source> {
    Arc::new(Source::new(Method::POST, path, vec![Body::bare()]).unwrap())
}

#[test]
fn a_path_leads_to_its_endpoint() {
    for place in [(Group::Steady, 0), (Group::Crowd, 1_999)] {
        assert_eq!(endpoint_at(&path(place.0, place.1)), Some(place));
    }
    assert_eq!(endpoint_at("/steady/x"), None);
    assert_eq!(endpoint_at("/"), None);
}

#[tokio::test]
async fn a_closed_loop_sends_as_many_as_it_should() {
    let (receiver, clock) = receiver();
    let load = Closed {
        port: receiver.port(),
        connections: 3,
        source: source(&path(Group::Steady, 7)),
        limit: Limit::Messages(100),
    };
    let sent = load.run(&clock).await.unwrap();
    assert_eq!((sent.taken.messages, sent.taken.turned_away), (100, 0));
    assert_eq!(receiver.arrived(Group::Steady), 100);
    assert_eq!(receiver.latencies(Group::Steady).count(), 100);
    assert_eq!(receiver.per_endpoint(Group::Steady, 8)[7], 100);
    assert!(receiver.last_arrival(Group::Steady) <= sent.ended);
    receiver.forget();
    assert_eq!(receiver.arrived(Group::Steady), 0);
}

#[tokio::test]
async fn an_open_loop_charges_a_late_answer_from_when_it_was_due() {
    let (receiver, clock) = receiver();
    receiver.behave(Behaviour::Late);
    // One connection answers every five milliseconds; two requests are due in that time.
    let load = Open {
        port: receiver.port(),
        connections: 1,
        source: source(&path(Group::Crowd, 0)),
        per_second: 400.0,
        span: Duration::from_millis(250),
    };
    let paced = load.run(&clock).await.unwrap();
    assert_eq!(paced.requests, 100);
    assert!(paced.answered.quantile(0.99) >= Duration::from_millis(200), "{paced:?}");
    assert!(receiver.latencies(Group::Crowd).quantile(0.99) >= Duration::from_millis(200));
}

#[tokio::test]
async fn what_hangs_has_arrived_and_is_not_answered() {
    let (receiver, clock) = receiver();
    receiver.behave(Behaviour::Hangs);
    let mut connection = Connection::open(receiver.port()).await.unwrap();
    let source = source(&path(Group::Crowd, 1));
    let answered = source.send(&mut connection, clock.now());
    let arrived = receiver.wait_for(Group::Crowd, 1, PATIENCE);
    tokio::select! {
        answer = answered => panic!("answered: {answer:?}"),
        arrived = arrived => arrived.unwrap(),
    }
}

#[tokio::test]
async fn waiting_for_what_does_not_come_ends() {
    let (receiver, _) = receiver();
    let waited = receiver.wait_for(Group::Steady, 1, Duration::from_millis(5)).await;
    assert!(waited.unwrap_err().to_string().starts_with("0 of 1 deliveries arrived"));
}

#[tokio::test]
async fn an_unknown_path_is_not_counted() {
    let (receiver, clock) = receiver();
    let mut connection = Connection::open(receiver.port()).await.unwrap();
    let refused = source("/elsewhere").send(&mut connection, clock.now()).await.unwrap_err();
    assert!(refused.to_string().contains("POST /elsewhere was answered with 404"), "{refused}");
    assert_eq!(receiver.arrived(Group::Steady) + receiver.arrived(Group::Crowd), 0);
}
