//! A URL that deliveries may be sent to, read once.
//!
//! `url` repairs what people type: it drops tabs, takes backslashes for slashes and forgives
//! missing ones. A repaired URL may mean something else to the next parser, so such input is
//! refused, and what is stored and sent is the text `url` writes back. Path and query are secrets:
//! they are shown by [`DeliverableUrl::expose_path_and_query`] only, never by `Debug` or
//! `Display`.

use std::fmt;

use url::{Position, Url};

use super::host::Host;
use super::refusal::{Malformed, Reason};

/// The longest URL, as written and as stored.
pub const MAX_URL_BYTES: usize = 2_048;

/// How a destination is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Plain text, where the operator consents.
    Http,
    /// TLS.
    Https,
}

/// A URL that a [`Guard`](super::Guard) has vetted; nothing else can make one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliverableUrl {
    url: Url,
    scheme: Scheme,
    host: Host,
    port: u16,
}

impl DeliverableUrl {
    /// Reads a URL and settles its spelling; whether it may be a destination is not asked here.
    pub(super) fn parse(text: &str) -> Result<Self, Reason> {
        let scheme = check_text(text)?;
        let mut url = Url::parse(text).map_err(Malformed::Unreadable)?;
        let host = url.host().ok_or(Malformed::Scheme)?;
        let host = Host::from_parsed(host)?;
        settle_host(&mut url, &host)?;
        if url.as_str().len() > MAX_URL_BYTES {
            return Err(Malformed::TooLong.into());
        }
        let port = url.port().unwrap_or(scheme.default_port());
        Ok(Self { url, scheme, host, port })
    }

    /// Writes out what a path or a query means that is relative to this URL.
    pub(super) fn resolve(&self, reference: &str) -> Result<String, Malformed> {
        check_spelling(reference)?;
        let resolved = self.url.join(reference).map_err(Malformed::Unreadable)?;
        Ok(resolved.into())
    }

    /// How the destination is spoken to.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The name to resolve, or the address written out.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port, the scheme's own if none is written.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as the `Host` header has them, the scheme's own port left out.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.url[Position::BeforeHost..Position::AfterPort]
    }

    /// Scheme, host and port: all that may be logged.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.url[..Position::BeforePath]
    }

    /// Path and query, which are secrets: for the request line and for encryption.
    #[must_use]
    pub fn expose_path_and_query(&self) -> &str {
        &self.url[Position::BeforePath..]
    }
}

impl fmt::Display for DeliverableUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.origin())
    }
}

impl fmt::Debug for DeliverableUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DeliverableUrl({})", self.origin())
    }
}

impl Scheme {
    /// The scheme as a URL writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Refuses what `url` would silently repair, before it gets the chance.
fn check_text(text: &str) -> Result<Scheme, Malformed> {
    check_spelling(text)?;
    let (scheme, rest) = text.split_once("://").ok_or(Malformed::Scheme)?;
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    if authority.is_empty() {
        return Err(Malformed::Scheme);
    }
    if authority.contains('@') {
        return Err(Malformed::UserInfo);
    }
    [Scheme::Https, Scheme::Http]
        .into_iter()
        .find(|known| scheme.eq_ignore_ascii_case(known.as_str()))
        .ok_or(Malformed::Scheme)
}

/// Refuses what no part of a URL may have.
fn check_spelling(text: &str) -> Result<(), Malformed> {
    if text.len() > MAX_URL_BYTES {
        return Err(Malformed::TooLong);
    }
    if text.contains(|character: char| character.is_control() || character.is_whitespace()) {
        return Err(Malformed::Control);
    }
    if text.contains('\\') {
        return Err(Malformed::Backslash);
    }
    if text.contains('#') {
        return Err(Malformed::Fragment);
    }
    Ok(())
}

/// Writes the host back as it will be resolved and dialled, so that the `Host` header, the name in
/// the certificate and the stored URL are one spelling.
fn settle_host(url: &mut Url, host: &Host) -> Result<(), Malformed> {
    match host {
        Host::Name(name) => url.set_host(Some(name.as_str())).map_err(Malformed::Unreadable),
        Host::Address(address) => url.set_ip_host(*address).map_err(|()| Malformed::Scheme),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DeliverableUrl, Reason> {
        DeliverableUrl::parse(text)
    }

    #[test]
    fn a_url_is_stored_as_it_is_written_back() {
        let table = [
            (
                "HTTPS://Hooks.Example.COM.:443/a b".replace(' ', "%20"),
                "https://hooks.example.com/a%20b",
            ),
            ("https://example.com".to_owned(), "https://example.com/"),
            ("https://example.com:/x?y=1".to_owned(), "https://example.com/x?y=1"),
            ("https://0x08.8.0x8.010/".to_owned(), "https://8.8.8.8/"),
            ("https://[::FFFF:8.8.8.8]:8443/".to_owned(), "https://8.8.8.8:8443/"),
            ("https://bücher.example/".to_owned(), "https://xn--bcher-kva.example/"),
        ];
        for (text, stored) in table {
            assert_eq!(parse(&text).unwrap().url.as_str(), stored, "{text}");
        }
    }

    #[test]
    fn what_url_would_repair_is_refused() {
        let table = [
            ("https://exam\tple.com/", Malformed::Control),
            ("https://example.com/\n", Malformed::Control),
            (" https://example.com/", Malformed::Control),
            ("https:\\\\example.com/", Malformed::Backslash),
            ("https://example.com\\@evil.example/", Malformed::Backslash),
            ("https://user:pass@example.com/", Malformed::UserInfo),
            ("https://@example.com/", Malformed::UserInfo),
            ("https://example.com/#", Malformed::Fragment),
            ("https:example.com/", Malformed::Scheme),
            ("https:/example.com/", Malformed::Scheme),
            ("https:///example.com/", Malformed::Scheme),
            ("ftp://example.com/", Malformed::Scheme),
            ("//example.com/", Malformed::Scheme),
            ("", Malformed::Scheme),
        ];
        for (text, fault) in table {
            assert_eq!(parse(text).unwrap_err(), Reason::Malformed(fault), "{text:?}");
        }
    }

    #[test]
    fn an_at_sign_in_the_path_is_not_a_user_name() {
        assert_eq!(parse("https://example.com/@me").unwrap().expose_path_and_query(), "/@me");
    }

    #[test]
    fn a_url_may_not_outgrow_its_limit_by_being_escaped() {
        let fits = format!("https://example.com/{}", "a".repeat(MAX_URL_BYTES - 20));
        assert_eq!(parse(&fits).unwrap().url.as_str().len(), MAX_URL_BYTES);
        assert_eq!(parse(&format!("{fits}a")).unwrap_err(), Malformed::TooLong.into());
        let grows = format!("https://example.com/{}", "ä".repeat(900));
        assert!(grows.len() < MAX_URL_BYTES);
        assert_eq!(parse(&grows).unwrap_err(), Malformed::TooLong.into());
    }

    #[test]
    fn path_and_query_are_shown_only_on_request() {
        let url = parse("https://example.com:8443/secret/path?token=s3cret").unwrap();
        assert_eq!(format!("{url}"), "https://example.com:8443");
        assert_eq!(format!("{url:?}"), "DeliverableUrl(https://example.com:8443)");
        assert_eq!(url.authority(), "example.com:8443");
        assert_eq!(url.expose_path_and_query(), "/secret/path?token=s3cret");
    }
}
