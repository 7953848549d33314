//! The addresses of this machine, which no delivery may go to.
//!
//! Linux lists them under `/proc/net`. Where that cannot be read, the address from which this
//! machine would speak to the outside is better than none.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// The most that is read of one of the lists; a router's may be very long.
const LIST_LIMIT: u64 = 4 * 1024 * 1024;

/// Reads the addresses of this machine's interfaces.
pub(super) fn own_addresses() -> BTreeSet<IpAddr> {
    let mut found: BTreeSet<IpAddr> = BTreeSet::new();
    let four = list("/proc/net/fib_trie");
    found.extend(four.iter().flat_map(|text| local_ipv4(text)).map(IpAddr::from));
    let six = list("/proc/net/if_inet6");
    found.extend(six.iter().flat_map(|text| local_ipv6(text)).map(IpAddr::from));
    if four.is_none() {
        found.extend(outgoing("0.0.0.0:0", "192.0.2.1:9"));
    }
    if six.is_none() {
        found.extend(outgoing("[::]:0", "[2001:db8::1]:9"));
    }
    found
}

fn list(path: &str) -> Option<String> {
    let mut text = String::new();
    fs::File::open(path).ok()?.take(LIST_LIMIT).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Reads the kernel's tree of routes: a local address is a leaf with a line `/32 host LOCAL`.
fn local_ipv4(text: &str) -> Vec<Ipv4Addr> {
    let mut leaf: Option<Ipv4Addr> = None;
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some((_, address)) = line.split_once("|-- ") {
            leaf = address.trim().parse().ok();
        } else if line.trim() == "/32 host LOCAL" {
            found.extend(leaf);
        }
    }
    found
}

/// Reads lines that begin with an address of 32 hexadecimal digits.
fn local_ipv6(text: &str) -> Vec<Ipv6Addr> {
    let first = |line: &str| {
        let digits = line.split_whitespace().next().filter(|digits| digits.len() == 32)?;
        u128::from_str_radix(digits, 16).ok().map(Ipv6Addr::from)
    };
    text.lines().filter_map(first).collect()
}

/// Asks from which address a packet would leave. None is sent.
fn outgoing(from: &str, to: &str) -> Option<IpAddr> {
    let socket = UdpSocket::bind(from).ok()?;
    socket.connect(to).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_leaves_of_the_tree_are_own_addresses() {
        let text = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     |-- 192.168.1.0
        /24 link UNICAST
Local:
  +-- 0.0.0.0/0 3 0 5
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 192.168.1.7
        /32 host LOCAL
     |-- 192.168.1.255
        /32 link BROADCAST
";
        let expected: [Ipv4Addr; 2] = [[127, 0, 0, 1].into(), [192, 168, 1, 7].into()];
        assert_eq!(local_ipv4(text), expected);
    }

    #[test]
    fn ipv6_addresses_are_read_from_their_digits() {
        let text = "\
00000000000000000000000000000001 01 80 10 80       lo
20010db8000000000000000000000007 02 40 00 80     eth0
garbage
";
        let expected: [Ipv6Addr; 2] = ["::1".parse().unwrap(), "2001:db8::7".parse().unwrap()];
        assert_eq!(local_ipv6(text), expected);
    }

    #[test]
    fn this_machine_has_an_address() {
        assert!(!own_addresses().is_empty());
    }
}
