//! What an outgoing proxy does to us, and what it tells of a receiver: only the latter is held
//! against the receiver.

use std::time::Duration;

use domain::address::{Proxy, Proxying, Settings};
use domain::outcome::{Outcome, Unreachable};
use redial::transport::Transport;
use store::queue::AttemptRecord;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

use super::receiver::{OK, Receiver};
use super::scene::{Scene, loopback, resolving, settings};

const NAME: &str = "hooks.example.com";

fn proxy_of(receiver: &Receiver) -> Proxy {
    let host = receiver.address.ip().to_string().parse().unwrap();
    Proxy { host, port: receiver.address.port() }
}

/// Makes a transport that reaches these addresses of a name through a proxy.
fn through(proxy: &Receiver, addresses: &[&str]) -> Transport {
    let allowed = vec!["127.0.0.0/8".parse().unwrap()];
    let proxying = Proxying::Tunnel(proxy_of(proxy));
    let guard = Settings { proxying, allowed, ..loopback() };
    Transport::new(settings(guard, resolving(&[(NAME, addresses)])))
}

async fn sent_through(proxy: &Receiver, addresses: &[&str]) -> AttemptRecord {
    Scene::with(&format!("http://{NAME}:8080/"), through(proxy, addresses)).send().await
}

/// A proxy that answers whatever it is asked with this status.
async fn answering(status: &str) -> Receiver {
    Receiver::saying(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")).await
}

#[tokio::test]
async fn a_proxy_that_wants_credentials_is_nobodys_failed_attempt() {
    let proxy = answering("407 Proxy Authentication Required").await;
    for addresses in [&["127.0.0.1"][..], &["127.0.0.1", "127.0.0.2"]] {
        let record = sent_through(&proxy, addresses).await;
        assert_eq!(record.outcome, Outcome::Interrupted, "{:?}", record.error);
        let text = record.error.unwrap();
        assert!(text.starts_with("the outgoing proxy wants credentials"), "{text}");
    }
}

#[tokio::test]
async fn a_proxy_that_hangs_up_without_a_word_is_nobodys_failed_attempt() {
    let after_the_question = Receiver::start(|mut talk| async move {
        talk.request().await;
    });
    // What was asked is still unread then, so that the connection is reset.
    let at_once = Receiver::start(|talk| async move { drop(talk) });
    for proxy in [after_the_question.await, at_once.await] {
        let record = sent_through(&proxy, &["127.0.0.1"]).await;
        assert_eq!(record.outcome, Outcome::Interrupted, "{:?}", record.error);
        let text = "the outgoing proxy broke off the connection without an answer";
        assert_eq!(record.error.as_deref(), Some(text));
    }
}

#[tokio::test]
async fn what_a_proxy_says_about_a_receiver_counts() {
    for status in ["403 Forbidden", "502 Bad Gateway", "504 Gateway Timeout"] {
        let record = sent_through(&answering(status).await, &["127.0.0.1"]).await;
        assert_eq!(record.outcome, Outcome::Unreachable(Unreachable::Other), "{status}");
    }
    let half = Receiver::start(|mut talk| async move {
        talk.request().await;
        talk.say("HTTP/1.1 200 Conn").await;
    });
    let record = sent_through(&half.await, &["127.0.0.1"]).await;
    assert_eq!(record.outcome, Outcome::Unreachable(Unreachable::Other), "{:?}", record.error);
}

#[tokio::test]
async fn an_address_to_which_a_proxy_finds_no_way_does_not_hide_one_that_answers() {
    let receiver = Receiver::saying(OK).await;
    let port = receiver.address.port();
    let proxy = Receiver::start(move |mut talk| async move {
        let Some(request) = talk.request().await else { return };
        if !request.head.starts_with("CONNECT 127.0.0.1:") {
            talk.until_closed().await;
            return;
        }
        let mut onward = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        talk.say("HTTP/1.1 200 Connection established\r\n\r\n").await;
        let _ended = copy_bidirectional(&mut talk.tcp, &mut onward).await;
    })
    .await;
    let transport = through(&proxy, &["127.0.0.2", "127.0.0.1"]);
    let (connect, whole) = (Duration::from_secs(2), Duration::from_secs(60));
    let url = format!("http://{NAME}:{port}/");
    let record = Scene::with(&url, transport).within(connect, whole).send().await;
    assert_eq!(record.outcome, Outcome::answered(200), "{:?}", record.error);
    assert_eq!(proxy.connections(), 2);
}
