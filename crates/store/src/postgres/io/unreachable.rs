//! Why PostgreSQL could not be connected to, and what the operator can do about it.
//!
//! No text has anything of the URL but host, port, user and database: it may hold a password.

use std::error::Error as StdError;
use std::fmt::Display;
use std::io;

use rustls::CertificateError;
use tokio_postgres::config::{Config, Host};
use tokio_postgres::error::{DbError, SqlState};

use crate::Error;
use crate::postgres::failure::Failure;

/// The port of a URL that names none.
const USUAL_PORT: u16 = 5_432;
/// How the system says that it does not know a name.
const NOT_FOUND: &str = "failed to lookup address";
/// What is said of a server that closes the connection.
const HANGS_UP: &str = "hangs up at once; check that what listens there is PostgreSQL, and its log";
/// What is said of errors of the network.
const KINDS: [(io::ErrorKind, &str); 4] = [
    (
        io::ErrorKind::ConnectionRefused,
        "refuses connections; start it, or correct host and port in `database`",
    ),
    (
        io::ErrorKind::TimedOut,
        "does not answer; check host and port in `database`, and the firewall between",
    ),
    (io::ErrorKind::UnexpectedEof, HANGS_UP),
    (io::ErrorKind::ConnectionReset, HANGS_UP),
];

/// Says why a connection could not be opened.
pub(super) fn explained(config: &Config, error: tokio_postgres::Error) -> Failure {
    let text = format!("PostgreSQL at {} {}", place(config), reason(config, &error));
    Failure::Final(Error::unavailable(text, error))
}

/// Names where the server should be. Of several hosts, any may be the one that failed last.
fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |at: usize| *ports.get(at).or(ports.first()).unwrap_or(&USUAL_PORT);
    let hosts = config.get_hosts().iter().enumerate().map(|(at, host)| match host {
        Host::Tcp(name) => format!("{name}:{}", port(at)),
        Host::Unix(path) => path.display().to_string(),
    });
    let addresses = config.get_hostaddrs().iter().enumerate();
    let addresses = addresses.map(|(at, address)| format!("{address}:{}", port(at)));
    let mut places: Vec<String> = hosts.collect();
    if places.is_empty() {
        places = addresses.collect();
    }
    places.join(" or ")
}

fn reason(config: &Config, error: &tokio_postgres::Error) -> String {
    if let Some(refusal) = error.as_db_error() {
        return refused(config, refusal);
    }
    if let Some(rustls::Error::InvalidCertificate(what)) = cause(error) {
        return certificate(what);
    }
    if let Some(broken) = cause::<rustls::Error>(error) {
        return format!(
            "cannot agree on TLS with Redial ({broken}); it must speak TLS 1.2 or 1.3 (its setting \
             ssl_min_protocol_version)"
        );
    }
    let said = said(error);
    if said.contains("does not support TLS") {
        return "speaks no TLS, and sslmode=require in `database` asks for it; switch it on there \
                (ssl = on), or leave sslmode out if nobody can listen in between"
            .to_owned();
    }
    if said.contains("password missing") {
        return format!(
            "wants a password for the user `{}`, and `database` has none; write \
             postgres://user:password@host/database",
            user(config)
        );
    }
    if said.contains("does not allow writes") {
        return "takes no writes: it is a standby or read-only; have `database` lead to the primary"
            .to_owned();
    }
    if said.starts_with(NOT_FOUND) {
        return "cannot be reached: no such host is known; correct the host in `database`, or the \
                name servers of this machine"
            .to_owned();
    }
    let kind = cause::<io::Error>(error).map(io::Error::kind);
    let known = KINDS.iter().find(|(known, _)| kind == Some(*known)).map(|(_, text)| *text);
    let known = known.or(error.is_closed().then_some(HANGS_UP));
    known.map_or_else(
        || format!("cannot be reached: {error}: {said}; check `database`"),
        str::to_owned,
    )
}

/// What the server itself says no to.
fn refused(config: &Config, refusal: &DbError) -> String {
    let (user, database) = (user(config), config.get_dbname().unwrap_or(user(config)));
    let code = refusal.code();
    if *code == SqlState::INVALID_PASSWORD {
        return format!(
            "refuses the password of the user `{user}`, or there is no such user; correct it in \
             `database`"
        );
    }
    if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION {
        return format!(
            "does not let the user `{user}` in from here ({}); allow it in pg_hba.conf there, or \
             correct the user in `database`",
            refusal.message()
        );
    }
    if *code == SqlState::INVALID_CATALOG_NAME {
        return format!(
            "has no database `{database}`; create it (createdb {database}), or correct its name in \
             `database`"
        );
    }
    if *code == SqlState::TOO_MANY_CONNECTIONS {
        return "has no connection left; raise max_connections there, or lower \
                `database_connections` of each node"
            .to_owned();
    }
    if *code == SqlState::CANNOT_CONNECT_NOW {
        return format!("takes no connections yet ({}); try again soon", refusal.message());
    }
    format!("does not let us in: {} ({})", refusal.message(), code.code())
}

