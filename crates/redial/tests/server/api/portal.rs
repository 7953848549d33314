//! Tokens of a portal: which event types they see, and how they end by session.

use http::Method;
use serde_json::{Value, json};

use super::Running;

async fn event_types(server: &Running) {
    for (name, flags) in [("open", json!([])), ("beta", json!(["a", "b"])), ("early", json!(["c"]))]
    {
        let body = json!({ "name": name, "featureFlags": flags });
        server.post("/event-type", body).await.expect(201);
    }
}

async fn names(server: &Running, token: &str) -> Vec<String> {
    let page = server.ask(token, Method::GET, "/event-type", &Value::Null).await.expect(200);
    let names = page["data"].as_array().unwrap().iter();
    names.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn feature_flags_say_which_event_types_a_token_sees_and_uses() {
    let server = Running::start().await;
    event_types(&server).await;
    let app = server.application().await;
    let without = server.portal(&app, json!({})).await;
    let with = server.portal(&app, json!({ "featureFlags": ["b", "x"] })).await;
    let body = json!({ "name": "x", "appId": app, "featureFlags": ["c"] });
    let made = server.post("/token", body).await.expect(201);
    assert_eq!(made["featureFlags"], json!(["c"]));
    let granted = made["token"].as_str().unwrap();
    assert_eq!(names(&server, &without).await, ["open"]);
    assert_eq!(names(&server, &with).await, ["beta", "open"]);
    assert_eq!(names(&server, granted).await, ["early", "open"]);
    assert_eq!(names(&server, super::ADMIN).await, ["beta", "early", "open"]);

    let hidden = server.ask(&without, Method::GET, "/event-type/beta", &Value::Null).await;
    hidden.refused(404, "not_found");
    let seen = server.ask(&with, Method::GET, "/event-type/beta", &Value::Null).await.expect(200);
    assert_eq!(seen["featureFlags"], json!(["a", "b"]));

    let list = format!("/app/{app}/endpoint");
    let wants = |types: &[&str]| json!({ "url": "https://receiver.example/", "eventTypes": types });
    let refused = server.ask(&without, Method::POST, &list, &wants(&["open", "beta"])).await;
    let text = refused.invalid("body.eventTypes");
    assert_eq!(text, "The following event types don't exist: beta");
    let made = server.ask(&with, Method::POST, &list, &wants(&["open", "beta"])).await.expect(201);
    // What the endpoint has already stays, also when another token changes it.
    let path = format!("{list}/{}", made["id"].as_str().unwrap());
    server.ask(&without, Method::PATCH, &path, &wants(&["beta"])).await.expect(200);
    let more = server.ask(&without, Method::PATCH, &path, &wants(&["beta", "early"])).await;
    more.invalid("body.eventTypes");
    let example = json!({ "eventType": "early" });
    let sent = server.ask(&without, Method::POST, &format!("{path}/send-example"), &example).await;
    sent.refused(404, "not_found");
}

#[tokio::test]
async fn all_flags_of_an_event_type_are_kept() {
    let server = Running::start().await;
    let made = json!({ "name": "a", "featureFlag": "one", "featureFlags": ["two", "one"] });
    let made = server.post("/event-type", made).await.expect(201);
    assert_eq!(
        (&made["featureFlag"], &made["featureFlags"]),
        (&json!("one"), &json!(["one", "two"]))
    );
    let patched = json!({ "featureFlags": ["three", "four"] });
    let patched = server.patch("/event-type/a", patched).await.expect(200);
    assert_eq!(patched["featureFlags"], json!(["three", "four"]));
    let patched = server.patch("/event-type/a", json!({ "description": "x" })).await.expect(200);
    assert_eq!(patched["featureFlags"], json!(["three", "four"]));
    let cleared = server.patch("/event-type/a", json!({ "featureFlags": null })).await.expect(200);
    assert_eq!((&cleared["featureFlag"], &cleared["featureFlags"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn tokens_of_a_session_end_together_and_no_others() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}");
    let works =
        async |token: &str| server.ask(token, Method::GET, &path, &Value::Null).await.status == 200;
    let one = server.portal(&app, json!({ "sessionId": "monday" })).await;
    let two = server.portal(&app, json!({ "sessionId": "tuesday" })).await;
    let none = server.portal(&app, json!({})).await;
    let expire = format!("/auth/app/{app}/expire-all");
    let later = json!({ "sessionIds": ["tuesday"], "expiry": 3_600 });
    server.post(&expire, later).await.expect(204);
    server.post(&expire, json!({ "sessionIds": ["monday"] })).await.expect(204);
    assert!(!works(&one).await && works(&two).await && works(&none).await);
    let shown = server.get("/token").await.expect(200);
    let shown = shown["data"].as_array().unwrap();
    let tuesday = shown.iter().find(|token| token["sessionId"] == "tuesday").unwrap();
    assert_eq!((&tuesday["revokedAt"], tuesday["expiresAt"].is_string()), (&Value::Null, true));
    server.post(&expire, json!({ "expiry": u64::MAX })).await.invalid("body.expiry");
    let many: Vec<String> = (0..251).map(|number| number.to_string()).collect();
    server.post(&expire, json!({ "sessionIds": many })).await.invalid("body.sessionIds");
    server.post(&expire, json!({})).await.expect(204);
    assert!(!works(&two).await && !works(&none).await);
}

#[tokio::test]
async fn what_makes_no_sense_in_a_token_is_refused() {
    let server = Running::start().await;
    let app = server.application().await;
    let table = [
        (json!({ "may": ["send"] }), "body.may"),
        (json!({ "featureFlags": ["a"] }), "body.featureFlags"),
        (json!({ "appId": app, "may": ["sned"] }), "body.may"),
        (json!({ "appId": app, "may": ["send"], "readOnly": true }), "body.may"),
        (json!({ "appId": app, "sessionId": " " }), "body.sessionId"),
        (json!({ "appId": app, "featureFlags": ["a".repeat(1_025)] }), "body.featureFlags"),
    ];
    for (mut body, field) in table {
        body["name"] = json!("x");
        server.post("/token", body).await.invalid(field);
    }
    let whoami = async |token: &str| {
        let path = "/auth/whoami";
        server.ask(token, Method::GET, path, &Value::Null).await.expect(200)
    };
    let token = server.portal(&app, json!({ "capabilities": ["ViewEndpointSecret"] })).await;
    assert_eq!(whoami(&token).await["may"], json!(["view-secrets"]));
    assert_eq!(whoami(super::ADMIN).await["may"], Value::Null);
}
