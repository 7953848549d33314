//! Redirects: which are followed, and what goes along.

use std::sync::Arc;
use std::time::Duration;

use domain::address::{PlainHttp, Settings};
use domain::outcome::{Outcome, Unreachable};
use domain::policy::{HopHeaders, Part, Redirects};
use redial::transport::Transport;
use store::catalog::Credentials;
use store::queue::{AttemptRecord, Hop};

use super::receiver::{OK, Receiver, Seen};
use super::scene::{Scene, closed_port, loopback, resolving, settings, took};

/// A receiver that redirects each request.
async fn redirecting(status: u16, location: &str) -> Receiver {
    let answer = format!(
        "HTTP/1.1 {status} Elsewhere\r\nlocation: {location}\r\ncontent-length: 2\r\n\r\nno"
    );
    Receiver::saying(answer).await
}

fn following(url: &str, hops: u64) -> Scene {
    carrying(url, hops, HopHeaders::SameOrigin)
}

fn carrying(url: &str, hops: u64, headers: HopHeaders) -> Scene {
    let mut scene = Scene::new(url);
    scene.policy.redirects = Redirects::new(hops, headers).unwrap();
    scene.settings.headers.insert("x-team".into(), "core".into());
    scene.confidential.credentials = Some(Credentials::Bearer("s3cret".into()));
    scene
}

fn hop(status: u16, to: &Receiver) -> Hop {
    Hop { status, to: format!("http://{}", to.address) }
}

fn line(seen: &Seen) -> &str {
    seen.head.lines().next().unwrap()
}

#[tokio::test]
async fn each_kind_of_redirect_is_followed_as_a_post_with_the_same_body() {
    for status in [301, 302, 303, 307, 308] {
        let end = Receiver::saying(OK).await;
        let start = redirecting(status, &end.url()).await;
        let scene = following(&start.url(), 5);
        let record = scene.send().await;
        assert_eq!(record.outcome, Outcome::answered(200), "{:?}", record.error);
        assert_eq!(record.hops, [hop(status, &end)]);
        assert_eq!((record.response_body, record.error), ("ok".into(), None));
        let seen = &end.seen()[0];
        assert_eq!(line(seen), "POST /hook?token=t0k3n HTTP/1.1", "{status}");
        assert_eq!(seen.body, scene.payload);
        assert_eq!(seen.header("host"), Some(end.address.to_string().as_str()));
        assert_eq!(start.seen().len(), 1);
    }
}

#[tokio::test]
async fn what_else_is_3xx_is_an_answer() {
    for status in [300, 304, 305, 306] {
        let start = redirecting(status, "/other").await;
        let record = following(&start.url(), 5).send().await;
        assert_eq!(record.outcome, Outcome::answered(status));
        assert_eq!((start.seen().len(), record.hops), (1, Vec::new()));
    }
}

#[tokio::test]
async fn another_origin_gets_neither_signature_nor_the_endpoints_headers_and_credentials() {
    let end = Receiver::saying(OK).await;
    let start = redirecting(307, &end.url()).await;
    let record = following(&start.url(), 1).send().await;
    assert_eq!(record.outcome, Outcome::answered(200));
    let names = |seen: &Seen| -> Vec<String> {
        let lines = seen.head.lines().skip(1);
        let mut names: Vec<_> =
            lines.map(|line| line.split(':').next().unwrap().to_lowercase()).collect();
        names.sort();
        names
    };
    let (first, last) = (&start.seen()[0], &end.seen()[0]);
    assert_eq!(
        names(last),
        ["accept", "accept-encoding", "content-length", "content-type", "host", "user-agent"]
    );
    for header in ["webhook-id", "webhook-signature", "svix-id", "x-team", "authorization"] {
        assert!(first.header(header).is_some() && last.header(header).is_none(), "{header}");
    }
}

#[tokio::test]
async fn the_endpoints_own_origin_gets_everything_again_and_so_does_any_if_the_policy_says_so() {
    let table = [(HopHeaders::SameOrigin, true), (HopHeaders::Everywhere, false)];
    for (headers, same) in table {
        let end = Receiver::saying(OK).await;
        let address = end.address;
        // The same origin answers in two ways; the other is another receiver.
        let start = if same {
            Receiver::start(|mut talk| async move {
                let there = "HTTP/1.1 308 There\r\nlocation: there\r\ncontent-length: 0\r\n\r\n";
                for answer in [there, OK] {
                    talk.request().await;
                    talk.say(answer).await;
                }
            })
            .await
        } else {
            redirecting(308, &format!("http://{address}/there")).await
        };
        let scene = carrying(&start.url(), 1, headers);
        let record = scene.send().await;
        assert_eq!(record.outcome, Outcome::answered(200), "{:?}", record.error);
        let (all, others) = (start.seen(), end.seen());
        let (first, last) = (&all[0], if same { &all[1] } else { &others[0] });
        assert_eq!(line(last), "POST /there HTTP/1.1");
        let without_host = |seen: &Seen| -> Vec<String> {
            let lines = seen.head.lines().skip(1).map(str::to_owned);
            let mut lines: Vec<_> = lines.filter(|line| !line.starts_with("host")).collect();
            lines.sort();
            lines
        };
        assert_eq!(without_host(first), without_host(last), "{headers:?}");
        // A connection is used again where there is one.
        assert_eq!(record.phases.reused, Some(same));
        assert_eq!(start.connections(), 1);
    }
}

