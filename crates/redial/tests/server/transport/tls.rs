//! TLS: good certificates, and every kind of bad one.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use domain::outcome::Outcome;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use redial::transport::Transport;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use store::queue::AttemptRecord;
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsAcceptor;

use super::receiver::{OK, Receiver, read_request};
use super::scene::{Scene, loopback, resolving, settings, took};

const NAME: &str = "hooks.example.com";

/// An authority that only the tests trust.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority of the tests");
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn root(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// Makes a receiver's side of TLS.
    fn acceptor(&self, params: CertificateParams) -> TlsAcceptor {
        TlsAcceptor::from(self.config(params))
    }

    fn config(&self, params: CertificateParams) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        config(certificate.der(), &key)
    }
}

fn config(certificate: &CertificateDer<'static>, key: &KeyPair) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    Arc::new(config)
}

fn named(name: &str) -> CertificateParams {
    CertificateParams::new(vec![name.to_owned()]).unwrap()
}

async fn receiver(acceptor: TlsAcceptor) -> Receiver {
    Receiver::start(move |talk| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(talk.tcp).await else { return };
            let sni = stream.get_ref().1.server_name().map(str::to_owned);
            while read_request(&mut stream, 0).await.is_some() {
                let sni = sni.as_deref().unwrap_or("none");
                let answer = OK.replace("\r\n\r\n", &format!("\r\nx-sni: {sni}\r\n\r\n"));
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    })
    .await
}

fn scene(receiver: &Receiver, roots: Vec<CertificateDer<'static>>) -> Scene {
    scene_at(receiver.address.port(), roots)
}

fn scene_at(port: u16, roots: Vec<CertificateDer<'static>>) -> Scene {
    let mut settings = settings(loopback(), resolving(&[(NAME, &["127.0.0.1"])]));
    settings.extra_roots = roots;
    let url = format!("https://{NAME}:{port}/");
    Scene::with(&url, Transport::new(settings))
}

#[tokio::test]
async fn a_good_certificate_is_taken_and_its_connection_used_again() {
    let authority = Authority::new();
    let receiver = receiver(authority.acceptor(named(NAME))).await;
    let scene = scene(&receiver, vec![authority.root()]);
    let record = scene.send().await;
    assert_eq!(record.outcome, Outcome::answered(200), "{:?}", record.error);
    assert!(record.phases.tls.is_some());
    assert!(record.response_headers.pairs().contains(&("x-sni".to_owned(), NAME.to_owned())));
    let again = scene.send().await;
    assert_eq!(again.outcome, Outcome::answered(200), "{:?}", again.error);
    assert!(again.phases.tls.is_none());
    assert_eq!(receiver.connections(), 1);
}

/// A receiver in a thread of its own: it answers one request on each connection, says that it will
/// say no more and closes when it is told to, and tells when it has.
fn closing_receiver(config: Arc<ServerConfig>) -> (u16, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let ((close, closing), (tell, told)) = (mpsc::channel(), mpsc::channel());
    std::thread::spawn(move || {
        while let Ok((tcp, _)) = listener.accept() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, tcp);
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(OK.as_bytes()).unwrap();
            if closing.recv().is_err() {
                return;
            }
            stream.conn.send_close_notify();
            stream.flush().unwrap();
            drop(stream);
            tell.send(()).unwrap();
        }
    });
    (port, close, told)
}

#[tokio::test]
async fn a_connection_that_its_peer_closed_by_the_rules_of_tls_costs_no_attempt() {
    let authority = Authority::new();
    let (port, close, closed) = closing_receiver(authority.config(named(NAME)));
    let scene = scene_at(port, vec![authority.root()]);
    for attempt in 0..20 {
        let record = scene.send().await;
        assert_eq!(record.outcome, Outcome::answered(200), "{attempt}: {:?}", record.error);
        assert_eq!(record.phases.reused, Some(false), "{attempt}");
        assert_eq!(scene.transport.idle_connections(), 1);
        // The thread is blocked on purpose: the runtime cannot look at its sockets meanwhile.
        close.send(()).unwrap();
        closed.recv().unwrap();
    }
}

/// A receiver in a thread of its own: it answers one request on a connection, changes its keys when
/// it is told to, which is a word of TLS alone, tells when it has, and answers one more.
fn key_changer(config: Arc<ServerConfig>) -> (u16, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let ((change, changing), (tell, told)) = (mpsc::channel(), mpsc::channel());
    std::thread::spawn(move || {
        let session = ServerConnection::new(config).unwrap();
        let mut stream = StreamOwned::new(session, listener.accept().unwrap().0);
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        stream.write_all(OK.as_bytes()).unwrap();
        changing.recv().unwrap();
        stream.conn.refresh_traffic_keys().unwrap();
        stream.flush().unwrap();
        tell.send(()).unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        stream.write_all(OK.as_bytes()).unwrap();
        assert_eq!(stream.read(&mut [0; 4096]).unwrap_or(0), 0);
    });
    (port, change, told)
}

