//! The listener for TLS, with its certificate and key.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::Context as _;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::listen::listen;
use crate::config::Tls;

/// A listener whose connections are encrypted.
pub(crate) struct Secure {
    /// Where it listens.
    pub(crate) listener: TcpListener,
    /// What it shows its clients.
    pub(crate) identity: Arc<Identity>,
}

/// A certificate with its key, as they were last read.
pub(crate) struct Identity {
    files: Tls,
    acceptor: RwLock<TlsAcceptor>,
}

impl Secure {
    /// Reads certificate and key, and begins to listen.
    pub(crate) async fn listen(tls: &Tls) -> anyhow::Result<Self> {
        let acceptor = RwLock::new(acceptor(tls)?);
        let listener = listen("tls.listen", tls.listen).await?;
        Ok(Self { listener, identity: Arc::new(Identity { files: tls.clone(), acceptor }) })
    }

    /// Reads certificate and key.
    pub(crate) fn read(tls: &Tls) -> anyhow::Result<ServerConfig> {
        let place = tls.certificate.display();
        let certificates = CertificateDer::pem_file_iter(&tls.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .with_context(|| format!("tls.certificate: {place} cannot be read"))?;
        let key = PrivateKeyDer::from_pem_file(&tls.key)
            .with_context(|| format!("tls.key: {} cannot be read", tls.key.display()))?;
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_single_cert(certificates, key)
                .with_context(|| format!("tls.certificate: {place} does not fit tls.key"))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Waits for a connection, for ever if there is no such listener.
    pub(super) async fn accept(
        secure: Option<&Self>,
    ) -> (std::io::Result<(TcpStream, SocketAddr)>, TlsAcceptor) {
        match secure {
            Some(secure) => (secure.listener.accept().await, secure.identity.acceptor()),
            None => std::future::pending().await,
        }
    }
}

impl Identity {
    /// Reads both files again: connections from now on get what is in them. If they do not read, what
    /// was read before stays.
    pub(crate) fn read_again(&self) -> anyhow::Result<()> {
        let acceptor = acceptor(&self.files)?;
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(())
    }

    fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn acceptor(tls: &Tls) -> anyhow::Result<TlsAcceptor> {
    Ok(TlsAcceptor::from(Arc::new(Secure::read(tls)?)))
}
