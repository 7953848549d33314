//! Connections of clients: plain HTTP/1.1, and TLS with HTTP/2 or HTTP/1.1, as the client prefers. Who holds them
//! when they run short, `clients` decides.
//!
//! There is no HTTP/2 without TLS: what stands in front of such a listener often reads it another
//! way. Every wait for a client ends: for its handshake, for its headers, until it reads what it
//! asked for, and over HTTP/2 for its next request.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::activity::{Activity, Counted};
use super::clients::{Client, Clients, Place, Room};
use super::patient::Patient;
use super::rest::{self, Patience};
use super::tls::Secure;
use crate::config::{Limits, Pace};

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

/// Lets clients in, as long as there is room.
pub(crate) struct Door<Serving> {
    /// Makes what serves one client.
    serving: Serving,
    clients: Arc<Clients>,
    patience: Duration,
    rest: Patience,
    /// How slowly a client may read.
    pace: Pace,
    /// How long a request takes at the most.
    longest: Duration,
    first: auto::Builder<TokioExecutor>,
    second: auto::Builder<TokioExecutor>,
    graceful: GracefulShutdown,
}

/// A client that was let in.
struct Guest {
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    place: Place,
}

impl<Serving, S> Door<Serving>
where
    Serving: Fn(Arc<Client>) -> S,
    S: Service<http::Request<Body>, Response = Response, Error = Infallible, Future: Send>,
    S: Clone + Send + 'static,
{
    pub(crate) fn new(serving: Serving, limits: &Limits) -> Self {
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
        let room = Room {
            all: limits.connections,
            each: limits.connections_per_address,
            proxies: limits.shared_addresses.clone(),
        };
        Self {
            serving,
            clients: Clients::new(room),
            patience: limits.header_timeout,
            rest: Patience {
                // As much as the largest batch.
                bytes: limits.body_bytes.saturating_mul(16),
                time: limits.header_timeout,
            },
            pace: limits.pace(),
            longest: limits.request_timeout,
            first,
            second,
            graceful: GracefulShutdown::new(),
        }
    }

    /// Lets clients in, for as long as it is polled.
    pub(crate) async fn open(&self, plain: &TcpListener, secure: Option<&Secure>) {
        loop {
            if let Some(guest) = self.wait(plain, secure).await {
                self.serve(guest);
            }
        }
    }

    /// Waits for a client, and for room for it. None if there is none for this one.
    async fn wait(&self, plain: &TcpListener, secure: Option<&Secure>) -> Option<Guest> {
        let (accepted, tls) = tokio::select! {
            accepted = plain.accept() => (accepted, None),
            (accepted, tls) = Secure::accept(secure) => (accepted, Some(tls)),
        };
        match accepted {
            Ok((stream, address)) => {
                // Answers are small, and somebody waits for each.
                let _ = stream.set_nodelay(true);
                let place = self.clients.enter(SocketAddr::ip(&address)).await?;
                Some(Guest { stream, tls, place })
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
        let Guest { stream, tls, place } = guest;
        let client = Arc::clone(place.client());
        let service = Erased { service: (self.serving)(Arc::clone(&client)), rest: self.rest };
        let (first, second) = (self.first.clone(), self.second.clone());
        let (patience, pace, longest) = (self.patience, self.pace, self.longest);
        let watcher = self.graceful.watcher();
        let task = tokio::spawn(async move {
            let _place = place;
            let stream = Patient::new(stream, pace);
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
                () = activity.idle(patience, longest + patience) => {}
            }
        });
        client.is_served_by(task.abort_handle());
    }

    /// Waits until everybody has been answered.
    pub(crate) async fn close(self) {
        self.graceful.shutdown().await;
    }
}

/// Hands hyper's requests on, with the body as axum has it.
#[derive(Clone)]
struct Erased<S> {
    service: S,
    rest: Patience,
}

impl<S: Service<http::Request<Body>>> Service<http::Request<Incoming>> for Erased<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        self.service.call(rest::drained(request, self.rest))
    }
}
