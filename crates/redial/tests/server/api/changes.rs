//! Changes at the same moment: none is lost, and who wants to be refused instead is. On a file, and
//! on two nodes with one database.

use std::sync::Arc;

use http::{Method, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{ADMIN, Answered, Running};
use crate::sdk::database::Database;
use crate::sdk::receiver::{Receiver, eventually};

/// How often two meet at the same row.
const ROUNDS: u32 = 15;

/// Two ways to the same data.
type Ways = [Arc<Running>; 2];

/// One node on a file, which is both ways, and two nodes on a database.
async fn sites(name: &str) -> [Ways; 2] {
    let alone = Arc::new(Running::start().await);
    let database = Database::create(name).await;
    // One after the other: the first of them migrates.
    let first = Arc::new(Running::with(&database.settings()).await);
    let second = Arc::new(Running::with(&database.settings()).await);
    [[Arc::clone(&alone), alone], [first, second]]
}

/// The same, with nodes that send to this machine.
async fn in_two_ways(name: &str) -> [Ways; 2] {
    let open = [("allow_egress", "127.0.0.1"), ("egress.plain_http", "yes")];
    let alone = Arc::new(Running::sending(&open).await);
    let database = Database::create(name).await;
    let options = [database.settings(), open].concat();
    // One after the other: the first of them migrates.
    let first = Arc::new(Running::sending(&options).await);
    let second = Arc::new(Running::sending(&options).await);
    [[Arc::clone(&alone), alone], [first, second]]
}

/// Sends two requests at once, each its own way, and returns what they answered.
async fn at_once(
    [here, there]: &Ways,
    one: (Method, &str, Value),
    two: (Method, &str, Value),
) -> (Answered, Answered) {
    tokio::join!(here.ask(ADMIN, one.0, one.1, &one.2), there.ask(ADMIN, two.0, two.1, &two.2))
}

/// Sends the same request many times at once, and returns what they answered.
async fn many_at_once(ways: &Ways, method: Method, path: &str, body: Value) -> Vec<Answered> {
    let mut asked = JoinSet::new();
    for node in ways.iter().cycle().take(10) {
        let (node, method) = (Arc::clone(node), method.clone());
        let (path, body) = (path.to_owned(), body.clone());
        asked.spawn(async move { node.ask(ADMIN, method, &path, &body).await });
    }
    asked.join_all().await
}

/// Sends a request with a header.
async fn with(
    server: &Running,
    (method, path, body): (Method, &str, Value),
    (name, value): (&str, &str),
) -> Answered {
    let request = server.request(method, &format!("/api/v1{path}")).header(name, value);
    let text = if body.is_null() { String::new() } else { body.to_string() };
    server.send(request.body(Full::from(text)).unwrap()).await
}

fn tag(answered: &Answered) -> String {
    let tag = answered.headers.get("etag").unwrap_or_else(|| panic!("no ETag: {answered:?}"));
    tag.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn of_two_patches_of_one_endpoint_at_once_none_is_lost() {
    for ways in sites("patches").await {
        let app = ways[0].application().await;
        let path = format!("/app/{app}/endpoint/{}", ways[0].endpoint(&app).await);
        for round in 0..ROUNDS {
            let one = json!({ "description": format!("number {round}") });
            let two = json!({ "throttleRate": round + 1 });
            let (one, two) =
                at_once(&ways, (Method::PATCH, &path, one), (Method::PATCH, &path, two)).await;
            one.expect(200);
            two.expect(200);
            let found = ways[0].get(&path).await.expect(200);
            assert_eq!(found["description"], format!("number {round}"));
            assert_eq!(found["throttleRate"], round + 1);
        }
    }
}

#[tokio::test]
async fn a_pause_and_a_disabling_beside_a_patch_hold() {
    for ways in sites("pauses").await {
        let app = ways[0].application().await;
        for round in 0..ROUNDS {
            let path = format!("/app/{app}/endpoint/{}", ways[0].endpoint(&app).await);
            let pause = (Method::POST, &*format!("{path}/pause"), Value::Null);
            let patch = json!({ "description": format!("number {round}") });
            let (paused, patched) = at_once(&ways, pause, (Method::PATCH, &path, patch)).await;
            assert_eq!(paused.expect(200)["state"], "paused");
            patched.expect(200);
            let found = ways[0].get(&path).await.expect(200);
            assert_eq!(
                (&found["state"], &found["description"]),
                (&json!("paused"), &json!(format!("number {round}")))
            );
            let disable = (Method::PATCH, &*path, json!({ "disabled": true }));
            let patch = (Method::PATCH, &*path, json!({ "metadata": { "round": "1" } }));
            let (disabled, patched) = at_once(&ways, disable, patch).await;
            disabled.expect(200);
            patched.expect(200);
            let found = ways[0].get(&path).await.expect(200);
            assert_eq!(
                (&found["state"], &found["metadata"]["round"]),
                (&json!("disabled"), &json!("1"))
            );
        }
    }
}

#[tokio::test]
async fn of_two_patches_of_headers_at_once_none_is_lost() {
    for ways in sites("headers").await {
        let app = ways[0].application().await;
        let path = format!("/app/{app}/endpoint/{}/headers", ways[0].endpoint(&app).await);
        for round in 0..10 {
            let set = |name: &str| json!({ "headers": { format!("{name}-{round}"): "1" } });
            let (one, two) = (set("x-plain"), set("x-other"));
            let (one, two) =
                at_once(&ways, (Method::PATCH, &path, one), (Method::PATCH, &path, two)).await;
            one.expect(204);
            two.expect(204);
        }
        let found = ways[0].get(&path).await.expect(200);
        assert_eq!(found["headers"].as_object().unwrap().len(), 20, "{found}");
    }
}

#[tokio::test]
async fn of_two_patches_of_an_application_or_event_type_at_once_none_is_lost() {
    for ways in sites("others").await {
        let app = format!("/app/{}", ways[0].application().await);
        let event_type = "/event-type/a.b";
        ways[0].put(event_type, json!({ "description": "" })).await.expect(201);
        for round in 0..ROUNDS {
            let one = json!({ "name": format!("number {round}") });
            let two = json!({ "metadata": { "round": round.to_string() } });
            let (one, two) =
                at_once(&ways, (Method::PATCH, &app, one), (Method::PATCH, &app, two)).await;
            one.expect(200);
            two.expect(200);
            let found = ways[0].get(&app).await.expect(200);
            assert_eq!(found["name"], format!("number {round}"));
            assert_eq!(found["metadata"]["round"], round.to_string());
            let one = json!({ "description": format!("number {round}") });
            let two = json!({ "groupName": round.to_string() });
            let patch = |body| (Method::PATCH, event_type, body);
            let (one, two) = at_once(&ways, patch(one), patch(two)).await;
            one.expect(200);
            two.expect(200);
            let found = ways[0].get(event_type).await.expect(200);
            assert_eq!(found["description"], format!("number {round}"));
            assert_eq!(found["groupName"], round.to_string());
        }
    }
}

#[tokio::test]
async fn ten_puts_of_a_new_name_at_once_create_one() {
    for ways in sites("puts").await {
        let app = ways[0].application().await;
        for round in 0..5 {
            let name = format!("name-{round}");
            let table = [
                (format!("/app/{name}"), json!({ "name": "x" })),
                (format!("/app/{app}/endpoint/{name}"), json!({ "url": "https://r.example/" })),
                (format!("/event-type/{name}"), json!({ "description": "x" })),
            ];
            for (path, body) in table {
                let answers = many_at_once(&ways, Method::PUT, &path, body).await;
                let mut statuses: Vec<_> = answers.iter().map(|it| it.status.as_u16()).collect();
                statuses.sort_unstable();
                assert_eq!(statuses[9], 201, "{path}: {statuses:?}");
                assert!(statuses[..9].iter().all(|it| *it == 200), "{path}: {statuses:?}");
                let ids: Vec<_> = answers.iter().map(|it| it.json()["id"].clone()).collect();
                assert!(ids.iter().all(|id| *id == ids[0]), "{path}: {ids:?}");
            }
        }
        let listed = ways[1].get(&format!("/app/{app}/endpoint?limit=250")).await.expect(200);
        assert_eq!(listed["data"].as_array().unwrap().len(), 5);
        let listed = ways[1].get("/event-type?limit=250").await.expect(200);
        assert_eq!(listed["data"].as_array().unwrap().len(), 5);
    }
}

#[tokio::test]
async fn of_ten_changes_of_the_same_version_at_once_one_is_made() {
    for ways in sites("versions").await {
        let app = ways[0].application().await;
        let path = format!("/app/{app}/endpoint/{}", ways[0].endpoint(&app).await);
        for round in 0..ROUNDS {
            let known = tag(&ways[0].get(&path).await);
            let mut asked = JoinSet::new();
            for (number, node) in ways.iter().cycle().take(10).cloned().enumerate() {
                let (path, known) = (path.clone(), known.clone());
                let body = json!({ "description": format!("{round} by {number}") });
                asked.spawn(async move {
                    with(&node, (Method::PATCH, &path, body), ("if-match", &known)).await
                });
            }
            let answers = asked.join_all().await;
            let (made, refused): (Vec<_>, Vec<_>) =
                answers.into_iter().partition(|answer| answer.status == StatusCode::OK);
            assert_eq!(made.len(), 1, "{made:?}");
            let current = tag(&made[0]);
            for refused in refused {
                assert_eq!(tag(&refused), current);
                let text = refused.json()["detail"].as_str().unwrap().to_owned();
                assert!(text.contains(&current), "{text} names {current}");
                refused.refused(412, "precondition_failed");
            }
            assert_eq!(tag(&ways[1].get(&path).await), current);
        }
    }
}

#[tokio::test]
async fn an_etag_changes_with_each_change_and_only_then() {
    let server = Running::start().await;
    let app = server.application().await;
    let event_type = json!({ "name": "a.b", "description": "" });
    let made = server.post("/event-type", event_type).await;
    assert_eq!(tag(&made), tag(&server.get("/event-type/a.b").await));
    let path = format!("/app/{app}/endpoint/{}", server.endpoint(&app).await);
    let table = [
        (format!("/app/{app}"), json!({ "name": "other" })),
        (path.clone(), json!({ "description": "other" })),
        (format!("{path}/headers"), json!({ "headers": { "x-a": "1" } })),
        ("/event-type/a.b".to_owned(), json!({ "description": "other" })),
    ];
    for (path, patch) in table {
        let before = tag(&server.get(&path).await);
        let changed = server.patch(&path, patch.clone()).await;
        assert!(changed.status.is_success(), "{changed:?}");
        let after = tag(&changed);
        assert_ne!(before, after, "{path}");
        assert_eq!(tag(&server.get(&path).await), after, "{path}");
        assert_eq!(tag(&server.patch(&path, patch).await), after, "{path}: nothing changed");
    }
    for verb in ["pause", "resume", "secret/rotate"] {
        let before = tag(&server.get(&path).await);
        server.post(&format!("{path}/{verb}"), json!({})).await.expect(200);
        assert_ne!(tag(&server.get(&path).await), before, "{verb}");
    }
}

#[tokio::test]
async fn a_request_about_another_version_changes_nothing() {
    let server = Running::start().await;
    let app = server.application().await;
    let endpoint = format!("/app/{app}/endpoint/{}", server.endpoint(&app).await);
    server.put("/event-type/a.b", json!({ "description": "" })).await.expect(201);
    let resources = [
        (format!("/app/{app}"), json!({ "name": "other" })),
        (endpoint.clone(), json!({ "url": "https://other.example/" })),
        ("/event-type/a.b".to_owned(), json!({ "description": "other" })),
    ];
    for (path, body) in resources {
        let before = server.get(&path).await;
        let weak = format!("W/{}", tag(&before));
        for wrong in ["\"0123\"", "\"0123\", \"4567\"", &weak] {
            for method in [Method::PUT, Method::PATCH, Method::DELETE] {
                let body = if method == Method::DELETE { Value::Null } else { body.clone() };
                let refused = with(&server, (method, &path, body), ("if-match", wrong)).await;
                refused.refused(412, "precondition_failed");
            }
        }
        let exists = with(&server, (Method::PUT, &path, body.clone()), ("if-none-match", "*"));
        exists.await.refused(412, "precondition_failed");
        assert_eq!(server.get(&path).await.json(), before.json(), "{path}");
        let unquoted = tag(&before).replace('"', "");
        let request = (Method::PATCH, &*path, body.clone());
        with(&server, request, ("if-match", &unquoted)).await.refused(400, "generic_error");
        let either = format!("\"0123\", {}", tag(&before));
        with(&server, (Method::PATCH, &path, body), ("if-match", &either)).await.expect(200);
        let current = tag(&server.get(&path).await);
        let gone = with(&server, (Method::DELETE, &path, Value::Null), ("if-match", &current));
        if path == endpoint {
            let headers = format!("{path}/headers");
            let body = json!({ "headers": { "x-a": "1" } });
            let stale = tag(&before);
            let refused = with(&server, (Method::PUT, &headers, body), ("if-match", &stale)).await;
            refused.refused(412, "precondition_failed");
        } else if path.starts_with("/event-type") {
            gone.await.expect(204);
        }
    }
    let body = json!({ "url": "https://receiver.example/" });
    let new = format!("/app/{app}/endpoint/new");
    let missing = with(&server, (Method::PUT, &new, body.clone()), ("if-match", "*")).await;
    missing.refused(412, "precondition_failed");
    with(&server, (Method::PUT, &new, body), ("if-none-match", "*")).await.expect(201);
}

#[tokio::test]
async fn a_put_in_the_shape_of_the_sdks_keeps_what_they_do_not_know() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint/mine");
    let own = json!({
        "url": "https://receiver.example/", "description": "old", "throttleRate": 7,
        "channels": ["a"], "metadata": { "a": "1" },
        "fifo": true, "policy": "github", "signatures": ["svix"], "inFlight": 3,
        "credentials": { "kind": "bearer", "token": "t" }, "headers": { "x-a": "1" }
    });
    let made = server.put(&path, own.clone()).await.expect(201);
    let update = json!({ "url": "https://other.example/", "version": 1, "filterTypes": null });
    let replaced = server.put(&path, update).await.expect(200);
    for kept in ["id", "uid", "fifo", "policy", "signatures", "inFlight"] {
        assert_eq!(replaced[kept], made[kept], "{kept}");
    }
    let headers = server.get(&format!("{path}/headers")).await.expect(200);
    assert_eq!(headers["headers"], own["headers"]);
    // It still has credentials: a header with others cannot join them.
    let other = json!({ "headers": { "authorization": "x" } });
    server.patch(&format!("{path}/headers"), other).await.invalid("body.credentials");
    let cleared = [("description", json!("")), ("metadata", json!({}))];
    for (name, value) in cleared {
        assert_eq!(replaced[name], value, "{name}");
    }
    for name in ["throttleRate", "channels"] {
        assert_eq!(replaced[name], Value::Null, "{name}");
    }
    let without = json!({
        "url": "https://other.example/", "fifo": false, "policy": null, "signatures": [],
        "inFlight": null, "credentials": null, "headers": {}
    });
    let replaced = server.put(&path, without).await.expect(200);
    assert_eq!((&replaced["fifo"], &replaced["inFlight"]), (&json!(false), &Value::Null));
    assert!(replaced.get("policy").is_none() && replaced.get("signatures").is_none());
    let headers = server.get(&format!("{path}/headers")).await.expect(200);
    assert_eq!(headers["headers"], json!({}));
}

#[tokio::test]
async fn a_put_of_an_application_or_event_type_keeps_its_policy() {
    let server = Running::start().await;
    let table = [
        ("/app/mine", json!({ "name": "x", "policy": "github" }), json!({ "name": "y" })),
        (
            "/event-type/a.b",
            json!({ "description": "x", "policy": "github" }),
            json!({ "description": "y" }),
        ),
    ];
    for (path, whole, update) in table {
        server.put(path, whole).await.expect(201);
        assert_eq!(server.put(path, update.clone()).await.expect(200)["policy"], "github");
        let mut cleared = update;
        cleared["policy"] = Value::Null;
        assert!(server.put(path, cleared).await.expect(200).get("policy").is_none());
    }
}

#[tokio::test]
async fn a_put_that_does_not_say_so_enables_nothing() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint/mine");
    let body = json!({ "url": "https://receiver.example/" });
    server.put(&path, body.clone()).await.expect(201);
    server.patch(&path, json!({ "disabled": true })).await.expect(200);
    assert_eq!(server.put(&path, body.clone()).await.expect(200)["state"], "disabled");
    let enabled = json!({ "url": "https://receiver.example/", "disabled": false });
    assert_eq!(server.put(&path, enabled).await.expect(200)["state"], "active");
    server.post(&format!("{path}/pause"), Value::Null).await.expect(200);
    assert_eq!(server.put(&path, body).await.expect(200)["state"], "paused");
}

