//! A network that fails at the worst moment: a proxy in front of the server that does something to
//! the next COMMIT it sees.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::server;

/// What happens to the next COMMIT.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// It does not arrive, and the connection breaks.
    LoseQuestion,
    /// It takes effect, and the connection breaks before the answer.
    LoseAnswer,
    /// The connection stands still until somebody says so.
    Freeze(Arc<Notify>),
}

/// A proxy on a port of its own.
pub(crate) struct Proxy {
    port: u16,
    next: Arc<Mutex<Option<Fault>>>,
    struck: Arc<Notify>,
    /// How many of those who connect next are turned away.
    refused: Arc<Mutex<u32>>,
}

impl Proxy {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (next, struck) = (Arc::<Mutex<Option<Fault>>>::default(), Arc::<Notify>::default());
        let refused = Arc::<Mutex<u32>>::default();
        let turned_away = Arc::clone(&refused);
        let proxy = Self { port, next: Arc::clone(&next), struck: Arc::clone(&struck), refused };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if is_turned_away(&turned_away) {
                    continue;
                }
                let server = TcpStream::connect(server::address()).await.unwrap();
                tokio::spawn(carry(client, server, Arc::clone(&next), Arc::clone(&struck)));
            }
        });
        proxy
    }

    /// Returns the URL of the server, by way of this proxy.
    pub(crate) fn url(&self) -> String {
        server::url_with_address(&format!("127.0.0.1:{}", self.port))
    }

    /// Does this to the next COMMIT.
    pub(crate) fn strike(&self, fault: Fault) {
        *self.next.lock().unwrap() = Some(fault);
    }

    /// Turns away so many of those who connect from now on, as a server that restarts.
    pub(crate) fn refuse(&self, connections: u32) {
        *self.refused.lock().unwrap() = connections;
    }

    /// Waits until it was done.
    pub(crate) async fn struck(&self) {
        self.struck.notified().await;
    }
}

fn is_turned_away(refused: &Mutex<u32>) -> bool {
    let mut refused = refused.lock().unwrap();
    let before = *refused;
    *refused = before.saturating_sub(1);
    before > 0
}

/// Carries bytes in both directions until one side ends, or a fault ends both.
async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    next: Arc<Mutex<Option<Fault>>>,
    struck: Arc<Notify>,
) {
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                let commits = asked[..length].windows(7).any(|bytes| bytes == b"COMMIT\0");
                let fault = if commits { next.lock().unwrap().take() } else { None };
                if fault.is_some() {
                    struck.notify_one();
                }
                match fault {
                    Some(Fault::LoseQuestion) => return,
                    Some(Fault::LoseAnswer) => {
                        server.write_all(&asked[..length]).await.unwrap();
                        // The answer says that it has taken effect; nobody will hear it.
                        let heard = server.read(&mut answered).await.unwrap();
                        assert!(heard > 0, "the server has to answer");
                        return;
                    }
                    Some(Fault::Freeze(thaw)) => thaw.notified().await,
                    None => {}
                }
                if server.write_all(&asked[..length]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&answered[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
