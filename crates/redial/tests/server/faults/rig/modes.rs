//! Receivers that behave badly, each in one way, byte by byte.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// How long a receiver that dribbles waits after each byte.
const DRIBBLE: Duration = Duration::from_secs(1);
/// How many connections fill the queue of a receiver that never accepts.
const FILLING: usize = 8;
/// How many headers are too many.
const HEADERS: u32 = 1_000_000;

/// A way to behave badly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It never takes a connection.
    NeverAccepts,
    /// It takes connections and reads nothing.
    NeverReads,
    /// It reads and never answers, as if the other end of the line were gone.
    NeverAnswers,
    /// Its head comes at a byte a second.
    DribblesHead,
    /// Its body does.
    DribblesBody,
    /// It resets the connection instead of an answer.
    Resets,
    /// It ends the connection in the middle of the body.
    BreaksOff,
    /// It never goes on with the handshake.
    StallsHandshake,
    /// Nobody vouches for its certificate.
    BadCertificate,
    /// Its body has ten gigabytes.
    PoursBody,
    /// Its head has a million headers.
    PoursHeaders,
}

impl Mode {
    pub(crate) const ALL: [Self; 11] = [
        Self::NeverAccepts,
        Self::NeverReads,
        Self::NeverAnswers,
        Self::DribblesHead,
        Self::DribblesBody,
        Self::Resets,
        Self::BreaksOff,
        Self::StallsHandshake,
        Self::BadCertificate,
        Self::PoursBody,
        Self::PoursHeaders,
    ];

    /// Tells whether it would last for ever without a deadline.
    pub(crate) fn hangs(self) -> bool {
        match self {
            Self::NeverAccepts
            | Self::NeverReads
            | Self::NeverAnswers
            | Self::DribblesHead
            | Self::DribblesBody
            | Self::StallsHandshake => true,
            Self::Resets
            | Self::BreaksOff
            | Self::BadCertificate
            | Self::PoursBody
            | Self::PoursHeaders => false,
        }
    }

    fn scheme(self) -> &'static str {
        if matches!(self, Self::StallsHandshake | Self::BadCertificate) { "https" } else { "http" }
    }
}

/// A bad receiver. It goes with this.
pub(crate) struct Bad {
    address: SocketAddr,
    mode: Mode,
    task: JoinHandle<()>,
    _filling: Vec<TcpStream>,
}

impl Bad {
    /// Starts one.
    pub(crate) async fn start(mode: Mode) -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let backlog = if mode == Mode::NeverAccepts { 1 } else { 1_024 };
        let listener = socket.listen(backlog)?;
        let address = listener.local_addr()?;
        let mut filling = Vec::new();
        if mode == Mode::NeverAccepts {
            fill(address, &mut filling).await;
        }
        let certificate = acceptor()?;
        let task = tokio::spawn(serve(listener, mode, certificate));
        Ok(Self { address, mode, task, _filling: filling })
    }

    /// Returns the URL of its endpoint.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}/", self.mode.scheme(), self.address)
    }
}

impl Drop for Bad {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes all places in the queue of connections. The one too many has to wait, and so do others.
async fn fill(address: SocketAddr, filling: &mut Vec<TcpStream>) {
    for _ in 0..FILLING {
        let connecting = tokio::time::timeout(DRIBBLE / 2, TcpStream::connect(address)).await;
        let Ok(Ok(stream)) = connecting else { return };
        filling.push(stream);
    }
}

fn acceptor() -> anyhow::Result<TlsAcceptor> {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der());
    let key = key.map_err(|text| anyhow::anyhow!(text)).context("the key is none")?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn serve(listener: TcpListener, mode: Mode, certificate: TlsAcceptor) {
    if mode == Mode::NeverAccepts {
        std::future::pending::<()>().await;
    }
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let certificate = certificate.clone();
            // However it ends, the sender has broken it off or was meant to.
            tokio::spawn(async move { drop(misbehave(stream, mode, certificate).await) });
        }
    }
}

async fn misbehave(
    mut stream: TcpStream,
    mode: Mode,
    certificate: TlsAcceptor,
) -> std::io::Result<()> {
    match mode {
        Mode::NeverAccepts => {}
        Mode::NeverReads => std::future::pending().await,
        Mode::NeverAnswers | Mode::StallsHandshake => loop {
            read_some(&mut stream).await?;
        },
        Mode::DribblesHead => {
            read_some(&mut stream).await?;
            dribble(&mut stream, b"HTTP/1.1 200 OK\r\nx-a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaa").await?;
        }
        Mode::DribblesBody => {
            read_some(&mut stream).await?;
            stream.write_all(b"HTTP/1.1 500 No\r\ncontent-length: 1000\r\n\r\n").await?;
            dribble(&mut stream, &[b'x'; 1_000]).await?;
        }
        Mode::Resets => {
            read_some(&mut stream).await?;
            stream.set_zero_linger()?;
        }
        Mode::BreaksOff => {
            read_some(&mut stream).await?;
            stream.write_all(b"HTTP/1.1 500 No\r\ncontent-length: 1000\r\n\r\nhalf").await?;
        }
        Mode::BadCertificate => drop(certificate.accept(stream).await?),
        Mode::PoursBody => {
            read_some(&mut stream).await?;
            stream.write_all(b"HTTP/1.1 500 No\r\ncontent-length: 10000000000\r\n\r\n").await?;
            loop {
                stream.write_all(&[b'x'; 65_536]).await?;
            }
        }
        Mode::PoursHeaders => {
            read_some(&mut stream).await?;
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            for number in 0..HEADERS {
                stream.write_all(format!("x-header-{number}: value\r\n").as_bytes()).await?;
            }
        }
    }
    Ok(())
}

/// Reads what has come; an error if nothing comes any more.
async fn read_some(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut some = [0; 65_536];
    match stream.read(&mut some).await? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

async fn dribble(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    for byte in bytes {
        stream.write_all(&[*byte]).await?;
        tokio::time::sleep(DRIBBLE).await;
    }
    Ok(())
}
