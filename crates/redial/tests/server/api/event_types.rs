//! `/event-type`

use serde_json::{Value, json};

use super::Running;

#[tokio::test]
async fn an_event_type_is_created_once_and_comes_back_from_the_archive() {
    let server = Running::start().await;
    let body = json!({ "name": "a.b", "description": "d", "featureFlags": ["beta"] });
    let made = server.post("/event-type", body.clone()).await.expect(201);
    for (field, value) in [
        ("name", json!("a.b")),
        ("description", json!("d")),
        ("archived", json!(false)),
        ("deprecated", json!(false)),
        ("schemas", Value::Null),
        ("featureFlag", json!("beta")),
        ("featureFlags", json!(["beta"])),
        ("groupName", Value::Null),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    server.post("/event-type", body.clone()).await.refused(409, "event_type_exists");
    server.delete("/event-type/a.b").await.expect(204);
    assert_eq!(server.get("/event-type/a.b").await.expect(200)["archived"], true);
    let again = server.post("/event-type", body).await.expect(201);
    assert_eq!((&again["archived"], &again["createdAt"]), (&json!(false), &made["createdAt"]));
    server.delete("/event-type/a.b?expunge=true").await.expect(204);
    server.get("/event-type/a.b").await.refused(404, "not_found");
}

#[tokio::test]
async fn a_list_is_by_name_and_leaves_out_the_archive_and_schemas() {
    let server = Running::start().await;
    for name in ["c", "a", "b"] {
        let body = json!({ "name": name, "description": "", "schemas": { "1": {} } });
        server.post("/event-type", body).await.expect(201);
    }
    server.delete("/event-type/b").await.expect(204);
    let names = |page: &Value| -> String {
        page["data"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
    };
    let page = server.get("/event-type").await.expect(200);
    assert_eq!(names(&page), "ac");
    assert_eq!(page["data"][0]["schemas"], Value::Null);
    let all = server.get("/event-type?include_archived=true&with_content=true").await.expect(200);
    assert_eq!(names(&all), "abc");
    assert_eq!(all["data"][0]["schemas"], json!({ "1": {} }));
    let first = server.get("/event-type?limit=1").await.expect(200);
    assert_eq!(first["iterator"], "a");
    let next = server.get("/event-type?limit=1&iterator=a&include_archived=true").await.expect(200);
    assert_eq!(names(&next), "b");
    let reversed = server.get("/event-type?order=descending").await.expect(200);
    assert_eq!(names(&reversed), "ca");
}

#[tokio::test]
async fn an_event_type_is_replaced_changed_and_checked() {
    let server = Running::start().await;
    server.put("/event-type/x", json!({ "description": "one" })).await.expect(201);
    server.put("/event-type/x", json!({ "description": "two" })).await.expect(200);
    let patch = json!({ "deprecated": true, "groupName": "g" });
    let changed = server.patch("/event-type/x", patch).await.expect(200);
    assert_eq!((&changed["description"], &changed["groupName"]), (&json!("two"), &json!("g")));
    let cleared = server.patch("/event-type/x", json!({ "groupName": null })).await.expect(200);
    assert_eq!((&cleared["groupName"], &cleared["deprecated"]), (&Value::Null, &json!(true)));
    let bad = json!({ "name": "a b", "description": "" });
    server.post("/event-type", bad).await.invalid("body.name");
    server.post("/event-type", json!({ "description": "" })).await.invalid("body.name");
    server.patch("/event-type/nobody", json!({})).await.refused(404, "not_found");
}
