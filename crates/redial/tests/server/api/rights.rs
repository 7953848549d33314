//! What tokens of one application may do: each operation asks for one right, a portal's token has few of
//! them, and limits are raised by those alone that may.

use std::collections::BTreeMap;

use domain::rights::Right;
use http::Method;
use serde_json::{Value, json};

use super::specification::{self, Operation};
use super::{ADMIN, Running};

const FORBIDDEN: &str = "insufficient access";

/// Sends requests with one token, and says which of them it may not make.
async fn refused(server: &Running, token: &str, asked: &[(Method, String, Value)]) -> Vec<usize> {
    let mut refused = Vec::new();
    for (place, (method, path, body)) in asked.iter().enumerate() {
        let answered = server.ask(token, method.clone(), path, body).await;
        let status = answered.status.as_u16();
        assert!(status < 500 && status != 404, "{method} {path}: {answered:?}");
        if status == 403 {
            answered.refused(403, FORBIDDEN);
            refused.push(place);
        }
    }
    refused
}

/// One request for each right, and what only reads.
async fn one_of_each(server: &Running, app: &str) -> Vec<(Method, String, Value)> {
    let url = json!({ "url": "https://receiver.example/" });
    let endpoint = format!("/app/{app}/endpoint/{}", server.endpoint(app).await);
    let message = json!({ "eventType": "a", "payload": {} });
    vec![
        (Method::GET, format!("/app/{app}/endpoint"), Value::Null),
        (Method::POST, format!("/app/{app}/endpoint"), url),
        (Method::PATCH, endpoint.clone(), json!({ "policy": "github" })),
        (Method::GET, format!("{endpoint}/secret"), Value::Null),
        (Method::POST, format!("{endpoint}/secret/rotate"), json!({})),
        (Method::POST, format!("{endpoint}/recover"), json!({ "since": "2020-01-01T00:00:00Z" })),
        (Method::POST, format!("/app/{app}/msg"), message.clone()),
        (Method::POST, format!("/app/{app}/msg/batch"), json!([message])),
        (Method::DELETE, format!("/app/{app}/dead-letter?all=true"), Value::Null),
    ]
}

#[tokio::test]
async fn a_portals_token_neither_sends_nor_removes_unless_the_operator_says_so() {
    let server = Running::start().await;
    let app = server.application().await;
    let asked = one_of_each(&server, &app).await;
    let portal = server.portal(&app, json!({})).await;
    assert_eq!(refused(&server, &portal, &asked).await, [2, 6, 7, 8]);
    let reader = server.portal(&app, json!({ "readOnly": true })).await;
    assert_eq!(refused(&server, &reader, &asked).await, [1, 2, 3, 4, 5, 6, 7, 8]);
    // An operator's token for the same application is no wider unless it says what it may.
    let made = server.post("/token", json!({ "name": "x", "appId": app })).await.expect(201);
    assert_eq!(made["may"], json!(["endpoints", "view-secrets", "secrets", "replay"]));
    let usual = made["token"].as_str().unwrap();
    assert_eq!(refused(&server, usual, &asked).await, [2, 6, 7, 8]);
    let all = server.token(&app, false).await;
    assert_eq!(refused(&server, &all, &asked).await, [0; 0]);
}

