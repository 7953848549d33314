//! Which host a request is for: said once, and in a form that can be read in one way only.
//!
//! What stands in front of this server may have read another host out of a header that is odd.

use http::Version;
use http::header::HOST;

use crate::problem::Problem;

/// Refuses a request that does not say once to which host it goes, or says it in a form that no host has.
pub(super) fn check<B>(request: &http::Request<B>) -> Result<(), Problem> {
    let mut hosts = request.headers().get_all(HOST).iter();
    // HTTP/2 names the authority elsewhere, and HTTP/1.0 need not name it.
    let needed = request.version() == Version::HTTP_11;
    let refused = |text: &str| Err(Problem::BadRequest(text.to_owned()));
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_host(host.as_bytes()) => Ok(()),
        (Some(_), None) => refused(
            "the header `Host` must be a name or an address, and a port after a colon if any",
        ),
        (None, _) if !needed => Ok(()),
        (None, _) => refused("the request has no header `Host`"),
        (Some(_), Some(_)) => refused("the request has more than one header `Host`"),
    }
}

/// Tells whether this is a host, and a port if there is one: `uri-host [":" port]` of RFC 9110. It may be empty, as
/// it is where no host is meant.
fn is_host(text: &[u8]) -> bool {
    let (host, port) = match text.strip_prefix(b"[") {
        // An IPv6 address has colons of its own.
        Some(rest) => match rest.iter().position(|byte| *byte == b']') {
            Some(end) if is_literal(&rest[..end]) => (&b"literal"[..], &rest[end + 1..]),
            Some(_) | None => return false,
        },
        None => text.split_at(text.iter().position(|byte| *byte == b':').unwrap_or(text.len())),
    };
    let port = match port {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        [..] => false,
    };
    let named = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(byte);
    host.iter().all(named) && port && (!host.is_empty() || text.is_empty())
}

/// Tells whether this may stand between brackets.
fn is_literal(text: &[u8]) -> bool {
    let may = |byte: &u8| byte.is_ascii_alphanumeric() || b":.-_~!$&'()*+,;=".contains(byte);
    !text.is_empty() && text.iter().all(may)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_a_port_or_without() {
        let good = [
            "localhost",
            "api.example:443",
            "api_1.example",
            "10.0.0.1:8071",
            "[::1]",
            "[2001:db8::1]:80",
            "x:",
            "a%2db",
            "",
        ];
        for host in good {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        let odd = [
            " ",
            ":80",
            "a b",
            "a\tb",
            "user@host",
            "user:password@host",
            "host:80:81",
            "host:port",
            "host:8o",
            "host:123456",
            "host/path",
            "host?query",
            "host#part",
            "http://host",
            "a,b:1,2",
            "[::1",
            "[]",
            "[::1]x",
            "[::1]:80:81",
            "::1",
            "h\u{f6}st",
            "a\\b",
            "<a>",
        ];
        for host in odd {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }
}
