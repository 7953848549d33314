//! Addresses of clients as limits count them.
//!
//! Who has one IPv6 address usually has all of its /64, so those count as one client. An IPv4 address
//! that was mapped into IPv6 is what it was.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

/// How many bits of an IPv6 address name the network.
const PREFIX: u32 = 64;

/// Whose address it is: an IPv4 address, or the first half of an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network(IpAddr);

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(IpAddr::V4(address)),
            IpAddr::V6(address) => {
                let bits = address.to_bits() >> PREFIX << PREFIX;
                Self(IpAddr::V6(Ipv6Addr::from_bits(bits)))
            }
        }
    }
}

/// Addresses that an operator names: one, or a range such as `10.1.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range(IpNet);

impl Range {
    /// Tells whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Range {
    type Err = ipnet::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let net = text.parse::<IpAddr>().map(IpNet::from);
        net.or_else(|_| text.parse()).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_client_and_an_ipv4_address_is_one() {
        let table = [
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
            ("2001:db8:0:1::5", "2001:db8:0:1:ffff::9", true),
            ("2001:db8:0:1::5", "2001:db8:0:2::5", false),
        ];
        for (one, other, same) in table {
            let [one, other] =
                [one, other].map(|text| Network::from(text.parse::<IpAddr>().unwrap()));
            assert_eq!(one == other, same, "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_range_is_an_address_or_has_a_prefix() {
        let table = [
            ("127.0.0.0/8", "127.3.2.1", true),
            ("127.0.0.0/8", "::ffff:127.0.0.1", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("::1", "::1", true),
            ("fd00::/8", "10.0.0.1", false),
        ];
        for (range, address, within) in table {
            let range: Range = range.parse().unwrap();
            assert_eq!(range.contains(address.parse().unwrap()), within, "{range:?} {address}");
        }
        "localhost".parse::<Range>().unwrap_err();
    }
}
