//! From what went wrong to an outcome, and to words for whoever looks at the attempt.
//!
//! The words are read by the endpoint's owner. They hold no address that a name resolved to, no
//! path, no query and no secret, and they say what to look at.

use std::borrow::Cow;
use std::error::Error as _;
use std::io;
use std::net::SocketAddr;

use domain::address::Refusal;
use domain::outcome::{Outcome, Unreachable};
use rustix::io::Errno;
use rustls::{AlertDescription, CertificateError, OtherError};

use super::tls::SelfSigned;

/// How an attempt ended without an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    /// What it counts as.
    pub(super) outcome: Outcome,
    /// What it is called.
    pub(super) text: Cow<'static, str>,
    /// What the operator is to be told, if only the operator can mend it.
    pub(super) trouble: Option<Trouble>,
    /// Why the address guard refused, in words that only the operator may read.
    pub(super) refusal: Option<String>,
}

/// What keeps us from sending, and is no receiver's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The outgoing proxy cannot be reached, or wants none of us.
    Proxy,
    /// Nothing can be signed for the endpoint.
    Signing,
}

/// What an attempt is about, when its time runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    /// The name is looked up.
    #[default]
    LookUp,
    /// The operator's proxy is dialled.
    Proxy,
    /// The connection is made.
    Connect,
    /// TLS is agreed upon.
    Handshake,
    /// The request is written and its answer awaited.
    Exchange,
}

