//! What a destination may be called.
//!
//! A [`HostName`] is lower-case, without its trailing dot, and made of labels that DNS can hold.
//! Whether a well-formed name may be a destination is a second question, answered by
//! [`HostName::rule`]; names that only a local network knows may not. Nothing is resolved here.

use std::{fmt, net::IpAddr, str::FromStr};

/// What DNS can hold, without the trailing dot.
const MAX_NAME_BYTES: usize = 253;

/// What one label of a name can hold.
const MAX_LABEL_BYTES: usize = 63;

/// Suffixes under which only this machine, its network or its cluster has names.
const LOCAL_SUFFIXES: [&str; 4] = [".localhost", ".cluster.local", ".local", ".internal"];

/// The host of a destination: an address written out, or a name to resolve.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// An address written out; an IPv4 address in IPv6 clothes has been undressed.
    Address(IpAddr),
    /// A name to resolve.
    Name(HostName),
}

/// A well-formed name: lower-case ASCII, no trailing dot, no empty label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

/// Why a text is not a [`HostName`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Two dots in a row, or one at the start.
    #[error("it has an empty label")]
    EmptyLabel,
    /// Longer than DNS can hold.
    #[error("it, or one of its labels, is longer than DNS can hold")]
    TooLong,
    /// A character other than letters, digits, hyphen and underscore.
    #[error("it has a character that no host name has")]
    Character,
    /// An address where a name is needed.
    #[error("it is an address, not a name")]
    Address,
    /// Not a host at all.
    #[error("it cannot be read as a host: {0}")]
    Unreadable(#[from] url::ParseError),
}

/// Why a well-formed name may not be a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// `localhost` itself, which yields to a loopback range on the operator's list.
    Localhost,
    /// One label, which a resolver would complete with its search list.
    SingleLabel,
    /// A suffix that only a local network knows.
    LocalSuffix(&'static str),
    /// One of the names under which this server is reached.
    Own,
}

impl HostName {
    /// Takes what `url` made of a host and settles its spelling.
    pub(super) fn from_domain(domain: &str) -> Result<Self, InvalidName> {
        let name = domain.strip_suffix('.').unwrap_or(domain).to_ascii_lowercase();
        if name.len() > MAX_NAME_BYTES {
            return Err(InvalidName::TooLong);
        }
        name.split('.').try_for_each(check_label)?;
        Ok(Self(name))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The rule that keeps this name from being a destination, if there is one.
    #[must_use]
    pub fn rule(&self) -> Option<NameRule> {
        if self.0 == "localhost" {
            return Some(NameRule::Localhost);
        }
        if !self.0.contains('.') {
            return Some(NameRule::SingleLabel);
        }
        let suffix = LOCAL_SUFFIXES.into_iter().find(|suffix| self.0.ends_with(suffix));
        suffix.map(NameRule::LocalSuffix)
    }
}

impl FromStr for HostName {
    type Err = InvalidName;

    /// Reads a name as an operator writes it, international ones included.
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match text.parse()? {
            Host::Name(name) => Ok(name),
            Host::Address(_) => Err(InvalidName::Address),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for Host {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::from_parsed(url::Host::parse(text)?)
    }
}

impl Host {
    /// Takes over a host that `url` has read.
    pub(super) fn from_parsed<Text: AsRef<str>>(
        host: url::Host<Text>,
    ) -> Result<Self, InvalidName> {
        match host {
            url::Host::Domain(domain) => HostName::from_domain(domain.as_ref()).map(Self::Name),
            url::Host::Ipv4(address) => Ok(Self::Address(address.into())),
            url::Host::Ipv6(address) => Ok(Self::Address(address.to_canonical())),
        }
    }
}

impl fmt::Display for Host {
    /// Writes the host as a URL does, an IPv6 address in brackets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(formatter),
            Self::Address(IpAddr::V4(address)) => address.fmt(formatter),
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

impl fmt::Display for NameRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Localhost => formatter.write_str("it is this machine; list 127.0.0.0/8 to allow"),
            Self::SingleLabel => formatter.write_str("it has a single label"),
            Self::LocalSuffix(suffix) => write!(formatter, "{suffix} names are local"),
            Self::Own => formatter.write_str("it is one of this server's own names"),
        }
    }
}

fn check_label(label: &str) -> Result<(), InvalidName> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if label.is_empty() {
        Err(InvalidName::EmptyLabel)
    } else if label.len() > MAX_LABEL_BYTES {
        Err(InvalidName::TooLong)
    } else if !label.bytes().all(known) {
        Err(InvalidName::Character)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_is_lower_case_and_loses_one_trailing_dot() {
        assert_eq!(name("Hooks.Example.COM.").as_str(), "hooks.example.com");
        assert_eq!("hooks.example.com..".parse::<HostName>(), Err(InvalidName::EmptyLabel));
        assert_eq!("hooks..example.com".parse::<HostName>(), Err(InvalidName::EmptyLabel));
        assert_eq!(".example.com".parse::<HostName>(), Err(InvalidName::EmptyLabel));
        assert_eq!(".".parse::<HostName>(), Err(InvalidName::EmptyLabel));
    }

    #[test]
    fn an_address_in_any_spelling_is_not_a_name() {
        for text in ["127.0.0.1", "0x7f.1", "2130706433", "[::1]"] {
            assert_eq!(text.parse::<HostName>(), Err(InvalidName::Address), "{text}");
        }
    }

    #[test]
    fn a_name_that_dns_cannot_hold_is_invalid() {
        let label = "a".repeat(63);
        assert!(format!("{label}.example").parse::<HostName>().is_ok());
        assert_eq!(format!("a{label}.example").parse::<HostName>(), Err(InvalidName::TooLong));
        let long = [label.as_str(); 4].join(".");
        assert_eq!(long.len(), 255);
        assert_eq!(long.parse::<HostName>(), Err(InvalidName::TooLong));
        assert_eq!("a$b.example".parse::<HostName>(), Err(InvalidName::Character));
    }

    #[test]
    fn a_name_that_only_a_local_network_knows_is_ruled_out() {
        let table = [
            ("localhost", Some(NameRule::Localhost)),
            ("LOCALHOST.", Some(NameRule::Localhost)),
            ("intranet", Some(NameRule::SingleLabel)),
            ("a.localhost", Some(NameRule::LocalSuffix(".localhost"))),
            ("printer.local", Some(NameRule::LocalSuffix(".local"))),
            ("metadata.google.internal", Some(NameRule::LocalSuffix(".internal"))),
            ("db.prod.svc.cluster.local", Some(NameRule::LocalSuffix(".cluster.local"))),
            ("local", Some(NameRule::SingleLabel)),
            ("internal.example.com", None),
            ("mylocal.example", None),
            ("notlocalhost.example", None),
            ("my_hooks.example.com", None),
        ];
        for (text, rule) in table {
            assert_eq!(name(text).rule(), rule, "{text}");
        }
    }
}
