//! By way of a transaction pooler: after each transaction another connection, on which everything
//! that a session may remember has been discarded. The whole suite runs this way with
//! `REDIAL_TEST_POOLED=1 scripts/with-postgres cargo nextest run -p redial-store postgres::`.
//!
//! It is a pooler of our own, which knows as much of the protocol as it takes to see where a
//! transaction ends. Listening goes past it, as it has to with any such pooler.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::partition::Partition;
use store::Queue as _;
use store::conformance::Harness;
use store::postgres::{Postgres, Settings};
use store::queue::Call;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::server::{self, Schema, url};
use crate::{memory, model};

#[test]
fn a_store_behind_a_pooler_answers_like_the_reference() {
    model::check(64, memory::open, open);
}

#[tokio::test]
async fn who_hears_nothing_behind_a_pooler_looks_again_and_again() {
    let schema = Schema::create().await;
    let deaf = Postgres::connect(schema.settings(&start().await)).await.unwrap();
    for _ in 0..2 {
        let woken = tokio::time::timeout(Duration::from_secs(20), deaf.woken()).await;
        assert_eq!(woken.unwrap().unwrap(), everywhere());
    }
}

#[tokio::test]
async fn who_cannot_connect_to_listen_looks_once_a_second() {
    let schema = Schema::create().await;
    // Whoever connects there is never answered.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let listen_url = Some(schema.settings(&server::url_with_address(&address)).url);
    let settings = Settings { listen_url, ..schema.settings(&url()) };
    let deaf = Postgres::connect(settings).await.unwrap();
    let woken = async {
        for _ in 0..4 {
            assert_eq!(deaf.woken().await.unwrap(), everywhere());
        }
    };
    tokio::time::timeout(Duration::from_secs(10), woken).await.unwrap();
}

/// What counts as called while nothing can be heard.
fn everywhere() -> Call {
    Call::Work(Partition::all().collect())
}

/// How many connections to the server are kept for all clients together.
const CONNECTIONS: usize = 3;

/// The connections at rest, longest rest first. All clients of a pooler greet alike.
type Resting = Arc<Mutex<VecDeque<Messages>>>;

pub(super) async fn open() -> Harness {
    let schema = Arc::new(Schema::create().await);
    let pooled = start().await;
    let settings = || {
        let direct = schema.settings(&url());
        Settings { listen_url: Some(direct.url), ..schema.settings(&pooled) }
    };
    let store = Postgres::connect(settings()).await.unwrap();
    let other = Postgres::connect(settings()).await.unwrap();
    super::harness(schema, store, other)
}

/// Starts a pooler, and returns the server's URL by way of it.
async fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let resting = Resting::default();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(Messages::of(client), Arc::clone(&resting)));
        }
    });
    server::url_with_address(&format!("127.0.0.1:{port}"))
}

/// Serves one client until it goes. What it leaves half-done goes with its connection.
async fn serve(mut client: Messages, resting: Resting) -> Option<()> {
    let greeting = client.greeting().await?;
    let (first, welcome) = connect(&greeting).await?;
    client.send(&welcome).await?;
    resting.lock().unwrap().push_back(first);
    loop {
        let message = client.next().await?;
        if message[0] == b'X' {
            return None;
        }
        let rested = {
            let mut resting = resting.lock().unwrap();
            if resting.len() < CONNECTIONS { None } else { resting.pop_front() }
        };
        let mut server = match rested {
            Some(server) => server,
            None => connect(&greeting).await?.0,
        };
        transact(&mut client, &mut server, message).await?;
        server.send(&query("DISCARD ALL")).await?;
        server.until_ready().await?;
        resting.lock().unwrap().push_back(server);
    }
}

/// Carries messages until the server says that it is in no transaction and owes no answer.
async fn transact(client: &mut Messages, server: &mut Messages, first: Vec<u8>) -> Option<()> {
    let mut owed = u32::from(asks_for_an_answer(&first));
    server.send(&first).await?;
    loop {
        tokio::select! {
            message = client.next() => {
                let message = message?;
                owed += u32::from(asks_for_an_answer(&message));
                server.send(&message).await?;
            }
            message = server.next() => {
                let message = message?;
                client.send(&message).await?;
                if message[0] == b'Z' {
                    owed -= 1;
                    if owed == 0 && message[5] == b'I' {
                        return Some(());
                    }
                }
            }
        }
    }
}

/// A query and a sync are each answered with "ready".
fn asks_for_an_answer(message: &[u8]) -> bool {
    matches!(message[0], b'Q' | b'S')
}

/// Opens a connection, and returns it with what the server said until it was ready.
async fn connect(greeting: &[u8]) -> Option<(Messages, Vec<u8>)> {
    let mut server = Messages::of(TcpStream::connect(server::address()).await.ok()?);
    server.send(greeting).await?;
    let welcome = server.until_ready().await?;
    Some((server, welcome))
}

fn query(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len() + 5).unwrap();
    [b"Q", &length.to_be_bytes()[..], text.as_bytes(), b"\0"].concat()
}

/// A connection, message by message. What was read of a message stays here when nobody waits.
struct Messages {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Messages {
    fn of(stream: TcpStream) -> Self {
        // Messages are small and wait for each other.
        stream.set_nodelay(true).unwrap();
        Self { stream, read: Vec::new() }
    }

    async fn send(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).await.ok()
    }

    /// Reads the first message of a client, which has no kind in front.
    async fn greeting(&mut self) -> Option<Vec<u8>> {
        self.message(0).await
    }

    async fn next(&mut self) -> Option<Vec<u8>> {
        self.message(1).await
    }

    async fn until_ready(&mut self) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let message = self.next().await?;
            all.extend_from_slice(&message);
            if message[0] == b'Z' {
                return Some(all);
            }
        }
    }

    /// Reads a message whose length stands behind so many bytes, and counts itself.
    async fn message(&mut self, front: usize) -> Option<Vec<u8>> {
        loop {
            if let Some(length) = self.read.get(front..front + 4) {
                let length = u32::from_be_bytes(length.try_into().ok()?);
                let whole = front + usize::try_from(length).ok()?;
                if self.read.len() >= whole {
                    return Some(self.read.drain(..whole).collect());
                }
            }
            if self.stream.read_buf(&mut self.read).await.ok()? == 0 {
                return None;
            }
        }
    }
}
