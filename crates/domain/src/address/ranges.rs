//! Which addresses belong to the public internet.
//!
//! IPv4 is a list of what is denied, IPv6 a list of what is allowed with a few exceptions: new
//! special IPv6 blocks are then denied before anyone has heard of them. The standard library's
//! `is_global` is unstable and changes with the compiler, so it plays no part.
//!
//! These functions know no operator: what one has listed is the guard's business.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A run of addresses, both ends included, and how to speak of it.
struct Block<Bits> {
    first: Bits,
    last: Bits,
    /// The prefix as the registries write it, then its purpose.
    label: &'static str,
}

/// Sorted and without overlap, because it is searched by halving.
const IPV4_DENIED: [Block<u32>; 19] = [
    ipv4([0, 0, 0, 0], 8, "0.0.0.0/8 this network"),
    ipv4([10, 0, 0, 0], 8, "10.0.0.0/8 private use"),
    ipv4([100, 64, 0, 0], 10, "100.64.0.0/10 carrier-grade NAT"),
    ipv4([127, 0, 0, 0], 8, "127.0.0.0/8 loopback"),
    ipv4([168, 63, 129, 16], 32, "168.63.129.16/32 Azure WireServer"),
    ipv4([169, 254, 0, 0], 16, "169.254.0.0/16 link-local"),
    ipv4([172, 16, 0, 0], 12, "172.16.0.0/12 private use"),
    ipv4([192, 0, 0, 0], 24, "192.0.0.0/24 protocol assignments"),
    ipv4([192, 0, 2, 0], 24, "192.0.2.0/24 documentation"),
    ipv4([192, 31, 196, 0], 24, "192.31.196.0/24 AS112"),
    ipv4([192, 52, 193, 0], 24, "192.52.193.0/24 AMT"),
    ipv4([192, 88, 99, 0], 24, "192.88.99.0/24 6to4 relay anycast"),
    ipv4([192, 168, 0, 0], 16, "192.168.0.0/16 private use"),
    ipv4([192, 175, 48, 0], 24, "192.175.48.0/24 AS112 delegation"),
    ipv4([198, 18, 0, 0], 15, "198.18.0.0/15 benchmarking"),
    ipv4([198, 51, 100, 0], 24, "198.51.100.0/24 documentation"),
    ipv4([203, 0, 113, 0], 24, "203.0.113.0/24 documentation"),
    ipv4([224, 0, 0, 0], 4, "224.0.0.0/4 multicast"),
    ipv4([240, 0, 0, 0], 4, "240.0.0.0/4 reserved and broadcast"),
];

/// The only IPv6 addresses that may be public at all.
const IPV6_ALLOWED: Block<u128> = ipv6([0x2000, 0, 0], 3, "2000::/3 global unicast");

/// What is not public although it lies in [`IPV6_ALLOWED`].
const IPV6_EXCEPTIONS: [Block<u128>; 5] = [
    ipv6([0x2001, 0, 0], 23, "2001::/23 protocol assignments (Teredo, ORCHID, benchmarking)"),
    ipv6([0x2001, 0x0db8, 0], 32, "2001:db8::/32 documentation"),
    ipv6([0x2002, 0, 0], 16, "2002::/16 6to4"),
    ipv6([0x2620, 0x004f, 0x8000], 48, "2620:4f:8000::/48 AS112 delegation"),
    ipv6([0x3fff, 0, 0], 20, "3fff::/20 documentation"),
];

/// What an IPv6 address outside [`IPV6_ALLOWED`] is said to be in.
const IPV6_ELSEWHERE: &str = "the space outside 2000::/3, which is not global unicast";

/// The interface identifiers that ISATAP puts before an IPv4 address: the second is for addresses
/// that are unique worldwide.
const ISATAP: [u32; 2] = [0x0000_5efe, 0x0200_5efe];

/// Names the block that makes an address non-public; `None` for a public one.
///
/// Takes an address as it would be dialled, so a mapped one must be canonical already. An embedded
/// address has to be looked up on its own: see [`embedded_ipv4`].
pub(super) fn denied_block(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => ipv4_denied(address),
        IpAddr::V6(address) => ipv6_denied(address),
    }
}

