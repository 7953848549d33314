//! What is changed through one node is in force on every node: on a file, and on two nodes with one
//! database that share the endpoints between them.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;
use signature::{Profile, Verifier, VerifyingSecret};
use store::keys::Node;
use store::postgres::{Postgres, Settings};
use store::{Queue as _, Vault};

use super::Running;
use crate::sdk::database::Database;
use crate::sdk::receiver::{Arrival, Receiver, eventually};

/// How often each thing is changed.
const ROUNDS: usize = 6;
/// Deliveries to this machine are allowed, over plain HTTP.
const OPEN: [(&str, &str); 2] = [("allow_egress", "127.0.0.1"), ("egress.plain_http", "yes")];

/// Two ways to the same data, both of which send.
type Ways = [Arc<Running>; 2];

/// One node on a file, which is both ways, and two nodes on a database.
async fn sites(name: &str) -> [Ways; 2] {
    let alone = Arc::new(Running::sending(&OPEN).await);
    [[Arc::clone(&alone), alone], two_nodes(&Database::create(name).await).await]
}

async fn two_nodes(database: &Database) -> Ways {
    let options = [database.settings(), OPEN].concat();
    // One after the other: the first of them migrates.
    let first = Arc::new(Running::sending(&options).await);
    let second = Arc::new(Running::sending(&options).await);
    [first, second]
}

/// Makes an endpoint with a path of its own at the receiver; returns its own path at the API.
async fn endpoint(server: &Running, app: &str, receiver: &Receiver, name: &str) -> String {
    let body = json!({ "url": receiver.url(name) });
    let made = server.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
    format!("/app/{app}/endpoint/{}", made["id"].as_str().unwrap())
}

/// Sends a message through a node, and waits until it has arrived.
async fn delivered(server: &Running, app: &str, receiver: &Receiver, name: &str) -> Arrival {
    let message = server.message(app).await;
    receiver.wait(name, &message, 1).await.remove(0)
}

/// Tells whether what arrived is signed with a secret.
fn is_signed(arrival: &Arrival, secret: &str) -> bool {
    let secret: VerifyingSecret = secret.parse().unwrap();
    let verifier = Verifier::new(&[secret], &Profile::StandardWebhooks).unwrap();
    let header = |name: &str| arrival.headers.get(name).map(|value| value.as_bytes());
    let sent_at = arrival.header("webhook-timestamp").parse().unwrap();
    verifier.verify(header, &arrival.body, sent_at).is_ok()
}

#[tokio::test]
async fn a_secret_without_grace_signs_nothing_that_is_sent_after_the_answer() {
    for [here, there] in sites("rotations").await {
        let receiver = Receiver::start().await;
        let app = here.application().await;
        // Endpoints of both nodes, most likely.
        for number in 0..ROUNDS {
            let name = format!("rotated-{number}");
            let path = endpoint(&here, &app, &receiver, &name).await;
            let old = here.get(&format!("{path}/secret")).await.expect(200);
            let old = old["key"].as_str().unwrap().to_owned();
            assert!(is_signed(&delivered(&there, &app, &receiver, &name).await, &old));
            let body = json!({ "gracePeriodSeconds": 0 });
            let rotated = here.post(&format!("{path}/secret/rotate"), body).await.expect(200);
            assert_eq!(rotated.get("pending"), None, "both nodes are there: {rotated}");
            let arrival = delivered(&there, &app, &receiver, &name).await;
            assert!(is_signed(&arrival, rotated["key"].as_str().unwrap()));
            assert!(!is_signed(&arrival, &old));
        }
    }
}

