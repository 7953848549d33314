//! Endpoints that change all the time, while messages are sent to their application.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::Running;

const MESSAGES: usize = 60;

/// Changes what an endpoint gets, again and again, until told to stop; counts what was refused.
async fn flip(server: Arc<Running>, token: String, path: String, on: Arc<AtomicBool>) -> usize {
    let mut refused = 0;
    for round in 0.. {
        if !on.load(Ordering::SeqCst) {
            return refused;
        }
        let body = json!({ "channels": [format!("channel-{}", round % 2)] });
        let answer = server.ask(&token, Method::PATCH, &path, &body).await;
        if answer.status == 429 {
            assert!(answer.headers.contains_key("retry-after"));
            answer.refused(429, "too_many_requests");
            refused += 1;
            tokio::task::yield_now().await;
        } else {
            answer.expect(200);
        }
    }
    refused
}

/// Sends messages while an endpoint flips; returns how many changes were refused.
async fn send(tokens: &[&str], server: &Arc<Running>, app: &str) -> usize {
    let endpoint = server.endpoint(app).await;
    let on = Arc::new(AtomicBool::new(true));
    let mut flipping = JoinSet::new();
    for token in tokens {
        let path = format!("/app/{app}/endpoint/{endpoint}");
        flipping.spawn(flip(Arc::clone(server), (*token).to_owned(), path, Arc::clone(&on)));
    }
    let (mut senders, left) = (JoinSet::new(), Arc::new(AtomicUsize::new(MESSAGES)));
    for _ in 0..4 {
        let (server, left, app) = (Arc::clone(server), Arc::clone(&left), app.to_owned());
        senders.spawn(async move {
            let one_less = |left: usize| left.checked_sub(1);
            while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
                server.message(&app).await;
            }
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent.unwrap();
    }
    on.store(false, Ordering::SeqCst);
    flipping.join_all().await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_taken_in_however_often_the_endpoints_change() {
    let server = Arc::new(Running::start().await);
    let app = server.application().await;
    for _ in 0..20 {
        server.endpoint(&app).await;
    }
    assert_eq!(send(&[super::ADMIN], &server, &app).await, 0, "an operator is not held back");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_applications_fan_out_never_runs_on_anothers_time() {
    let server = Arc::new(Running::start().await);
    let (busy, quiet) = (server.application().await, server.application().await);
    let mut paths = Vec::new();
    for _ in 0..100 {
        paths.push(format!("/app/{busy}/endpoint/{}", server.endpoint(&busy).await));
    }
    server.endpoint(&quiet).await;
    let on = Arc::new(AtomicBool::new(true));
    let mut working = JoinSet::new();
    for path in paths.into_iter().take(2) {
        working.spawn(flip(Arc::clone(&server), super::ADMIN.to_owned(), path, Arc::clone(&on)));
    }
    let taken_in = Arc::new(AtomicUsize::new(0));
    for _ in 0..8 {
        let (server, app, on) = (Arc::clone(&server), busy.clone(), Arc::clone(&on));
        let taken_in = Arc::clone(&taken_in);
        working.spawn(async move {
            while on.load(Ordering::SeqCst) {
                server.message(&app).await;
                taken_in.fetch_add(1, Ordering::SeqCst);
            }
            0
        });
    }
    let mut beside = Vec::new();
    for _ in 0..10 {
        let before = taken_in.load(Ordering::SeqCst);
        server.message(&quiet).await;
        beside.push(taken_in.load(Ordering::SeqCst) - before);
    }
    on.store(false, Ordering::SeqCst);
    working.join_all().await;
    // Each waits for a commit or two, and eight at the most are in one of them.
    assert!(beside.iter().all(|passed| *passed <= 64), "{beside:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applications_own_tokens_change_its_endpoints_at_a_pace() {
    let options = [("limits.configuration_rate", "1")];
    let server = Arc::new(Running::with(&options).await);
    let app = server.application().await;
    let token = server.token(&app, false).await;
    let refused = send(&[token.as_str(); 4], &server, &app).await;
    assert!(refused > 0, "they were refused in time");
    let list = format!("/app/{app}/endpoint");
    let read = server.ask(&token, Method::GET, &list, &Value::Null).await.expect(200);
    let one = read["data"][0]["id"].as_str().unwrap().to_owned();
    // Reading and sending are not held back, nor is another application, nor an operator.
    let body = json!({ "eventType": "a.b", "payload": {} });
    server.ask(&token, Method::POST, &format!("/app/{app}/msg"), &body).await.expect(202);
    let other = server.application().await;
    let theirs = server.token(&other, false).await;
    let new = json!({ "url": "https://receiver.example/" });
    let path = format!("/app/{other}/endpoint");
    server.ask(&theirs, Method::POST, &path, &new).await.expect(201);
    server.patch(&format!("{list}/{one}"), json!({ "description": "x" })).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn resends_replays_and_refusals_keep_to_the_pace_of_changes() {
    let server = Running::with(&[("limits.configuration_rate", "1")]).await;
    let asked = [
        "msg/no-such-message/endpoint/no-such-endpoint/resend",
        "endpoint/no-such-endpoint/recover",
        "dead-letter/replay",
        "delivery/no-such-delivery/replay",
        "delivery/no-such-delivery/cancel",
    ];
    for path in asked {
        let app = server.application().await;
        let token = server.token(&app, false).await;
        let path = format!("/app/{app}/{path}");
        let first = server.ask(&token, Method::POST, &path, &json!({})).await.status;
        let mut status = first;
        for _ in 0..1_000 {
            status = server.ask(&token, Method::POST, &path, &json!({})).await.status;
            if status != first {
                break;
            }
        }
        assert_eq!((first == 429, status.as_u16()), (false, 429), "{path}: {first}");
        let admin = server.ask(super::ADMIN, Method::POST, &path, &json!({})).await.status;
        assert_eq!(admin, first, "{path}: an operator is not held back");
    }
}
