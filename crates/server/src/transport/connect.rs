//! Making a connection: look up, have vetted, dial, check, and agree on TLS.
//!
//! Only what the guard vetted just now is dialled, and after dialling the far end is looked at once
//! more. Addresses are tried in turn; each gets its share of the time that is left, so that a first
//! one which swallows everything does not hide a second one which answers.

use std::net::SocketAddr;
use std::time::Duration;

use domain::address::{DeliverableUrl, Guard, Host, Proxy, Route, Scheme, VettedAddress};
use domain::ids::ApplicationId;
use domain::outcome::Outcome;
use domain::rate::FarEnd;
use domain::time::Timestamp;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::exchange::{Progress, Wire};
use super::outcome::{Failure, Stage};
use super::proxy;
use super::resolve::Resolver;
use super::stream::{Socket, Stream};
use super::tls::Tls;
use crate::clock::Clock;

/// How many addresses of one receiver are tried in one attempt.
const MOST_DIALLED: usize = 4;

/// Where a connection leads, and for whom it is made.
#[derive(Debug)]
pub(super) struct Target {
    /// The URL as it was vetted when the endpoint was saved.
    pub(super) url: DeliverableUrl,
    /// Whose endpoint it is.
    pub(super) application: ApplicationId,
    /// The name in the certificate; none without TLS.
    pub(super) server_name: Option<ServerName<'static>>,
}

impl Target {
    /// Tells whom a connection has been heard from. To open one, and to take a request in, needs
    /// nobody but the receiver's system: its program may come for it much later.
    pub(super) fn far_end(&self, used_before: bool) -> FarEnd {
        match self.url.scheme() {
            Scheme::Https => FarEnd::Program,
            Scheme::Http if used_before => FarEnd::Program,
            Scheme::Http => FarEnd::System,
        }
    }
}

/// Makes connections.
pub(super) struct Dialler {
    /// Looks names up.
    pub(super) resolver: Resolver,
    /// Makes connections private.
    pub(super) tls: Tls,
}

/// Where it may lead and how long it may take.
#[derive(Clone, Copy)]
pub(super) struct Leave<'a> {
    /// Vets what the name resolved to.
    pub(super) guard: &'a Guard,
    /// The time for everything.
    pub(super) limit: Duration,
    /// Tells the time.
    pub(super) clock: &'a dyn Clock,
}

impl Dialler {
    /// Makes a connection.
    pub(super) async fn open(
        &self,
        target: &Target,
        leave: Leave<'_>,
        progress: &mut Progress,
    ) -> Result<Wire, Failure> {
        let opening = self.open_unlimited(target, leave, progress);
        match timeout(leave.limit, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(Failure::timed_out(progress.stage)),
        }
    }

    async fn open_unlimited(
        &self,
        target: &Target,
        leave: Leave<'_>,
        progress: &mut Progress,
    ) -> Result<Wire, Failure> {
        let ends_at = leave.clock.now().after(leave.limit);
        let route = self.route(target, leave, progress).await?;
        let dialling = Dialling { clock: leave.clock, ends_at };
        progress.begin(Stage::Connect, leave.clock);
        let tcp = match route {
            Route::Direct(addresses) => dialling.any(&addresses).await?,
            Route::Tunnel { proxy, to } => self.tunnel(&proxy, &to, dialling, progress).await?,
            Route::TrustedProxy { proxy } => {
                progress.stage = Stage::Proxy;
                let mut tcp = self.dial_proxy(&proxy, dialling).await?;
                progress.stage = Stage::Connect;
                let url = &target.url;
                let authority = [&url.host().to_string(), ":", &url.port().to_string()].concat();
                proxy::connect(&mut tcp, &authority).await?;
                tcp
            }
        };
        progress.end(leave.clock);
        let stream = self.secure(Socket::new(tcp), target, leave.clock, progress).await?;
        Wire::new(stream, leave.clock.now()).await
    }

    /// Decides the way, from what the name resolves to now.
    async fn route(
        &self,
        target: &Target,
        leave: Leave<'_>,
        progress: &mut Progress,
    ) -> Result<Route, Failure> {
        let addresses = match target.url.host() {
            Host::Name(name) if leave.guard.proxying().resolves_here() => {
                progress.begin(Stage::LookUp, leave.clock);
                let addresses = self.resolver.addresses(name).await;
                progress.end(leave.clock);
                addresses?
            }
            Host::Name(_) | Host::Address(_) => Vec::new(),
        };
        let route = leave.guard.route(&target.url, target.application, &addresses);
        route.map_err(|refusal| {
            let reason = refusal.for_operator();
            tracing::info!(origin = target.url.origin(), reason, "the address guard refused");
            Failure::blocked(&refusal)
        })
    }

    async fn secure(
        &self,
        socket: Socket,
        target: &Target,
        clock: &dyn Clock,
        progress: &mut Progress,
    ) -> Result<Stream, Failure> {
        match (target.url.scheme(), &target.server_name) {
            (Scheme::Http, _) => Ok(Stream::plain(socket)),
            (Scheme::Https, Some(name)) => {
                progress.begin(Stage::Handshake, clock);
                let stream = self.tls.handshake(socket, name.clone()).await;
                progress.end(clock);
                stream
            }
            (Scheme::Https, None) => Err(Failure::no_name_for_tls()),
        }
    }