#[tokio::test]
async fn after_as_many_hops_as_the_policy_allows_the_redirect_is_the_answer() {
    let end = Receiver::saying(OK).await;
    let third = redirecting(303, &end.url()).await;
    let second = redirecting(302, &third.url()).await;
    let first = redirecting(301, &second.url()).await;
    let record = following(&first.url(), 2).send().await;
    assert_eq!(record.outcome, Outcome::answered(303));
    assert_eq!(record.hops, [hop(301, &second), hop(302, &third)]);
    assert_eq!(record.response_body, "no");
    let text = "the redirect cannot be followed: it is one more than the 2 that the policy follows";
    assert_eq!(record.error.as_deref(), Some(text));
    assert_eq!(end.connections(), 0);
    let record = following(&first.url(), 3).send().await;
    assert_eq!(record.outcome, Outcome::answered(200));
    assert_eq!(record.hops.len(), 3);
}

async fn led(headers: &str) -> AttemptRecord {
    let start =
        Receiver::saying(format!("HTTP/1.1 302 Found\r\n{headers}content-length: 0\r\n\r\n")).await;
    let record = following(&start.url(), 5).send().await;
    assert_eq!(start.seen().len(), 1, "{headers}");
    record
}

#[tokio::test]
async fn a_location_that_makes_no_sense_is_named_and_the_redirect_is_the_answer() {
    let cases = [
        ("", "the answer has no Location"),
        ("location: /a\r\nlocation: /b\r\n", "more than one Location"),
        (
            "location: ftp://example.com/\r\n",
            "its Location makes no sense: the URL must begin with",
        ),
        ("location: //me:secret@127.0.0.1/\r\n", "the URL has a user name or password"),
        ("location: /x#y\r\n", "the URL has a fragment"),
        ("location: ?token=t0k3n\r\n", "it leads in a circle"),
        ("location:\r\n", "it leads in a circle"),
    ];
    for (headers, told) in cases {
        let record = led(headers).await;
        assert_eq!(record.outcome, Outcome::answered(302), "{headers:?}");
        let text = record.error.unwrap();
        assert!(text.starts_with("the redirect cannot be followed: "), "{text}");
        assert!(text.contains(told), "{text}");
        assert!(!text.contains("secret"), "{text}");
        assert!(record.hops.is_empty());
    }
}

#[tokio::test]
async fn a_location_in_another_encoding_than_utf_8_makes_no_sense() {
    let start = Receiver::start(|mut talk| async move {
        talk.request().await;
        talk.say(b"HTTP/1.1 302 Found\r\nlocation: /\xff\r\ncontent-length: 0\r\n\r\n").await;
    })
    .await;
    let record = following(&start.url(), 5).send().await;
    assert_eq!(record.outcome, Outcome::answered(302));
    let text = "the redirect cannot be followed: its Location is not text";
    assert_eq!(record.error.as_deref(), Some(text));
}

#[tokio::test]
async fn a_hop_that_the_guard_refuses_is_blocked_and_only_the_operator_learns_why() {
    let names =
        [("private.example.com", &["10.0.0.7"][..]), ("rebound.example.com", &["127.0.0.2"])];
    let cases = [
        ("http://10.0.0.7/", "10.0.0.0/8"),
        ("//169.254.169.254/latest/meta-data", "169.254.0.0/16"),
        ("http://localhost:22/", "port 22"),
        ("http://db.internal/", "db.internal"),
        // These are looked up, and vetted then.
        ("http://private.example.com/", "10.0.0.0/8"),
        ("http://rebound.example.com/", "127.0.0.0/8"),
    ];
    for (location, reason) in cases {
        let start = redirecting(302, location).await;
        let guard = Settings { plain_http: PlainHttp::Allowed, ..loopback() };
        let transport = Transport::new(settings(guard, resolving(&names)));
        let scene = Scene { transport, ..following(&start.url(), 5) };
        let record = scene.send().await;
        assert_eq!(record.outcome, Outcome::Blocked, "{location}");
        let text = record.error.unwrap();
        assert!(text.starts_with("destination_not_allowed: "), "{text}");
        assert!(!text.contains("10.0.0.7") && !text.contains("127.0.0"), "{text}");
        let refusal = record.refusal.unwrap();
        assert!(refusal.contains(reason), "{refusal}");
    }
}

