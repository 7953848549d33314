//! The operator's settings, and the questions asked of them.
//!
//! A URL is asked about when it is saved and again before each connection, an address each time it
//! is about to be dialled: a name that was harmless yesterday may resolve to a private address
//! today. Mapped addresses are undressed first, so there is one spelling to vet and to dial.
//!
//! The operator's list opens private addresses, any usable port on them, and `http` to them. It
//! opens neither a bad port nor, unless listed alone, an address of this server's own. A name is
//! refused before it is resolved only if no answer could make it acceptable.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv6Net};

use super::allowed::AllowedRange;
use super::host::{Host, HostName, NameRule};
use super::pool::{PolicyVersion, PoolKey};
use super::port::{self, PortRule, UsablePort};
use super::ranges;
use super::refusal::{Reason, Refusal};
use super::route::Proxying;
use super::url::{DeliverableUrl, Scheme};
use crate::ids::ApplicationId;

/// What an operator decides about outgoing requests; the default is the strictest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Ranges that deliveries may reach although they are not public.
    pub allowed: Vec<AllowedRange>,
    /// The names under which this server is reached, which no endpoint may have.
    pub own_names: Vec<HostName>,
    /// Ports below 1024 to open besides 80 and 443.
    pub extra_ports: Vec<UsablePort>,
    /// The prefixes by which this network reaches IPv4 over IPv6 (RFC 6052). They are denied as a
    /// whole: what is behind such an address is not vetted yet.
    pub nat64_prefixes: Vec<Ipv6Net>,
    /// Whether public addresses may be spoken to without TLS.
    pub plain_http: PlainHttp,
    /// Whether requests go through a proxy.
    pub proxying: Proxying,
}

/// Whether public addresses may be spoken to without TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// Only addresses on the operator's list.
    #[default]
    Refused,
    /// Any.
    Allowed,
}

/// An address that may be dialled; only a [`Guard`] makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VettedAddress(SocketAddr);

/// Decides where requests may go.
#[derive(Debug, Clone)]
pub struct Guard {
    settings: Settings,
    own_addresses: BTreeSet<IpAddr>,
    policy_version: PolicyVersion,
}

impl VettedAddress {
    /// The address to dial.
    #[must_use]
    pub fn socket_addr(self) -> SocketAddr {
        self.0
    }
}