#[tokio::test]
async fn nothing_is_sent_for_what_was_deleted_before_the_answer() {
    for [here, there] in sites("deletions").await {
        let receiver = Receiver::start().await;
        for round in 0..ROUNDS {
            let app = here.application().await;
            let (name, other) = (format!("deleted-{round}"), format!("control-{round}"));
            let path = endpoint(&here, &app, &receiver, &name).await;
            // Slowly enough that most of what is sent to it still waits when it is deleted.
            here.patch(&path, json!({ "throttleRate": 20 })).await.expect(200);
            for _ in 0..60 {
                there.message(&app).await;
            }
            eventually("some have arrived", async || (receiver.at(&name).len() > 3).then_some(()))
                .await;
            let path = if round % 2 == 0 { path } else { format!("/app/{app}") };
            assert_eq!(here.delete(&path).await.status, StatusCode::NO_CONTENT);
            // What had begun may still arrive; it is less than what an endpoint has in flight.
            let before = receiver.at(&name).len();
            // As many of another application take as long as all of these would have.
            let app = there.application().await;
            let control = endpoint(&there, &app, &receiver, &other).await;
            there.patch(&control, json!({ "throttleRate": 20 })).await.expect(200);
            for _ in 0..30 {
                there.message(&app).await;
            }
            let all = async || (receiver.at(&other).len() >= 30).then_some(());
            eventually("the others have arrived", all).await;
            let after = receiver.at(&name).len();
            assert!(after <= before + 10, "{after} instead of {before}");
        }
    }
}

