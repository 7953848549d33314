//! A receiver asks to be left alone for very long: how that is capped and shown, and what ends it.

use http::Method;
use serde_json::{Value, json};

use super::{ADMIN, Running};
use crate::sdk::database::Database;
use crate::sdk::receiver::{Receiver, eventually};

const OPEN: [(&str, &str); 2] = [("allow_egress", "127.0.0.1"), ("egress.plain_http", "yes")];
const DAY: u64 = 86_400;

/// An endpoint whose receiver has answered one message with Retry-After, and another that waits.
struct Paused {
    app: String,
    endpoint: String,
    name: String,
    first: String,
    second: String,
}

impl Paused {
    async fn start(api: &Running, receiver: &Receiver, name: &str, wish: &str) -> Self {
        let app = api.application().await;
        receiver.answer(name, &[429]);
        receiver.retry_after(name, wish);
        let body = json!({ "url": receiver.url(name) });
        let made = api.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
        let endpoint = made["id"].as_str().unwrap().to_owned();
        let first = api.message(&app).await;
        receiver.wait(name, &first, 1).await;
        let mut paused =
            Self { app, endpoint, name: name.to_owned(), first, second: String::new() };
        eventually("the pause is shown", async || paused.shown(api).await.get("pause").cloned())
            .await;
        paused.second = api.message(&paused.app).await;
        paused
    }

    fn path(&self) -> String {
        format!("/app/{}/endpoint/{}", self.app, self.endpoint)
    }

    /// Returns the endpoint as it is shown.
    async fn shown(&self, api: &Running) -> Value {
        api.get(&self.path()).await.expect(200)
    }

    /// Returns the delivery of a message as it is listed.
    async fn delivery(&self, api: &Running, message: &str) -> Value {
        let page = api.get(&format!("{}/delivery", self.path())).await.expect(200);
        let list = page["data"].as_array().unwrap().clone();
        list.into_iter().find(|it| it["messageId"] == message).unwrap()
    }

    async fn do_it(&self, api: &Running, way: Way, receiver: &Receiver) -> String {
        let (path, other) = (self.path(), format!("{}-moved", self.name));
        match way {
            Way::Reset => api.post(&format!("{path}/breaker/reset"), json!({})).await.expect(204),
            Way::Resume => api.post(&format!("{path}/resume"), json!({})).await.expect(200),
            Way::Enable => api.patch(&path, json!({ "disabled": false })).await.expect(200),
            Way::Patch | Way::Put => {
                let method = if way == Way::Patch { Method::PATCH } else { Method::PUT };
                let body = json!({ "url": receiver.url(&other) });
                api.ask(ADMIN, method, &path, &body).await.expect(200);
                return other;
            }
            Way::Retry => {
                let first = self.delivery(api, &self.first).await;
                let id = first["id"].as_str().unwrap();
                let path = format!("/app/{}/delivery/{id}/retry", self.app);
                api.post(&path, json!({})).await.expect(200)
            }
        };
        self.name.clone()
    }

