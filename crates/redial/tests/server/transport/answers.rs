//! What is made of an answer, and how much of it is kept.

use std::time::Duration;

use domain::outcome::{KEPT_OF_FAILURE, KEPT_OF_SUCCESS, Outcome};
use domain::policy::{BodyLimit, Part, Timeouts};
use domain::retry_after::RetryAfter;

use super::receiver::{OK, Receiver};
use super::scene::{Scene, took};

/// Long enough for loopback, and short enough to wait for.
const SHORT: Duration = Duration::from_millis(500);

fn answer(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} Whatever\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

#[tokio::test]
async fn an_answer_is_recorded_with_status_headers_body_and_times() {
    let receiver = Receiver::saying(answer(503, "Retry-After: 120\r\nX-A: b\r\n", "later")).await;
    let record = Scene::new(&receiver.url()).send().await;
    let retry_after = Some(RetryAfter::Seconds(120));
    assert_eq!(record.outcome, Outcome::Answered { status: 503, retry_after });
    assert!(record.response_headers.pairs().contains(&("x-a".to_owned(), "b".to_owned())));
    assert_eq!(record.response_body, "later");
    assert_eq!(record.error, None);
    let phases = record.phases;
    assert!(phases.connect.is_some() && phases.first_byte.is_some(), "{phases:?}");
    assert!(phases.dns.is_none() && phases.tls.is_none(), "{phases:?}");
    assert!(took(&record) >= phases.first_byte.unwrap());
}

#[tokio::test]
async fn every_attempt_has_an_id_of_its_own() {
    let receiver = Receiver::saying(OK).await;
    let scene = Scene::new(&receiver.url());
    let (first, second) = (scene.send().await, scene.send().await);
    assert_ne!(first.id, second.id);
    assert!(first.id.made_at() <= second.id.made_at());
}

#[tokio::test]
async fn a_redirect_is_an_answer_where_the_policy_does_not_follow_it() {
    let elsewhere = Receiver::saying(OK).await;
    let location = format!("location: {}\r\n", elsewhere.url());
    let receiver = Receiver::saying(answer(307, &location, "")).await;
    let record = Scene::new(&receiver.url()).send().await;
    assert_eq!(record.outcome, Outcome::answered(307));
    assert_eq!((record.error, record.hops), (None, Vec::new()));
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn of_a_long_answer_the_beginning_is_kept() {
    for (status, kept) in [(200, KEPT_OF_SUCCESS), (500, KEPT_OF_FAILURE)] {
        let receiver = Receiver::saying(answer(status, "", &"x".repeat(40_000))).await;
        let scene = Scene::new(&receiver.url());
        let record = scene.send().await;
        assert_eq!(record.outcome, Outcome::answered(status));
        assert_eq!(record.response_body.len(), kept);
        // Little was left to read, so that the connection could be saved.
        assert_eq!(scene.transport.idle_connections(), 1);
    }
}

#[tokio::test]
async fn a_preset_may_keep_less_of_an_answer() {
    let receiver = Receiver::saying(answer(500, "x-a: b\r\n", "äöü")).await;
    let mut scene = Scene::new(&receiver.url());
    scene.defaults.response_kept.body_limit = BodyLimit::Characters(2);
    scene.defaults.response_kept.parts.remove(&Part::Headers);
    let record = scene.send().await;
    assert_eq!(record.response_body, "äö");
    assert!(record.response_headers.is_empty());
}

#[tokio::test]
async fn a_packed_body_is_kept_packed() {
    let receiver = Receiver::saying(answer(200, "content-encoding: gzip\r\n", "\x1f\x08...")).await;
    let record = Scene::new(&receiver.url()).send().await;
    assert_eq!(record.response_body, "\x1f\x08...");
}

#[tokio::test]
async fn a_body_in_pieces_is_put_together() {
    let pieces = "2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n";
    let text = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{pieces}");
    let receiver = Receiver::saying(text).await;
    let scene = Scene::new(&receiver.url());
    let record = scene.send().await;
    assert_eq!(record.response_body, "abcde");
    assert_eq!(scene.transport.idle_connections(), 1);
}

#[tokio::test]
async fn an_answer_without_a_body_is_complete_with_its_head() {
    let receiver = Receiver::saying("HTTP/1.1 204 No Content\r\n\r\n").await;
    let record = Scene::new(&receiver.url()).send().await;
    assert_eq!(record.outcome, Outcome::answered(204));
    assert!(record.response_body.is_empty());
}

#[tokio::test]
async fn a_status_that_means_nothing_is_still_an_answer() {
    for status in [101, 299, 304, 599, 999] {
        let receiver = Receiver::saying(answer(status, "", "")).await;
        let scene = Scene::new(&receiver.url()).within(SHORT, SHORT);
        let record = scene.send().await;
        assert_eq!(record.outcome, Outcome::answered(status), "{:?}", record.error);
    }
}

#[tokio::test]
async fn an_announcement_before_the_answer_is_not_the_answer() {
    let receiver = Receiver::saying(format!("HTTP/1.1 103 Early Hints\r\n\r\n{OK}")).await;
    let record = Scene::new(&receiver.url()).send().await;
    assert_eq!(record.outcome, Outcome::answered(200));
}

#[tokio::test]
async fn a_policy_can_limit_the_time_for_reading_alone() {
    let receiver = Receiver::start(|mut talk| async move {
        talk.request().await;
        talk.until_closed().await;
    })
    .await;
    let mut scene = Scene::new(&receiver.url());
    let read = Duration::from_millis(200);
    let whole = Duration::from_secs(60);
    scene.policy.timeouts = Timeouts::new(whole, Some(read), whole).unwrap();
    let record = scene.send().await;
    assert_eq!(record.outcome, Outcome::TimedOut);
    assert!(took(&record) >= read && took(&record) < whole / 6, "{:?}", took(&record));
}
