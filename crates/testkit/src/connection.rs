//! A cheap HTTP client: it shares the cores with the server that it asks, so it does as little as can
//! be done and still be a client. It dials this machine and nothing else.

use std::net::Ipv4Addr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// One connection, with one request at a time.
#[derive(Debug)]
pub struct Connection {
    port: u16,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Connects to a port of this machine.
    pub async fn open(port: u16) -> anyhow::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        // The next request on a broken connection fails, and says so.
        tokio::spawn(async { drop(driver.await) });
        Ok(Self { port, sender })
    }

    /// Sends a request and returns the answer. A server closes a connection that was idle for long, so
    /// another one is opened if there is none any more before anything is written.
    pub async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<Response<Bytes>> {
        if self.sender.ready().await.is_err() {
            *self = Self::open(self.port).await?;
            self.sender.ready().await?;
        }
        let (head, mut body) = self.sender.send_request(request).await?.into_parts();
        let mut kept = Bytes::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            // Nearly every answer comes in one piece, and then nothing is copied.
            kept = if kept.is_empty() { data } else { [kept, data].concat().into() };
        }
        Ok(Response::from_parts(head, kept))
    }
}