    /// Asks the proxy for one vetted address after the other, each on a connection of its own. Dialling
    /// the proxy may take what time there is, since without it there is no way to any of them.
    async fn tunnel(
        &self,
        proxy: &Proxy,
        to: &[VettedAddress],
        dialling: Dialling<'_>,
        progress: &mut Progress,
    ) -> Result<TcpStream, Failure> {
        let count = to.len().min(MOST_DIALLED);
        let mut last: Option<Failure> = None;
        for (index, address) in to.iter().take(count).enumerate() {
            // Once the proxy was reached, it is the receiver's addresses that use the time up.
            if last.is_none() {
                progress.stage = Stage::Proxy;
            }
            let mut tcp = match self.dial_proxy(proxy, dialling).await {
                Ok(tcp) => tcp,
                Err(failure) => return Err(last.unwrap_or(failure)),
            };
            progress.stage = Stage::Connect;
            let authority = address.socket_addr().to_string();
            let asking = proxy::connect(&mut tcp, &authority);
            let asked = timeout(dialling.share(count - index), asking).await;
            match asked.unwrap_or_else(|_| Err(Failure::timed_out(Stage::Connect))) {
                Ok(()) => return Ok(tcp),
                Err(failure) => last = Some(graver(last, failure)),
            }
        }
        Err(last.unwrap_or_else(|| Failure::timed_out(Stage::Connect)))
    }

    /// Tells whether the operator's own proxy can be dialled.
    pub(super) async fn reaches(&self, proxy: &Proxy, limit: Duration, clock: &dyn Clock) -> bool {
        let dialling = Dialling { clock, ends_at: clock.now().after(limit) };
        let dialled = timeout(limit, self.dial_proxy(proxy, dialling)).await;
        dialled.is_ok_and(|dialled| dialled.is_ok())
    }

    /// Dials the operator's own proxy. It is not vetted, since it usually is a private address.
    async fn dial_proxy(
        &self,
        proxy: &Proxy,
        dialling: Dialling<'_>,
    ) -> Result<TcpStream, Failure> {
        let addresses = match &proxy.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolver.addresses(name).await.map_err(Failure::no_proxy)?,
        };
        let count = addresses.len().min(MOST_DIALLED);
        let mut last = None;
        for (index, address) in addresses.into_iter().take(count).enumerate() {
            let address = SocketAddr::new(address, proxy.port);
            match dialling.one(address, count - index).await {
                Ok(tcp) => return Ok(tcp),
                Err(failure) => last = Some(graver(last, failure)),
            }
        }
        Err(Failure::no_proxy(last.unwrap_or_else(|| Failure::timed_out(Stage::Connect))))
    }
}

/// Dialling, and when it has to be over.
#[derive(Clone, Copy)]
struct Dialling<'a> {
    clock: &'a dyn Clock,
    ends_at: Timestamp,
}

impl Dialling<'_> {
    async fn any(self, addresses: &[VettedAddress]) -> Result<TcpStream, Failure> {
        let count = addresses.len().min(MOST_DIALLED);
        let mut last = None;
        for (index, address) in addresses.iter().take(count).enumerate() {
            match self.one(address.socket_addr(), count - index).await {
                Ok(tcp) => return checked(tcp, *address),
                Err(failure) => last = Some(graver(last, failure)),
            }
        }
        Err(last.unwrap_or_else(|| Failure::timed_out(Stage::Connect)))
    }

    /// Returns the time for one address, of so many that are left.
    fn share(self, left: usize) -> Duration {
        let rest = self.ends_at.since(self.clock.now());
        rest / u32::try_from(left).unwrap_or(1).max(1)
    }

    /// Dials one address, of so many that are left.
    async fn one(self, address: SocketAddr, left: usize) -> Result<TcpStream, Failure> {
        match timeout(self.share(left), TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => {
                // Requests are written whole, so that waiting for more to send only costs time.
                tcp.set_nodelay(true).map_err(|error| Failure::dialling(&error, address))?;
                Ok(tcp)
            }
            Ok(Err(error)) => Err(Failure::dialling(&error, address)),
            Err(_) => Err(Failure::timed_out(Stage::Connect)),
        }
    }
}

/// Chooses which failure of two addresses is told. What keeps us from one of them, be it our lack or
/// the proxy's, is not made up for by another's failure.
fn graver(before: Option<Failure>, failure: Failure) -> Failure {
    before.filter(|before| before.outcome == Outcome::Interrupted).unwrap_or(failure)
}

/// Makes sure that a connection leads where it was dialled.
fn checked(tcp: TcpStream, dialled: VettedAddress) -> Result<TcpStream, Failure> {
    let address = dialled.socket_addr();
    let peer = tcp.peer_addr().map_err(|error| Failure::dialling(&error, address))?;
    Guard::check_peer(dialled, peer).map_err(|refusal| Failure::blocked(&refusal))?;
    Ok(tcp)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use domain::address::Settings;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_leads_elsewhere_is_not_used() {
        let allowed = vec!["127.0.0.0/8".parse().unwrap()];
        let guard = Guard::new(Settings { allowed, ..Settings::default() });
        let vet = |address| guard.vet_address(address, ApplicationId::from_bytes([7; 20])).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let there = listener.local_addr().unwrap();
        let tcp = TcpStream::connect(there).await.unwrap();
        let tcp = checked(tcp, vet(there)).unwrap();
        let elsewhere = SocketAddr::from(([127, 0, 0, 2], there.port()));
        let refused = checked(tcp, vet(elsewhere)).unwrap_err();
        assert_eq!(refused.outcome, Outcome::Blocked);
    }
}
