//! A uid that moves from one application to another: a message goes to the one that bears it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::Method;
use http_body_util::Full;
use serde_json::{Value, json};

use super::{Answered, Running};
use crate::sdk::database::Database;

/// How often the uid moves there and back.
const ROUNDS: usize = 60;
const SENDERS: usize = 3;

/// Two applications, of which one bears the uid `cust`.
struct Pair {
    ids: [String; 2],
}

impl Pair {
    async fn make(server: &Running) -> Self {
        let mut ids = Vec::new();
        for uid in ["cust", "other"] {
            let made = server.post("/app", json!({ "name": uid, "uid": uid })).await.expect(201);
            ids.push(made["id"].as_str().unwrap().to_owned());
        }
        Self { ids: ids.try_into().unwrap() }
    }

    /// Takes the uid from one application and gives it to the other.
    async fn give(&self, server: &Running, to: usize) {
        let path = |which: usize| format!("/app/{}", self.ids[which]);
        let old = json!({ "uid": format!("cust-old-{to}") });
        server.patch(&path(1 - to), old).await.expect(200);
        server.patch(&path(to), json!({ "uid": "cust" })).await.expect(200);
    }

    /// Makes sure that a message is in one application and not in the other.
    async fn find(&self, server: &Running, message: &str, bearer: usize) {
        let path = |which: usize| format!("/app/{}/msg/{message}", self.ids[which]);
        server.get(&path(bearer)).await.expect(200);
        server.get(&path(1 - bearer)).await.refused(404, "not_found");
    }
}

fn message() -> Value {
    json!({ "eventType": "a.b", "payload": {} })
}

fn id(answer: Answered) -> String {
    answer.expect(202)["id"].as_str().unwrap().to_owned()
}

