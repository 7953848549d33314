//! Names, addresses and proxies: nothing is dialled that the guard has not vetted.

use std::sync::Arc;
use std::time::Duration;

use domain::address::{PlainHttp, Proxy, Proxying, Settings};
use domain::ids::ApplicationId;
use domain::outcome::{Outcome, Unreachable};
use redial::transport::{Resolver, Transport};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

use super::receiver::{OK, Receiver};
use super::scene::{APPLICATION, Scene, loopback, resolving, settings, took};

const NAME: &str = "hooks.example.com";

fn reaching(guard: Settings, addresses: &[&str]) -> Transport {
    Transport::new(settings(guard, resolving(&[(NAME, addresses)])))
}

fn url(port: u16) -> String {
    format!("http://{NAME}:{port}/hook")
}

#[tokio::test]
async fn a_name_is_resolved_and_its_host_header_keeps_the_name() {
    let receiver = Receiver::saying(OK).await;
    let port = receiver.address.port();
    let scene = Scene::with(&url(port), reaching(loopback(), &["127.0.0.1"]));
    let record = scene.send().await;
    assert_eq!(record.outcome, Outcome::answered(200), "{:?}", record.error);
    assert!(record.phases.dns.is_some());
    let host = format!("{NAME}:{port}");
    assert_eq!(receiver.seen()[0].header("host"), Some(host.as_str()));
    // A connection that is used again needs no look-up.
    assert!(scene.send().await.phases.dns.is_none());
}

#[tokio::test]
async fn a_name_without_address_is_unreachable() {
    let record = Scene::with("https://gone.example.com/", reaching(loopback(), &[])).send().await;
    assert_eq!(record.outcome, Outcome::Unreachable(Unreachable::Dns));
    assert_eq!(record.error.as_deref(), Some("the name has no address"));
}

#[tokio::test]
async fn a_silent_name_server_costs_the_time_for_connecting_and_no_more() {
    let silent = Resolver::from_fn(|_| Box::pin(std::future::pending()));
    let transport = Transport::new(settings(loopback(), silent));
    let (connect, whole) = (Duration::from_millis(200), Duration::from_secs(60));
    let scene = Scene::with("https://hooks.example.com/", transport).within(connect, whole);
    let record = scene.send().await;
    assert_eq!(record.outcome, Outcome::TimedOut);
    assert_eq!(record.error.as_deref(), Some("looking up the name took too long"));
    assert!(record.phases.dns.is_some() && record.phases.connect.is_none());
    assert!(took(&record) >= connect && took(&record) < whole / 6, "{:?}", took(&record));
}

#[tokio::test]
async fn a_public_name_with_a_private_address_is_blocked_and_the_address_not_told() {
    let private = ["10.0.0.7", "169.254.169.254", "127.0.0.1", "::1", "::ffff:10.0.0.7"];
    for address in private {
        let transport = reaching(Settings::default(), &[address]);
        let record = Scene::with("https://hooks.example.com/", transport).send().await;
        assert_eq!(record.outcome, Outcome::Blocked, "{address}");
        let text = record.error.unwrap();
        assert!(text.starts_with("destination_not_allowed: "), "{text}");
        assert!(!text.contains(address), "{text}");
    }
}

#[tokio::test]
async fn an_address_written_out_is_vetted_like_a_name() {
    for host in ["127.0.0.1", "0x7f.1", "2130706433", "[::1]", "169.254.169.254", "localhost"] {
        let transport = reaching(Settings::default(), &[]);
        let record = Scene::with(&format!("https://{host}/"), transport).send().await;
        assert_eq!(record.outcome, Outcome::Blocked, "{host}");
    }
}

#[tokio::test]
async fn of_several_addresses_only_vetted_ones_are_dialled() {
    let good = Receiver::saying(OK).await;
    let port = good.address.port();
    let closed = Receiver::at(([127, 0, 0, 2], port).into(), |mut talk| async move {
        talk.request().await;
    })
    .await;
    let transport = reaching(loopback(), &["127.0.0.2", "10.0.0.7", "127.0.0.1"]);
    let record = Scene::with(&url(port), transport).send().await;
    assert_eq!(record.outcome, Outcome::answered(200), "{:?}", record.error);
    assert_eq!((good.connections(), closed.connections()), (1, 0));
}

