//! A delivery that waits shows why and until when, wherever it is shown.

use serde_json::{Value, json};

use super::Running;
use crate::sdk::receiver::{Receiver, eventually};

const OPEN: [(&str, &str); 2] = [("allow_egress", "127.0.0.1"), ("egress.plain_http", "yes")];

/// An endpoint of an application of its own.
struct Place<'a> {
    api: &'a Running,
    app: String,
    endpoint: String,
}

impl<'a> Place<'a> {
    async fn new(api: &'a Running, body: Value) -> Self {
        let app = api.application().await;
        let made = api.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
        Self { api, app, endpoint: made["id"].as_str().unwrap().to_owned() }
    }

    fn path(&self) -> String {
        format!("/app/{}/endpoint/{}", self.app, self.endpoint)
    }

    async fn post(&self, verb: &str) -> Value {
        self.api.post(&format!("{}/{verb}", self.path()), json!({})).await.expect(200)
    }

    async fn breaker(&self) -> Value {
        let health = self.api.get(&format!("{}/health", self.path())).await.expect(200);
        health["breaker"].clone()
    }

    /// Returns what holds the delivery of a message, and its next attempt: the same wherever it is shown.
    async fn shown(&self, message: &str) -> (String, Value) {
        let app = format!("/app/{}", self.app);
        let lists = [
            format!("{app}/delivery"),
            format!("{}/delivery", self.path()),
            format!("{}/msg", self.path()),
            format!("{app}/msg/{message}/endpoint"),
        ];
        let mut shown = Vec::new();
        let mut id = Value::Null;
        for list in lists {
            let page = self.api.get(&list).await.expect(200);
            let is_meant = |one: &&Value| {
                one["messageId"] == message || one["id"] == message || one["id"] == *self.endpoint
            };
            let one = page["data"].as_array().unwrap().iter().find(is_meant).unwrap().clone();
            if one["messageId"] == message {
                id = one["id"].clone();
            }
            shown.push(one);
        }
        let delivery = format!("{app}/delivery/{}", id.as_str().unwrap());
        shown.push(self.api.get(&delivery).await.expect(200));
        let mut told: Vec<(String, Value)> = shown
            .iter()
            .map(|one| (one["heldBy"].as_str().unwrap().to_owned(), one["nextAttempt"].clone()))
            .collect();
        // What is due now is due at the moment of each answer.
        if told.iter().all(|(held_by, _)| held_by == "queued") {
            told.iter_mut().for_each(|(_, next)| *next = json!(next.is_string()));
        }
        assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
        told.remove(0)
    }
}

fn moment(value: &Value) -> jiff::Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

/// Describes a message, to be delivered a day after a moment if one is given.
fn later(than: Option<&str>) -> Value {
    let than = than.map(|than| moment(&json!(than)) + jiff::SignedDuration::from_hours(24));
    json!({ "eventType": "a.b", "payload": {}, "deliverAt": than.map(|at| at.to_string()) })
}

fn held(by: &str, next: Value) -> (String, Value) {
    (by.to_owned(), next)
}

#[tokio::test]
async fn what_nothing_holds_is_due_now_or_at_its_time() {
    let api = Running::start().await;
    let place = Place::new(&api, json!({ "url": "https://receiver.example" })).await;
    let message = api.message(&place.app).await;
    assert_eq!(place.shown(&message).await, held("queued", json!(true)));
    let made = api.post(&format!("/app/{}/msg", place.app), later(None)).await.expect(202);
    let body = later(made["timestamp"].as_str());
    let made = api.post(&format!("/app/{}/msg", place.app), body.clone()).await.expect(202);
    let (held_by, next) = place.shown(made["id"].as_str().unwrap()).await;
    assert_eq!(held_by, "schedule");
    let [next, wanted] = [&next, &body["deliverAt"]].map(moment);
    assert_eq!(next, wanted);
}

#[tokio::test]
async fn what_a_person_holds_says_so_and_no_time() {
    let api = Running::start().await;
    let place = Place::new(&api, json!({ "url": "https://receiver.example" })).await;
    let message = api.message(&place.app).await;
    place.post("pause").await;
    assert_eq!(place.shown(&message).await, held("paused", Value::Null));
    place.post("resume").await;
    assert_eq!(place.shown(&message).await, held("queued", json!(true)));
    api.delete(&place.path()).await.expect(204);
    let page = api.get(&format!("/app/{}/delivery", place.app)).await.expect(200);
    let delivery = &page["data"][0];
    // Upkeep may have buried it by now.
    let told = (delivery["state"].as_str().unwrap(), &delivery["heldBy"]);
    assert!([("pending", &json!("deleted")), ("dead", &Value::Null)].contains(&told), "{page}");
}

#[tokio::test]
async fn what_waits_in_line_says_so() {
    let api = Running::start().await;
    let body = json!({ "url": "https://receiver.example", "fifo": true });
    let place = Place::new(&api, body).await;
    let (first, second) = (api.message(&place.app).await, api.message(&place.app).await);
    assert_eq!(place.shown(&first).await, held("queued", json!(true)));
    assert_eq!(place.shown(&second).await, held("fifo", Value::Null));
}

#[tokio::test]
async fn what_an_open_breaker_holds_waits_for_its_probe() {
    let (receiver, api) = (Receiver::start().await, Running::sending(&OPEN).await);
    receiver.answer("open", &[500; 100]);
    let place = Place::new(&api, json!({ "url": receiver.url("open") })).await;
    let mut message = String::new();
    for _ in 0..5 {
        message = api.message(&place.app).await;
    }
    eventually("the breaker opens", async || {
        (place.breaker().await["state"] == "open").then_some(())
    })
    .await;
    let until = place.breaker().await["until"].clone();
    assert!(until.is_string(), "{until}");
    let held_since = api.message(&place.app).await;
    for message in [message, held_since] {
        assert_eq!(place.shown(&message).await, held("breaker", until.clone()));
    }
}

#[tokio::test]
async fn what_a_retry_after_holds_waits_for_its_end() {
    let (receiver, api) = (Receiver::start().await, Running::sending(&OPEN).await);
    receiver.answer("paused", &[429]);
    receiver.retry_after("paused", "3600");
    let place = Place::new(&api, json!({ "url": receiver.url("paused") })).await;
    api.message(&place.app).await;
    let health = format!("{}/health", place.path());
    let until = eventually("the endpoint pauses", async || {
        let until = api.get(&health).await.expect(200)["pausedUntil"].clone();
        until.is_string().then_some(until)
    })
    .await;
    let second = api.message(&place.app).await;
    assert_eq!(place.shown(&second).await, held("retry_after", until));
}

#[tokio::test]
async fn what_is_settled_waits_for_nothing() {
    let (receiver, api) = (Receiver::start().await, Running::sending(&OPEN).await);
    let place = Place::new(&api, json!({ "url": receiver.url("done") })).await;
    let message = api.message(&place.app).await;
    receiver.wait("done", &message, 1).await;
    let delivery = eventually("it is delivered", async || {
        let page = api.get(&format!("{}/delivery", place.path())).await.expect(200);
        (page["data"][0]["state"] == "delivered").then(|| page["data"][0].clone())
    })
    .await;
    let told = (delivery.get("heldBy"), delivery.get("nextAttempt"));
    assert_eq!(told, (Some(&Value::Null), Some(&Value::Null)));
}