impl Failure {
    /// Makes a failure to reach the receiver.
    pub(super) fn unreachable(how: Unreachable, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Outcome::Unreachable(how), text)
    }

    /// Makes a failure of ours, which costs the delivery nothing.
    pub(super) fn interrupted(text: &'static str) -> Self {
        Self::new(Outcome::Interrupted, text)
    }

    /// Makes a connection, or a question for one, that this machine had nothing left for.
    pub(super) fn our_lack() -> Self {
        Self::interrupted("the server ran out of files, ports or memory for connections")
    }

    /// Makes what the address guard's refusal is.
    pub(super) fn blocked(refusal: &Refusal) -> Self {
        let text = [refusal.code(), ": ", &refusal.to_string()].concat();
        Self { refusal: Some(refusal.for_operator()), ..Self::new(Outcome::Blocked, text) }
    }

    /// Makes what the address guard's refusal of a redirect is.
    pub(super) fn redirect_blocked(refusal: &Refusal) -> Self {
        let text =
            [refusal.code(), ": the receiver redirects to where deliveries may not go"].concat();
        Self { text: text.into(), ..Self::blocked(refusal) }
    }

    /// Says of a failure that it was not at the endpoint's own URL.
    pub(super) fn at_hop(self, origin: &str) -> Self {
        Self { text: [&*self.text, " (after a redirect to ", origin, ")"].concat().into(), ..self }
    }

    /// Makes a URL that was vetted once and cannot be written into a request.
    pub(super) fn blocked_url() -> Self {
        Self::new(Outcome::Blocked, "the URL cannot be written into a request; save it anew")
    }

    /// Makes an attempt that could not be signed, because what is stored cannot be used: it was
    /// looked at when it was saved, so nobody but us is to blame. Nothing is sent unsigned, and it
    /// costs nothing, nor does it expire: nobody has tried to send it. It does not heal by itself
    /// either: it is tried again each second until somebody mends the secret or the profile, or
    /// cancels it, and the log says so.
    pub(super) fn unsigned(why: &str) -> Self {
        let text = ["nothing was sent: ", why].concat();
        Self { trouble: Some(Trouble::Signing), ..Self::new(Outcome::Interrupted, text) }
    }

    /// Makes an attempt that could not be signed, because the owner chose secrets and profiles that
    /// do not fit together. It counts, so that the owner sees it and can choose otherwise.
    pub(super) fn misfit(why: &str) -> Self {
        Self::unreachable(Unreachable::Other, ["nothing was sent: ", why].concat())
    }

    /// Makes a failure to reach the operator's own proxy. It says nothing about the receiver.
    pub(super) fn no_proxy(why: Self) -> Self {
        // What we lack is not the proxy's failure either.
        if why.outcome == Outcome::Interrupted {
            return why;
        }
        Self::proxys(["the outgoing proxy cannot be reached: ", &*why.text].concat())
    }

    /// Makes what is between us and the operator's own proxy. It says nothing about the receiver.
    pub(super) fn proxys(text: impl Into<Cow<'static, str>>) -> Self {
        Self { trouble: Some(Trouble::Proxy), ..Self::new(Outcome::Interrupted, text) }
    }

    /// Makes a fresh connection that was closed before the request was written.
    pub(super) fn closed_at_once() -> Self {
        Self::unreachable(Unreachable::Reset, "the receiver closed the connection at once")
    }

    /// Makes a wait at the endpoint's gate that was too long. Waiting costs no attempt.
    pub(super) fn turn_did_not_come() -> Self {
        Self::interrupted("the endpoint's rate left no room in time")
    }

    /// Makes a wait that ended because the server stops.
    pub(super) fn stopped_waiting() -> Self {
        Self::interrupted("the server stops, and the endpoint's rate left no room yet")
    }

    /// Makes a connection that the receiver closed while the request waited for its turn.
    pub(super) fn closed_meanwhile() -> Self {
        Self::interrupted("the connection was closed while the endpoint's rate left no room")
    }

    /// Makes a deadline that passed.
    pub(super) fn timed_out(stage: Stage) -> Self {
        let text = match stage {
            Stage::LookUp => "looking up the name took too long",
            Stage::Proxy => return Self::no_proxy(Self::timed_out(Stage::Connect)),
            Stage::Connect => "connecting took too long",
            Stage::Handshake => "the TLS handshake took too long",
            Stage::Exchange => "there was no answer in time",
        };
        Self::new(Outcome::TimedOut, text)
    }

    /// Makes an answer that is none.
    pub(super) fn broken(text: &'static str) -> Self {
        Self::new(Outcome::BrokenAnswer, text)
    }

    /// Makes an answer whose body broke off before its end, and before as much of it came as is kept.
    pub(super) fn body_cut(status: u16) -> Self {
        let status = status.to_string();
        let text = ["the receiver answered ", &status, ", and its body broke off before its end"];
        Self::new(Outcome::BrokenAnswer, text.concat())
    }

    /// Makes an answer whose body did not come to its end in time, nor as much of it as is kept.
    pub(super) fn body_stalled(status: u16) -> Self {
        let status = status.to_string();
        let text = ["the receiver answered ", &status, ", and its body did not end in time"];
        Self::new(Outcome::TimedOut, text.concat())
    }

    /// Makes a host that no certificate can be for.
    pub(super) fn no_name_for_tls() -> Self {
        Self::tls("no certificate can be for this host; use a name of letters, digits and hyphens")
    }

    fn tls(text: &'static str) -> Self {
        Self::new(Outcome::TlsFailed, text)
    }

    fn new(outcome: Outcome, text: impl Into<Cow<'static, str>>) -> Self {
        Self { outcome, text: text.into(), trouble: None, refusal: None }
    }

    /// Reads why a connection could not be made.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the system may name more kinds")]
    pub(super) fn dialling(error: &io::Error, address: SocketAddr) -> Self {
        if is_our_lack(error) || has_no_port(error, address) {
            return Self::our_lack();
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                Self::unreachable(Unreachable::Refused, "the connection was refused")
            }
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
                Self::unreachable(Unreachable::Reset, "the connection was reset")
            }
            io::ErrorKind::TimedOut => Self::timed_out(Stage::Connect),
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                Self::unreachable(Unreachable::Other, "there is no route to that address")
            }
            _ => Self::unreachable(Unreachable::Other, "the connection could not be made"),
        }
    }

    /// Reads why a TLS handshake failed.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the system may name more kinds")]
    pub(super) fn handshake(error: &io::Error) -> Self {
        if let Some(error) = tls_error(error) {
            return Self::tls(tls_text(error));
        }
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::unreachable(
                Unreachable::Reset,
                "the connection was reset during the TLS handshake",
            ),
            _ => Self::tls("the TLS handshake failed: the receiver closed the connection"),
        }
    }

    /// Reads why there was no answer. `begun` tells whether a part of one had come.
    pub(super) fn exchange(error: &hyper::Error, begun: bool) -> Self {
        if error.is_parse_too_large() {
            return Self::broken("the answer's head is too large");
        }
        if error.is_parse() {
            return Self::broken("what came is not an HTTP answer");
        }
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        if let Some(error) = source.and_then(tls_error) {
            return Self::tls(tls_text(error));
        }
        if begun {
            return Self::broken("the answer broke off before its head was complete");
        }
        let closed = "the receiver closed the connection without an answer";
        match source.map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
                Self::unreachable(Unreachable::Reset, "the connection was reset without an answer")
            }
            Some(io::ErrorKind::TimedOut) => Self::timed_out(Stage::Exchange),
            Some(_) | None => Self::unreachable(Unreachable::Reset, closed),
        }
    }
}

/// Tells whether this machine has no port left from which an address could be dialled. Of an IPv6
/// address nobody can tell: where IPv6 is off each dial of one ends the same way, and such a receiver
/// would be dialled for ever.
fn has_no_port(error: &io::Error, address: SocketAddr) -> bool {
    address.is_ipv4() && Errno::from_io_error(error) == Some(Errno::ADDRNOTAVAIL)
}