#[tokio::test]
async fn a_disabling_beside_a_put_is_not_lost() {
    for ways in sites("puts").await {
        let app = ways[0].application().await;
        let path = format!("/app/{app}/endpoint/{}", ways[0].endpoint(&app).await);
        for round in 0..ROUNDS {
            ways[0].patch(&path, json!({ "disabled": false })).await.expect(200);
            let disable = (Method::PATCH, &*path, json!({ "disabled": true }));
            let put = json!({ "url": format!("https://receiver.example/{round}") });
            let (disabled, changed) = at_once(&ways, disable, (Method::PUT, &path, put)).await;
            disabled.expect(200);
            changed.expect(200);
            assert_eq!(ways[0].get(&path).await.expect(200)["state"], "disabled");
        }
    }
}

#[tokio::test]
async fn a_put_by_id_does_not_bring_back_what_was_deleted() {
    let server = Running::start().await;
    let app = server.application().await;
    let list = format!("/app/{app}/endpoint");
    let path = format!("{list}/{}", server.endpoint(&app).await);
    let body = json!({ "url": "https://receiver.example/" });
    server.put(&path, body.clone()).await.expect(200);
    server.delete(&path).await.expect(204);
    server.put(&path, body).await.refused(404, "not_found");
    assert_eq!(server.get(&list).await.expect(200)["data"], json!([]));
    let path = format!("/app/{app}");
    server.delete(&path).await.expect(204);
    server.put(&path, json!({ "name": "x" })).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_put_sets_the_secret_that_it_names() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint/mine");
    let (one, two) =
        ("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let body = |secret: &str| json!({ "url": "https://receiver.example/", "secret": secret });
    server.put(&path, body("nonsense")).await.invalid("body.secret");
    server.get(&path).await.refused(404, "not_found");
    let secret = async || {
        let shown = server.get(&format!("{path}/secret")).await.expect(200);
        shown["key"].as_str().unwrap().to_owned()
    };
    server.put(&path, body(one)).await.expect(201);
    assert_eq!(secret().await, one);
    server.put(&path, body("nonsense")).await.invalid("body.secret");
    let before = tag(&server.get(&path).await);
    let same = server.put(&path, body(one)).await;
    assert_eq!((tag(&same), secret().await), (before, one.to_owned()));
    server.put(&path, body(two)).await.expect(200);
    assert_eq!(secret().await, two);
    server.put(&path, json!({ "url": "https://receiver.example/" })).await.expect(200);
    assert_eq!(secret().await, two, "what a PUT does not name stays");
}

#[tokio::test]
async fn a_disabling_by_the_receiver_beside_patches_holds() {
    let receiver = Receiver::start().await;
    let open = [("allow_egress", "127.0.0.1"), ("egress.plain_http", "yes")];
    let server = Running::sending(&open).await;
    let app = server.application().await;
    for round in 0..5 {
        let name = format!("gone-{round}");
        receiver.answer(&name, &[410]);
        let body = json!({ "url": receiver.url(&name) });
        let made = server.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
        let path = format!("/app/{app}/endpoint/{}", made["id"].as_str().unwrap());
        server.message(&app).await;
        let mut last = 0;
        let found = eventually("it is disabled", async || {
            last += 1;
            let patch = json!({ "description": format!("{round} {last}") });
            server.patch(&path, patch).await.expect(200);
            let found = server.get(&path).await.expect(200);
            (found["state"] == "disabled").then_some(found)
        })
        .await;
        assert_eq!(found["disabledReason"], "gone");
        assert_eq!(found["description"], format!("{round} {last}"));
        server.patch(&path, json!({ "metadata": { "a": "1" } })).await.expect(200);
        assert_eq!(server.get(&path).await.expect(200)["state"], "disabled");
    }
}

#[tokio::test]
async fn what_the_old_url_answers_after_a_change_does_not_disable_the_new_one() {
    for ways in in_two_ways("old_urls").await {
        let [here, there] = &ways;
        let receiver = Receiver::start().await;
        let (app, other) = (here.application().await, here.application().await);
        let mut paths = Vec::new();
        for app in [&app, &other] {
            let body = json!({ "url": receiver.url("old") });
            let made = here.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
            paths.push(format!("/app/{app}/endpoint/{}", made["id"].as_str().unwrap()));
        }
        // The answer waits until another is due at the same path.
        receiver.answer("old", &[410, 410]);
        receiver.together("old", 2);
        let first = here.message(&app).await;
        receiver.wait("old", &first, 1).await;
        there.patch(&paths[0], json!({ "url": receiver.url("new") })).await.expect(200);
        here.message(&other).await;
        eventually("the other one is disabled", async || {
            let found = here.get(&paths[1]).await.expect(200);
            (found["state"] == "disabled").then_some(())
        })
        .await;
        eventually("the first message is dead", async || {
            let dead = here.get(&format!("/app/{app}/dead-letter")).await.expect(200);
            (dead["data"].as_array().unwrap().len() == 1).then_some(())
        })
        .await;
        let second = there.message(&app).await;
        receiver.wait("new", &second, 1).await;
        assert_eq!(here.get(&paths[0]).await.expect(200)["state"], "active");
    }
}

#[tokio::test]
async fn a_deletion_by_a_name_never_hits_who_has_given_the_name_away() {
    for ways in sites("moved").await {
        let [here, there] = &ways;
        for round in 0..ROUNDS {
            let uid = format!("moves-{round}");
            let body = json!({ "name": "a customer", "uid": uid });
            let made = here.post("/app", body.clone()).await.expect(201);
            let path = format!("/app/{}", made["id"].as_str().unwrap());
            let moves = async {
                let renamed = here.patch(&path, json!({ "uid": format!("{uid}-old") })).await;
                here.post("/app", body).await;
                renamed
            };
            let named = format!("/app/{uid}");
            let (renamed, deleted) = tokio::join!(moves, there.delete(&named));
            assert!([204, 404].contains(&deleted.status.as_u16()), "{deleted:?}");
            // It was deleted before it was renamed, or not at all.
            let expected = if renamed.status == StatusCode::OK { 200 } else { 404 };
            here.get(&path).await.expect(expected);
        }
    }
}

#[tokio::test]
async fn a_purge_is_refused_by_a_filter_that_says_nothing() {
    let server = Running::start().await;
    let app = server.application().await;
    for filter in ["event_types=", "event_types=,", "event_types=%2C%2C", "event_types=a,,b"] {
        let answer = server.delete(&format!("/app/{app}/dead-letter?{filter}")).await;
        assert!(answer.text.contains("must not be empty"), "{filter}: {answer:?}");
    }
    server.delete(&format!("/app/{app}/dead-letter?event_types=a,b")).await.expect(200);
}