/// Why a certificate counts for nothing.
fn certificate(what: &CertificateError) -> String {
    if let CertificateError::NotValidForNameContext { presented, .. } = what {
        return other_name(format!("{} alone", presented.join(", ")));
    }
    if *what == CertificateError::NotValidForName {
        other_name("another name")
    } else if matches!(what, CertificateError::Expired | CertificateError::ExpiredContext { .. }) {
        "has a certificate whose time is over; renew it there, or set this machine's clock"
            .to_owned()
    } else if matches!(
        what,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }
    ) {
        "has a certificate whose time has not begun; set the clocks of both machines".to_owned()
    } else {
        // A certificate that signed itself is its own authority, which is said in another way.
        format!(
            "has a certificate that no authority trusted here has signed ({what}); add the \
             authority's certificate to those of this system, or name a PEM file with it in the \
             variable SSL_CERT_FILE; one that signed itself must be replaced"
        )
    }
}

fn other_name(names: impl Display) -> String {
    format!(
        "has a certificate for {names}; write a name in `database` that it is for, or have one made \
         for this name"
    )
}

fn user(config: &Config) -> &str {
    config.get_user().unwrap_or("postgres")
}

/// What the innermost cause says.
fn said(error: &tokio_postgres::Error) -> String {
    error.source().map(ToString::to_string).unwrap_or_default()
}

/// Finds a cause of one type, also one that an error of the system was made of: that is no source of it.
fn cause<T: StdError + 'static>(error: &tokio_postgres::Error) -> Option<&T> {
    let mut next: Option<&(dyn StdError + 'static)> = error.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use rustls::OtherError;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_postgres::NoTls;

    use super::*;

    /// Connects to a server that answers the start of a connection with these bytes, and hangs up.
    async fn answered(user: &str, answer: Vec<u8>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _read = stream.read(&mut [0; 1_024]).await.unwrap();
            stream.write_all(&answer).await.unwrap();
        });
        let text = refusal(&format!("postgres://{user}@127.0.0.1:{port}/mine")).await;
        serving.await.unwrap();
        text
    }

    async fn refusal(url: &str) -> String {
        let config: Config = url.parse().unwrap();
        let Err(error) = config.connect(NoTls).await else { panic!("{url} was connected to") };
        let text = Error::from(explained(&config, error)).to_string();
        assert!(!text.contains("hunter2"), "{text}");
        text
    }

    /// An ErrorResponse of PostgreSQL's protocol.
    fn says(code: &str, message: &str) -> Vec<u8> {
        let fields = format!("SFATAL\0C{code}\0M{message}\0\0");
        let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
        [b"E", &length[..], fields.as_bytes()].concat()
    }

    #[tokio::test]
    async fn what_the_server_says_no_to_is_told_with_what_to_do() {
        let table = [
            ("28P01", "password authentication failed", "the password of the user `me`"),
            ("28000", "no pg_hba.conf entry for host", "allow it in pg_hba.conf"),
            ("3D000", "database \"mine\" does not exist", "createdb mine"),
            ("53300", "sorry, too many clients already", "raise max_connections"),
            ("57P03", "the database system is starting up", "try again soon"),
            ("42501", "permission denied", "permission denied (42501)"),
        ];
        for (code, message, expected) in table {
            let text = answered("me:hunter2", says(code, message)).await;
            assert!(text.contains("PostgreSQL at 127.0.0.1:"), "{text}");
            assert!(text.contains(expected), "{code}: {text}");
        }
        // It asks for a password in plain text.
        let asks = b"R\0\0\0\x08\0\0\0\x03".to_vec();
        let text = answered("me", asks).await;
        assert!(text.contains("wants a password for the user `me`"), "{text}");
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_told_by_what_is_wrong_with_the_way() {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let text = refusal(&format!("postgres://me@{free}/mine")).await;
        assert!(text.contains("refuses connections; start it"), "{text}");
        let text = refusal("postgres://me:hunter2@no-such-host.invalid/mine").await;
        assert!(text.contains("no-such-host.invalid:5432"), "{text}");
        assert!(text.contains("correct the host in `database`"), "{text}");
        let text = answered("me", Vec::new()).await;
        assert!(text.contains("hangs up at once"), "{text}");
        let text = refusal("postgres://me@%2Fno%2Fsuch%2Fplace/mine").await;
        assert!(text.contains("PostgreSQL at /no/such/place"), "{text}");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _read = stream.read(&mut [0; 8]).await.unwrap();
            stream.write_all(b"N").await.unwrap();
        });
        let connector = crate::postgres::io::tls::Connector::new(
            &format!("postgres://me@{address}/mine?sslmode=require"),
            None,
        );
        let refused = connector.unwrap().connect().await.err().unwrap();
        let text = Error::from(refused).to_string();
        assert!(text.contains("speaks no TLS") && text.contains("ssl = on"), "{text}");
    }

    #[test]
    fn a_certificate_that_counts_for_nothing_is_told_with_what_to_do() {
        #[derive(Debug, thiserror::Error)]
        #[error("CaUsedAsEndEntity")]
        struct Authority;
        let presented = vec!["db.example".to_owned(), "db2.example".to_owned()];
        let expected = "db3.example".to_owned().try_into().unwrap();
        let table = [
            (CertificateError::UnknownIssuer, "SSL_CERT_FILE"),
            (CertificateError::Other(OtherError(Arc::new(Authority))), "signed itself"),
            (CertificateError::Expired, "renew it"),
            (CertificateError::NotValidYet, "set the clocks"),
            (CertificateError::NotValidForName, "another name"),
            (
                CertificateError::NotValidForNameContext { expected, presented },
                "db.example, db2.example alone",
            ),
        ];
        for (what, expected) in table {
            let text = certificate(&what);
            assert!(text.contains(expected) && text.contains("certificate"), "{text}");
        }
    }
}