impl Guard {
    /// Makes a guard that does not know this server's own addresses yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, own_addresses: BTreeSet::new(), policy_version: PolicyVersion::default() }
    }

    /// Replaces the addresses of this server's interfaces, which are read again every minute.
    ///
    /// Connections vetted before are given up only if something changed.
    #[must_use]
    pub fn with_own_addresses(self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let own_addresses: BTreeSet<_> =
            addresses.into_iter().map(|address| address.to_canonical()).collect();
        if own_addresses == self.own_addresses {
            return self;
        }
        Self { own_addresses, policy_version: self.policy_version.next(), ..self }
    }

    /// Replaces the operator's settings and gives up connections vetted under the old ones.
    #[must_use]
    pub fn with_settings(self, settings: Settings) -> Self {
        Self { settings, policy_version: self.policy_version.next(), ..self }
    }

    /// Reads a URL that an application wants to be delivered to.
    ///
    /// # Errors
    ///
    /// Refuses a malformed URL, a name or port that may not be used, `http` without consent, and an
    /// address written out that [`Guard::vet_address`] would refuse.
    pub fn vet_url(
        &self,
        text: &str,
        application: ApplicationId,
    ) -> Result<DeliverableUrl, Refusal> {
        self.vet_read(DeliverableUrl::parse(text)?, application)
    }

    /// Vets a URL that was read.
    pub(super) fn vet_read(
        &self,
        url: DeliverableUrl,
        application: ApplicationId,
    ) -> Result<DeliverableUrl, Refusal> {
        self.listing_needed(&url, application)?;
        Ok(url)
    }

    /// Vets one address for `https`; [`Guard::vet_all`] is the one to use with a URL at hand.
    ///
    /// # Errors
    ///
    /// Refuses a port that may not be used and an address that is not public, unless the operator
    /// listed it.
    pub fn vet_address(
        &self,
        address: SocketAddr,
        application: ApplicationId,
    ) -> Result<VettedAddress, Refusal> {
        let needed = self.closed_port(address.port());
        Ok(self.vet_for(address, application, needed.as_ref())?)
    }

    /// Vets every address a URL's host resolved to and keeps those that may be dialled, in order.
    ///
    /// A host written as an address resolves to itself and to nothing else.
    ///
    /// # Errors
    ///
    /// Refuses a URL that no longer passes, an empty answer, and, with the reason of the first
    /// address, an answer of which nothing is left.
    pub fn vet_all(
        &self,
        url: &DeliverableUrl,
        application: ApplicationId,
        resolved: &[IpAddr],
    ) -> Result<Vec<VettedAddress>, Refusal> {
        let needed = self.listing_needed(url, application)?;
        let written_out;
        let resolved = match url.host() {
            Host::Name(_) => resolved,
            Host::Address(address) => {
                written_out = [*address];
                &written_out
            }
        };
        let mut vetted = Vec::with_capacity(resolved.len());
        let mut first_reason = None;
        for address in resolved {
            let address = SocketAddr::new(*address, url.port());
            match self.vet_for(address, application, needed.as_ref()) {
                Ok(address) => vetted.push(address),
                Err(reason) => first_reason = first_reason.or(Some(reason)),
            }
        }
        if vetted.is_empty() {
            return Err(first_reason.unwrap_or(Reason::NoAddress).into());
        }
        Ok(vetted)
    }

    /// Makes sure that a connection leads where it was dialled.
    ///
    /// # Errors
    ///
    /// Refuses any other address or port at the far end.
    pub fn check_peer(dialled: VettedAddress, peer: SocketAddr) -> Result<(), Refusal> {
        let dialled = dialled.0;
        if peer.ip().to_canonical() == dialled.ip() && peer.port() == dialled.port() {
            Ok(())
        } else {
            Err(Reason::OtherPeer { dialled, peer }.into())
        }
    }

    /// The key under which a connection to this URL may be kept and used again.
    #[must_use]
    pub fn pool_key(&self, url: &DeliverableUrl, application: ApplicationId) -> PoolKey {
        PoolKey {
            application,
            scheme: url.scheme(),
            host: url.host().clone(),
            port: url.port(),
            policy_version: self.policy_version,
        }
    }

    /// Whether requests go through a proxy.
    #[must_use]
    pub fn proxying(&self) -> &Proxying {
        &self.settings.proxying
    }

    /// Vets a URL whose name somebody else resolves, so that nothing can be shown to be listed.
    pub(super) fn vet_unresolved(
        &self,
        url: &DeliverableUrl,
        application: ApplicationId,
    ) -> Result<(), Refusal> {
        match (self.listing_needed(url, application)?, url.host()) {
            (Some(reason), Host::Name(_)) => Err(reason.into()),
            (Some(_) | None, Host::Address(_)) | (None, Host::Name(_)) => Ok(()),
        }
    }

    /// Vets all of a URL but the addresses its name resolves to.
    ///
    /// Returns the reason why those must be on the operator's list, if they must.
    fn listing_needed(
        &self,
        url: &DeliverableUrl,
        application: ApplicationId,
    ) -> Result<Option<Reason>, Reason> {
        if port::is_bad(url.port()) {
            return Err(Reason::Port(url.port(), PortRule::Bad));
        }
        let plain = match (url.scheme(), self.settings.plain_http) {
            (Scheme::Http, PlainHttp::Refused) => Some(Reason::PlainHttp),
            (Scheme::Http, PlainHttp::Allowed) | (Scheme::Https, _) => None,
        };
        let needed = plain.or_else(|| self.closed_port(url.port()));
        match url.host() {
            Host::Address(address) => {
                let address = SocketAddr::new(*address, url.port());
                self.vet_for(address, application, needed.as_ref())?;
                Ok(needed)
            }
            Host::Name(name) => {
                let local = self.local_name(name)?;
                let loopback_only = local.is_some();
                match local.or(needed) {
                    Some(reason) if !self.may_be_listed(application, loopback_only) => Err(reason),
                    needed => Ok(needed),
                }
            }
        }
    }

    /// Refuses a name by its rule; `localhost` only unless its addresses turn out to be listed.
    fn local_name(&self, name: &HostName) -> Result<Option<Reason>, Reason> {
        let own = || self.settings.own_names.contains(name).then_some(NameRule::Own);
        match name.rule().or_else(own) {
            None => Ok(None),
            Some(NameRule::Localhost) => Ok(Some(Reason::Name(name.clone(), NameRule::Localhost))),
            Some(rule @ (NameRule::SingleLabel | NameRule::LocalSuffix(_) | NameRule::Own)) => {
                Err(Reason::Name(name.clone(), rule))
            }
        }
    }

    fn closed_port(&self, port: u16) -> Option<Reason> {
        let open = port::is_open_by_default(port)
            || self.settings.extra_ports.iter().any(|extra| extra.number() == port);
        (!open).then_some(Reason::Port(port, PortRule::Closed))
    }

    /// Vets an address; `needed` is the reason why it must be on the operator's list, if it must.
    fn vet_for(
        &self,
        address: SocketAddr,
        application: ApplicationId,
        needed: Option<&Reason>,
    ) -> Result<VettedAddress, Reason> {
        let (ip, port) = (address.ip().to_canonical(), address.port());
        if port::is_bad(port) {
            return Err(Reason::Port(port, PortRule::Bad));
        }
        if let Some(inside) = ranges::embedded_ipv4(ip) {
            self.reach(inside.into(), application)?;
        }
        match (self.reach(ip, application)?, needed) {
            (Reach::Public, Some(reason)) => Err(reason.clone()),
            (Reach::Public, None) | (Reach::Listed, _) => {
                // Built anew, so that no scope or flow of an IPv6 address is carried along.
                Ok(VettedAddress(SocketAddr::new(ip, port)))
            }
        }
    }

    /// By what right a canonical address may be dialled.
    fn reach(&self, ip: IpAddr, application: ApplicationId) -> Result<Reach, Reason> {
        if self.is_listed(ip, application) {
            return Ok(Reach::Listed);
        }
        if self.own_addresses.contains(&ip) {
            return Err(Reason::OwnAddress(ip));
        }
        if self.settings.nat64_prefixes.iter().any(|prefix| IpNet::V6(*prefix).contains(&ip)) {
            return Err(Reason::NotPublic { address: ip, block: "a NAT64 prefix of this network" });
        }
        match ranges::denied_block(ip) {
            Some(block) => Err(Reason::NotPublic { address: ip, block }),
            None => Ok(Reach::Public),
        }
    }

    fn is_listed(&self, ip: IpAddr, application: ApplicationId) -> bool {
        // Dialling the unspecified address reaches loopback, whatever range it was listed with.
        if ip.is_unspecified() {
            return false;
        }
        // A listed network must not open this server's own API and metrics by the way. Whoever lists
        // one of its addresses alone, or a range of loopback and nothing else, can only mean it.
        let alone_only = !ip.is_loopback() && self.own_addresses.contains(&ip);
        self.settings.allowed.iter().any(|range| {
            range.contains(ip)
                && range.concerns(application)
                && (!alone_only || range.is_single_address())
                && (!ip.is_loopback() || range.is_loopback())
        })
    }

    /// Whether some answer of a resolver could be on the operator's list.
    fn may_be_listed(&self, application: ApplicationId, loopback_only: bool) -> bool {
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        self.settings.allowed.iter().any(|range| {
            range.concerns(application)
                && (!loopback_only
                    || range.is_loopback() && loopback.iter().any(|it| range.contains(*it)))
        })
    }
}

/// By what right an address may be dialled.
enum Reach {
    /// It is public.
    Public,
    /// The operator listed it.
    Listed,
}