#[tokio::test]
async fn what_is_open_to_one_application_is_closed_to_anothers_redirects() {
    let end = Receiver::at("127.0.0.3:0".parse().unwrap(), |mut talk| async move {
        talk.request().await;
        talk.say(OK).await;
    })
    .await;
    let start = redirecting(302, &end.url()).await;
    let own = format!("127.0.0.3 for {}", super::scene::APPLICATION);
    let allowed = vec!["127.0.0.1".parse().unwrap(), own.parse().unwrap()];
    let guard = Settings { allowed, ..Settings::default() };
    let transport = Transport::new(settings(guard, resolving(&[])));
    let scene = Scene { transport, ..following(&start.url(), 1) };
    let mut foreign = Arc::unwrap_or_clone(scene.member());
    foreign.application = domain::ids::ApplicationId::from_bytes([8; 20]);
    foreign.view.endpoint.key.0 += 1;
    assert_eq!(scene.send().await.outcome, Outcome::answered(200));
    assert_eq!(scene.send_as(&Arc::new(foreign)).await.outcome, Outcome::Blocked);
    assert_eq!(end.connections(), 1);
}

#[tokio::test]
async fn a_hop_that_fails_is_the_attempts_failure_and_names_where() {
    let closed = closed_port().await;
    let start = redirecting(302, &format!("http://{closed}/secret-path")).await;
    let record = following(&start.url(), 5).send().await;
    assert_eq!(record.outcome, Outcome::Unreachable(Unreachable::Refused));
    let text = format!("the connection was refused (after a redirect to http://{closed})");
    assert_eq!(record.error, Some(text));
    assert_eq!(record.hops, [Hop { status: 302, to: format!("http://{closed}") }]);
    assert!(record.response_headers.is_empty() && record.response_body.is_empty());
}

#[tokio::test]
async fn all_hops_are_under_one_deadline() {
    let silent = Receiver::start(|mut talk| async move {
        talk.request().await;
        talk.until_closed().await;
    })
    .await;
    let start = redirecting(302, &silent.url()).await;
    let deadline = Duration::from_millis(400);
    let scene = following(&start.url(), 5).within(deadline, deadline);
    let record = scene.send().await;
    assert_eq!(record.outcome, Outcome::TimedOut);
    assert_eq!(record.phases.first_byte, None, "the first answer is not this one's");
    assert!(took(&record) >= deadline && took(&record) < deadline * 20, "{:?}", took(&record));
}

#[tokio::test]
async fn the_body_of_a_redirect_does_not_matter() {
    let end = Receiver::saying(OK).await;
    for (rest, ends) in [("content-length: 100\r\n\r\nhalf", true), ("\r\nendless", false)] {
        let location = end.url();
        let start = Receiver::start(move |mut talk| {
            let location = location.clone();
            async move {
                talk.request().await;
                talk.say(format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\n{rest}")).await;
                if !ends {
                    talk.until_closed().await;
                }
            }
        })
        .await;
        let whole = Duration::from_secs(60);
        let record = following(&start.url(), 1).within(whole, whole).send().await;
        assert_eq!(record.outcome, Outcome::answered(200), "{:?}", record.error);
        assert!(took(&record) < whole / 2, "{:?}", took(&record));
    }
}

#[tokio::test]
async fn a_preset_that_keeps_no_errors_keeps_none_of_these() {
    let start = redirecting(302, "").await;
    let mut scene = following(&start.url(), 5);
    scene.defaults.response_kept.parts.remove(&Part::Error);
    let record = scene.send().await;
    assert_eq!((record.outcome, record.error), (Outcome::answered(302), None));
}

#[tokio::test]
async fn each_hop_waits_for_the_endpoints_rate() {
    let end = Receiver::saying(OK).await;
    let start = redirecting(302, &end.url()).await;
    let mut scene = following(&start.url(), 5);
    scene.settings.rate = Some(1);
    // Nobody waits any more: the first request need not, and its hop would have to.
    scene.transport.stop_waiting();
    let record = scene.send().await;
    assert_eq!(record.outcome, Outcome::Interrupted, "{:?}", record.error);
    assert_eq!((start.seen().len(), end.seen().len()), (1, 0));
}