/// The IPv4 address to which a router would forward what is sent to this IPv6 address.
///
/// Only ISATAP so far. NAT64 (RFC 6052) will be decoded here; until then it is denied: the
/// well-known prefixes lie outside 2000::/3, and the operator names those of the network.
pub(super) fn embedded_ipv4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => {
            let [.., a, b, c, d, e, f, g, h] = address.octets();
            let marker = u32::from_be_bytes([a, b, c, d]);
            ISATAP.contains(&marker).then(|| Ipv4Addr::new(e, f, g, h))
        }
    }
}

fn ipv4_denied(address: Ipv4Addr) -> Option<&'static str> {
    let bits = address.to_bits();
    let after = IPV4_DENIED.partition_point(|block| block.first <= bits);
    let block = IPV4_DENIED.get(after.checked_sub(1)?)?;
    (bits <= block.last).then_some(block.label)
}

fn ipv6_denied(address: Ipv6Addr) -> Option<&'static str> {
    let bits = address.to_bits();
    let within = |block: &&Block<u128>| block.first <= bits && bits <= block.last;
    if !within(&&IPV6_ALLOWED) {
        return Some(IPV6_ELSEWHERE);
    }
    IPV6_EXCEPTIONS.iter().find(within).map(|block| block.label)
}

const fn ipv4(network: [u8; 4], prefix: u32, label: &'static str) -> Block<u32> {
    let first = u32::from_be_bytes(network);
    Block { first, last: first | u32::MAX.unbounded_shr(prefix), label }
}

/// A block by its first three groups; no prefix on the page is longer than 48 bits.
const fn ipv6(groups: [u16; 3], prefix: u32, label: &'static str) -> Block<u128> {
    let [a, b, c] = groups;
    let first = Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0).to_bits();
    Block { first, last: first | u128::MAX.unbounded_shr(prefix), label }
}

#[cfg(test)]
mod tests {
    use ipnet::{Ipv4Net, Ipv6Net};

    use super::*;

    fn prefix_of(label: &str) -> &str {
        label.split(' ').next().unwrap()
    }

    #[test]
    fn every_label_states_the_bounds_that_are_searched() {
        for block in &IPV4_DENIED {
            let net: Ipv4Net = prefix_of(block.label).parse().unwrap();
            assert_eq!(net, net.trunc(), "{}", block.label);
            assert_eq!(net.network().to_bits(), block.first, "{}", block.label);
            assert_eq!(net.broadcast().to_bits(), block.last, "{}", block.label);
        }
        for block in IPV6_EXCEPTIONS.iter().chain([&IPV6_ALLOWED]) {
            let net: Ipv6Net = prefix_of(block.label).parse().unwrap();
            assert_eq!(net, net.trunc(), "{}", block.label);
            assert_eq!(net.network().to_bits(), block.first, "{}", block.label);
            assert_eq!(net.broadcast().to_bits(), block.last, "{}", block.label);
        }
    }

    #[test]
    fn the_ipv4_table_can_be_searched_by_halving() {
        assert!(IPV4_DENIED.windows(2).all(|pair| pair[0].last < pair[1].first));
    }

    #[test]
    fn a_cloud_s_metadata_addresses_are_denied_by_the_block_they_lie_in() {
        let table = [
            ("169.254.169.254", "169.254.0.0/16"),
            ("169.254.170.2", "169.254.0.0/16"),
            ("169.254.170.23", "169.254.0.0/16"),
            ("100.100.100.200", "100.64.0.0/10"),
            ("192.0.0.192", "192.0.0.0/24"),
            ("168.63.129.16", "168.63.129.16/32"),
            ("fd00:ec2::254", "the"),
            ("fd20:ce::254", "the"),
        ];
        for (address, block) in table {
            let label = denied_block(address.parse().unwrap()).unwrap();
            assert_eq!(prefix_of(label), block, "{address}");
        }
    }

    #[test]
    fn both_isatap_markers_reveal_the_address_inside_and_no_other_marker_does() {
        let inside = |text: &str| embedded_ipv4(text.parse().unwrap());
        let loopback = Some(Ipv4Addr::LOCALHOST);
        assert_eq!(inside("2a00:1450::5efe:127.0.0.1"), loopback);
        assert_eq!(inside("2a00:1450:1:2:0:5efe:127.0.0.1"), loopback);
        assert_eq!(inside("2a00:1450:1:2:200:5efe:127.0.0.1"), loopback);
        assert_eq!(inside("2a00:1450:1:2:300:5efe:127.0.0.1"), None);
        assert_eq!(inside("2a00:1450:1:2:0:5eff:127.0.0.1"), None);
        assert_eq!(inside("127.0.0.1"), None);
    }
}