#[tokio::test]
async fn what_the_operator_sets_counts_for_tokens_of_before() {
    let server = Running::with(&[("portal.may", "send,endpoints,policies")]).await;
    let app = server.application().await;
    let asked = one_of_each(&server, &app).await;
    let narrow = json!({ "capabilities": ["ViewBase", "ManageEndpoint", "CreateAttempts"] });
    let tokens = [server.portal(&app, json!({})).await, server.portal(&app, narrow).await];
    assert_eq!(refused(&server, &tokens[0], &asked).await, [3, 4, 5, 8]);
    assert_eq!(refused(&server, &tokens[1], &asked).await, [3, 4, 5, 6, 7, 8]);
    let exact = server.token_with(&app, &[Right::Purge]).await;
    let server = server.again(&[("portal.may", "")]).await;
    for token in &tokens {
        assert_eq!(refused(&server, token, &asked).await, [1, 2, 3, 4, 5, 6, 7, 8]);
    }
    assert_eq!(refused(&server, &exact, &asked).await, [1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test]
async fn capabilities_narrow_a_portals_token() {
    let server = Running::start().await;
    let app = server.application().await;
    let asked = one_of_each(&server, &app).await;
    let table: [(&[&str], &[usize]); 5] = [
        (&["ViewBase"], &[1, 2, 3, 4, 5, 6, 7, 8]),
        (&["ViewBase", "ViewEndpointSecret"], &[1, 2, 4, 5, 6, 7, 8]),
        (&["ViewBase", "ManageEndpointSecret"], &[1, 2, 5, 6, 7, 8]),
        (&["ViewBase", "CreateAttempts", "ManageTransformations"], &[1, 2, 3, 4, 6, 7, 8]),
        (&["ViewBase", "ManageEndpoint"], &[2, 5, 6, 7, 8]),
    ];
    for (capabilities, missing) in table {
        let token = server.portal(&app, json!({ "capabilities": capabilities })).await;
        assert_eq!(refused(&server, &token, &asked).await, missing, "{capabilities:?}");
    }
    let path = format!("/auth/app-portal-access/{app}");
    let wrong = server.post(&path, json!({ "capabilities": ["CreateAttempt"] })).await;
    assert!(wrong.invalid("body.capabilities").contains("did you mean `CreateAttempts`?"));
}

/// Asks every operation of the document with a token of each right. Nothing but the application is there.
#[tokio::test]
async fn each_operation_asks_for_the_right_that_the_document_names() {
    let server = Running::start().await;
    let app = server.application().await;
    let mut tokens = BTreeMap::new();
    for right in Right::ALL {
        tokens.insert(right, server.token_with(&app, &[right]).await);
    }
    let reader = server.token(&app, true).await;
    let document = specification::document(&server).await;
    let offered = |operation: &Operation| !operation.open && !operation.is_missing;
    let mut asked = 0;
    for operation in specification::operations(&document).into_iter().filter(offered) {
        let Operation { method, id, rights, .. } = &operation;
        // It ends the token that it is asked with.
        if id == "v1.authentication.logout" {
            continue;
        }
        let path = operation.path.replace("{app_id}", &app).replace(['{', '}'], "");
        let needed: Vec<Right> = rights.iter().map(|word| word.parse().unwrap()).collect();
        let ask = async |token: &str| {
            let answered = server.ask(token, method.clone(), &path, &json!({})).await;
            let status = answered.status.as_u16();
            assert!(status < 500, "{id}: {answered:?}");
            status == 403
        };
        let changes = *method != Method::GET;
        match &needed[..] {
            [] => {
                let why = "an operation that changes something names a right, or is for admins";
                assert!(!changes || operation.admin || operation.reads(), "{id}: {why}");
                assert_eq!(ask(&reader).await, operation.admin, "{id}");
            }
            [needed] => {
                assert!(ask(&reader).await, "{id}");
                for (right, token) in &tokens {
                    let implied = (*right, *needed) == (Right::Secrets, Right::ViewSecrets);
                    assert_eq!(ask(token).await, right != needed && !implied, "{id} {right:?}");
                    asked += 1;
                }
            }
            more => panic!("{id} asks for {more:?}"),
        }
    }
    assert!(asked > 100, "{asked}");
}

#[tokio::test]
async fn a_portals_token_raises_no_limit_and_keeps_what_the_operator_set() {
    let server = Running::start().await;
    let limited = json!({ "name": "x", "uid": "limited", "throttleRate": 20 });
    server.post("/app", limited).await.expect(201);
    let policy = json!({ "extends": "redial", "endpoint": { "in_flight": 4 } });
    let set = json!({ "name": "x", "uid": "set", "policy": policy });
    server.post("/app", set).await.expect(201);
    server.post("/app", json!({ "name": "x", "uid": "usual" })).await.expect(201);
    for (app, rate, in_flight) in [("limited", 20, 10), ("set", 1_000, 4), ("usual", 1_000, 10)] {
        let portal = server.portal(app, json!({})).await;
        let list = format!("/app/{app}/endpoint");
        let ask = async |method, path: &str, fields: Value| {
            let mut body = json!({ "url": "https://receiver.example/" });
            body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            server.ask(&portal, method, path, &body).await
        };
        for (field, most) in [("throttleRate", rate), ("inFlight", in_flight)] {
            let text = ask(Method::POST, &list, json!({ field: most + 1 })).await;
            let text = text.invalid(&format!("body.{field}"));
            assert!(text.starts_with(&format!("must be at most {most} ")), "{app}: {text}");
        }
        let within = json!({ "throttleRate": rate, "inFlight": in_flight, "uid": "own" });
        ask(Method::POST, &list, within).await.expect(201);
        let own = format!("{list}/own");
        let more = json!({ "throttleRate": rate + 1 });
        ask(Method::PATCH, &own, more.clone()).await.invalid("body.throttleRate");
        ask(Method::PUT, &own, more).await.invalid("body.throttleRate");
        let policy = json!({ "policy": "github" });
        ask(Method::PATCH, &own, policy.clone()).await.refused(403, FORBIDDEN);
        ask(Method::PUT, &format!("{list}/new"), policy).await.refused(403, FORBIDDEN);
        // What the operator gave it may be written back, and become less.
        let more = json!({ "throttleRate": 5_000, "inFlight": 50, "policy": "github" });
        let given = server.patch(&own, more).await.expect(200);
        ask(Method::PATCH, &own, given_back(&given)).await.expect(200);
        ask(Method::PATCH, &own, json!({ "inFlight": 49 })).await.expect(200);
        ask(Method::PATCH, &own, json!({ "inFlight": 50 })).await.invalid("body.inFlight");
        ask(Method::PATCH, &own, json!({ "policy": null })).await.refused(403, FORBIDDEN);
    }
    let admin = json!({ "url": "https://receiver.example/", "throttleRate": 9_000 });
    server.ask(ADMIN, Method::POST, "/app/limited/endpoint", &admin).await.expect(201);
}

/// Returns what a client that changes nothing writes back of an endpoint.
fn given_back(shown: &Value) -> Value {
    let fields = ["throttleRate", "inFlight", "policy", "description", "metadata"];
    fields.iter().map(|name| ((*name).to_owned(), shown[name].clone())).collect::<Value>()
}

#[tokio::test]
async fn secrets_are_set_by_tokens_that_may() {
    let server = Running::start().await;
    let app = server.application().await;
    let token = server.token_with(&app, &[Right::Endpoints]).await;
    let list = format!("/app/{app}/endpoint");
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let own = json!({ "url": "https://receiver.example/", "secret": secret });
    server.ask(&token, Method::POST, &list, &own).await.refused(403, FORBIDDEN);
    let path = format!("{list}/{}", server.endpoint(&app).await);
    server.ask(&token, Method::PUT, &path, &own).await.refused(403, FORBIDDEN);
    let patch = json!({ "secret": secret });
    server.ask(&token, Method::PATCH, &path, &patch).await.refused(403, FORBIDDEN);
    let both = server.token_with(&app, &[Right::Endpoints, Right::Secrets]).await;
    server.ask(&both, Method::PATCH, &path, &patch).await.expect(200);
    assert_eq!(server.get(&format!("{path}/secret")).await.expect(200)["key"], secret);
}

#[tokio::test]
async fn an_example_with_a_payload_of_its_own_is_a_message() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint/{}/send-example", server.endpoint(&app).await);
    let schema = json!({ "1": { "examples": [{ "n": 1 }, { "n": 2 }] } });
    let made = json!({ "name": "a.b", "schemas": schema });
    server.post("/event-type", made).await.expect(201);
    let portal = server.portal(&app, json!({})).await;
    let send = async |fields: Value| server.ask(&portal, Method::POST, &path, &fields).await;
    let second = send(json!({ "eventType": "a.b", "exampleIndex": 1 })).await.expect(200);
    assert_eq!(second["payload"], json!({ "n": 2 }));
    let beyond = send(json!({ "eventType": "a.b", "exampleIndex": 2 })).await;
    beyond.refused(400, "invalid_scheme");
    let own = json!({ "eventType": "a.b", "payload": { "n": 3 } });
    send(own.clone()).await.refused(403, FORBIDDEN);
    let sent = server.post(&path, own).await.expect(200);
    assert_eq!(sent["payload"], json!({ "n": 3 }));
}
