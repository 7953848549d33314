//! Name look-up, against a name server that the test plays.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::address::Settings;
use domain::outcome::{Outcome, Unreachable};
use redial::transport::{Resolver, Transport};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use super::receiver::{OK, Receiver};
use super::scene::{Scene, loopback, settings, took};

const IPV4: u16 = 1;

/// What the name server does with a question.
enum Reply {
    Addresses(Vec<Ipv4Addr>),
    NoSuchName,
    Failure,
    Silence,
}

struct NameServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<(String, u16)>>>,
    task: JoinHandle<()>,
}

impl NameServer {
    async fn start(reply: impl Fn(&str) -> Reply + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let names = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            let mut packet = [0; 1500];
            while let Ok((length, from)) = socket.recv_from(&mut packet).await {
                let (name, question) = read_question(&packet[..length]);
                names.lock().unwrap().push((name.clone(), kind(question)));
                if let Some(answer) = write_answer(&packet[..2], question, &reply(&name)) {
                    socket.send_to(&answer, from).await.unwrap();
                }
            }
        });
        Self { address, asked, task }
    }

    fn transport(&self, guard: Settings) -> Transport {
        Transport::new(settings(guard, Resolver::asking(&[self.address]).unwrap()))
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the name that is asked for, in lower case, and the bytes of the question.
fn read_question(packet: &[u8]) -> (String, &[u8]) {
    let (mut at, mut labels) = (12, Vec::new());
    while packet[at] != 0 {
        let end = at + 1 + usize::from(packet[at]);
        labels.push(String::from_utf8(packet[at + 1..end].to_vec()).unwrap());
        at = end;
    }
    (labels.join(".").to_ascii_lowercase(), &packet[12..at + 5])
}

fn kind(question: &[u8]) -> u16 {
    u16::from_be_bytes([question[question.len() - 4], question[question.len() - 3]])
}

fn write_answer(id: &[u8], question: &[u8], reply: &Reply) -> Option<Vec<u8>> {
    let (code, addresses) = match reply {
        Reply::Addresses(addresses) if kind(question) == IPV4 => (0, addresses.as_slice()),
        Reply::Addresses(_) => (0, &[][..]),
        Reply::NoSuchName => (3, &[][..]),
        Reply::Failure => (2, &[][..]),
        Reply::Silence => return None,
    };
    let count = u8::try_from(addresses.len()).unwrap();
    let mut answer = id.to_vec();
    answer.extend([0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0]);
    answer.extend(question);
    for address in addresses {
        // The question's name, an IPv4 address, the internet, 30 seconds, 4 bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}

#[tokio::test]
async fn a_name_is_asked_for_as_it_stands_and_remembered() {
    let server = NameServer::start(|_| Reply::Addresses(vec![Ipv4Addr::LOCALHOST])).await;
    let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let receiver = Receiver::saying(answer).await;
    let url = format!("http://hooks.example.com:{}/", receiver.address.port());
    let scene = Scene::with(&url, server.transport(loopback()));
    for _ in 0..3 {
        let record = scene.send().await;
        assert_eq!(record.outcome, Outcome::answered(200), "{:?}", record.error);
    }
    let asked = server.asked.lock().unwrap().clone();
    assert!(asked.iter().all(|(name, _)| name == "hooks.example.com"), "{asked:?}");
    assert_eq!(asked.iter().filter(|(_, kind)| *kind == IPV4).count(), 1, "{asked:?}");
}

#[tokio::test]
async fn a_private_address_from_the_name_server_is_blocked() {
    let server = NameServer::start(|_| Reply::Addresses(vec![[10, 0, 0, 7].into()])).await;
    let scene = Scene::with("https://hooks.example.com/", server.transport(Settings::default()));
    assert_eq!(scene.send().await.outcome, Outcome::Blocked);
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_told_from_a_server_that_fails() {
    for (fails, text) in
        [(false, "the name has no address"), (true, "the name servers did not answer")]
    {
        let reply = move |_: &str| if fails { Reply::Failure } else { Reply::NoSuchName };
        let server = NameServer::start(reply).await;
        let scene = Scene::with("https://gone.example.com/", server.transport(loopback()));
        let record = scene.send().await;
        assert_eq!(record.outcome, Outcome::Unreachable(Unreachable::Dns));
        assert_eq!(record.error.as_deref(), Some(text));
    }
}

#[tokio::test]
async fn a_silent_name_server_ends_at_the_deadline() {
    let server = NameServer::start(|_| Reply::Silence).await;
    let (connect, whole) = (Duration::from_millis(300), Duration::from_secs(60));
    let transport = server.transport(loopback());
    let scene = Scene::with("https://hooks.example.com/", transport).within(connect, whole);
    let record = scene.send().await;
    assert_eq!(record.outcome, Outcome::TimedOut);
    assert!(took(&record) >= connect && took(&record) < whole / 6, "{:?}", took(&record));
}

#[tokio::test]
async fn many_addresses_are_no_reason_to_dial_many() {
    let many = vec![Ipv4Addr::from([10, 0, 0, 7]); 30];
    let server = NameServer::start(move |_| {
        Reply::Addresses([many.as_slice(), &[Ipv4Addr::LOCALHOST]].concat())
    })
    .await;
    let receiver = Receiver::saying(OK).await;
    let url = format!("http://hooks.example.com:{}/", receiver.address.port());
    let record = Scene::with(&url, server.transport(loopback())).send().await;
    assert_eq!(record.outcome, Outcome::answered(200), "{:?}", record.error);
    assert_eq!(receiver.connections(), 1);
}
