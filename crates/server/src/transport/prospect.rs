//! A look at the way out, for whoever sets a server up: nothing is sent to any receiver.
//!
//! The answers come from what the transport itself uses, so that they hold for deliveries too.

use std::net::SocketAddr;
use std::time::Duration;

use domain::address::{Guard, Host, HostName, Proxying, VettedAddress};
use domain::ids::ApplicationId;

use super::connect::Dialler;
use super::interfaces;
use super::resolve::Resolver;
use super::tls::Tls;
use crate::clock::Clock;

/// How long the proxy may take to take a call.
const PATIENCE: Duration = Duration::from_secs(5);
/// A name that belongs to nobody. Whether it has an address does not matter.
const ANY_NAME: &str = "example.com";

/// What can be said about the way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prospect {
    /// Whether name servers answer; nothing if names are the proxy's business.
    pub names: Option<bool>,
    /// Whether the proxy takes calls, if there is one.
    pub proxy: Option<bool>,
}

/// Looks whether name servers and proxy answer.
pub async fn look(proxying: &Proxying, resolver: &Resolver, clock: &dyn Clock) -> Prospect {
    let dialler = Dialler { resolver: resolver.clone(), tls: Tls::new(&[]) };
    let names = match ANY_NAME.parse::<HostName>() {
        Ok(name) if proxying.resolves_here() => Some(resolver.answers(&name).await),
        Ok(_) | Err(_) => None,
    };
    let proxy = match proxying {
        Proxying::Off => None,
        Proxying::Tunnel(proxy) | Proxying::Trust(proxy) => {
            Some(dialler.reaches(proxy, PATIENCE, clock).await)
        }
    };
    Prospect { names, proxy }
}

/// Tells which addresses a delivery to a URL would be sent to, or why to none. With a proxy that
/// vets addresses itself there are none to tell.
///
/// # Errors
/// Says why, in the operator's words.
pub async fn vet(guard: &Guard, resolver: &Resolver, url: &str) -> Result<Vec<SocketAddr>, String> {
    // A range that is open to one application only is not open to this one.
    let application = ApplicationId::from_bytes([0; 20]);
    let own = interfaces::own_addresses();
    let own = own.ok_or("this machine's own addresses cannot be read just now; try again")?;
    let guard = guard.clone().with_own_addresses(own);
    let url = guard.vet_url(url, application).map_err(|refusal| refusal.for_operator())?;
    if !guard.proxying().resolves_here() {
        return Ok(Vec::new());
    }
    let resolved = match url.host() {
        Host::Address(address) => vec![*address],
        Host::Name(name) => {
            resolver.addresses(name).await.map_err(|failure| failure.text.into_owned())?
        }
    };
    let vetted = guard.vet_all(&url, application, &resolved);
    let vetted = vetted.map_err(|refusal| refusal.for_operator())?;
    Ok(vetted.into_iter().map(VettedAddress::socket_addr).collect())
}
