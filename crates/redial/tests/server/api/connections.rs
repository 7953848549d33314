//! Who holds the connections when they run short: neither clients that show nothing, nor one customer's, keep others
//! out. Nothing times out in these tests but what they say.

use std::io;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{ADMIN, Running};

/// How long a test waits for what must happen soon.
const SOON: Duration = Duration::from_secs(20);
/// Nothing ends by itself.
const PATIENT: [(&str, &str); 2] =
    [("limits.header_timeout", "1h"), ("limits.request_timeout", "1h")];

/// A client by hand, on a connection of its own.
struct Client {
    stream: TcpStream,
}

impl Client {
    async fn connect(server: &Running) -> Self {
        let place = server.address().strip_prefix("http://").unwrap();
        Self { stream: TcpStream::connect(place).await.unwrap() }
    }

    /// Sends a request without a body, and returns the status of its answer.
    async fn ask(&mut self, token: &str, path: &str) -> io::Result<u16> {
        let head = format!(
            "GET /api/v1{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        self.stream.write_all(head.as_bytes()).await?;
        self.status().await
    }

    /// Reads an answer to its end, and returns its status.
    async fn status(&mut self) -> io::Result<u16> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await?);
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.stream.read_exact(&mut body).await?;
        Ok(head.split(' ').nth(1).unwrap().parse().unwrap())
    }

    /// Announces a message, and returns once the server has asked for its body, or has refused it.
    async fn begin_message(&mut self, app: &str, token: &str) -> u16 {
        let head = format!(
            "POST /api/v1/app/{app}/msg HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
             expect: 100-continue\r\ncontent-length: 100\r\n\r\n"
        );
        self.stream.write_all(head.as_bytes()).await.unwrap();
        self.status().await.unwrap()
    }

    /// Waits until the server closes the connection.
    async fn closed(&mut self) {
        // With a reset if something was on its way.
        drop(soon(self.stream.read_to_end(&mut Vec::new())).await);
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what).await.expect("it happens soon")
}

/// Starts a server with so few connections.
async fn with_few(connections: &str, options: &[(&str, &str)]) -> Running {
    let few = [("limits.connections", connections)];
    Running::with(&[&PATIENT[..], &few, options].concat()).await
}

/// Asks on a connection of its own, as somebody who comes new.
async fn newcomer(server: &Running, token: &str) -> u16 {
    let asking = async { Client::connect(server).await.ask(token, "/auth/whoami").await.unwrap() };
    soon(asking).await
}

#[tokio::test]
async fn clients_that_show_nothing_keep_nobody_out() {
    let server = with_few("8", &[]).await;
    let app = server.application().await;
    let token = server.token(&app, true).await;
    let mut known = Client::connect(&server).await;
    assert_eq!(known.ask(&token, "/auth/whoami").await.unwrap(), 200);
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(Client::connect(&server).await);
    }
    assert_eq!(newcomer(&server, ADMIN).await, 200);
    // Requests without a good token show nothing, either.
    for _ in 0..50 {
        let mut client = Client::connect(&server).await;
        let refused = soon(client.ask("nobody", "/auth/whoami")).await;
        assert!(refused.is_err() || refused.is_ok_and(|status| status == 401));
        silent.push(client);
    }
    assert_eq!(newcomer(&server, &token).await, 200);
    assert_eq!(soon(known.ask(&token, "/auth/whoami")).await.unwrap(), 200, "it was not closed");
}

#[tokio::test]
async fn a_customer_that_holds_all_connections_gives_up_the_one_that_rests_for_longest() {
    // One more is the operator's, who makes the tokens.
    let server = with_few("9", &[]).await;
    let (one, other) = (server.application().await, server.application().await);
    let (own, token) = (server.token(&one, true).await, server.token(&other, true).await);
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = Client::connect(&server).await;
        assert_eq!(client.ask(&own, "/auth/whoami").await.unwrap(), 200);
        clients.push(client);
    }
    // The first is used once more, and so the second rests for longest.
    assert_eq!(clients[0].ask(&own, "/auth/whoami").await.unwrap(), 200);
    let mut client = Client::connect(&server).await;
    assert_eq!(soon(client.ask(&token, "/auth/whoami")).await.unwrap(), 200);
    clients[1].closed().await;
    for place in [0, 7] {
        assert_eq!(soon(clients[place].ask(&own, "/auth/whoami")).await.unwrap(), 200);
    }
    assert_eq!(client.ask(&token, "/auth/whoami").await.unwrap(), 200);
}

