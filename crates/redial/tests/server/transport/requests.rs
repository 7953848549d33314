//! What a receiver is sent: the bytes as accepted, and headers that do no harm.

use bytes::Bytes;
use domain::outcome::Outcome;
use redial::transport::headers::MASK;
use store::catalog::Credentials;

use super::receiver::{OK, Receiver};
use super::scene::{Scene, recorded};

#[tokio::test]
async fn a_receiver_gets_the_payload_byte_for_byte() {
    let receiver = Receiver::saying(OK).await;
    let mut scene = Scene::new(&receiver.url());
    for payload in [&b"{}"[..], b"", b"{\"a\" :\t1}\r\n", &[0, 159, 146, 150], &[b'x'; 300_000]] {
        scene.payload = Bytes::copy_from_slice(payload);
        let record = scene.send().await;
        assert_eq!(record.outcome, Outcome::answered(200), "{:?}", record.error);
        assert_eq!(receiver.seen().pop().unwrap().body, payload);
    }
}

#[tokio::test]
async fn a_request_says_what_it_is_and_who_sends_it() {
    let receiver = Receiver::saying(OK).await;
    let record = Scene::new(&receiver.url()).send().await;
    let seen = receiver.seen().pop().unwrap();
    assert!(seen.head.starts_with("POST /hook?token=t0k3n HTTP/1.1\r\nhost: "), "{}", seen.head);
    assert_eq!(seen.header("host"), Some(receiver.address.to_string().as_str()));
    let agent = concat!("Redial/", env!("CARGO_PKG_VERSION"));
    assert_eq!(seen.header("user-agent"), Some(agent));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("accept-encoding"), Some("identity"));
    assert_eq!(seen.header("transfer-encoding"), None);
    // What is recorded is what was sent, in its order.
    let sent: Vec<(String, String)> = seen.head.lines().skip(1).map(pair).collect();
    assert_eq!(record.request_headers.pairs(), sent);
    assert!(!format!("{record:?}").contains("t0k3n"));
}

fn pair(line: &str) -> (String, String) {
    let (name, value) = line.split_once(": ").unwrap();
    (name.to_owned(), value.to_owned())
}

#[tokio::test]
async fn a_payload_that_is_not_json_is_called_what_it_is() {
    let receiver = Receiver::saying(OK).await;
    let mut scene = Scene::new(&receiver.url());
    scene.content_type = Some("text/csv".to_owned());
    let record = scene.send().await;
    assert_eq!(receiver.seen().pop().unwrap().header("content-type"), Some("text/csv"));
    assert_eq!(recorded(&record, "content-type").as_deref(), Some("text/csv"));
}

#[tokio::test]
async fn own_headers_are_sent_and_secrets_are_masked_in_the_record() {
    let receiver = Receiver::saying(OK).await;
    let mut scene = Scene::new(&receiver.url());
    scene.settings.headers.insert("X-Team".into(), "billing".into());
    scene.settings.headers.insert("X-Api-Key".into(), "k3y".into());
    scene.confidential.headers.insert("X-Hidden".into(), "s3cret".into());
    let record = scene.send().await;
    let seen = receiver.seen().pop().unwrap();
    for (name, sent, shown) in
        [("x-team", "billing", "billing"), ("x-api-key", "k3y", MASK), ("x-hidden", "s3cret", MASK)]
    {
        assert_eq!(seen.header(name), Some(sent));
        assert_eq!(recorded(&record, name).as_deref(), Some(shown));
    }
    assert!(!format!("{record:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_bad_header_from_the_store_is_left_out_and_stops_nothing() {
    let receiver = Receiver::saying(OK).await;
    let mut scene = Scene::new(&receiver.url());
    for (name, value) in [
        ("Host", "metadata.internal"),
        ("Transfer-Encoding", "chunked"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("webhook-id", "msg_forged"),
        ("X-Split", "a\r\nHost: b"),
        ("not a name", "1"),
        ("..", "1"),
        ("svix_id", "msg_forged"),
        ("Webhook_Signature", "v1,forged"),
        ("X_Forwarded_For", "127.0.0.1"),
        ("Content_Length", "0"),
        ("content_type", "text/plain"),
        ("X-Fine", "1"),
        ("x_fine", "2"),
    ] {
        scene.settings.headers.insert(name.into(), value.into());
    }
    let record = scene.send().await;
    let seen = receiver.seen().pop().unwrap();
    assert_eq!(record.outcome, Outcome::answered(200));
    assert_eq!(seen.header("x-fine"), Some("1"));
    assert_eq!(seen.header("host"), Some(receiver.address.to_string().as_str()));
    for name in ["transfer-encoding", "x-forwarded-for", "x-split", ".."] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    let mut names = seen.head.lines().skip(1).filter_map(|line| line.split(':').next());
    assert!(names.all(|name| !name.contains('_')), "{}", seen.head);
    assert_ne!(seen.header("webhook-id"), Some("msg_forged"));
}

#[tokio::test]
async fn credentials_are_sent_and_never_shown() {
    let receiver = Receiver::saying(OK).await;
    let mut scene = Scene::new(&receiver.url());
    scene.settings.headers.insert("Authorization".into(), "Bearer other".into());
    let basic = Credentials::Basic { user: "Aladdin".into(), password: "open sesame".into() };
    for (credentials, sent) in [
        (Credentials::Bearer("t0ken".into()), "Bearer t0ken"),
        (basic, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
    ] {
        scene.confidential.credentials = Some(credentials);
        let record = scene.send().await;
        assert_eq!(receiver.seen().pop().unwrap().header("authorization"), Some(sent));
        assert_eq!(recorded(&record, "authorization").as_deref(), Some(MASK));
    }
}
