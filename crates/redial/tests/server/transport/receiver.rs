//! A receiver that follows a script, byte by byte, and remembers what it was sent.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::receiver;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An answer of two bytes.
pub(super) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// Which connection it came on, counted from 0.
    pub(super) connection: usize,
    /// The head, without the empty line at its end.
    pub(super) head: String,
    /// The body.
    pub(super) body: Vec<u8>,
}

impl Seen {
    /// Finds a header's value.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// One connection, in the hands of a script.
pub(super) struct Talk {
    /// The socket.
    pub(super) tcp: TcpStream,
    /// Which connection it is, counted from 0.
    pub(super) connection: usize,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Talk {
    /// Waits for a request; none if the sender has closed.
    pub(super) async fn request(&mut self) -> Option<Seen> {
        let seen = read_request(&mut self.tcp, self.connection).await?;
        self.seen.lock().unwrap().push(seen.clone());
        Some(seen)
    }

    /// Says something; tells whether the sender still listens.
    pub(super) async fn say(&mut self, text: impl AsRef<[u8]>) -> bool {
        self.tcp.write_all(text.as_ref()).await.is_ok()
    }

    /// Says something byte by byte.
    pub(super) async fn dribble(&mut self, text: &str) {
        for byte in text.as_bytes() {
            if !self.say([*byte]).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the sender has closed the connection.
    pub(super) async fn until_closed(&mut self) {
        let mut rest = [0; 1024];
        while matches!(self.tcp.read(&mut rest).await, Ok(1..)) {}
    }
}

/// Reads one request from anything.
pub(super) async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    connection: usize,
) -> Option<Seen> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut seen = Seen { connection, head, body: bytes.split_off(end + 4) };
    let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
    while seen.body.len() < length {
        if stream.read_buf(&mut seen.body).await.unwrap_or(0) == 0 {
            return None;
        }
    }
    Some(seen)
}

/// A receiver; dropping it closes its port.
pub(super) struct Receiver {
    /// Where it listens.
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    listening: receiver::Receiver,
}

impl Receiver {
    /// Starts a receiver that follows a script on each connection.
    pub(super) async fn start<Doing>(script: impl Fn(Talk) -> Doing + Send + 'static) -> Self
    where
        Doing: Future<Output = ()> + Send + 'static,
    {
        Self::at("127.0.0.1:0".parse().unwrap(), script).await
    }

    /// Starts a receiver at an address.
    pub(super) async fn at<Doing>(
        address: SocketAddr,
        script: impl Fn(Talk) -> Doing + Send + 'static,
    ) -> Self
    where
        Doing: Future<Output = ()> + Send + 'static,
    {
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let shared = Arc::clone(&seen);
        let listening = receiver::Receiver::at(address, move |tcp, connection| {
            script(Talk { tcp, connection, seen: Arc::clone(&shared) })
        });
        let listening = listening.unwrap();
        Self { address: listening.address(), seen, listening }
    }

    /// Starts a receiver that answers every request with the same bytes.
    pub(super) async fn saying(answer: impl Into<String>) -> Self {
        let answer: Arc<str> = answer.into().into();
        Self::start(move |mut talk| {
            let answer = Arc::clone(&answer);
            async move {
                while talk.request().await.is_some() {
                    talk.say(answer.as_bytes()).await;
                }
            }
        })
        .await
    }

    /// Returns how many connections were made.
    pub(super) fn connections(&self) -> usize {
        self.listening.connections()
    }

    /// Returns the requests so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns its URL.
    pub(super) fn url(&self) -> String {
        self.listening.url("/hook?token=t0k3n")
    }
}