#[tokio::test]
async fn what_is_pending_for_deleted_endpoints_is_dead_soon() {
    for [here, there] in sites("burials").await {
        // One after the other: waiting for the usual step of upkeep each time would take too long.
        let dead = async {
            for _ in 0..3 {
                let app = here.application().await;
                let path = format!("/app/{app}/endpoint/{}", here.endpoint(&app).await);
                here.post(&format!("{path}/pause"), json!({})).await.expect(200);
                let message = there.message(&app).await;
                here.delete(&path).await.expect(204);
                let shown = async || {
                    let letters = there.get(&format!("/app/{app}/dead-letter")).await.expect(200);
                    let letter = letters["data"].get(0)?;
                    assert_eq!(
                        (&letter["messageId"], &letter["cause"]),
                        (&json!(message), &json!("endpoint_deleted"))
                    );
                    Some(())
                };
                eventually("it is dead", shown).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(25), dead).await.unwrap();
    }
}

#[tokio::test]
async fn another_url_counts_on_every_node() {
    for [here, there] in sites("urls").await {
        let receiver = Receiver::start().await;
        let app = here.application().await;
        let path = endpoint(&here, &app, &receiver, "first").await;
        delivered(&there, &app, &receiver, "first").await;
        for round in 0..ROUNDS {
            let name = format!("moved-{round}");
            here.patch(&path, json!({ "url": receiver.url(&name) })).await.expect(200);
            let arrives = async || {
                there.message(&app).await;
                (!receiver.at(&name).is_empty()).then_some(())
            };
            eventually("one arrives there", arrives).await;
            let before = receiver.at(&name).len();
            for _ in 0..10 {
                delivered(&there, &app, &receiver, &name).await;
            }
            assert!(receiver.at(&name).len() >= before + 10);
        }
    }
}

#[tokio::test]
async fn other_profiles_count_on_every_node() {
    for [here, there] in sites("profiles").await {
        let receiver = Receiver::start().await;
        let app = here.application().await;
        let path = endpoint(&here, &app, &receiver, "signed").await;
        delivered(&there, &app, &receiver, "signed").await;
        let header =
            |arrival: &Arrival, round: usize| !arrival.header(&format!("x-sig-{round}")).is_empty();
        for round in 0..ROUNDS {
            let profile = format!("timestamped:X-Sig-{round}");
            let patch = json!({ "signatures": ["standard-webhooks", profile] });
            here.patch(&path, patch).await.expect(200);
            let arrives = async || {
                let arrived = delivered(&there, &app, &receiver, "signed").await;
                header(&arrived, round).then_some(())
            };
            eventually("one is signed so", arrives).await;
            for _ in 0..10 {
                let arrived = delivered(&there, &app, &receiver, "signed").await;
                assert!(header(&arrived, round), "{:?}", arrived.headers);
                let old = round.checked_sub(1).is_some_and(|before| header(&arrived, before));
                assert!(!old, "{:?}", arrived.headers);
            }
        }
    }
}

#[tokio::test]
async fn of_a_header_and_a_profile_of_one_name_at_the_same_moment_one_is_taken() {
    for [here, there] in sites("collisions").await {
        let app = here.application().await;
        for _ in 0..ROUNDS * 3 {
            let path = format!("/app/{app}/endpoint/{}", here.endpoint(&app).await);
            let own = format!("{path}/headers");
            let headers = json!({ "headers": { "X-Acme-Delivery": "1" } });
            let (profile, header) = tokio::join!(
                here.patch(&path, json!({ "signatures": ["branded:Acme"] })),
                there.put(&own, headers),
            );
            let answers = (profile.status.as_u16(), header.status.as_u16());
            assert!([(200, 422), (422, 204)].contains(&answers), "{answers:?}");
        }
    }
}

#[tokio::test]
async fn another_rate_of_an_application_counts_on_every_node() {
    let receiver = Receiver::start().await;
    for (number, [here, there]) in sites("rates").await.into_iter().enumerate() {
        let name = format!("limited-{number}");
        let app = here.application().await;
        endpoint(&here, &app, &receiver, &name).await;
        delivered(&there, &app, &receiver, &name).await;
        here.patch(&format!("/app/{app}"), json!({ "throttleRate": 5 })).await.expect(200);
        let shown = async || {
            let before = receiver.at(&name).len();
            for _ in 0..15 {
                there.message(&app).await;
            }
            let all = async || (receiver.at(&name).len() >= before + 15).then_some(());
            eventually("all have arrived", all).await;
            let second =
                |arrival: &Arrival| -> u64 { arrival.header("webhook-timestamp").parse().unwrap() };
            let arrived = receiver.at(&name);
            (second(&arrived[before + 14]) >= second(&arrived[before]) + 2).then_some(())
        };
        eventually("no more than five arrive in a second", shown).await;
    }
}

#[tokio::test]
async fn the_policy_of_an_event_type_counts_on_every_node() {
    for [here, there] in sites("policies").await {
        let receiver = Receiver::start().await;
        let app = here.application().await;
        endpoint(&here, &app, &receiver, "judged").await;
        let once = json!({ "extends": "redial", "policy": { "max_attempts": 1 } });
        let body = json!({ "name": "invoice.paid", "description": "x", "policy": once });
        here.post("/event-type", body).await.expect(201);
        let buried = async || {
            receiver.answer("judged", &[500]);
            let message = there.message(&app).await;
            let attempt = async || {
                let found = there.get(&format!("/app/{app}/attempt/msg/{message}")).await;
                found.expect(200)["data"].get(0).cloned()
            };
            eventually("it was tried", attempt).await;
            let dead = there.get(&format!("/app/{app}/dead-letter")).await.expect(200);
            (!dead["data"].as_array().unwrap().is_empty()).then_some(())
        };
        eventually("one attempt is all there are", buried).await;
    }
}

#[tokio::test]
async fn who_changes_something_is_told_when_a_node_does_not_say_that_it_knows() {
    let database = Database::create("pending").await;
    let [here, _there] = two_nodes(&database).await;
    let app = here.application().await;
    let receiver = Receiver::start().await;
    let path = endpoint(&here, &app, &receiver, "x").await;
    // A node that hangs: its lease is current, and it says nothing.
    let mut key = *b"trial-trial-trial-trial-trial-tr";
    let vault = Vault::new(&mut key, |bytes| bytes.fill(7));
    let hanging = Postgres::connect(Settings::new(database.url(), vault)).await.unwrap();
    let alive = async || hanging.renew(Node("a-node-that-hangs".to_owned())).await.unwrap();
    alive().await;
    let body = json!({ "gracePeriodSeconds": 0 });
    let rotated = here.post(&format!("{path}/secret/rotate"), body).await.expect(200);
    assert_eq!(rotated["pending"], true);
    let body = json!({ "gracePeriodSeconds": 60 });
    let rotated = here.post(&format!("{path}/secret/rotate"), body).await.expect(200);
    assert_eq!(rotated.get("pending"), None, "with a time of grace nothing is waited for");
    alive().await;
    let deleted = here.delete(&path).await.expect(202);
    assert_eq!(deleted, json!({ "status": "pending" }));
    here.get(&path).await.expect(404);
    alive().await;
    let path = format!("/app/{app}");
    assert_eq!(here.delete(&path).await.expect(202), json!({ "status": "pending" }));
    here.get(&path).await.expect(404);
}
