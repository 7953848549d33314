//! CONNECT: asking the operator's proxy for a way through.
//!
//! The proxy is asked for an address that was vetted here, or, if the operator trusts it to vet, for
//! the host by name. After its answer it is only a wire: TLS and HTTP are spoken with the receiver.
//!
//! What it answers may be about the receiver, and so counts. That it cannot be reached, says nothing
//! at all or does not let us in without credentials does not.

use domain::outcome::Unreachable;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::outcome::Failure;

/// The largest head of a proxy's answer that is read.
const HEAD_LIMIT: usize = 8 * 1024;
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Asks for a way to `authority`, which is a host and a port.
pub(super) async fn connect(tcp: &mut TcpStream, authority: &str) -> Result<(), Failure> {
    let request = ["CONNECT ", authority, " HTTP/1.1\r\nHost: ", authority, "\r\n\r\n"].concat();
    tcp.write_all(request.as_bytes()).await.map_err(|_| silent())?;
    let mut head = Vec::with_capacity(512);
    loop {
        match tcp.read_buf(&mut head).await {
            Ok(1..) => {}
            Ok(0) | Err(_) if head.is_empty() => return Err(silent()),
            Ok(0) | Err(_) => return Err(broken_off()),
        }
        match head.windows(HEAD_END.len()).position(|part| part == HEAD_END) {
            Some(end) => return judge(&head, end + HEAD_END.len()),
            None if head.len() >= HEAD_LIMIT => return Err(unintelligible()),
            None => {}
        }
    }
}

/// Reads the status; bytes after the head would be read as the receiver's, and are refused.
fn judge(head: &[u8], end: usize) -> Result<(), Failure> {
    let status = head
        .strip_prefix(b"HTTP/1.")
        .and_then(|rest| rest.get(2..5))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse::<u16>().ok());
    match status {
        Some(200..=299) if head.len() == end => Ok(()),
        Some(200..=299) | None => Err(unintelligible()),
        Some(407) => Err(Failure::proxys(
            "the outgoing proxy wants credentials, which it is not sent; have it let this server in",
        )),
        Some(status) => {
            let text = ["the outgoing proxy refused with status ", &status.to_string()].concat();
            Err(Failure::unreachable(Unreachable::Other, text))
        }
    }
}

fn silent() -> Failure {
    Failure::proxys("the outgoing proxy broke off the connection without an answer")
}

fn broken_off() -> Failure {
    Failure::unreachable(Unreachable::Other, "the outgoing proxy broke off the connection")
}

fn unintelligible() -> Failure {
    Failure::unreachable(Unreachable::Other, "the outgoing proxy's answer cannot be read")
}

#[cfg(test)]
mod tests {
    use domain::outcome::Outcome;

    use super::*;
    use crate::transport::outcome::Trouble;

    fn judged(head: &str) -> Result<(), String> {
        let end = head.find("\r\n\r\n").unwrap() + 4;
        judge(head.as_bytes(), end).map_err(|failure| failure.text.into_owned())
    }

    #[test]
    fn only_a_2xx_opens_the_way() {
        assert_eq!(judged("HTTP/1.1 200 Connection established\r\n\r\n"), Ok(()));
        assert_eq!(judged("HTTP/1.0 200 OK\r\nVia: x\r\n\r\n"), Ok(()));
        let refused = judged("HTTP/1.1 403 Forbidden\r\n\r\n").unwrap_err();
        assert_eq!(refused, "the outgoing proxy refused with status 403");
        assert!(judged("SSH-2.0\r\n\r\n").is_err());
        assert!(judged("HTTP/1.1 2\r\n\r\n").is_err());
    }

    #[test]
    fn a_proxy_that_wants_credentials_is_the_operators_trouble() {
        let head = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
        let failure = judge(head, head.len()).unwrap_err();
        assert_eq!(failure.outcome, Outcome::Interrupted);
        assert_eq!(failure.trouble, Some(Trouble::Proxy));
        let head = b"HTTP/1.1 502 Bad Gateway\r\n\r\n";
        let failure = judge(head, head.len()).unwrap_err();
        assert_eq!(failure.outcome, Outcome::Unreachable(Unreachable::Other));
        assert_eq!(failure.trouble, None);
    }

    #[test]
    fn bytes_before_their_turn_are_not_taken_for_the_receivers() {
        assert!(judged("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK").is_err());
    }
}
