//! The OpenAPI document: what is committed is what is served, and every operation in it keeps
//! strangers out.

use http::Method;
use serde_json::{Value, json};

use super::Running;

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

/// How many of the SDKs' calls are offered.
const OFFERED: usize = 51;

/// An operation of the document.
pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) id: String,
    pub(super) admin: bool,
    pub(super) open: bool,
    /// Which rights its token must have.
    pub(super) rights: Vec<String>,
    /// Whether it only says that it is not offered.
    pub(super) is_missing: bool,
    /// Where its body is described.
    pub(super) body: Option<String>,
}

impl Operation {
    /// Tells whether it changes nothing although it is a POST.
    pub(super) fn reads(&self) -> bool {
        ["v1.message.precheck", "v1.policy.preview"].contains(&self.id.as_str())
    }
}

pub(super) async fn document(server: &Running) -> Value {
    server.get("/openapi.json").await.expect(200)
}

pub(super) fn operations(document: &Value) -> Vec<Operation> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let security = operation["security"].as_array().cloned().unwrap_or_default();
            let roles = security.first().and_then(|it| it.as_object()?.values().next());
            let body = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
            found.push(Operation {
                rights: serde_json::from_value(roles.cloned().unwrap_or_default())
                    .unwrap_or_default(),
                is_missing: operation["responses"].get("501").is_some(),
                body: body.as_str().map(str::to_owned),
                method: method.to_uppercase().parse().unwrap(),
                path: path.strip_prefix("/api/v1").unwrap().to_owned(),
                id: operation["operationId"].as_str().unwrap().to_owned(),
                admin: security.iter().any(|it| it.get("admin token").is_some()),
                open: security.is_empty(),
            });
        }
    }
    found
}

#[tokio::test]
async fn the_committed_document_is_the_one_that_is_served() {
    let server = Running::start().await;
    let served = format!("{:#}\n", document(&server).await);
    let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
    if committed != served {
        let fresh = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi.json");
        std::fs::write(&fresh, served).unwrap();
        panic!("docs/openapi.json is not what is served; take it from {}", fresh.display());
    }
}

#[tokio::test]
async fn the_document_has_the_operations_of_the_sdks() {
    let server = Running::start().await;
    let document = document(&server).await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let operations = operations(&document);
    let ids: Vec<&str> = operations.iter().map(|it| it.id.as_str()).collect();
    for id in ["v1.application.create", "v1.endpoint.rotate-secret", "v1.message.create"] {
        assert!(ids.contains(&id), "{id}");
    }
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), ids.len());
    for reference in references(&document) {
        let name = reference.strip_prefix("#/components/schemas/").unwrap();
        assert!(document["components"]["schemas"].get(name).is_some(), "{name} is not described");
    }
}

#[tokio::test]
async fn whatever_the_sdks_call_is_answered_or_said_not_to_be_offered() {
    let server = Running::start().await;
    let calls = include_str!("../../sdk/operations.txt");
    let mut offered = 0;
    for call in calls.lines().filter(|line| !line.starts_with('#')) {
        let (method, path) = call.split_once(' ').unwrap();
        let request =
            server.request(method.parse().unwrap(), path.replace(['{', '}'], "").as_str());
        let answered = server.send(request.body(http_body_util::Full::default()).unwrap()).await;
        let nowhere = answered.text.contains("no such path") || answered.status == 405;
        assert!(!nowhere, "{call}: {answered:?}");
        if answered.status == 501 {
            answered.refused(501, "not_implemented");
        } else {
            assert!(answered.status.as_u16() < 500, "{call}: {answered:?}");
            offered += 1;
        }
    }
    // The 41 of the open server, and those of the others that are here.
    assert_eq!(offered, OFFERED);
}

fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => {
            let own = map.get("$ref").and_then(Value::as_str).map(str::to_owned);
            own.into_iter().chain(map.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

#[tokio::test]
async fn no_operation_lets_a_foreign_application_or_a_stranger_in() {
    let server = Running::start().await;
    let (own, foreign) = (server.application().await, server.application().await);
    let token = server.token(&own, false).await;
    let endpoint = server.endpoint(&foreign).await;
    let message = server.message(&foreign).await;
    let before = server.get(&format!("/app/{foreign}/endpoint/{endpoint}")).await.expect(200);
    // One operation ends the token that it is asked with.
    let others = |operation: &Operation| operation.id != "v1.authentication.logout";
    for operation in operations(&document(&server).await).into_iter().filter(others) {
        let path = operation
            .path
            .replace("{app_id}", &foreign)
            .replace("{endpoint_id}", &endpoint)
            .replace("{msg_id}", &message)
            .replace("{event_type_name}", "x");
        let (method, id) = (operation.method.clone(), &operation.id);
        let stranger = server.ask("nobody", method.clone(), &path, &json!({})).await;
        assert_eq!(stranger.status == 401, !operation.open, "{id}: {stranger:?}");
        let answered = server.ask(&token, method, &path, &json!({})).await;
        let status = answered.status.as_u16();
        match () {
            () if operation.open || status == 501 => {}
            () if operation.admin => assert_eq!(status, 403, "{id}: {answered:?}"),
            () if operation.path.contains("{app_id}") => {
                // A message's body is read before its application is looked for.
                let read_first = id == "v1.message.create" && status == 422;
                assert!(status == 404 || read_first, "{id}: {answered:?}");
            }
            () => assert!(status < 500, "{id}: {answered:?}"),
        }
    }
    let after = server.get(&format!("/app/{foreign}/endpoint/{endpoint}")).await.expect(200);
    assert_eq!(before, after);
}
