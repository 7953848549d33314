//! Why a destination was refused, in two texts.
//!
//! The application reads one code and, unless its own spelling of the URL is at fault, one
//! sentence: anything finer would let it map the network behind this server. The operator reads
//! the precise reason. Neither text may hold a path or a query, because those are secrets.

use std::net::{IpAddr, SocketAddr};

use super::host::{HostName, InvalidName, NameRule};
use super::port::PortRule;
use super::url::MAX_URL_BYTES;

/// The code an application sees for every refusal.
pub const REFUSAL_CODE: &str = "destination_not_allowed";

/// A destination was refused; displays as the text for the application.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.for_application())]
pub struct Refusal {
    reason: Reason,
}

/// The precise reason, for the operator only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The text is not a URL that could be stored.
    Malformed(Malformed),
    /// The host is not one that DNS could hold.
    InvalidName(InvalidName),
    /// The name may not be a destination.
    Name(HostName, NameRule),
    /// The port may not be dialled.
    Port(u16, PortRule),
    /// `http` without the operator's consent.
    PlainHttp,
    /// The address is not public, and the operator did not list it.
    NotPublic {
        /// The address, or the IPv4 address embedded in it.
        address: IpAddr,
        /// The block it lies in.
        block: &'static str,
    },
    /// The address belongs to this server.
    OwnAddress(IpAddr),
    /// The resolver answered without an address.
    NoAddress,
    /// The connection ended up somewhere else than where it was dialled.
    OtherPeer {
        /// The vetted address.
        dialled: SocketAddr,
        /// The address at the other end.
        peer: SocketAddr,
    },
}

/// What is wrong with a URL's text; the application wrote it and may be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Longer than [`MAX_URL_BYTES`], as written or once escaped.
    TooLong,
    /// A control character, a line break, a tab or a space.
    Control,
    /// A backslash, which some parsers take for a slash.
    Backslash,
    /// Does not begin with `https://` or `http://` and a host.
    Scheme,
    /// A user name or a password, even an empty one.
    UserInfo,
    /// A fragment, even an empty one.
    Fragment,
    /// Anything else that `url` cannot read.
    Unreadable(url::ParseError),
}

impl Refusal {
    /// The code an application sees: always [`REFUSAL_CODE`].
    #[must_use]
    pub fn code(&self) -> &'static str {
        REFUSAL_CODE
    }

    /// The precise reason; not for the application's eyes.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// What the application reads; never holds an address, nor a hint at the operator's settings.
    #[must_use]
    pub fn for_application(&self) -> String {
        match &self.reason {
            Reason::Malformed(fault) => fault.text(),
            Reason::InvalidName(_) => "the URL's host is not a valid name".to_owned(),
            Reason::Name(..)
            | Reason::Port(..)
            | Reason::PlainHttp
            | Reason::NotPublic { .. }
            | Reason::OwnAddress(_)
            | Reason::NoAddress
            | Reason::OtherPeer { .. } => {
                "this destination is not allowed; use a public https address".to_owned()
            }
        }
    }

    /// What the operator reads: which rule refused what.
    #[must_use]
    pub fn for_operator(&self) -> String {
        match &self.reason {
            Reason::Malformed(fault) => fault.text(),
            Reason::InvalidName(fault) => format!("the URL's host is not a valid name: {fault}"),
            Reason::Name(name, rule) => format!("the name {name} is not allowed: {rule}"),
            Reason::Port(port, PortRule::Bad) => {
                format!("port {port} belongs to another protocol and cannot be opened")
            }
            Reason::Port(port, PortRule::Closed) => format!(
                "port {port} is neither 80, 443, from 1024 on, nor one that the settings open"
            ),
            Reason::PlainHttp => {
                "http is refused unless the settings allow it or list the address".to_owned()
            }
            Reason::NotPublic { address, block } => format!("{address} is in {block}"),
            Reason::OwnAddress(address) => format!(
                "{address} belongs to this server; only listing it alone, not in a range, allows it"
            ),
            Reason::NoAddress => "the resolver answered without an address".to_owned(),
            Reason::OtherPeer { dialled, peer } => {
                format!("the connection dialled to {dialled} has {peer} at its other end")
            }
        }
    }
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Self { reason }
    }
}

impl From<Malformed> for Reason {
    fn from(fault: Malformed) -> Self {
        Self::Malformed(fault)
    }
}

impl From<InvalidName> for Reason {
    fn from(fault: InvalidName) -> Self {
        Self::InvalidName(fault)
    }
}

impl Malformed {
    fn text(self) -> String {
        match self {
            Self::TooLong => format!("the URL is longer than {MAX_URL_BYTES} bytes"),
            Self::Control => "the URL has a space or a control character; escape it".to_owned(),
            Self::Backslash => "the URL has a backslash; write / or escape it as %5C".to_owned(),
            Self::Scheme => "the URL must begin with https:// and a host".to_owned(),
            Self::UserInfo => {
                "the URL has a user name or password; put credentials in a header".to_owned()
            }
            Self::Fragment => "the URL has a fragment, which is never sent; remove it".to_owned(),
            Self::Unreadable(fault) => format!("the URL cannot be read: {fault}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_cannot_tell_one_network_reason_from_another() {
        let name: HostName = "db.internal".parse().unwrap();
        let address: IpAddr = [10, 0, 0, 7].into();
        let reasons = [
            Reason::Name(name, NameRule::LocalSuffix(".internal")),
            Reason::Port(22, PortRule::Bad),
            Reason::Port(81, PortRule::Closed),
            Reason::PlainHttp,
            Reason::NotPublic { address, block: "10.0.0.0/8 private use" },
            Reason::OwnAddress(address),
            Reason::NoAddress,
            Reason::OtherPeer {
                dialled: SocketAddr::new(address, 443),
                peer: SocketAddr::new(address, 444),
            },
        ];
        for reason in reasons {
            let refusal = Refusal::from(reason);
            assert_eq!(refusal.code(), "destination_not_allowed");
            assert_eq!(
                refusal.to_string(),
                "this destination is not allowed; use a public https address"
            );
        }
    }

    #[test]
    fn the_operator_reads_which_address_was_refused_and_why() {
        let reason =
            Reason::NotPublic { address: [10, 0, 0, 7].into(), block: "10.0.0.0/8 private use" };
        assert_eq!(Refusal::from(reason).for_operator(), "10.0.0.7 is in 10.0.0.0/8 private use");
    }
}
