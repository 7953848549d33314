//! Who may do what: admins, applications, readers, strangers.

use http::Method;
use serde_json::{Value, json};

use super::{ADMIN, Running};

#[tokio::test]
async fn without_a_token_that_works_nothing_is_done() {
    let server = Running::start().await;
    for token in ["", "nonsense", "rdl_0123456789abcdef_x", "admin-token-of-the-test"] {
        let answered = server.ask(token, Method::GET, "/app", &Value::Null).await;
        assert_eq!(answered.headers["www-authenticate"], "Bearer");
        answered.refused(401, "authentication_failed");
    }
    server.ask(ADMIN, Method::GET, "/app", &Value::Null).await.expect(200);
}

#[tokio::test]
async fn an_applications_token_reaches_its_own_and_nothing_else() {
    let server = Running::start().await;
    let (own, other) = (server.application().await, server.application().await);
    let token = server.token(&own, false).await;
    let ask = async |method, path: &str, body: Value| server.ask(&token, method, path, &body).await;
    ask(Method::GET, &format!("/app/{own}"), Value::Null).await.expect(200);
    let endpoint = json!({ "url": "https://receiver.example/" });
    ask(Method::POST, &format!("/app/{own}/endpoint"), endpoint.clone()).await.expect(201);
    let message = json!({ "eventType": "a", "payload": {} });
    ask(Method::POST, &format!("/app/{own}/msg"), message.clone()).await.expect(202);
    ask(Method::GET, "/event-type", Value::Null).await.expect(200);
    ask(Method::GET, &format!("/app/{other}"), Value::Null).await.refused(404, "not_found");
    let foreign = format!("/app/{other}/endpoint");
    ask(Method::POST, &foreign, endpoint).await.refused(404, "not_found");
    ask(Method::POST, &format!("/app/{other}/msg"), message).await.refused(404, "not_found");
    ask(Method::GET, "/app", Value::Null).await.refused(403, "insufficient access");
    ask(Method::GET, "/token", Value::Null).await.refused(403, "insufficient access");
    let who = ask(Method::GET, "/auth/whoami", Value::Null).await.expect(200);
    assert_eq!(who["appId"], own);
}

#[tokio::test]
async fn a_token_that_may_only_read_changes_nothing_and_sees_no_secret() {
    let server = Running::start().await;
    let app = server.application().await;
    let endpoint = format!("/app/{app}/endpoint/{}", server.endpoint(&app).await);
    let token = server.token(&app, true).await;
    server.ask(&token, Method::GET, &endpoint, &Value::Null).await.expect(200);
    let forbidden = [
        (Method::DELETE, endpoint.clone()),
        (Method::PATCH, endpoint.clone()),
        (Method::POST, format!("/app/{app}/msg")),
        (Method::GET, format!("{endpoint}/secret")),
        (Method::POST, format!("{endpoint}/secret/rotate")),
    ];
    for (method, path) in forbidden {
        let answered = server.ask(&token, method, &path, &json!({})).await;
        answered.refused(403, "insufficient access");
    }
    let precheck = format!("/app/{app}/msg/precheck/active");
    let body = json!({ "eventType": "a" });
    server.ask(&token, Method::POST, &precheck, &body).await.expect(200);
}

#[tokio::test]
async fn a_token_that_was_revoked_or_logged_out_is_over() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}");
    let works =
        async |token: &str| server.ask(token, Method::GET, &path, &Value::Null).await.status == 200;
    let made = server.post("/token", json!({ "name": "robot", "appId": app })).await.expect(201);
    let token = made["token"].as_str().unwrap();
    assert!(works(token).await);
    server.delete(&format!("/token/{}", made["id"].as_str().unwrap())).await.expect(204);
    assert!(!works(token).await);
    let portal = server.token(&app, false).await;
    assert!(works(&portal).await);
    server.ask(&portal, Method::POST, "/auth/logout", &json!({})).await.expect(204);
    assert!(!works(&portal).await);
    server.post("/auth/logout", json!({})).await.refused(403, "insufficient access");
    let (one, two) = (server.token(&app, false).await, server.token(&app, true).await);
    assert!(works(&one).await && works(&two).await);
    server.post(&format!("/auth/app/{app}/expire-all"), json!({})).await.expect(204);
    assert!(!works(&one).await && !works(&two).await);
}

#[tokio::test]
async fn a_token_has_a_name_that_can_be_read_and_works_for_a_while_or_for_ever() {
    let server = Running::start().await;
    let long = "ä".repeat(257);
    for name in ["", "  ", "..", "a\nb", "\u{1b}[31m", "a\u{202e}b", "\u{200b}", long.as_str()] {
        server.post("/token", json!({ "name": name })).await.invalid("body.name");
    }
    let expiries = [json!(0), json!(-1), json!(1.5), json!("1"), json!(u64::MAX), json!(1e30)];
    for expiry in expiries {
        let body = json!({ "name": "robot", "expiry": expiry });
        server.post("/token", body).await.invalid("body.expiry");
    }
    assert_eq!(server.get("/token").await.expect(200)["data"], json!([]));
    for expiry in [json!(1), Value::Null, json!(100 * 365 * 86_400_u64)] {
        let body = json!({ "name": "Jörgs Gerät", "expiry": expiry });
        let made = server.post("/token", body).await.expect(201);
        assert_eq!(made["expiresAt"].is_null(), expiry.is_null(), "{made}");
    }
}

#[tokio::test]
async fn tokens_are_listed_without_what_makes_them_work() {
    let server = Running::start().await;
    let made = server.post("/token", json!({ "name": "robot" })).await.expect(201);
    let token = made["token"].as_str().unwrap();
    assert!(token.starts_with("rdl_"));
    let answered = server.get("/token").await;
    assert!(!answered.text.contains(token));
    let listed = answered.expect(200);
    assert_eq!(
        (&listed["data"][0]["id"], &listed["data"][0]["name"]),
        (&made["id"], &json!("robot"))
    );
    assert_eq!(server.ask(token, Method::GET, "/app", &Value::Null).await.status, 200);
}

#[tokio::test]
async fn a_portal_makes_the_application_if_it_is_told_to() {
    let server = Running::start().await;
    let path = "/auth/app-portal-access/fresh";
    server.post(path, json!({})).await.refused(404, "not_found");
    let body = json!({ "application": { "name": "x", "uid": "fresh" }, "featureFlags": [] });
    let made = server.post(path, body).await.expect(200);
    assert!(made["url"].as_str().unwrap().starts_with("http"));
    server.post("/auth/dashboard-access/fresh", Value::Null).await.expect(200);
    server.post(path, json!({ "expiry": 1 })).await.invalid("body.expiry");
}
