//! CONNECT: asking the operator's proxy for a way through.
//!
//! The proxy is asked for an address that was vetted here, or, if the operator trusts it to vet, for
//! the host by name. After its answer it is only a wire: TLS and HTTP are spoken with the receiver.
//!
//! What it answers may be about the receiver, and so counts; that it cannot be reached does not.

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
    tcp.write_all(request.as_bytes()).await.map_err(|_| broken_off())?;
    let mut head = Vec::with_capacity(512);
    loop {
        if tcp.read_buf(&mut head).await.map_err(|_| broken_off())? == 0 {
            return Err(broken_off());
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
        Some(status) => {
            let text = ["the outgoing proxy refused with status ", &status.to_string()].concat();
            Err(Failure::unreachable(Unreachable::Other, text))
        }
    }
}

fn broken_off() -> Failure {
    Failure::unreachable(Unreachable::Other, "the outgoing proxy broke off the connection")
}

fn unintelligible() -> Failure {
    Failure::unreachable(Unreachable::Other, "the outgoing proxy's answer cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn bytes_before_their_turn_are_not_taken_for_the_receivers() {
        assert!(judged("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK").is_err());
    }
}
