//! `/app`

use serde_json::{Value, json};

use super::Running;

#[tokio::test]
async fn an_application_has_all_that_the_sdks_of_both_generations_read() {
    let server = Running::start().await;
    let body = json!({
        "name": "Shop", "uid": "shop-1", "throttleRate": 10, "metadata": { "plan": "large" },
    });
    let made = server.post("/app", body).await.expect(201);
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("app_") && id.len() == 31, "{id}");
    assert_eq!((&made["name"], &made["uid"]), (&json!("Shop"), &json!("shop-1")));
    assert_eq!((&made["throttleRate"], &made["rateLimit"]), (&json!(10), &json!(10)));
    assert_eq!(made["metadata"], json!({ "plan": "large" }));
    assert!(made["createdAt"].as_str().unwrap().ends_with('Z'));
    assert_eq!(server.get(&format!("/app/{id}")).await.expect(200), made);
    assert_eq!(server.get("/app/shop-1").await.expect(200), made);
}

#[tokio::test]
async fn a_uid_that_is_not_there_is_left_out() {
    let server = Running::start().await;
    let made = server.post("/app", json!({ "name": "x", "rateLimit": 5 })).await.expect(201);
    assert!(made.get("uid").is_none(), "{made}");
    assert_eq!(made["throttleRate"], 5);
}

#[tokio::test]
async fn a_uid_is_taken_once_unless_the_one_that_has_it_is_asked_for() {
    let server = Running::start().await;
    let body = json!({ "name": "x", "uid": "u" });
    let made = server.post("/app", body.clone()).await.expect(201);
    server.post("/app", body.clone()).await.refused(409, "conflict");
    assert_eq!(server.post("/app?get_if_exists=true", body).await.expect(200), made);
}

#[tokio::test]
async fn replacing_what_is_not_there_creates_it_and_changing_it_does_not() {
    let server = Running::start().await;
    let made = server.put("/app/new-one", json!({ "name": "x" })).await.expect(201);
    assert_eq!(made["uid"], "new-one");
    let again = json!({ "name": "y", "uid": "new-one" });
    let replaced = server.put("/app/new-one", again).await.expect(200);
    assert_eq!((&replaced["id"], &replaced["name"]), (&made["id"], &json!("y")));
    server.patch("/app/nobody", json!({ "name": "z" })).await.refused(404, "not_found");
}

#[tokio::test]
async fn the_same_replacement_again_changes_nothing() {
    let server = Running::start().await;
    let made = server.put("/app/mine", json!({ "name": "x" })).await.expect(201);
    let path = format!("/app/{}/endpoint/its", made["id"].as_str().unwrap());
    let endpoint = json!({ "url": "https://receiver.example/" });
    let first = server.put(&path, endpoint.clone()).await.expect(201);
    for _ in 0..2 {
        let again = server.put("/app/mine", json!({ "name": "x" })).await.expect(200);
        assert_eq!((&again["id"], &again["uid"]), (&made["id"], &json!("mine")));
        let again = server.put(&path, endpoint.clone()).await.expect(200);
        assert_eq!((&again["id"], &again["uid"]), (&first["id"], &json!("its")));
    }
}

#[tokio::test]
async fn a_patch_changes_what_it_names_and_null_clears() {
    let server = Running::start().await;
    let body = json!({ "name": "x", "uid": "u", "throttleRate": 7, "metadata": { "a": "b" } });
    let made = server.post("/app", body).await.expect(201);
    let path = format!("/app/{}", made["id"].as_str().unwrap());
    let patch = json!({ "throttleRate": null, "uid": null });
    let changed = server.patch(&path, patch).await.expect(200);
    assert_eq!(changed["throttleRate"], Value::Null);
    assert!(changed.get("uid").is_none());
    assert_eq!((&changed["name"], &changed["metadata"]), (&made["name"], &made["metadata"]));
}

#[tokio::test]
async fn a_deleted_application_is_gone_and_its_uid_is_free() {
    let server = Running::start().await;
    let made = server.post("/app", json!({ "name": "x", "uid": "u" })).await.expect(201);
    assert_eq!(server.delete("/app/u").await.expect(204), Value::Null);
    server.get("/app/u").await.refused(404, "not_found");
    let body = json!({ "eventType": "a", "payload": {} });
    let path = format!("/app/{}/msg", made["id"].as_str().unwrap());
    server.post(&path, body).await.refused(404, "not_found");
    server.post("/app", json!({ "name": "y", "uid": "u" })).await.expect(201);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_its_field() {
    let server = Running::start().await;
    let table = [
        (json!({}), "body.name"),
        (json!({ "name": 5 }), "body.name"),
        (json!({ "name": "" }), "body.name"),
        (json!({ "name": "x", "uid": "a b" }), "body.uid"),
        (json!({ "name": "x", "uid": "app_1" }), "body.uid"),
        (json!({ "name": "x", "throttleRate": 0 }), "body.throttleRate"),
        (json!({ "name": "x", "policy": "stripy" }), "body.policy"),
        (json!({ "name": "x", "metadata": { "a": "b".repeat(5_000) } }), "body.metadata"),
    ];
    for (body, field) in table {
        server.post("/app", body).await.invalid(field);
    }
}

#[tokio::test]
async fn a_list_goes_on_where_the_page_before_ended_in_both_directions() {
    let server = Running::start().await;
    for number in 0..5 {
        server.post("/app", json!({ "name": format!("{number}") })).await.expect(201);
    }
    let names = |page: &Value| -> String {
        page["data"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
    };
    // Ids of the same millisecond are in no order that a test could know.
    let all = names(&server.get("/app").await.expect(200));
    let first = server.get("/app?limit=2").await.expect(200);
    assert_eq!((names(&first).as_str(), &first["done"]), (&all[..2], &json!(false)));
    let iterator = first["iterator"].as_str().unwrap();
    assert_eq!(first["data"][1]["id"], iterator);
    let second = server.get(&format!("/app?limit=2&iterator={iterator}")).await.expect(200);
    assert_eq!(names(&second), all[2..4]);
    let back = second["prevIterator"].as_str().unwrap();
    let before = server.get(&format!("/app?limit=2&iterator={back}")).await.expect(200);
    assert_eq!(names(&before), all[..2]);
    let reversed = server.get("/app?order=descending").await.expect(200);
    let backwards: String = all.chars().rev().collect();
    assert_eq!((names(&reversed), &reversed["done"]), (backwards, &json!(true)));
    server.get("/app?limit=0").await.invalid("query.limit");
    server.get("/app?limit=251").await.invalid("query.limit");
    server.get("/app?limit=x").await.refused(400, "generic_error");
    server.get("/app?iterator=x").await.invalid("query.iterator");
}

#[tokio::test]
async fn an_empty_list_has_an_iterator_of_null() {
    let server = Running::start().await;
    let page = server.get("/app").await.expect(200);
    let expected = json!({ "data": [], "iterator": null, "prevIterator": null, "done": true });
    assert_eq!(page, expected);
}