/// Tells whether this machine lacks what any connection needs: that says nothing about the receiver.
pub(super) fn is_our_lack(error: &io::Error) -> bool {
    let lacks = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    let code = Errno::from_io_error(error);
    code.is_some_and(|code| lacks.contains(&code))
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "rustls may name more faults")]
fn tls_text(error: &rustls::Error) -> &'static str {
    match error {
        rustls::Error::InvalidCertificate(fault) => certificate_text(fault),
        rustls::Error::AlertReceived(
            AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion,
        )
        | rustls::Error::PeerIncompatible(_) => {
            "the TLS handshake failed: no common version or cipher; the receiver needs TLS 1.2 or \
             1.3 with forward secrecy"
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the receiver wants a client certificate"
        }
        rustls::Error::AlertReceived(_) => "the receiver refused the TLS handshake",
        rustls::Error::InvalidMessage(_) => "the receiver does not speak TLS on this port",
        _ => "the TLS handshake failed",
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "rustls may name more faults")]
fn certificate_text(fault: &CertificateError) -> &'static str {
    match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the receiver's certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the receiver's certificate is not valid yet"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the receiver's certificate is for another name"
        }
        CertificateError::UnknownIssuer => {
            "the receiver's certificate comes from an unknown authority, or its chain is incomplete"
        }
        CertificateError::Revoked => "the receiver's certificate was revoked",
        CertificateError::Other(OtherError(reason)) if reason.is::<SelfSigned>() => {
            "the receiver's certificate is self-signed; it needs one of an authority that is trusted"
        }
        _ => "the receiver's certificate cannot be trusted",
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn v4() -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 443))
    }

    #[test]
    fn what_the_socket_says_becomes_an_outcome() {
        let table = [
            (io::ErrorKind::ConnectionRefused, Outcome::Unreachable(Unreachable::Refused)),
            (io::ErrorKind::ConnectionReset, Outcome::Unreachable(Unreachable::Reset)),
            (io::ErrorKind::NetworkUnreachable, Outcome::Unreachable(Unreachable::Other)),
            (io::ErrorKind::TimedOut, Outcome::TimedOut),
        ];
        for (kind, outcome) in table {
            assert_eq!(Failure::dialling(&kind.into(), v4()).outcome, outcome, "{kind:?}");
        }
    }

    #[test]
    fn what_this_machine_lacks_is_no_verdict_on_the_receiver() {
        let lacks = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
        for lack in lacks {
            let outcome = Failure::dialling(&lack.into(), v4()).outcome;
            assert_eq!(outcome, Outcome::Interrupted, "{lack:?}");
        }
        let refused = Failure::dialling(&Errno::CONNREFUSED.into(), v4());
        assert_eq!(refused.outcome, Outcome::Unreachable(Unreachable::Refused));
    }

    #[test]
    fn used_up_ports_are_our_lack_and_an_ipv6_address_without_a_way_there_is_not() {
        let dialled = |address| Failure::dialling(&Errno::ADDRNOTAVAIL.into(), address).outcome;
        assert_eq!(dialled(v4()), Outcome::Interrupted);
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 443));
        assert_eq!(dialled(v6), Outcome::Unreachable(Unreachable::Other));
    }

    #[test]
    fn a_proxy_that_cannot_be_dialled_is_no_verdict_on_the_receiver() {
        let refused = || Failure::dialling(&Errno::CONNREFUSED.into(), v4());
        for failure in [Failure::no_proxy(refused()), Failure::timed_out(Stage::Proxy)] {
            assert_eq!(failure.outcome, Outcome::Interrupted, "{}", failure.text);
            assert_eq!(failure.trouble, Some(Trouble::Proxy), "{}", failure.text);
        }
        assert_eq!(refused().trouble, None, "a receiver that refuses is not the operator's");
        let lack = Failure::no_proxy(Failure::our_lack());
        assert_eq!(lack, Failure::our_lack(), "nor is what we lack the proxy's");
    }

    #[test]
    fn whoever_has_to_wait_for_its_turn_has_made_no_attempt() {
        for failure in [Failure::turn_did_not_come(), Failure::closed_meanwhile()] {
            assert_eq!(failure.outcome, Outcome::Interrupted, "{}", failure.text);
        }
    }

    #[test]
    fn a_failed_handshake_names_its_reason() {
        let failed = |error| Failure::handshake(&io::Error::new(io::ErrorKind::InvalidData, error));
        let expired = failed(rustls::Error::InvalidCertificate(CertificateError::Expired));
        assert_eq!(expired.outcome, Outcome::TlsFailed);
        assert_eq!(expired.text, "the receiver's certificate has expired");
        let alert = failed(rustls::Error::AlertReceived(AlertDescription::HandshakeFailure));
        assert!(alert.text.contains("no common version or cipher"), "{}", alert.text);
        let reset = Failure::handshake(&io::ErrorKind::ConnectionReset.into());
        assert_eq!(reset.outcome, Outcome::Unreachable(Unreachable::Reset));
    }
}
