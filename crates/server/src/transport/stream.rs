//! The bytes of a connection: plain or through TLS, and counted.
//!
//! The counts tell what nothing else does: whether any byte of a request has left, when the first
//! byte of an answer came, and when a request was written to its end. A connection that has been
//! idle is read once more, past the runtime: its peer may have closed it, or said in TLS that it
//! will, or said something that nobody asked for.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// How often an idle connection is read before it is taken for closed. TLS may have something to say
/// for itself, such as tickets for later handshakes; whoever says more than this is not idle.
const MOST_LOOKS: u32 = 16;

/// What has gone through a connection, TLS not counted.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    sent: AtomicU64,
    /// What `sent` was when everything written had been handed to the system.
    flushed: AtomicU64,
    received: AtomicU64,
    /// How many reads ask the system itself, until it has nothing more.
    suspicious: AtomicU32,
}

/// Where the counts stood when an exchange began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    sent: u64,
    received: u64,
}

impl Traffic {
    /// Remembers where the counts stand.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
        }
    }

    /// Tells whether something has come since.
    pub(super) fn received_since(&self, mark: Mark) -> bool {
        self.received.load(Ordering::Relaxed) > mark.received
    }

    /// Tells whether something was written since, and all of it handed to the system.
    pub(super) fn flushed_since(&self, mark: Mark) -> bool {
        let flushed = self.flushed.load(Ordering::Relaxed);
        flushed > mark.sent && flushed == self.sent.load(Ordering::Relaxed)
    }

    /// Makes the next read look at what has come meanwhile.
    pub(super) fn suspect(&self) {
        self.suspicious.store(MOST_LOOKS, Ordering::Relaxed);
    }
}

/// A TCP connection that can be asked what its peer has done meanwhile.
#[derive(Debug)]
pub(super) struct Socket {
    tcp: TcpStream,
    traffic: Arc<Traffic>,
}

impl Socket {
    /// Wraps a fresh connection.
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self { tcp, traffic: Arc::default() }
    }

    /// Reads what has come while the connection was idle; nothing if nothing has. It asks the system,
    /// not the runtime: the runtime learns of a closed connection only when it next looks at all its
    /// sockets, and a request sent until then would be lost. To look without reading is not enough:
    /// what waits may be the last word of TLS, and only TLS can tell.
    fn read_meanwhile(&self, buffer: &mut ReadBuf<'_>) -> Option<()> {
        let looks = self.traffic.suspicious.load(Ordering::Relaxed);
        let more = looks.checked_sub(1)?;
        self.traffic.suspicious.store(more, Ordering::Relaxed);
        if more == 0 {
            // Nothing read is the end of a stream.
            return Some(());
        }
        match recv(&self.tcp, buffer.initialize_unfilled(), RecvFlags::DONTWAIT) {
            Ok((_, received)) => {
                buffer.advance(received);
                Some(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.traffic.suspicious.store(0, Ordering::Relaxed);
                None
            }
            Err(_) => Some(()),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.read_meanwhile(buffer) {
            Some(()) => Poll::Ready(Ok(())),
            None => Pin::new(&mut self.tcp).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}

/// What HTTP is spoken over.
#[derive(Debug)]
pub(super) struct Stream {
    layer: Layer,
    traffic: Arc<Traffic>,
}

#[derive(Debug)]
enum Layer {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Stream {
    /// Speaks plain text.
    pub(super) fn plain(socket: Socket) -> Self {
        Self { traffic: Arc::clone(&socket.traffic), layer: Layer::Plain(socket) }
    }

    /// Speaks through TLS.
    pub(super) fn tls(stream: TlsStream<Socket>) -> Self {
        let traffic = Arc::clone(&stream.get_ref().0.traffic);
        Self { traffic, layer: Layer::Tls(Box::new(stream)) }
    }

    /// Returns its counts.
    pub(super) fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    fn count_sent(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(written)) = written {
            self.traffic.sent.fetch_add(*written as u64, Ordering::Relaxed);
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = match &mut self.layer {
            Layer::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Layer::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        let received = buffer.filled().len() - before;
        if received > 0 {
            self.traffic.received.fetch_add(received as u64, Ordering::Relaxed);
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.layer {
            Layer::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Layer::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        self.count_sent(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.layer {
            Layer::Plain(socket) => Pin::new(socket).poll_write_vectored(context, parts),
            Layer::Tls(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        };
        self.count_sent(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        match &self.layer {
            Layer::Plain(socket) => socket.is_write_vectored(),
            Layer::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.layer {
            Layer::Plain(socket) => Pin::new(socket).poll_flush(context),
            Layer::Tls(stream) => Pin::new(stream).poll_flush(context),
        };
        if let Poll::Ready(Ok(())) = flushed {
            let sent = self.traffic.sent.load(Ordering::Relaxed);
            self.traffic.flushed.store(sent, Ordering::Relaxed);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.layer {
            Layer::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Layer::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
