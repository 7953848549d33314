//! Which ports may be dialled.
//!
//! Ports where another protocol listens are never opened, whatever an operator lists: a webhook's
//! body could be read there as commands. Of the others 80, 443 and everything from 1024 on are
//! open, the rest only on the operator's word.

use std::fmt;

/// The Fetch standard's "bad ports", in full and sorted.
const BAD_PORTS: [u16; 83] = [
    0,     // reserved
    1,     // tcpmux
    7,     // echo
    9,     // discard
    11,    // systat
    13,    // daytime
    15,    // netstat
    17,    // qotd
    19,    // chargen
    20,    // ftp-data
    21,    // ftp
    22,    // ssh
    23,    // telnet
    25,    // smtp
    37,    // time
    42,    // name
    43,    // whois
    53,    // dns
    69,    // tftp
    77,    // private remote job entry
    79,    // finger
    87,    // ttylink
    95,    // supdup
    101,   // hostname
    102,   // iso-tsap
    103,   // gppitnp
    104,   // acr-nema
    109,   // pop2
    110,   // pop3
    111,   // sunrpc
    113,   // auth
    115,   // sftp
    117,   // uucp-path
    119,   // nntp
    123,   // ntp
    135,   // epmap
    137,   // netbios-ns
    139,   // netbios-ssn
    143,   // imap
    161,   // snmp
    179,   // bgp
    389,   // ldap
    427,   // svrloc
    465,   // submissions
    512,   // exec
    513,   // login
    514,   // shell
    515,   // printer
    526,   // tempo
    530,   // courier
    531,   // chat
    532,   // netnews
    540,   // uucp
    548,   // afp
    554,   // rtsp
    556,   // remotefs
    563,   // nntps
    587,   // submission
    601,   // syslog-conn
    636,   // ldaps
    989,   // ftps-data
    990,   // ftps
    993,   // imaps
    995,   // pop3s
    1719,  // h323gatestat
    1720,  // h323hostcall
    1723,  // pptp
    2049,  // nfs
    3659,  // apple-sasl
    4045,  // lockd
    4190,  // sieve
    5060,  // sip
    5061,  // sips
    6000,  // x11
    6566,  // sane
    6665,  // irc
    6666,  // irc
    6667,  // irc
    6668,  // irc
    6669,  // irc
    6679,  // irc over tls
    6697,  // irc over tls
    10080, // amanda
];

/// The first port that needs no privilege to listen on.
const FIRST_UNPRIVILEGED: u16 = 1024;

/// Why a port was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortRule {
    /// Another protocol listens there; no setting opens it.
    Bad,
    /// Below 1024 and neither 80, 443 nor one the operator opened.
    Closed,
}

/// A port an operator may open: any but the bad ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsablePort(u16);

/// The operator tried to open a port where another protocol listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("port {0} belongs to another protocol and cannot be opened for deliveries")]
pub struct BadPort(pub u16);

impl UsablePort {
    /// The port's number.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }
}

impl TryFrom<u16> for UsablePort {
    type Error = BadPort;

    fn try_from(port: u16) -> Result<Self, BadPort> {
        if is_bad(port) { Err(BadPort(port)) } else { Ok(Self(port)) }
    }
}

impl fmt::Display for UsablePort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Whether another protocol listens on the port.
pub(super) fn is_bad(port: u16) -> bool {
    BAD_PORTS.binary_search(&port).is_ok()
}

/// Whether the port is open without the operator's word, if it is not bad.
pub(super) fn is_open_by_default(port: u16) -> bool {
    port == 80 || port == 443 || port >= FIRST_UNPRIVILEGED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bad_ports_can_be_searched_by_halving() {
        assert!(BAD_PORTS.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn a_bad_port_cannot_be_opened() {
        for port in BAD_PORTS {
            assert_eq!(UsablePort::try_from(port), Err(BadPort(port)));
        }
        assert_eq!(UsablePort::try_from(81).map(UsablePort::number), Ok(81));
    }

    #[test]
    fn only_the_web_s_ports_and_unprivileged_ones_are_open_by_default() {
        let open = |port: u16| is_open_by_default(port) && !is_bad(port);
        assert_eq!((0..1024).filter(|port| open(*port)).collect::<Vec<_>>(), [80, 443]);
        assert!(open(1024) && open(8443) && open(65535));
        assert!(!open(6667) && !open(10080) && !open(2049));
    }
}
