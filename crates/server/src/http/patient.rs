//! A stream whose other side may take its time, but not for ever.
//!
//! Whoever asks and does not read the answer fills the buffers between us until a write waits. Hyper
//! waits with it as long as it takes; here such a write fails, which ends the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// A stream that waits only so long for a write.
pub(super) struct Patient {
    stream: TcpStream,
    patience: Duration,
    /// Runs out when the write that waits has waited too long. Kept from write to write, because
    /// the timer is made on the heap.
    deadline: Pin<Box<Sleep>>,
    waits: bool,
}

impl Patient {
    pub(super) fn new(stream: TcpStream, patience: Duration) -> Self {
        let deadline = Box::pin(tokio::time::sleep(patience));
        Self { stream, patience, deadline, waits: false }
    }

    /// Passes on how a write went, unless it waits and has waited for too long.
    fn limited<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waits = false;
            return polled;
        }
        if !self.waits {
            self.waits = true;
            self.deadline.set(tokio::time::sleep(self.patience));
        }
        ready!(self.deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limited(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.limited(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
