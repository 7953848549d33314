//! Connections to the API: plain HTTP/1.1, and TLS with HTTP/2 or HTTP/1.1, as the client prefers.
//!
//! There is no HTTP/2 without TLS: what stands in front of such a listener often reads it another
//! way. Every wait for a client ends: for its handshake, for its headers, until it reads what it
//! asked for, and over HTTP/2 for its next request.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

use super::activity::{Activity, Counted};
use super::patient::Patient;
use super::rest::{self, Patience};
use crate::api;
use crate::config::{Limits, Tls};

/// How long to wait after the listener could not accept, usually for want of file descriptors.
const BREATH: Duration = Duration::from_millis(50);
/// The most requests that one HTTP/2 connection may have open.
const STREAMS: u32 = 128;
/// The most streams of one connection that were reset before anybody looked at them.
const RESETS: usize = 32;
/// The most bytes of one request's headers over HTTP/2.
const HEADER_BYTES: u32 = 16 << 10;

/// The most bytes of one answer that wait in a buffer over HTTP/2.
const SENT_BYTES: usize = 64 << 10;

/// A listener whose connections are encrypted.
pub(super) struct Secure {
    /// Where it listens.
    pub(super) listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Secure {
    /// Reads certificate and key, and begins to listen.
    pub(super) async fn listen(tls: &Tls) -> anyhow::Result<Self> {
        let config = Self::read(tls)?;
        let listener = TcpListener::bind(tls.listen).await;
        let listener = listener.with_context(|| format!("cannot listen on {}", tls.listen))?;
        Ok(Self { listener, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// Reads certificate and key.
    pub(super) fn read(tls: &Tls) -> anyhow::Result<ServerConfig> {
        let place = tls.certificate.display();
        let certificates = CertificateDer::pem_file_iter(&tls.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .with_context(|| format!("tls.certificate: {place} cannot be read"))?;
        let key = PrivateKeyDer::from_pem_file(&tls.key)
            .with_context(|| format!("tls.key: {} cannot be read", tls.key.display()))?;
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_single_cert(certificates, key)
                .with_context(|| format!("tls.certificate: {place} does not fit tls.key"))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Lets clients in, as long as there is room.
pub(super) struct Door {
    service: api::Service,
    slots: Arc<Semaphore>,
    patience: Duration,
    rest: Patience,
    /// How long a client may take to read.
    reading: Duration,
    first: auto::Builder<TokioExecutor>,
    second: auto::Builder<TokioExecutor>,
    graceful: GracefulShutdown,
}

/// A client that was let in.
struct Guest {
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    slot: OwnedSemaphorePermit,
}

impl Door {
    pub(super) fn new(service: api::Service, limits: &Limits) -> Self {
        let mut first = auto::Builder::new(TokioExecutor::new()).http1_only();
        first.http1().timer(TokioTimer::new()).header_read_timeout(limits.header_timeout);
        let mut second = auto::Builder::new(TokioExecutor::new()).http2_only();
        second
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_pending_accept_reset_streams(RESETS)
            .max_local_error_reset_streams(RESETS)
            .max_header_list_size(HEADER_BYTES)
            .max_send_buf_size(SENT_BYTES);
        Self {
            service,
            slots: Arc::new(Semaphore::new(limits.connections)),
            patience: limits.header_timeout,
            rest: Patience {
                // As much as the largest batch.
                bytes: limits.body_bytes.saturating_mul(16),
                time: limits.header_timeout,
            },
            reading: limits.request_timeout,
            first,
            second,
            graceful: GracefulShutdown::new(),
        }
    }

    /// Lets clients in, for as long as it is polled.
    pub(super) async fn open(&self, plain: &TcpListener, secure: Option<&Secure>) {
        loop {
            if let Some(guest) = self.wait(plain, secure).await {
                self.serve(guest);
            }
        }
    }

    /// Waits for a client, once there is room for one.
    async fn wait(&self, plain: &TcpListener, secure: Option<&Secure>) -> Option<Guest> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        let (accepted, tls) = tokio::select! {
            accepted = plain.accept() => (accepted, None),
            (accepted, tls) = accept_secure(secure) => (accepted, Some(tls)),
        };
        match accepted {
            Ok((stream, _)) => {
                // Answers are small, and somebody waits for each.
                let _ = stream.set_nodelay(true);
                Some(Guest { stream, tls, slot })
            }
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(BREATH).await;
                None
            }
        }
    }

    /// Serves a client in a task of its own. One that breaks off is its own business.
    fn serve(&self, guest: Guest) {
        let Guest { stream, tls, slot } = guest;
        let service = Erased { service: self.service.clone(), rest: self.rest };
        let (first, second) = (self.first.clone(), self.second.clone());
        let (patience, reading) = (self.patience, self.reading);
        let watcher = self.graceful.watcher();
        tokio::spawn(async move {
            let _slot = slot;
            let stream = Patient::new(stream, reading);
            let Some(tls) = tls else {
                let served = first.serve_connection(TokioIo::new(stream), service);
                let _ = watcher.watch(served.into_owned()).await;
                return;
            };
            let shaken = tokio::time::timeout(patience, tls.accept(stream)).await;
            let Ok(Ok(stream)) = shaken else { return };
            if stream.get_ref().1.alpn_protocol() != Some(b"h2".as_slice()) {
                let served = first.serve_connection(TokioIo::new(stream), service);
                let _ = watcher.watch(served.into_owned()).await;
                return;
            }
            let activity = Arc::new(Activity::default());
            let counted = Counted { service, activity: Arc::clone(&activity) };
            let served = second.serve_connection(TokioIo::new(stream), counted);
            tokio::select! {
                _ = watcher.watch(served.into_owned()) => {}
                // A request may take as long as it takes to answer, and then to begin reading.
                () = activity.idle(patience, reading + patience) => {}
            }
        });
    }

    /// Waits until everybody has been answered.
    pub(super) async fn close(self) {
        self.graceful.shutdown().await;
    }
}

async fn accept_secure(
    secure: Option<&Secure>,
) -> (std::io::Result<(TcpStream, std::net::SocketAddr)>, TlsAcceptor) {
    match secure {
        Some(secure) => (secure.listener.accept().await, secure.acceptor.clone()),
        None => std::future::pending().await,
    }
}

/// Hands hyper's requests to the API, with the body as axum has it.
#[derive(Clone)]
struct Erased {
    service: api::Service,
    rest: Patience,
}

impl hyper::service::Service<http::Request<Incoming>> for Erased {
    type Response = axum::response::Response;
    type Error = Infallible;
    type Future = api::Answering;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        self.service.answer(rest::drained(request, self.rest))
    }
}
