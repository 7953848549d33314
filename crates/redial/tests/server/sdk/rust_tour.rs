//! The tour of the Rust SDK, in the steps that the scripts for the other languages take.
//!
//! Pages have a file of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use svix::api::*;
use svix::models::*;
use svix::webhooks::Webhook;
use tempfile::TempDir;

use super::process::Server;
use super::receiver::{Arrival, Receiver, eventually};
use crate::api::{ADMIN, Running};

pub(super) const APP: &str = "tour";
pub(super) const FIRST: &str = "first";

/// A server, a receiver, and the two ways to call the server.
pub(super) struct Tour {
    _server: Server,
    plain: Running,
    pub(super) svix: Svix,
    pub(super) receiver: Receiver,
}

pub(super) fn text(text: &str) -> String {
    text.to_owned()
}

fn texts(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().copied().map(text).collect()
}

/// Checks that a call was refused, with which status and code.
#[track_caller]
fn refused<T: std::fmt::Debug>(answer: svix::Result<T>, status: u16, code: &str) {
    let error = answer.unwrap_err();
    let svix::Error::Http(error) = error else { panic!("{error}") };
    assert_eq!((error.status.as_u16(), error.payload.unwrap().code.as_str()), (status, code));
}

/// Checks an arrival with both libraries that have one for Rust.
#[track_caller]
fn verify(arrival: &Arrival, secret: &str) {
    let Arrival { headers, body, .. } = arrival;
    Webhook::new(secret).unwrap().verify(body, headers).unwrap();
    standardwebhooks::Webhook::new(secret).unwrap().verify(body, headers).unwrap();
}

impl Tour {
    pub(super) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with further options, such as its database.
    pub(super) async fn start_with(options: &[&str]) -> Self {
        let options = [&["--allow-egress", "127.0.0.0/8"], options].concat();
        let server = Server::start(&options, ADMIN);
        let plain = Running::at(server.url().to_owned(), TempDir::new().unwrap());
        let server_url = Some(server.url().to_owned());
        let options = SvixOptions { server_url, ..SvixOptions::default() };
        let svix = Svix::new(text(ADMIN), Some(options));
        Self { _server: server, plain, svix, receiver: Receiver::start().await }
    }

    /// Makes an endpoint that listens at the path of its own name and is retried quickly.
    pub(super) async fn endpoint(&self, name: &str, change: impl FnOnce(&mut EndpointIn)) {
        let mut endpoint = EndpointIn::new(self.receiver.url(name));
        endpoint.uid = Some(text(name));
        change(&mut endpoint);
        let made = self.svix.endpoint().create(text(APP), endpoint, None).await.unwrap();
        assert!(made.id.starts_with("ep_") && made.uid.as_deref() == Some(name), "{made:?}");
        let schedule = json!({ "kind": "fixed", "waits": ["100ms"] });
        let quick = json!({ "policy": { "schedule": schedule, "max_attempts": 3 } });
        let path = format!("/app/{APP}/endpoint/{name}");
        self.plain.patch(&path, json!({ "policy": quick })).await.expect(200);
    }

    /// Sends a message and returns its id.
    pub(super) async fn send(&self, payload: Value) -> String {
        self.send_with(payload, |_| ()).await
    }

    async fn send_with(&self, payload: Value, change: impl FnOnce(&mut MessageIn)) -> String {
        let mut message = MessageIn::new(text("tour.began"), payload);
        change(&mut message);
        let made = self.svix.message().create(text(APP), message, None).await.unwrap();
        assert!(made.id.starts_with("msg_"), "{made:?}");
        made.id
    }

    /// Sends to the first endpoint until what arrives fits, and returns it. A change is on disk when
    /// it is answered, and reaches whoever sends a moment later.
    async fn takes_effect(&self, what: &str, fits: impl Fn(&Arrival) -> bool) -> Arrival {
        eventually(what, async || {
            let id = self.send(json!({})).await;
            Some(self.receiver.wait(FIRST, &id, 1).await.remove(0)).filter(&fits)
        })
        .await
    }

    async fn secret(&self, name: &str) -> String {
        self.svix.endpoint().get_secret(text(APP), text(name)).await.unwrap().key
    }

    /// Returns the newest attempts of an endpoint, the newest first.
    pub(super) async fn attempts(
        &self,
        name: &str,
        options: MessageAttemptListByEndpointOptions,
    ) -> Vec<MessageAttemptOut> {
        let attempts = self.svix.message_attempt();
        attempts.list_by_endpoint(text(APP), text(name), Some(options)).await.unwrap().data
    }