#[tokio::test]
async fn what_tls_says_for_itself_does_not_end_a_connection_that_waits() {
    let authority = Authority::new();
    let (port, speak, spoken) = key_changer(authority.config(named(NAME)));
    let scene = scene_at(port, vec![authority.root()]);
    assert_eq!(scene.send().await.outcome, Outcome::answered(200));
    speak.send(()).unwrap();
    spoken.recv().unwrap();
    let again = scene.send().await;
    assert_eq!(again.outcome, Outcome::answered(200), "{:?}", again.error);
    assert_eq!(again.phases.reused, Some(true));
}

async fn refused(params: CertificateParams, trusted: bool) -> AttemptRecord {
    let authority = Authority::new();
    let receiver = receiver(authority.acceptor(params)).await;
    let roots = if trusted { vec![authority.root()] } else { Vec::new() };
    scene(&receiver, roots).send().await
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let record = refused(named("other.example.com"), true).await;
    assert_eq!(record.outcome, Outcome::TlsFailed);
    let text = "the receiver's certificate is for another name";
    assert_eq!(record.error.as_deref(), Some(text));
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let mut params = named(NAME);
    params.not_before = date_time_ymd(2001, 1, 1);
    params.not_after = date_time_ymd(2002, 1, 1);
    let record = refused(params, true).await;
    assert_eq!(record.outcome, Outcome::TlsFailed);
    assert_eq!(record.error.as_deref(), Some("the receiver's certificate has expired"));
}

#[tokio::test]
async fn an_unknown_authority_is_refused() {
    let record = refused(named(NAME), false).await;
    assert_eq!(record.outcome, Outcome::TlsFailed);
    assert!(record.error.unwrap().contains("unknown authority"));
}

#[tokio::test]
async fn a_self_signed_certificate_is_called_that_unless_something_else_is_wrong_with_it_first() {
    let (expired, ordinary) = (true, false);
    // `openssl req -x509` makes one that is an authority's as well.
    let cases = [
        (IsCa::NoCa, ordinary, "is self-signed"),
        (IsCa::ExplicitNoCa, ordinary, "is self-signed"),
        (IsCa::Ca(BasicConstraints::Unconstrained), ordinary, "is self-signed"),
        (IsCa::NoCa, expired, "has expired"),
    ];
    for (is_ca, is_expired, told) in cases {
        let (mut params, key) = (named(NAME), KeyPair::generate().unwrap());
        params.is_ca = is_ca;
        if is_expired {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        let certificate = params.self_signed(&key).unwrap();
        let receiver = receiver(TlsAcceptor::from(config(certificate.der(), &key))).await;
        let record = scene(&receiver, Vec::new()).send().await;
        assert_eq!(record.outcome, Outcome::TlsFailed);
        let text = record.error.unwrap();
        assert!(text.contains(told), "{text}");
    }
}

#[tokio::test]
async fn a_receiver_that_does_not_speak_tls_is_told_from_one_that_does() {
    let receiver = Receiver::start(|mut talk| async move {
        talk.say("HTTP/1.1 400 Bad Request\r\n\r\n").await;
        talk.until_closed().await;
    })
    .await;
    let record = scene(&receiver, Vec::new()).send().await;
    assert_eq!(record.outcome, Outcome::TlsFailed);
    let text = "the receiver does not speak TLS on this port";
    assert_eq!(record.error.as_deref(), Some(text));
}

#[tokio::test]
async fn a_body_that_ends_with_a_connection_may_end_without_a_word_of_tls_and_one_with_a_length_may_not()
 {
    let authority = Authority::new();
    let cases = [
        ("", Outcome::answered(200)),
        ("content-length: 9\r\n", Outcome::answered(200)),
        ("content-length: 10\r\n", Outcome::BrokenAnswer),
        ("transfer-encoding: chunked\r\n", Outcome::BrokenAnswer),
    ];
    for (header, outcome) in cases {
        let acceptor = authority.acceptor(named(NAME));
        let receiver = Receiver::start(move |talk| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut stream) = acceptor.accept(talk.tcp).await else { return };
                read_request(&mut stream, 0).await;
                let body = if header.starts_with('t') { "9\r\nall of it" } else { "all of it" };
                let answer = format!("HTTP/1.1 200 OK\r\n{header}\r\n{body}");
                stream.write_all(answer.as_bytes()).await.unwrap();
                // Dropped without a shutdown: TLS is not told.
            }
        })
        .await;
        let record = scene(&receiver, vec![authority.root()]).send().await;
        assert_eq!(record.outcome, outcome, "{header:?}: {:?}", record.error);
        assert_eq!(record.response_body, "all of it", "{header:?}");
    }
}

#[tokio::test]
async fn a_handshake_that_stalls_times_out() {
    let receiver = Receiver::start(|mut talk| async move {
        talk.until_closed().await;
    })
    .await;
    let (connect, whole) = (Duration::from_millis(300), Duration::from_secs(60));
    let record = scene(&receiver, Vec::new()).within(connect, whole).send().await;
    assert_eq!(record.outcome, Outcome::TimedOut);
    assert_eq!(record.error.as_deref(), Some("the TLS handshake took too long"));
    assert!(record.phases.connect.is_some() && record.phases.tls.is_some());
    assert!(took(&record) >= connect && took(&record) < whole / 6, "{:?}", took(&record));
}
