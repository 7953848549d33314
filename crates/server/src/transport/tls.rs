//! TLS for outgoing requests: always verified, by name, with versions 1.2 and 1.3.
//!
//! Trust comes from the system's store, or from the list that Mozilla keeps where there is no such
//! store, as in an empty container image. Nothing can switch verification off.

use std::net::IpAddr;
use std::sync::Arc;

use domain::address::Host;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::outcome::Failure;
use super::stream::{Socket, Stream};

/// How many sessions are remembered, so that the next handshake is shorter.
const SESSIONS: usize = 1_024;

/// Makes connections private.
#[derive(Clone)]
pub(super) struct Tls {
    connector: TlsConnector,
}

impl Tls {
    /// Reads the roots of trust. `extra` are trusted besides them.
    #[expect(clippy::expect_used, reason = "without TLS no request may leave")]
    pub(super) fn new(extra: &[CertificateDer<'static>]) -> Self {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS 1.2 and 1.3")
            .with_root_certificates(roots(extra))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        Self { connector: TlsConnector::from(Arc::new(config)) }
    }

    /// Shakes hands with whoever has a certificate for this name.
    pub(super) async fn handshake(
        &self,
        socket: Socket,
        name: ServerName<'static>,
    ) -> Result<Stream, Failure> {
        match self.connector.connect(name, socket).await {
            Ok(stream) => Ok(Stream::tls(stream)),
            Err(error) => Err(Failure::handshake(&error)),
        }
    }
}

/// Returns the name that a certificate must have, if a host can be in one.
pub(super) fn server_name(host: &Host) -> Option<ServerName<'static>> {
    match host {
        Host::Address(address) => Some(ServerName::from(IpAddr::clone(address))),
        Host::Name(name) => ServerName::try_from(name.as_str().to_owned()).ok(),
    }
}

fn roots(extra: &[CertificateDer<'static>]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots.add_parsable_certificates(extra.iter().cloned());
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_asked_for_by_the_name_in_the_url() {
        let name = server_name(&"Hooks.Example.com".parse().unwrap()).unwrap();
        assert_eq!(name.to_str(), "hooks.example.com");
        let address = server_name(&"127.0.0.1".parse().unwrap()).unwrap();
        assert!(matches!(address, ServerName::IpAddress(_)));
    }

    #[test]
    fn there_is_always_somebody_to_trust() {
        assert!(!roots(&[]).is_empty());
    }
}