    pub(super) async fn create(&self) {
        let application =
            || ApplicationIn { uid: Some(text(APP)), ..ApplicationIn::new(text("Tour")) };
        let applications = self.svix.application();
        let made = applications.create(application(), None).await.unwrap();
        assert!(made.id.starts_with("app_"), "{made:?}");
        let again = applications.get_or_create(application(), None).await.unwrap();
        assert_eq!(again.id, made.id);
        refused(applications.create(application(), None).await, 409, "conflict");
        refused(applications.get(text("nobody")).await, 404, "not_found");
        self.endpoint(FIRST, |endpoint| endpoint.description = Some(text("the first"))).await;
        let found = self.svix.endpoint().get(text(APP), text(FIRST)).await.unwrap();
        assert_eq!((found.description.as_str(), found.disabled), ("the first", Some(false)));
    }

    pub(super) async fn upsert(&self) {
        let applications = self.svix.application();
        for name in ["other", "third"] {
            let fields =
                |shown| ApplicationIn { uid: Some(text(name)), ..ApplicationIn::new(text(shown)) };
            let made = applications.upsert(text(name), fields("Made")).await.unwrap();
            let changed = applications.upsert(text(name), fields("Changed")).await.unwrap();
            assert_eq!((changed.id, changed.name), (made.id, text("Changed")));
        }
        let patch = ApplicationPatch { name: Some(text("Patched")), ..ApplicationPatch::default() };
        assert_eq!(applications.patch(text("other"), patch).await.unwrap().name, "Patched");

        let fields = |description| EndpointUpsertIn {
            uid: Some(text("upserted")),
            description: Some(text(description)),
            channels: Some(texts(&["nowhere"])),
            ..EndpointUpsertIn::new(self.receiver.url("upserted"))
        };
        let endpoints = self.svix.endpoint();
        let upsert = async |description| {
            endpoints.upsert(text(APP), text("upserted"), fields(description)).await.unwrap()
        };
        let (made, changed) = (upsert("made").await, upsert("changed").await);
        assert_eq!((changed.id, changed.description), (made.id, text("changed")));
        let patch = EndpointPatch { disabled: Some(true), ..EndpointPatch::default() };
        let patched = endpoints.patch(text(APP), text("upserted"), patch).await.unwrap();
        assert_eq!((patched.disabled, patched.description.as_str()), (Some(true), "changed"));
    }

    pub(super) async fn event_types(&self) {
        let event_types = self.svix.event_type();
        let schemas = json!({ "1": { "type": "object", "examples": [{ "example": true }] } });
        let fields = |name| EventTypeIn {
            schemas: Some(schemas.clone()),
            ..EventTypeIn::new(text(name), text("made"))
        };
        for name in ["tour.a", "tour.b", "tour.c"] {
            assert_eq!(event_types.create(fields(name), None).await.unwrap().name, name);
        }
        refused(event_types.create(fields("tour.a"), None).await, 409, "event_type_exists");
        let upsert = EventTypeUpsertIn::new(text("changed"));
        let changed = event_types.upsert(text("tour.d"), upsert).await.unwrap();
        assert_eq!(changed.description, "changed");
        let patch =
            EventTypePatch { description: Some(text("patched")), ..EventTypePatch::default() };
        let patched = event_types.patch(text("tour.d"), patch).await.unwrap();
        assert_eq!(patched.description, "patched");
        assert_eq!(event_types.get(text("tour.a")).await.unwrap().schemas, Some(schemas));
        event_types.delete(text("tour.d"), None).await.unwrap();
        let example = EventExampleIn::new(text("tour.a"));
        let endpoints = self.svix.endpoint();
        let sent = endpoints.send_example(text(APP), text(FIRST), example, None).await.unwrap();
        let arrival = self.receiver.wait(FIRST, &sent.id, 1).await.remove(0);
        let body: Value = serde_json::from_slice(&arrival.body).unwrap();
        assert_eq!(body, json!({ "example": true }));
    }

    pub(super) async fn sending(&self) {
        let payload = json!({ "text": "ä€😀", "list": [1, 2.5, null] });
        let name = |message: &mut MessageIn| message.event_id = Some(text("event"));
        let id = self.send_with(payload.clone(), name).await;
        let arrival = self.receiver.wait(FIRST, &id, 1).await.remove(0);
        assert_eq!(serde_json::from_slice::<Value>(&arrival.body).unwrap(), payload);
        verify(&arrival, &self.secret(FIRST).await);

        let messages = self.svix.message();
        let shown = MessageGetOptions { with_content: Some(true) };
        let found = messages.get(text(APP), text("event"), Some(shown)).await.unwrap();
        assert_eq!((&found.id, &found.payload), (&id, &payload));
        let mut twin = MessageIn::new(text("tour.began"), json!({}));
        name(&mut twin);
        refused(messages.create(text(APP), twin, None).await, 409, "conflict");
        let once = async || {
            let idempotency_key = Some(text("once"));
            let options = MessageCreateOptions { idempotency_key, ..Default::default() };
            let message = MessageIn::new(text("tour.once"), json!({}));
            messages.create(text(APP), message, Some(options)).await.unwrap().id
        };
        assert_eq!(once().await, once().await);
    }