#[tokio::test]
async fn requests_of_a_customer_that_stall_leave_room_for_others() {
    let limits = [("limits.requests_per_application", "4"), ("limits.lane_wait", "200ms")];
    let server = with_few("8", &limits).await;
    let (one, other) = (server.application().await, server.application().await);
    let (own, token) = (server.token(&one, false).await, server.token(&other, false).await);
    let mut stalled = Vec::new();
    for _ in 0..4 {
        let mut client = Client::connect(&server).await;
        assert_eq!(client.begin_message(&one, &own).await, 100);
        stalled.push(client);
    }
    for _ in 0..4 {
        assert_eq!(Client::connect(&server).await.begin_message(&one, &own).await, 429);
    }
    let refused = server.ask(&own, Method::GET, "/auth/whoami", &Value::Null).await;
    assert_eq!(refused.headers["retry-after"], "1");
    refused.refused(429, "too_many_requests");
    // Another customer and an operator have the rest, time and again.
    let path = format!("/app/{other}/msg");
    let message = json!({ "eventType": "a", "payload": {} });
    for _ in 0..10 {
        soon(server.ask(&token, Method::POST, &path, &message)).await.expect(202);
        assert_eq!(newcomer(&server, ADMIN).await, 200);
    }
    // Those in progress were not cut off, and give way when they end.
    for mut client in stalled {
        let body = format!("{message}{}", " ".repeat(100 - message.to_string().len()));
        client.stream.write_all(body.as_bytes()).await.unwrap();
        assert_eq!(soon(client.status()).await.unwrap(), 202);
    }
    assert_eq!(newcomer(&server, &own).await, 200);
}

#[tokio::test]
async fn an_address_has_a_share_unless_many_clients_share_it() {
    let share = [("limits.connections_per_address", "2"), ("limits.shared_addresses", "10.0.0.1")];
    let server = with_few("100", &share).await;
    let app = server.application().await;
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = Client::connect(&server).await;
        assert_eq!(soon(client.begin_message(&app, ADMIN)).await, 100);
        clients.push(client);
    }
    // Both are in progress, so a third is not let in.
    Client::connect(&server).await.closed().await;
    let first = &mut clients[0];
    let message = json!({ "eventType": "a", "payload": {} }).to_string();
    let body = format!("{message}{}", " ".repeat(100 - message.len()));
    first.stream.write_all(body.as_bytes()).await.unwrap();
    assert_eq!(soon(first.status()).await.unwrap(), 202);
    assert_eq!(newcomer(&server, ADMIN).await, 200);
    first.closed().await;
    // Loopback is exempt unless somebody says otherwise.
    let server = with_few("100", &[("limits.connections_per_address", "2")]).await;
    let mut clients = Vec::new();
    for _ in 0..5 {
        let mut client = Client::connect(&server).await;
        assert_eq!(soon(client.ask(ADMIN, "/auth/whoami")).await.unwrap(), 200);
        clients.push(client);
    }
    for mut client in clients {
        assert_eq!(soon(client.ask(ADMIN, "/auth/whoami")).await.unwrap(), 200);
    }
}

#[tokio::test]
async fn a_body_that_drips_is_answered_and_not_waited_for() {
    let pace = [("limits.header_timeout", "200ms"), ("limits.least_pace", "1MiB")];
    let server = Running::with(&pace).await;
    let app = server.application().await;
    let mut client = Client::connect(&server).await;
    let head = format!(
        "POST /api/v1/app/{app}/msg HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n\
         content-length: 1000000\r\n\r\n"
    );
    client.stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reading, mut writing) = client.stream.split();
    let drip = async {
        while writing.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut answer = [0; 12];
    let answered = reading.read_exact(&mut answer);
    let answered = tokio::select! {
        answered = soon(answered) => answered,
        () = drip => panic!("the connection was closed without a word"),
    };
    answered.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
}