#[tokio::test]
async fn an_address_that_refuses_does_not_hide_one_that_answers() {
    let receiver = Receiver::saying(OK).await;
    let guard = Settings { allowed: vec!["127.0.0.0/8".parse().unwrap()], ..Settings::default() };
    let transport = reaching(guard, &["127.0.0.2", "127.0.0.1"]);
    let record = Scene::with(&url(receiver.address.port()), transport).send().await;
    assert_eq!(record.outcome, Outcome::answered(200), "{:?}", record.error);
}

#[tokio::test]
async fn a_name_that_turns_private_is_blocked_although_it_was_saved() {
    let receiver = Receiver::saying(OK).await;
    let scene = Scene::with(&url(receiver.address.port()), reaching(loopback(), &["127.0.0.1"]));
    assert_eq!(scene.send().await.outcome, Outcome::answered(200));
    // The operator closes what was open: a waiting connection is not a way around that.
    scene.transport.change_guard(Settings::default());
    assert_eq!(scene.transport.idle_connections(), 0);
    assert_eq!(scene.send().await.outcome, Outcome::Blocked);
    assert_eq!(receiver.seen().len(), 1);
}

#[tokio::test]
async fn an_address_opened_for_one_application_stays_closed_for_others() {
    let receiver = Receiver::saying(OK).await;
    let range = format!("127.0.0.1 for {APPLICATION}").parse().unwrap();
    let guard = Settings { allowed: vec![range], ..Settings::default() };
    let transport = Transport::new(settings(guard, resolving(&[])));
    let scene = Scene::with(&receiver.url(), transport);
    let own = scene.member();
    let mut foreign = Arc::unwrap_or_clone(scene.member());
    foreign.application = ApplicationId::from_bytes([8; 20]);
    foreign.view.endpoint.key.0 += 1;
    assert_eq!(scene.send_as(&own).await.outcome, Outcome::answered(200));
    assert_eq!(scene.send_as(&Arc::new(foreign)).await.outcome, Outcome::Blocked);
    assert_eq!(receiver.connections(), 1);
}

/// A proxy that does what CONNECT asks, or goes to `instead`.
async fn proxy(instead: Option<std::net::SocketAddr>) -> Receiver {
    Receiver::start(move |mut talk| async move {
        let Some(request) = talk.request().await else { return };
        let asked = request.head.split(' ').nth(1).unwrap().to_owned();
        let mut onward = match instead {
            Some(address) => TcpStream::connect(address).await.unwrap(),
            None => TcpStream::connect(asked).await.unwrap(),
        };
        talk.say("HTTP/1.1 200 Connection established\r\n\r\n").await;
        let _ended = copy_bidirectional(&mut talk.tcp, &mut onward).await;
    })
    .await
}

fn proxy_of(receiver: &Receiver) -> Proxy {
    let host = receiver.address.ip().to_string().parse().unwrap();
    Proxy { host, port: receiver.address.port() }
}

