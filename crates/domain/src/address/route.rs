//! The way a request takes: straight to vetted addresses, or through the operator's proxy.
//!
//! Proxies come from the settings alone; what the environment says about proxies is not read. A
//! tunnel is asked for by vetted address, never by name, so that the proxy resolves nothing. Only a
//! proxy that the operator trusts to vet may resolve, and the server says so when it starts.

use std::{fmt, net::IpAddr};

use super::guard::{Guard, VettedAddress};
use super::host::Host;
use super::refusal::Refusal;
use super::url::DeliverableUrl;
use crate::ids::ApplicationId;

/// A proxy of the operator's; it is not vetted, since it usually is a private address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Its name or address.
    pub host: Host,
    /// Its port.
    pub port: u16,
}

/// Whether requests go through a proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Proxying {
    /// Straight to the destination.
    #[default]
    Off,
    /// Through CONNECT to an address that was resolved and vetted here.
    Tunnel(Proxy),
    /// Through CONNECT by name: the proxy resolves and vets, as Smokescreen does.
    Trust(Proxy),
}

/// The way one request takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// To one of these, tried in order; never empty.
    Direct(Vec<VettedAddress>),
    /// Through a proxy to one of these, tried in order.
    Tunnel {
        /// The proxy to connect to.
        proxy: Proxy,
        /// Where CONNECT asks to go; never empty.
        to: Vec<VettedAddress>,
    },
    /// Through a proxy that resolves the URL's host and vets what it finds.
    TrustedProxy {
        /// The proxy to connect to.
        proxy: Proxy,
    },
}

impl Proxying {
    /// Whether names are resolved here; a trusted proxy does it itself.
    #[must_use]
    pub fn resolves_here(&self) -> bool {
        match self {
            Self::Off | Self::Tunnel(_) => true,
            Self::Trust(_) => false,
        }
    }

    /// What the server says about this when it starts.
    #[must_use]
    pub fn announcement(&self) -> String {
        match self {
            Self::Off => "deliveries go straight to vetted addresses".to_owned(),
            Self::Tunnel(proxy) => {
                format!("deliveries go through the proxy {proxy} to addresses vetted here")
            }
            Self::Trust(proxy) => format!(
                "deliveries go through the proxy {proxy}, which is trusted to refuse private \
                 addresses: addresses are NOT vetted here"
            ),
        }
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

impl Guard {
    /// Decides the way a request takes, given what the URL's host resolved to just now.
    ///
    /// With a trusted proxy nothing is resolved and `resolved` is not looked at; the URL's own
    /// rules hold all the same, and since no address can be shown to be on the operator's list, a
    /// URL that depends on it is refused.
    ///
    /// # Errors
    ///
    /// Refuses a URL that no longer passes, and an answer of which no address passes.
    pub fn route(
        &self,
        url: &DeliverableUrl,
        application: ApplicationId,
        resolved: &[IpAddr],
    ) -> Result<Route, Refusal> {
        match self.proxying() {
            Proxying::Off => self.vet_all(url, application, resolved).map(Route::Direct),
            Proxying::Tunnel(proxy) => {
                let to = self.vet_all(url, application, resolved)?;
                Ok(Route::Tunnel { proxy: proxy.clone(), to })
            }
            Proxying::Trust(proxy) => {
                self.vet_unresolved(url, application)?;
                Ok(Route::TrustedProxy { proxy: proxy.clone() })
            }
        }
    }
}