    /// Waits until both messages have arrived, the first of them once more.
    async fn arrives(&self, receiver: &Receiver, at: &str) {
        let earlier = usize::from(at == self.name);
        receiver.wait(at, &self.first, 1 + earlier).await;
        receiver.wait(at, &self.second, 1).await;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Reset,
    Retry,
    Resume,
    Enable,
    Patch,
    Put,
}

impl Way {
    const ALL: [Self; 6] =
        [Self::Reset, Self::Retry, Self::Resume, Self::Enable, Self::Patch, Self::Put];
}

#[tokio::test]
async fn a_pause_ends_in_each_way_that_answers_success() {
    let (receiver, server) = (Receiver::start().await, Running::sending(&OPEN).await);
    for way in Way::ALL {
        let name = format!("{way:?}");
        let paused = Paused::start(&server, &receiver, &name, "99999999").await;
        let at = paused.do_it(&server, way, &receiver).await;
        paused.arrives(&receiver, &at).await;
        let shown = paused.shown(&server).await;
        assert!(shown.get("pause").is_none(), "{way:?}: {shown}");
    }
}

#[tokio::test]
async fn a_retry_of_one_delivery_also_sends_those_that_brought_the_pause() {
    let (receiver, server) = (Receiver::start().await, Running::sending(&OPEN).await);
    let paused = Paused::start(&server, &receiver, "other", "99999999").await;
    let second = paused.delivery(&server, &paused.second).await;
    let path = format!("/app/{}/delivery/{}/retry", paused.app, second["id"].as_str().unwrap());
    server.post(&path, json!({})).await.expect(200);
    paused.arrives(&receiver, "other").await;
}

#[tokio::test]
async fn a_reset_sends_all_that_wait_however_many_were_in_flight() {
    const MANY: usize = 120;
    let (receiver, server) = (Receiver::start().await, Running::sending(&OPEN).await);
    let app = server.application().await;
    let body = json!({ "url": receiver.url("many"), "inFlight": 200 });
    let made = server.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
    let path = format!("/app/{app}/endpoint/{}", made["id"].as_str().unwrap());
    let send = async |count: usize| {
        let messages = vec![json!({ "eventType": "a.b", "payload": {} }); count];
        server.post(&format!("/app/{app}/msg/batch"), json!(messages)).await.expect(202);
    };
    let arrived = async |count: usize| {
        eventually("they have arrived", async || {
            (receiver.at("many").len() >= count).then_some(())
        })
        .await;
    };
    // So many that it may have that many in flight.
    send(1_000).await;
    arrived(1_000).await;
    receiver.together("many", MANY);
    receiver.answer("many", &[429; MANY]);
    receiver.retry_after("many", "99999999");
    send(MANY).await;
    arrived(1_000 + MANY).await;
    let waits = async || {
        let list = format!("{path}/delivery?state=pending&limit=250");
        let page = server.get(&list).await.expect(200);
        let waiting = page["data"].as_array().unwrap().iter();
        waiting.filter(|it| it["attempts"] == 1 && it.get("pause").is_some()).count()
    };
    eventually("all of them wait", async || (waits().await == MANY).then_some(())).await;
    server.post(&format!("{path}/breaker/reset"), json!({})).await.expect(204);
    arrived(1_000 + 2 * MANY).await;
}

#[tokio::test]
async fn an_endpoint_that_is_enabled_again_starts_without_a_pause() {
    let (receiver, server) = (Receiver::start().await, Running::sending(&OPEN).await);
    let paused = Paused::start(&server, &receiver, "gone", "99999999").await;
    server.patch(&paused.path(), json!({ "disabled": true })).await.expect(200);
    server.patch(&paused.path(), json!({ "disabled": false })).await.expect(200);
    let third = server.message(&paused.app).await;
    receiver.wait("gone", &third, 1).await;
}

#[tokio::test]
async fn a_pause_is_ended_through_another_node_also_while_no_owner_is_there() {
    let receiver = Receiver::start().await;
    let database = Database::create("pauses").await;
    let options: Vec<_> = database.settings().into_iter().chain(OPEN).collect();
    let api = Running::with(&options).await;
    let mut owner = Running::sending(&options).await;
    for way in [Way::Reset, Way::Resume, Way::Patch] {
        let paused = Paused::start(&api, &receiver, &format!("{way:?}"), "99999999").await;
        let at = paused.do_it(&api, way, &receiver).await;
        paused.arrives(&receiver, &at).await;
    }
    let paused = Paused::start(&api, &receiver, "alone", "99999999").await;
    owner.stop().await;
    let at = paused.do_it(&api, Way::Enable, &receiver).await;
    let _next = Running::sending(&options).await;
    paused.arrives(&receiver, &at).await;
}

#[tokio::test]
async fn what_is_beyond_the_cap_is_kept_to_it_and_endpoint_delivery_and_attempt_say_so() {
    let (receiver, server) = (Receiver::start().await, Running::sending(&OPEN).await);
    // Too long, an epoch time by mistake, more than a number holds, and a date.
    let wishes =
        ["99999999", "1794000000", "99999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"];
    for (number, wish) in wishes.into_iter().enumerate() {
        let name = format!("far-{number}");
        let paused = Paused::start(&server, &receiver, &name, wish).await;
        let shown = paused.shown(&server).await;
        let because = &shown["pause"]["because"];
        assert_eq!(because["status"], 429, "{shown}");
        assert_eq!(because["retryAfter"]["keptToSeconds"], DAY, "{shown}");
        let text = shown["pause"]["text"].as_str().unwrap();
        assert!(text.contains("the policy allows 24h") && text.contains("reset"), "{text}");
        let health = server.get(&format!("{}/health", paused.path())).await.expect(200);
        assert_eq!(health["pausedUntil"], shown["pause"]["until"]);
        assert_eq!(health["pause"], shown["pause"]);
        for message in [&paused.first, &paused.second] {
            let delivery = paused.delivery(&server, message).await;
            assert_eq!(delivery["pause"]["because"], *because, "{delivery}");
        }
        let id = because["attemptId"].as_str().unwrap();
        let path = format!("/app/{}/msg/{}/attempt/{id}", paused.app, paused.first);
        let attempt = server.get(&path).await.expect(200);
        assert_eq!(attempt["retryAfter"], because["retryAfter"], "{attempt}");
    }
}

#[tokio::test]
async fn a_cap_of_the_policy_counts_and_what_asks_for_nothing_pauses_nothing() {
    let (receiver, server) = (Receiver::start().await, Running::sending(&OPEN).await);
    let app = server.application().await;
    let hour = json!({ "retry_after": { "honour": "longer", "on": "any", "cap": "1h" } });
    for (name, wish, kept) in [
        ("capped", "99999999", Some(3_600)),
        ("short", "1800", None),
        ("past", "Sun, 06 Nov 1994 08:49:37 GMT", None),
        ("zero", "0", None),
        ("garbage", "soon", None),
    ] {
        receiver.answer(name, &[503]);
        receiver.retry_after(name, wish);
        let body = json!({ "url": receiver.url(name), "policy": { "policy": hour } });
        let made = server.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
        let path = format!("/app/{app}/endpoint/{}", made["id"].as_str().unwrap());
        let message = server.message(&app).await;
        receiver.wait(name, &message, 1).await;
        let attempts = format!("/app/{app}/attempt/endpoint/{}", made["id"].as_str().unwrap());
        let attempt = eventually("the attempt is shown", async || {
            let page = server.get(&attempts).await.expect(200);
            page["data"].as_array().unwrap().first().cloned()
        })
        .await;
        let told = attempt["retryAfter"].get("keptToSeconds").and_then(Value::as_u64);
        assert_eq!(told, kept, "{name}: {attempt}");
        let pauses = server.get(&path).await.expect(200).get("pause").is_some();
        assert_eq!(pauses, ["capped", "short"].contains(&name), "{name}");
        server.delete(&path).await.expect(204);
    }
}
