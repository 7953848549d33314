//! Receivers that hang, break off, lie or pour: each ends by its deadline, as the right outcome, and
//! costs little memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use domain::outcome::{KEPT_OF_FAILURE, KEPT_OF_SUCCESS, Outcome, Unreachable};
use domain::policy::Part;
use store::queue::AttemptRecord;

use super::receiver::{Receiver, Talk};
use super::scene::{Scene, closed_port, took};

const DEADLINE: Duration = Duration::from_millis(400);
/// Machines that run tests are sometimes busy; a deadline that is not kept at all takes far longer.
const GENEROUS: u32 = 20;

async fn send_hastily(receiver: &Receiver) -> AttemptRecord {
    Scene::new(&receiver.url()).within(DEADLINE, DEADLINE).send().await
}

fn assert_in_time(record: &AttemptRecord) {
    let took = took(record);
    assert!(took >= DEADLINE && took < DEADLINE * GENEROUS, "took {took:?}");
}

async fn scripted<Doing>(script: impl Fn(Talk) -> Doing + Send + 'static) -> AttemptRecord
where
    Doing: Future<Output = ()> + Send + 'static,
{
    send_hastily(&Receiver::start(script).await).await
}

#[tokio::test]
async fn a_receiver_that_never_answers_times_out() {
    let record = scripted(|mut talk| async move {
        talk.request().await;
        talk.until_closed().await;
    })
    .await;
    assert_eq!(record.outcome, Outcome::TimedOut);
    assert_eq!(record.error.as_deref(), Some("there was no answer in time"));
    assert_eq!((record.phases.first_byte, record.phases.reused), (None, Some(false)));
    assert!(!record.request_headers.is_empty());
    assert_in_time(&record);
}

#[tokio::test]
async fn a_receiver_that_does_not_read_times_out() {
    let receiver = Receiver::start(|talk| async move {
        std::future::pending::<()>().await;
        drop(talk);
    })
    .await;
    let mut scene = Scene::new(&receiver.url()).within(DEADLINE, DEADLINE);
    scene.payload = Bytes::from(vec![b'x'; 32 * 1024 * 1024]);
    let record = scene.send().await;
    assert_eq!(record.outcome, Outcome::TimedOut);
    assert_in_time(&record);
}

#[tokio::test]
async fn a_head_that_dribbles_in_times_out() {
    let record = scripted(|mut talk| async move {
        talk.request().await;
        talk.dribble(&format!("HTTP/1.1 200 OK\r\nx-a: {}", "a".repeat(100_000))).await;
    })
    .await;
    assert_eq!(record.outcome, Outcome::TimedOut);
    assert!(record.phases.first_byte.is_some());
    assert_in_time(&record);
}

#[tokio::test]
async fn a_body_that_dribbles_in_times_out_whatever_its_status() {
    for status in [200, 410, 500] {
        let record = scripted(move |mut talk| async move {
            talk.request().await;
            talk.say(format!("HTTP/1.1 {status} Slow\r\ncontent-length: 100000\r\n\r\n")).await;
            talk.dribble(&"x".repeat(100_000)).await;
        })
        .await;
        assert_eq!(record.outcome, Outcome::TimedOut, "{status}");
        let text = format!("the receiver answered {status}, and its body did not end in time");
        assert_eq!(record.error, Some(text));
        assert!((1..1_000).contains(&record.response_body.len()), "{}", record.response_body.len());
        assert!(!record.response_headers.is_empty());
        assert_in_time(&record);
    }
}

#[tokio::test]
async fn announcements_without_end_time_out() {
    let record = scripted(|mut talk| async move {
        talk.request().await;
        let flood = "HTTP/1.1 100 Continue\r\n\r\n".repeat(100);
        while talk.say(&flood).await {}
    })
    .await;
    assert_eq!(record.outcome, Outcome::TimedOut);
    assert_in_time(&record);
}

#[tokio::test]
async fn a_closed_port_refuses() {
    let address = closed_port().await;
    let record = Scene::new(&format!("http://{address}/")).send().await;
    assert_eq!(record.outcome, Outcome::Unreachable(Unreachable::Refused));
    assert_eq!(record.error.as_deref(), Some("the connection was refused"));
    let phases = record.phases;
    assert!(phases.connect.is_some(), "what failed has a time as well");
    assert_eq!(phases.reused, None, "there was no connection");
}

#[tokio::test]
async fn a_reset_is_a_reset() {
    let record = scripted(|mut talk| async move {
        talk.request().await;
        talk.tcp.set_zero_linger().unwrap();
    })
    .await;
    assert_eq!(record.outcome, Outcome::Unreachable(Unreachable::Reset));
}

#[tokio::test]
async fn a_connection_closed_without_an_answer_is_a_reset() {
    let record = scripted(|mut talk| async move {
        talk.request().await;
    })
    .await;
    assert_eq!(record.outcome, Outcome::Unreachable(Unreachable::Reset));
    let text = "the receiver closed the connection without an answer";
    assert_eq!(record.error.as_deref(), Some(text));
}

#[tokio::test]
async fn a_head_that_breaks_off_is_a_broken_answer() {
    let record = scripted(|mut talk| async move {
        talk.request().await;
        talk.say("HTTP/1.1 200 O").await;
    })
    .await;
    assert_eq!(record.outcome, Outcome::BrokenAnswer);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_broken_answer_whatever_its_status() {
    let bodies = [
        "content-length: 100\r\n\r\nhalf",
        "transfer-encoding: chunked\r\n\r\n4\r\nhalf",
        "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
    ];
    let of = |status| bodies.map(|rest| (status, rest));
    for (status, rest) in [of(200), of(302), of(410), of(503)].concat() {
        let receiver = Receiver::start(move |mut talk| async move {
            talk.request().await;
            talk.say(format!("HTTP/1.1 {status} Whatever\r\n{rest}")).await;
        })
        .await;
        let scene = Scene::new(&receiver.url());
        let record = scene.send().await;
        assert_eq!(record.outcome, Outcome::BrokenAnswer, "{status} {rest:?}");
        let text = format!("the receiver answered {status}, and its body broke off before its end");
        assert_eq!(record.error, Some(text));
        assert_eq!(record.response_body, "half");
        assert_eq!(scene.transport.idle_connections(), 0);
    }
}

#[tokio::test]
async fn a_reset_in_the_middle_of_a_body_is_a_broken_answer_also_where_the_body_has_no_length() {
    let receiver = Receiver::start(|mut talk| async move {
        talk.request().await;
        talk.say("HTTP/1.1 200 OK\r\n\r\nhalf").await;
        talk.tcp.set_zero_linger().unwrap();
    })
    .await;
    let record = Scene::new(&receiver.url()).send().await;
    assert_eq!(record.outcome, Outcome::BrokenAnswer, "{:?}", record.error);
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_its_connection() {
    let receiver = Receiver::start(|mut talk| async move {
        talk.request().await;
        talk.say("HTTP/1.1 200 OK\r\n\r\nall of it").await;
    })
    .await;
    let record = Scene::new(&receiver.url()).send().await;
    assert_eq!(record.outcome, Outcome::answered(200));
    assert_eq!(record.response_body, "all of it");
}

#[tokio::test]
async fn once_as_much_of_a_body_has_come_as_is_kept_its_end_does_not_matter() {
    let lengths = [(200, KEPT_OF_SUCCESS), (500, KEPT_OF_FAILURE)];
    for (status, kept) in lengths {
        for stalls in [false, true] {
            let receiver = Receiver::start(move |mut talk| async move {
                talk.request().await;
                let head = format!("HTTP/1.1 {status} Whatever\r\ncontent-length: 60000\r\n\r\n");
                talk.say(head + &"x".repeat(kept)).await;
                if stalls {
                    talk.until_closed().await;
                }
            })
            .await;
            let whole = Duration::from_secs(60);
            let scene = Scene::new(&receiver.url()).within(whole, whole);
            let record = scene.send().await;
            assert_eq!(record.outcome, Outcome::answered(status), "stalls: {stalls}");
            assert_eq!(record.response_body.len(), kept);
            assert_eq!(scene.transport.idle_connections(), 0);
            assert!(took(&record) < whole / 2, "{:?}", took(&record));
        }
    }
}

#[tokio::test]
async fn where_no_body_is_kept_the_head_is_all_of_the_answer() {
    let receiver = Receiver::start(|mut talk| async move {
        talk.request().await;
        talk.say("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await;
    })
    .await;
    let mut scene = Scene::new(&receiver.url());
    scene.defaults.response_kept.parts.remove(&Part::Body);
    let record = scene.send().await;
    assert_eq!(record.outcome, Outcome::answered(200));
    assert!(record.response_body.is_empty());
}

#[tokio::test]
async fn what_is_not_http_is_a_broken_answer() {
    for garbage in ["SSH-2.0-OpenSSH_9.7\r\n", "\0\0\0\0\r\n\r\n", "HTTP/1.1 xyz\r\n\r\n"] {
        let record = scripted(move |mut talk| async move {
            talk.request().await;
            talk.say(garbage).await;
            talk.until_closed().await;
        })
        .await;
        assert_eq!(record.outcome, Outcome::BrokenAnswer, "{garbage:?}");
    }
}

#[tokio::test]
async fn more_headers_than_are_read_are_a_broken_answer() {
    let record = scripted(|mut talk| async move {
        talk.request().await;
        talk.say("HTTP/1.1 200 OK\r\n").await;
        let many: String = (0..1_000).map(|each| format!("x-{each}: a\r\n")).collect();
        for _ in 0..1_000 {
            if !talk.say(&many).await {
                break;
            }
        }
    })
    .await;
    assert_eq!(record.outcome, Outcome::BrokenAnswer, "{:?}", record.error);
    assert!(record.response_headers.is_empty());
}

#[tokio::test]
async fn a_header_without_end_is_a_broken_answer() {
    let record = scripted(|mut talk| async move {
        talk.request().await;
        talk.say("HTTP/1.1 200 OK\r\nx-a: ").await;
        while talk.say("a".repeat(10_000)).await {}
    })
    .await;
    assert_eq!(record.outcome, Outcome::BrokenAnswer, "{:?}", record.error);
}

/// Pours a body, and tells how many bytes the sender took before it closed the connection.
async fn poured(head: &'static str) -> (AttemptRecord, u64) {
    let (taken, closed) = (Arc::new(AtomicU64::new(0)), Arc::new(tokio::sync::Notify::new()));
    let (counter, closing) = (Arc::clone(&taken), Arc::clone(&closed));
    let receiver = Receiver::start(move |mut talk| {
        let (counter, closing) = (Arc::clone(&counter), Arc::clone(&closing));
        async move {
            talk.request().await;
            talk.say(head).await;
            while talk.say([b'x'; 1024]).await {
                counter.fetch_add(1024, Ordering::SeqCst);
            }
            closing.notify_one();
        }
    })
    .await;
    let scene = Scene::new(&receiver.url());
    let record = scene.send().await;
    tokio::time::timeout(Duration::from_secs(10), closed.notified()).await.unwrap();
    assert_eq!(scene.transport.idle_connections(), 0);
    (record, taken.load(Ordering::SeqCst))
}

/// What was sent and not read lies in the sockets' buffers, which the system may make this large.
const IN_SOCKETS: u64 = 16 * 1024 * 1024;

#[tokio::test]
async fn an_endless_body_is_cut_off_and_its_connection_closed() {
    let (record, taken) = poured("HTTP/1.1 200 OK\r\n\r\n").await;
    assert_eq!(record.outcome, Outcome::answered(200));
    assert_eq!(record.response_body.len(), KEPT_OF_SUCCESS);
    assert!(taken < IN_SOCKETS, "{taken} bytes were taken");
}

#[tokio::test]
async fn a_body_said_to_be_huge_is_not_read_beyond_what_is_kept() {
    let (record, taken) = poured("HTTP/1.1 500 No\r\ncontent-length: 10000000000\r\n\r\n").await;
    assert_eq!(record.outcome, Outcome::answered(500));
    assert_eq!(record.response_body.len(), KEPT_OF_FAILURE);
    assert!(taken < IN_SOCKETS, "{taken} bytes were taken");
}
