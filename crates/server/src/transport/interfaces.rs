//! The addresses of this machine, which no delivery may go to.
//!
//! Linux lists them under `/proc/net`. Where that cannot be read, the address from which this
//! machine would speak to the outside is better than none.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use super::outcome::is_our_lack;

/// The most that is read of one of the lists; a router's may be very long.
const LIST_LIMIT: u64 = 4 * 1024 * 1024;

/// Reads the addresses of this machine's interfaces; none if a list is there and cannot be read now,
/// as when files have run out. Half of a list is none: what is missing in it would be let through.
pub(super) fn own_addresses() -> Option<BTreeSet<IpAddr>> {
    gathered(list, outgoing)
}

fn gathered(
    list: impl Fn(&str) -> io::Result<String>,
    outgoing: impl Fn(&str, &str) -> io::Result<IpAddr>,
) -> Option<BTreeSet<IpAddr>> {
    let mut found: BTreeSet<IpAddr> = BTreeSet::new();
    match list("/proc/net/fib_trie") {
        Ok(text) => found.extend(local_ipv4(&text).into_iter().map(IpAddr::from)),
        Err(error) if is_hidden(&error) => {
            found.extend(unless_lacking(outgoing("0.0.0.0:0", "192.0.2.1:9"))?);
        }
        Err(_) => return None,
    }
    match list("/proc/net/if_inet6") {
        Ok(text) => found.extend(local_ipv6(&text).into_iter().map(IpAddr::from)),
        Err(error) if is_hidden(&error) => {
            found.extend(unless_lacking(outgoing("[::]:0", "[2001:db8::1]:9"))?);
        }
        Err(_) => return None,
    }
    Some(found)
}

/// Tells whether a list is not for us to read, today or tomorrow: there is none on this system, or
/// it is kept from us.
fn is_hidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

/// Returns the address, if there is one: a machine without a way out has none. If it could not even
/// be asked for, nobody knows.
fn unless_lacking(asked: io::Result<IpAddr>) -> Option<Option<IpAddr>> {
    match asked {
        Ok(address) => Some(Some(address)),
        Err(error) if is_our_lack(&error) => None,
        Err(_) => Some(None),
    }
}

fn list(path: &str) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(LIST_LIMIT).read_to_string(&mut text)?;
    Ok(text)
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
fn outgoing(from: &str, to: &str) -> io::Result<IpAddr> {
    let socket = UdpSocket::bind(from)?;
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

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
        assert!(own_addresses().is_some_and(|found| !found.is_empty()));
    }

    const LIST: &str = "|-- 192.0.2.7\n/32 host LOCAL\n";

    fn fails<T>(errno: Errno) -> io::Result<T> {
        Err(errno.into())
    }

    #[test]
    fn when_files_run_out_nobody_knows_the_addresses() {
        assert_eq!(gathered(|_| fails(Errno::MFILE), |_, _| fails(Errno::MFILE)), None);
        let one = |path: &str| match path {
            "/proc/net/fib_trie" => Ok(LIST.to_owned()),
            _ => fails(Errno::NFILE),
        };
        assert_eq!(gathered(one, |_, _| fails(Errno::MFILE)), None, "half of them is not all");
        assert_eq!(gathered(|_| fails(Errno::NOENT), |_, _| fails(Errno::MFILE)), None);
    }

    #[test]
    fn where_there_is_no_list_the_address_that_speaks_to_the_outside_is_known() {
        let outside: IpAddr = [192, 0, 2, 9].into();
        for hidden in [Errno::NOENT, Errno::ACCESS] {
            let found = gathered(|_| fails(hidden), |_, _| Ok(outside));
            assert_eq!(found, Some(BTreeSet::from([outside])));
            let found = gathered(|_| fails(hidden), |_, _| fails(Errno::NETUNREACH));
            assert_eq!(found, Some(BTreeSet::new()), "a machine without a way out has none");
        }
    }
}