    pub(super) async fn filters(&self) {
        self.endpoint("typed", |it| it.event_types = Some(texts(&["tour.a"]))).await;
        self.endpoint("channelled", |it| it.channels = Some(texts(&["two"]))).await;
        let other = self.send(json!({})).await;
        let typed = self.send_with(json!({}), |it| it.event_type = text("tour.a")).await;
        let two = self.send_with(json!({}), |it| it.channels = Some(texts(&["two"]))).await;
        for (name, id) in [
            (FIRST, &other),
            (FIRST, &typed),
            (FIRST, &two),
            ("typed", &typed),
            ("channelled", &two),
        ] {
            self.receiver.wait(name, id, 1).await;
        }
        assert_eq!((self.receiver.at("typed").len(), self.receiver.at("channelled").len()), (1, 1));
        let listed = async |options| {
            let page = self.svix.message().list(text(APP), Some(options)).await.unwrap();
            page.data.into_iter().map(|message| message.id).collect::<Vec<_>>()
        };
        let options = MessageListOptions { channel: Some(text("two")), ..Default::default() };
        assert_eq!(listed(options).await, [two]);
        let event_types = Some(texts(&["tour.a", "no.such"]));
        let by_type = listed(MessageListOptions { event_types, ..Default::default() }).await;
        assert!(by_type.contains(&typed) && !by_type.contains(&other), "{by_type:?}");
    }

    pub(super) async fn retry_and_resend(&self) {
        self.receiver.answer(FIRST, &[503]);
        let id = self.send(json!({ "retry": "me" })).await;
        let arrivals = self.receiver.wait(FIRST, &id, 2).await;
        assert_eq!((arrivals[0].status, arrivals[1].status), (503, 204));
        assert_eq!(arrivals[0].body, arrivals[1].body);
        for arrival in &arrivals {
            verify(arrival, &self.secret(FIRST).await);
        }
        let failed = || MessageAttemptListByEndpointOptions {
            status_code_class: Some(StatusCodeClass::Code5xx),
            ..Default::default()
        };
        let attempts = self.attempts(FIRST, failed()).await;
        let seen: Vec<_> = attempts.iter().map(|it| (it.response_status_code, it.status)).collect();
        assert_eq!(seen, [(503, MessageStatus::Fail)]);
        let newest = eventually("the success is on record", async || {
            let newest = self.attempts(FIRST, Default::default()).await.remove(0);
            (newest.status == MessageStatus::Success).then_some(newest)
        });
        assert_eq!(newest.await.response_status_code, 204);

        let attempts = self.svix.message_attempt();
        attempts.resend(text(APP), id.clone(), text(FIRST), None).await.unwrap();
        let arrivals = self.receiver.wait(FIRST, &id, 3).await;
        assert_eq!(arrivals[0].body, arrivals[2].body);
        let by_hand = eventually("the resent one is on record, as asked for by hand", async || {
            let newest = self.attempts(FIRST, Default::default()).await.remove(0);
            (newest.trigger_type == MessageAttemptTriggerType::Manual).then_some(newest)
        });
        assert_eq!(by_hand.await.response_status_code, 204);
    }

    /// Waits for a replay to finish.
    async fn finished(&self, id: String, kind: BackgroundTaskType) {
        eventually(&format!("{kind} finishes"), async || {
            let task = self.svix.background_task().get(id.clone()).await.unwrap();
            assert_eq!(task.task, kind);
            (task.status == BackgroundTaskStatus::Finished).then_some(())
        })
        .await;
    }

    pub(super) async fn recover(&self) {
        self.endpoint("flaky", |_| ()).await;
        self.receiver.answer("flaky", &[500, 500, 500]);
        let since = self.svix.application().get(text(APP)).await.unwrap().created_at;
        let id = self.send(json!({ "lost": "and found" })).await;
        self.receiver.wait("flaky", &id, 3).await;
        let endpoints = self.svix.endpoint();
        let becomes = async |success, fail| {
            eventually(&format!("{success} succeeded, {fail} failed"), async || {
                let options = EndpointGetStatsOptions { since: Some(since), until: None };
                let counts = endpoints.get_stats(text(APP), text("flaky"), Some(options)).await;
                let counts = counts.unwrap();
                ((counts.success, counts.fail) == (success, fail)).then_some(())
            })
            .await;
        };
        becomes(0, 1).await;
        let recover = endpoints.recover(text(APP), text("flaky"), RecoverIn::new(since), None);
        self.finished(recover.await.unwrap().id, BackgroundTaskType::EndpointRecover).await;
        self.receiver.wait("flaky", &id, 4).await;
        becomes(1, 0).await;
        let counts = endpoints.get_attempt_stats(text(APP), text("flaky"), None).await.unwrap();
        assert!(counts.success <= 1 && counts.fail <= 3, "{counts:?}");
    }

