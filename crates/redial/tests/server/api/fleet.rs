//! Two nodes on one database: what is asked of both at once is done once.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http_body_util::Full;
use serde_json::{Value, json};

use super::{Answered, Running};
use crate::sdk::database::Database;

/// How often the two are asked at once. Each time they may or may not meet.
const ROUNDS: usize = 12;

/// Sooner than a claim runs out.
const SOON: Duration = Duration::from_secs(4);

/// Two nodes that send nothing.
struct Fleet {
    nodes: [Arc<Running>; 2],
}

impl Fleet {
    async fn start(name: &str) -> Self {
        let database = Database::create(name).await;
        // One after the other: the first of them migrates.
        let first = Running::with(&database.settings()).await;
        let second = Running::with(&database.settings()).await;
        Self { nodes: [Arc::new(first), Arc::new(second)] }
    }

    /// Asks both nodes the same with the same key, several times each, all at once.
    async fn ask(&self, path: &str, key: &str, body: &Value) -> Vec<Answered> {
        let mut asked = tokio::task::JoinSet::new();
        for node in self.nodes.iter().cycle().take(4) {
            let request = node.request(Method::POST, &format!("/api/v1{path}"));
            let request = request.header("idempotency-key", key);
            let request = request.body(Full::from(body.to_string())).unwrap();
            let node = Arc::clone(node);
            asked.spawn(async move { node.send(request).await });
        }
        asked.join_all().await
    }
}

/// Makes sure that all were answered alike, and returns the answer.
#[track_caller]
fn alike(answers: Vec<Answered>, status: u16) -> Value {
    let mut answers = answers.into_iter().map(|answer| answer.expect(status));
    let first = answers.next().unwrap();
    answers.for_each(|answer| assert_eq!(answer, first));
    first
}

#[tokio::test]
async fn the_same_key_on_two_nodes_does_it_once() {
    let fleet = Fleet::start("same_key").await;
    let [here, there] = &fleet.nodes;
    let app = here.application().await;
    for round in 0..ROUNDS {
        let endpoint = json!({ "url": "https://receiver.example/" });
        let key = format!("endpoint-{round}");
        let made = fleet.ask(&format!("/app/{app}/endpoint"), &key, &endpoint).await;
        let endpoint = alike(made, 201)["id"].as_str().unwrap().to_owned();
        // A second rotation would leave another secret than the one that was answered.
        let path = format!("/app/{app}/endpoint/{endpoint}/secret");
        let rotated = fleet.ask(&format!("{path}/rotate"), "rotate", &json!({})).await;
        let rotated = alike(rotated, 200);
        assert_eq!(there.get(&path).await.expect(200), rotated);
        let token = json!({ "name": format!("robot {round}") });
        let made = fleet.ask("/token", &format!("token-{round}"), &token).await;
        let token = alike(made, 201)["token"].as_str().unwrap().to_owned();
        there.ask(&token, Method::GET, "/app", &Value::Null).await.expect(200);
        let portal = fleet.ask(&format!("/auth/app-portal-access/{app}"), &key, &json!({})).await;
        alike(portal, 200);
    }
    let count = async |path: &str| {
        let page = there.get(&format!("{path}?limit=250")).await.expect(200);
        page["data"].as_array().unwrap().len()
    };
    assert_eq!(count(&format!("/app/{app}/endpoint")).await, ROUNDS);
    assert_eq!(count("/token").await, 2 * ROUNDS, "one for each round, and one for the portal");
}

#[tokio::test]
async fn what_failed_on_one_node_may_be_tried_on_the_other_at_once() {
    let fleet = Fleet::start("failed_key").await;
    let bad = fleet.ask("/app", "k", &json!({ "name": "" })).await;
    bad.into_iter().for_each(|answer| drop(answer.invalid("body.name")));
    let body = json!({ "name": "x" });
    let again = tokio::time::timeout(SOON, fleet.ask("/app", "k", &body));
    alike(again.await.expect("nobody waits for a claim that was given back"), 201);
}
