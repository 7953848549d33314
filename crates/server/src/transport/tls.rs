//! TLS for outgoing requests: always verified, by name, with versions 1.2 and 1.3.
//!
//! Trust comes from the system's store, or from the list that Mozilla keeps where there is no such
//! store, as in an empty container image. Nothing can switch verification off. What is added to it is a
//! reason: a certificate that nobody but its owner has signed is told from one of an unknown authority.

use std::net::IpAddr;
use std::sync::Arc;

use domain::address::Host;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore,
    SignatureScheme,
};
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
        let roots = Arc::new(roots(extra));
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .expect("there is always somebody to trust");
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS 1.2 and 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Explaining(verifier)))
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

/// A certificate that only its owner has signed.
#[derive(Debug, thiserror::Error)]
#[error("the certificate is self-signed")]
pub(super) struct SelfSigned;

/// Verifies like the verifier inside of it, and says of a certificate that this one refuses whether it is
/// self-signed.
#[derive(Debug)]
struct Explaining(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Explaining {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        verified.map_err(|error| {
            // One that says of itself that it is an authority's is refused for that.
            let unknown = matches!(
                error,
                rustls::Error::InvalidCertificate(
                    CertificateError::UnknownIssuer | CertificateError::Other(_)
                )
            );
            match unknown && is_self_signed(end_entity) {
                true => CertificateError::Other(OtherError(Arc::new(SelfSigned))).into(),
                false => error,
            }
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Tells whether a certificate names its own subject as its issuer. No authority has the name of a receiver,
/// so that the signature need not be looked at to find the right word.
fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    let read = webpki::EndEntityCert::try_from(certificate);
    read.is_ok_and(|read| read.issuer() == read.subject())
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