    pub(super) async fn replay_missing(&self) {
        self.endpoint("absent", |_| ()).await;
        let since = self.svix.application().get(text(APP)).await.unwrap().created_at;
        let later = since + Duration::from_secs(600);
        let payload = json!({ "missing": true });
        let id = self.send_with(payload, |it| it.deliver_at = Some(later)).await;
        let path = format!("/app/{APP}/endpoint/absent/delivery");
        let page = self.plain.get(&path).await.expect(200);
        let delivery = page["data"][0]["id"].as_str().unwrap();
        let cancel = format!("/app/{APP}/delivery/{delivery}/cancel");
        self.plain.post(&cancel, Value::Null).await.expect(200);
        assert_eq!(self.receiver.at("absent").len(), 0);
        let endpoints = self.svix.endpoint();
        let (app, absent) = (|| text(APP), || text("absent"));
        let task = endpoints.replay_missing(app(), absent(), ReplayIn::new(since), None).await;
        self.finished(task.unwrap().id, BackgroundTaskType::EndpointReplay).await;
        self.receiver.wait("absent", &id, 1).await;
        // Other messages were missing too. What is still pending would not be replayed.
        let settled = format!("/app/{APP}/delivery/{delivery}");
        eventually("its delivery is settled", async || {
            let shown = self.plain.get(&settled).await.expect(200);
            (shown["state"] == "delivered").then_some(())
        })
        .await;
        let task = endpoints.bulk_replay(app(), absent(), BulkReplayIn::new(since), None).await;
        self.finished(task.unwrap().id, BackgroundTaskType::EndpointBulkReplay).await;
        self.receiver.wait("absent", &id, 2).await;
    }

    pub(super) async fn headers(&self) {
        let endpoints = self.svix.endpoint();
        let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| (text(name), text(value))).collect()
        };
        let set = pairs(&[("X-Colour", "blue"), ("Authorization", "Bearer hidden")]);
        endpoints.set_headers(text(APP), text(FIRST), EndpointHeadersIn::new(set)).await.unwrap();
        let patch = EndpointHeadersPatchIn {
            delete_headers: Some(vec![text("X-Colour")]),
            ..EndpointHeadersPatchIn::new(pairs(&[("X-Shape", "round")]))
        };
        endpoints.patch_headers(text(APP), text(FIRST), patch).await.unwrap();
        let shown = endpoints.get_headers(text(APP), text(FIRST)).await.unwrap();
        assert_eq!(shown.headers, pairs(&[("X-Shape", "round")]));
        assert!(shown.sensitive.iter().any(|name| name.eq_ignore_ascii_case("authorization")));
        let shaped = |arrival: &Arrival| !arrival.header("x-shape").is_empty();
        let arrival = self.takes_effect("the headers arrive", shaped).await;
        assert_eq!(arrival.header("x-shape"), "round");
        assert_eq!(arrival.header("authorization"), "Bearer hidden");
    }

    pub(super) async fn rotate(&self) {
        let old = self.secret(FIRST).await;
        let endpoints = self.svix.endpoint();
        let wish = EndpointSecretRotateIn::default();
        let answer = endpoints.rotate_secret(text(APP), text(FIRST), wish, None).await.unwrap();
        let new = self.secret(FIRST).await;
        assert_ne!(new, old);
        assert_eq!(answer.key, new);
        let twice = |arrival: &Arrival| arrival.header("webhook-signature").contains(' ');
        let arrival = self.takes_effect("two secrets sign", twice).await;
        verify(&arrival, &old);
        verify(&arrival, &new);
    }

    pub(super) async fn delete(&self) {
        let endpoints = self.svix.endpoint();
        endpoints.delete(text(APP), text(FIRST)).await.unwrap();
        refused(endpoints.get(text(APP), text(FIRST)).await, 404, "not_found");
        let event_types = self.svix.event_type();
        let forever = EventTypeDeleteOptions { expunge: Some(true) };
        event_types.delete(text("tour.a"), Some(forever)).await.unwrap();
        refused(event_types.get(text("tour.a")).await, 404, "not_found");
        let applications = self.svix.application();
        applications.delete(text(APP)).await.unwrap();
        refused(applications.get(text(APP)).await, 404, "not_found");
    }
}