/// Sends to the uid until told to stop. A message that was sent while the uid stayed where it was must
/// be in the application that bore it.
async fn send(server: Arc<Running>, pair: Arc<Pair>, moves: Arc<AtomicUsize>, on: Arc<AtomicBool>) {
    while on.load(Ordering::SeqCst) {
        let before = moves.load(Ordering::SeqCst);
        let answer = server.post("/app/cust/msg", message()).await;
        // While it moves nobody bears it for a moment.
        if answer.status == 404 {
            continue;
        }
        let message = id(answer);
        // An odd count says that it is being moved.
        if before.is_multiple_of(2) && moves.load(Ordering::SeqCst) == before {
            pair.find(&server, &message, before / 2 % 2).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_goes_to_the_application_that_bears_the_uid_however_often_it_moves() {
    let server = Arc::new(Running::start().await);
    let pair = Arc::new(Pair::make(&server).await);
    let (moves, on) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..SENDERS {
        let (server, pair) = (Arc::clone(&server), Arc::clone(&pair));
        senders.spawn(send(server, pair, Arc::clone(&moves), Arc::clone(&on)));
    }
    for _ in 0..ROUNDS {
        // Back at once: who looks the name up after the first move keeps it after the second.
        for to in [1, 0] {
            moves.fetch_add(1, Ordering::SeqCst);
            pair.give(&server, to).await;
            moves.fetch_add(1, Ordering::SeqCst);
        }
        let sent = id(server.post("/app/cust/msg", message()).await);
        pair.find(&server, &sent, 0).await;
    }
    on.store(false, Ordering::SeqCst);
    while let Some(sent) = senders.join_next().await {
        sent.unwrap();
    }
}

#[tokio::test]
async fn a_uid_that_moved_on_one_node_has_moved_on_the_other() {
    let database = Database::create("moved_uid").await;
    let here = Running::with(&database.settings()).await;
    let there = Running::with(&database.settings()).await;
    let pair = Pair::make(&here).await;
    let tokens = [here.token(&pair.ids[0], false).await, here.token(&pair.ids[1], false).await];
    let path = "/app/cust/msg";
    let own = async |which: usize| {
        let token: &str = &tokens[which];
        there.ask(token, Method::POST, path, &message()).await
    };
    pair.find(&here, &id(there.post(path, message()).await), 0).await;
    pair.find(&here, &id(own(0).await), 0).await;
    own(1).await.refused(404, "not_found");
    let keyed = async |body: &Value| {
        let request = there.request(Method::POST, "/api/v1/app/cust/msg");
        let request = request.header("idempotency-key", "k");
        there.send(request.body(body.to_string().into()).unwrap()).await
    };
    let first = id(keyed(&message()).await);
    assert_eq!(id(keyed(&message()).await), first);
    for round in 1..=3 {
        pair.give(&here, round % 2).await;
        // Whoever asks first, the owner of the uid, an admin, or its owner until now.
        if round == 1 {
            pair.find(&here, &id(own(1).await), 1).await;
        }
        pair.find(&here, &id(there.post(path, message()).await), round % 2).await;
        pair.find(&here, &id(own(round % 2).await), round % 2).await;
        own(1 - round % 2).await.refused(404, "not_found");
        // The key belongs to the application that used it.
        let repeated = id(keyed(&message()).await);
        pair.find(&here, &repeated, round % 2).await;
        assert_eq!(repeated == first, round % 2 == 0, "round {round}");
    }
    let batch = json!([message(), message()]);
    let sent = there.post("/app/cust/msg/batch", batch).await.expect(202);
    for sent in sent["results"].as_array().unwrap() {
        pair.find(&here, sent["id"].as_str().unwrap(), 1).await;
    }
    // Without an application of that name it is made on the way.
    here.patch(&format!("/app/{}", pair.ids[1]), json!({ "uid": "gone" })).await.expect(200);
    there.post(path, message()).await.refused(404, "not_found");
    let mut new = message();
    new["application"] = json!({ "name": "new", "uid": "cust" });
    let sent = id(there.post(path, new).await);
    here.get(&format!("/app/cust/msg/{sent}")).await.expect(200);
    here.get(&format!("/app/{}/msg/{sent}", pair.ids[1])).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_key_counts_anew_once_the_uid_leads_to_another_application() {
    let server = Running::start().await;
    let pair = Pair::make(&server).await;
    let keyed = async |path: &str, body: Value| {
        let path = format!("/api/v1/app/cust{path}");
        let request = server.request(Method::POST, &path).header("idempotency-key", "k");
        let request = request.header("content-type", "application/json");
        server.send(request.body(Full::from(body.to_string())).unwrap()).await
    };
    let endpoint = json!({ "url": "https://receiver.example/", "uid": "e" });
    let mut made = Vec::new();
    for bearer in [0, 1, 0] {
        let list = format!("/app/{}/endpoint", pair.ids[bearer]);
        for _ in 0..2 {
            let answer = keyed("/endpoint", endpoint.clone()).await.expect(201);
            let id = answer["id"].as_str().unwrap().to_owned();
            server.get(&format!("{list}/{id}")).await.expect(200);
            made.push(id);
        }
        let count = server.get(&list).await.expect(200)["data"].as_array().unwrap().len();
        assert_eq!(count, 1, "the second time nothing is done");
        if bearer == 0 && made.len() < 6 {
            pair.give(&server, 1).await;
        } else {
            pair.give(&server, 0).await;
        }
    }
    assert_eq!((&made[0], &made[2]), (&made[1], &made[3]));
    assert_eq!(made[4..], made[..2], "the first owner's answer is remembered");
    assert_ne!(made[0], made[2]);
    // A secret that was rotated for one owner is not told to the next.
    let first = keyed("/endpoint/e/secret/rotate", json!({})).await.expect(200);
    pair.give(&server, 1).await;
    let second = keyed("/endpoint/e/secret/rotate", json!({})).await.expect(200);
    assert_ne!(first["key"], second["key"]);
    let request = server.request(Method::POST, "/api/v1/app/cust/endpoint");
    let request = request.header("idempotency-key", "k").body(Full::default()).unwrap();
    let answer = server.send(request).await;
    assert!(!answer.headers.contains_key("redial-application"), "{:?}", answer.headers);
}
