//! How a connection is made: where to, with which limits, and encrypted if the server offers it.
//!
//! A server that offers no TLS is talked to in plain text, and whoever sits in between can say so for
//! it: only with `sslmode=require` is it refused. Once there is TLS, certificates are verified, against
//! the system's roots or a file of authorities; one that none of them signed is refused.
//! `sslmode=disable` does without.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::Error;
use crate::postgres::failure::Failure;
use crate::postgres::io::unreachable::explained;

/// How long connecting may take. Shorter than a lease by so much that a second try fits in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// When a silent connection is asked whether it is still there, and how often.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(2);
const KEEPALIVE_TIMES: u32 = 3;
/// How long what was sent may remain without an acknowledgement.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// Makes connections.
#[derive(Clone)]
pub(crate) struct Connector {
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

impl Connector {
    /// Reads a URL.
    pub(crate) fn new(url: &str, authorities: Option<&Path>) -> Result<Self, Error> {
        // The error of a bad URL may quote it, and with it a password.
        let mut config: Config = url.parse().map_err(|_| {
            let text = "the database URL cannot be read; \
                        it looks like postgres://user:password@host:5432/database";
            Error::CannotOpen(text.to_owned())
        })?;
        config.connect_timeout(CONNECT_TIMEOUT);
        config.keepalives(true);
        config.keepalives_idle(KEEPALIVE_AFTER);
        config.keepalives_interval(KEEPALIVE_EVERY);
        config.keepalives_retries(KEEPALIVE_TIMES);
        config.tcp_user_timeout(UNACKNOWLEDGED);
        // After a failover the old server may still answer, read-only.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_application_name().is_none() {
            config.application_name("redial");
        }
        let plain = config.get_ssl_mode() == SslMode::Disable;
        let tls = if plain { None } else { Some(tls(authorities)?) };
        Ok(Self { config, tls })
    }

    /// Opens a connection that is driven until its client is dropped.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        match &self.tls {
            None => {
                let (client, connection) = self
                    .config
                    .connect(NoTls)
                    .await
                    .map_err(|error| explained(&self.config, error))?;
                drive(connection);
                Ok(client)
            }
            Some(tls) => {
                let connected = self
                    .config
                    .connect(tls.clone())
                    .await
                    .map_err(|error| explained(&self.config, error))?;
                let (client, connection) = connected;
                drive(connection);
                Ok(client)
            }
        }
    }

    /// Opens a connection for somebody who drives it and listens to it.
    pub(super) async fn listen(&self) -> Result<(Client, Listening), Failure> {
        match &self.tls {
            None => {
                let (client, connection) = self
                    .config
                    .connect(NoTls)
                    .await
                    .map_err(|error| explained(&self.config, error))?;
                Ok((client, Listening::Plain(Box::new(connection))))
            }
            Some(tls) => {
                let connected = self
                    .config
                    .connect(tls.clone())
                    .await
                    .map_err(|error| explained(&self.config, error))?;
                let (client, connection) = connected;
                Ok((client, Listening::Encrypted(Box::new(connection))))
            }
        }
    }
}

type TlsStream = <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<Socket>>::Stream;

/// A connection that has to be polled for what it hears.
pub(super) enum Listening {
    /// Without TLS.
    Plain(Box<Connection<Socket, tokio_postgres::tls::NoTlsStream>>),
    /// With it.
    Encrypted(Box<Connection<Socket, TlsStream>>),
}

impl Listening {
    /// Returns the next message, or none when the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<tokio_postgres::AsyncMessage> {
        let message = match self {
            Self::Plain(connection) => {
                std::future::poll_fn(|context| connection.poll_message(context)).await
            }
            Self::Encrypted(connection) => {
                std::future::poll_fn(|context| connection.poll_message(context)).await
            }
        };
        message.and_then(Result::ok)
    }
}

fn drive<S>(connection: Connection<Socket, S>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        // Its client reports the loss to whoever uses it next.
        drop(connection.await);
    });
}

fn tls(authorities: Option<&Path>) -> Result<MakeRustlsConnect, Error> {
    let mut roots = RootCertStore::empty();
    match authorities {
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(file) => {
            let (added, _) = roots.add_parsable_certificates(certificates(file)?);
            if added == 0 {
                return Err(cannot_use(file, "it holds no certificate of an authority"));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::CannotOpen(format!("TLS cannot be set up: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Reads the certificates of a PEM file.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    read.map_err(|error| cannot_use(file, error))
}

fn cannot_use(file: &Path, why: impl std::fmt::Display) -> Error {
    Error::CannotOpen(format!("{} cannot be used for TLS: {why}", file.display()))
}