#[tokio::test]
async fn a_tunnel_is_asked_for_by_vetted_address() {
    let (receiver, proxy) = (Receiver::saying(OK).await, proxy(None).await);
    let proxying = Proxying::Tunnel(proxy_of(&proxy));
    let port = receiver.address.port();
    let transport = reaching(Settings { proxying, ..loopback() }, &["10.0.0.7", "127.0.0.1"]);
    let scene = Scene::with(&url(port), transport);
    let record = scene.send().await;
    assert_eq!(record.outcome, Outcome::answered(200), "{:?}", record.error);
    let asked = format!("CONNECT 127.0.0.1:{port} HTTP/1.1");
    assert_eq!(proxy.seen()[0].head.lines().next(), Some(asked.as_str()));
    assert_eq!(receiver.seen().len(), 1);
    // The way through is kept like any connection.
    assert_eq!(scene.send().await.outcome, Outcome::answered(200));
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn a_proxy_does_not_turn_vetting_off() {
    let proxy = proxy(None).await;
    let proxying = Proxying::Tunnel(proxy_of(&proxy));
    let transport = reaching(Settings { proxying, ..Settings::default() }, &["10.0.0.7"]);
    let record = Scene::with("https://hooks.example.com/", transport).send().await;
    assert_eq!(record.outcome, Outcome::Blocked);
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn a_trusted_proxy_is_asked_by_name_and_nothing_is_resolved_here() {
    let receiver = Receiver::saying(OK).await;
    let proxy = proxy(Some(receiver.address)).await;
    let proxying = Proxying::Trust(proxy_of(&proxy));
    let guard = Settings { proxying, plain_http: PlainHttp::Allowed, ..Settings::default() };
    let record = Scene::with(&url(8080), reaching(guard, &[])).send().await;
    assert_eq!(record.outcome, Outcome::answered(200), "{:?}", record.error);
    assert!(record.phases.dns.is_none());
    let asked = format!("CONNECT {NAME}:8080 HTTP/1.1");
    assert_eq!(proxy.seen()[0].head.lines().next(), Some(asked.as_str()));
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_with_its_status() {
    let proxy = Receiver::saying("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await;
    let proxying = Proxying::Tunnel(proxy_of(&proxy));
    let transport = reaching(Settings { proxying, ..loopback() }, &["127.0.0.1"]);
    let record = Scene::with(&url(8080), transport).send().await;
    assert_eq!(record.outcome, Outcome::Unreachable(Unreachable::Other));
    let text = "the outgoing proxy refused with status 403";
    assert_eq!(record.error.as_deref(), Some(text));
}

#[tokio::test]
async fn a_proxy_that_cannot_be_reached_is_nobodys_failed_attempt() {
    let closed = Proxy { host: "127.0.0.1".parse().unwrap(), port: 1 };
    let unknown = Proxy { host: "proxy.example.com".parse().unwrap(), port: 3128 };
    for proxy in [closed, unknown] {
        for proxying in [Proxying::Tunnel(proxy.clone()), Proxying::Trust(proxy)] {
            let guard = Settings { proxying, plain_http: PlainHttp::Allowed, ..loopback() };
            let record = Scene::with(&url(8080), reaching(guard, &["127.0.0.1"])).send().await;
            assert_eq!(record.outcome, Outcome::Interrupted, "{:?}", record.error);
            let text = record.error.unwrap();
            assert!(text.starts_with("the outgoing proxy cannot be reached: "), "{text}");
        }
    }
}

#[tokio::test]
async fn a_proxy_that_does_not_take_a_call_in_time_is_nobodys_failed_attempt() {
    let silent = Resolver::from_fn(|_| Box::pin(std::future::pending()));
    let proxy = Proxy { host: "proxy.example.com".parse().unwrap(), port: 3128 };
    let guard = Settings {
        proxying: Proxying::Trust(proxy),
        plain_http: PlainHttp::Allowed,
        ..Settings::default()
    };
    let short = Duration::from_millis(200);
    // Whichever time runs out first, for connecting or for everything.
    for (connect, whole) in [(short, Duration::from_secs(60)), (short, short)] {
        let transport = Transport::new(settings(guard.clone(), silent.clone()));
        let record = Scene::with(&url(8080), transport).within(connect, whole).send().await;
        assert_eq!(record.outcome, Outcome::Interrupted, "{:?}", record.error);
    }
}

#[tokio::test]
async fn a_proxy_that_finds_no_way_in_time_is_a_receiver_that_does_not_answer() {
    let proxy = Receiver::start(|mut talk| async move {
        talk.request().await;
        std::future::pending::<()>().await;
    })
    .await;
    let proxying = Proxying::Tunnel(proxy_of(&proxy));
    let transport = reaching(Settings { proxying, ..loopback() }, &["127.0.0.1"]);
    let (connect, whole) = (Duration::from_millis(200), Duration::from_secs(60));
    let record = Scene::with(&url(8080), transport).within(connect, whole).send().await;
    assert_eq!(record.outcome, Outcome::TimedOut);
    assert_eq!(record.error.as_deref(), Some("connecting took too long"));
}
