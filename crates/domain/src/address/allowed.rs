//! The operator's list of private ranges that deliveries may reach.
//!
//! An entry may be narrowed to one application. It never opens a bad port. Applications cannot add to
//! the list.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::{IpNet, Ipv4Net};

use crate::ids::ApplicationId;

/// A range of addresses the operator has opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedRange {
    network: IpNet,
    /// `None` means every application.
    application: Option<ApplicationId>,
}

/// Why a text is not an [`AllowedRange`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRange {
    /// Neither an address nor a prefix.
    #[error("`{0}` is neither an address nor a range such as 10.0.0.0/8")]
    Unreadable(String),
    /// What follows `for` is no application's id.
    #[error("`{0}` is no application's id such as app_2Fz6ZkYpkAo1sdXqVAbGOOjKcXz")]
    Application(String),
    /// Bits are set after the prefix, so one of the two numbers is a mistake.
    #[error("`{written}` has bits after its prefix; write {meant} if that range is meant")]
    LooseBits {
        /// What was written.
        written: String,
        /// The range it would stand for.
        meant: IpNet,
    },
}

impl AllowedRange {
    /// Whether the entry has anything to say to this application.
    pub(super) fn concerns(&self, application: ApplicationId) -> bool {
        self.application.is_none_or(|only| only == application)
    }

    /// Whether a canonical address lies in the range.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.network.contains(&address)
    }

    /// Whether the range holds loopback addresses and no others.
    pub(super) fn is_loopback(&self) -> bool {
        self.network.network().is_loopback() && self.network.broadcast().is_loopback()
    }

    /// Whether the range is a single address, written out on purpose.
    pub(super) fn is_single_address(&self) -> bool {
        self.network.prefix_len() == self.network.max_prefix_len()
    }
}

impl FromStr for AllowedRange {
    type Err = InvalidRange;

    /// Reads `10.0.0.0/8`, `fd00::/8`, or an address alone; and `10.0.0.0/8 for app_…` for what is
    /// open to that application only.
    fn from_str(text: &str) -> Result<Self, InvalidRange> {
        if let Some((range, application)) = text.split_once(" for ") {
            let id = application.trim().parse();
            let id = id.map_err(|_| InvalidRange::Application(application.trim().to_owned()))?;
            return Ok(Self { application: Some(id), ..range.trim().parse()? });
        }
        let network = match (text.parse::<IpNet>(), text.parse::<IpAddr>()) {
            (Ok(network), _) => network,
            (Err(_), Ok(address)) => IpNet::from(address),
            (Err(_), Err(_)) => return Err(InvalidRange::Unreadable(text.to_owned())),
        };
        if network != network.trunc() {
            let written = text.to_owned();
            return Err(InvalidRange::LooseBits { written, meant: network.trunc() });
        }
        Ok(Self { network: canonical(network), application: None })
    }
}

impl fmt::Display for AllowedRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.network)?;
        match &self.application {
            Some(application) => write!(formatter, " for {application}"),
            None => Ok(()),
        }
    }
}

/// Turns a range of mapped addresses into the IPv4 range it stands for, because only canonical
/// addresses are ever compared with the list.
fn canonical(network: IpNet) -> IpNet {
    const MAPPED_BITS: u8 = 96;
    let prefix = network.prefix_len().checked_sub(MAPPED_BITS);
    match (network.addr(), network.addr().to_canonical(), prefix) {
        (IpAddr::V6(_), IpAddr::V4(address), Some(prefix)) => {
            Ipv4Net::new(address, prefix).map_or(network, IpNet::from)
        }
        (_, _, _) => network,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AllowedRange {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_alone_is_a_range_of_one() {
        assert_eq!(range("10.0.0.7"), range("10.0.0.7/32"));
        assert!(range("::1").is_single_address());
        assert!(!range("10.0.0.0/31").is_single_address());
    }

    #[test]
    fn a_mapped_range_stands_for_its_ipv4_range() {
        assert_eq!(range("::ffff:10.0.0.0/104"), range("10.0.0.0/8"));
        assert_eq!(range("::ffff:10.0.0.7"), range("10.0.0.7"));
    }

    #[test]
    fn bits_after_the_prefix_are_a_mistake_that_is_named() {
        let fault = "10.0.0.7/8".parse::<AllowedRange>().unwrap_err();
        assert_eq!(
            fault.to_string(),
            "`10.0.0.7/8` has bits after its prefix; write 10.0.0.0/8 if that range is meant"
        );
        assert!("10.0.0/8".parse::<AllowedRange>().is_err());
        assert!("localhost".parse::<AllowedRange>().is_err());
    }

    const FIRST: ApplicationId = ApplicationId::from_bytes([1; 20]);
    const SECOND: ApplicationId = ApplicationId::from_bytes([2; 20]);

    #[test]
    fn only_a_range_of_loopback_alone_is_loopback() {
        for text in ["127.0.0.0/8", "127.0.0.1", "127.1.0.0/16", "::1"] {
            assert!(range(text).is_loopback(), "{text}");
        }
        for text in ["0.0.0.0/0", "126.0.0.0/7", "10.0.0.0/8", "::/0", "::/127"] {
            assert!(!range(text).is_loopback(), "{text}");
        }
    }

    #[test]
    fn an_entry_concerns_only_its_application() {
        let entry = range(&format!("10.0.0.0/8 for {FIRST}"));
        assert!(entry.concerns(FIRST) && !entry.concerns(SECOND));
    }

    #[test]
    fn a_range_for_one_application_is_read_as_it_is_written() {
        let entry = range(&format!("10.0.0.0/8 for {FIRST}"));
        assert_eq!(entry.to_string().parse(), Ok(entry));
        for (text, error) in [
            ("10.0.0.0/8 for FIRST", InvalidRange::Application("FIRST".to_owned())),
            (&format!("ten for {FIRST}"), InvalidRange::Unreadable("ten".to_owned())),
        ] {
            assert_eq!(text.parse::<AllowedRange>(), Err(error));
        }
    }
}
