//! A stream whose other side may take its time, but not for ever.
//!
//! A client that asks and does not read the answer fills the buffers between us until a write waits. Hyper
//! waits with it as long as it takes; here such a write fails after a while, which ends the connection. What
//! the client reads meanwhile buys it time, at its least pace, until all that was to be written is.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::config::Pace;

/// A stream that waits only so long for a write.
pub(super) struct Patient<Stream = TcpStream> {
    stream: Stream,
    pace: Pace,
    /// Runs out when the client has read too slowly. Kept from write to write, because the timer is made on
    /// the heap.
    deadline: Pin<Box<Sleep>>,
    /// Whether a write has waited since all was written for the last time.
    waits: bool,
}

impl<Stream> Patient<Stream> {
    pub(super) fn new(stream: Stream, pace: Pace) -> Self {
        let deadline = Box::pin(tokio::time::sleep(pace.grace));
        Self { stream, pace, deadline, waits: false }
    }

    /// Passes on how a write went, unless it waits and the client has been too slow.
    fn limited(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = &polled {
            if self.waits
                && let Ok(bytes) = written
            {
                let until = self.deadline.deadline() + self.pace.worth(*bytes);
                self.deadline.as_mut().reset(until);
            }
            return polled;
        }
        if !self.waits {
            self.waits = true;
            self.deadline.set(tokio::time::sleep(self.pace.grace));
        }
        ready!(self.deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<Stream: AsyncRead + Unpin> AsyncRead for Patient<Stream> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<Stream: AsyncWrite + Unpin> AsyncWrite for Patient<Stream> {
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

    /// Is called when all was written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.waits = false;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const PACE: Pace = Pace { grace: Duration::from_secs(10), least: 10 };

    /// Writes a large answer to a client that reads so many bytes each second; tells how that ends.
    async fn written_to(bytes_a_second: usize) -> io::Result<()> {
        let (stream, mut client) = tokio::io::duplex(64);
        let mut patient = Patient::new(stream, PACE);
        let writes = async {
            patient.write_all(&[7; 2_000]).await?;
            patient.flush().await
        };
        let reads = async {
            let mut drop = vec![0; bytes_a_second];
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                client.read_exact(&mut drop).await.unwrap();
            }
        };
        tokio::select! {
            written = writes => written,
            () = reads => Ok(()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_may_read_slowly_but_not_more_slowly_than_its_pace() {
        for (bytes_a_second, fast) in [(1, false), (9, false), (11, true), (500, true)] {
            assert_eq!(written_to(bytes_a_second).await.is_ok(), fast, "{bytes_a_second}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_rests_between_answers_is_not_blamed_for_it() {
        let (stream, mut client) = tokio::io::duplex(64);
        let mut patient = Patient::new(stream, PACE);
        let answer = [7; 100];
        for _ in 0..3 {
            let writes = async {
                patient.write_all(&answer).await?;
                patient.flush().await
            };
            let reads = async {
                tokio::time::sleep(PACE.grace / 2).await;
                client.read_exact(&mut [0; 100]).await
            };
            let (written, _) = tokio::join!(writes, reads);
            written.unwrap();
            tokio::time::sleep(PACE.grace * 100).await;
        }
    }
}
