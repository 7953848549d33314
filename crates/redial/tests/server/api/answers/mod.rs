//! No answer is longer than a page may be, and no list misses an entry or shows one twice for it: every list
//! of the OpenAPI document is walked page by page, in both directions and orders.

mod rows;

use std::collections::BTreeSet;
use std::sync::Arc;

use redial::config::Role;
use serde_json::Value;
use store::Vault;
use store::conformance::{Handle, Harness, NOW, Scene};
use store::limits::PAGE_BYTES;
use store::postgres::{Postgres, Settings};
use store::sqlite::{self, Sqlite};
use tempfile::TempDir;

use self::rows::{List, Rows};
use super::Running;
use crate::sdk::database::Database;

/// The most pages that a list here has.
const MOST_PAGES: usize = 60;

async fn written(store: Handle) -> Rows {
    let harness = Harness::alone(store, Box::new(|_| Box::pin(async { Ok(()) })));
    Rows::write(&Scene::new(harness).await).await
}

async fn on_sqlite() -> (Running, Rows) {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let settings = sqlite::Settings::new(data, |bytes| bytes.fill(3), Arc::new(|| NOW));
    let opened = tokio::task::spawn_blocking(move || Sqlite::open(settings)).await.unwrap();
    let rows = written(Handle::new(Arc::new(opened.unwrap()))).await;
    (Running::on(directory, &[], |configuration| configuration.role = Role::Api).await, rows)
}

async fn on_postgres() -> (Running, Rows) {
    let database = Database::create("answers").await;
    let mut key = *b"trial-trial-trial-trial-trial-tr";
    let vault = Vault::new(&mut key, |bytes| bytes.fill(7));
    let store = Postgres::connect(Settings::new(database.url(), vault)).await.unwrap();
    let rows = written(Handle::new(Arc::new(store))).await;
    (Running::with(&database.settings()).await, rows)
}

#[tokio::test]
async fn no_list_in_a_file_shows_too_much_or_misses_an_entry() {
    let (server, rows) = on_sqlite().await;
    check(&server, &rows).await;
}

#[tokio::test]
async fn no_list_in_postgres_shows_too_much_or_misses_an_entry() {
    let (server, rows) = on_postgres().await;
    check(&server, &rows).await;
}

async fn check(server: &Running, rows: &Rows) {
    for list in &rows.lists {
        for limit in [250, 9] {
            for (query, entries) in ways(list) {
                let walked =
                    walk(server, &format!("{query}&limit={limit}"), list.by, &entries).await;
                let pages = if list.large { 3..MOST_PAGES } else { 1..MOST_PAGES };
                assert!(pages.contains(&walked), "{query}: {walked} pages of {limit}");
            }
        }
        garbage(server, list).await;
    }
    let all = all_operations(server, rows).await;
    let walked: BTreeSet<_> = rows.lists.iter().map(|list| list.operation.to_owned()).collect();
    assert_eq!(walked, all, "every list is walked here");
    whole_timeline(server, rows).await;
}

/// Returns the orders that a list can be had in.
fn ways(list: &List) -> Vec<(String, Vec<String>)> {
    let List { path, entries, .. } = list;
    let mut ways = vec![(path.clone(), entries.clone())];
    if list.ordered {
        let reversed: Vec<_> = entries.iter().rev().cloned().collect();
        let ascends = entries.is_sorted();
        let (natural, other) =
            if ascends { ("ascending", "descending") } else { ("descending", "ascending") };
        ways.push((format!("{path}&order={natural}"), entries.clone()));
        ways.push((format!("{path}&order={other}"), reversed));
    }
    ways
}

struct Page {
    ids: Vec<String>,
    iterator: Option<String>,
    previous: Option<String>,
    done: bool,
}

async fn page(server: &Running, path: &str, by: &str) -> Page {
    let answer = server.get(path).await;
    let size = answer.text.len();
    assert!(size <= PAGE_BYTES, "{path} is answered with {size} bytes");
    let page = answer.expect(200);
    let text = |name: &str| page[name].as_str().map(str::to_owned);
    let id = |entry: &Value| entry[by].as_str().unwrap().to_owned();
    Page {
        ids: page["data"].as_array().unwrap().iter().map(id).collect(),
        iterator: text("iterator"),
        previous: text("prevIterator"),
        done: page["done"].as_bool().unwrap(),
    }
}

/// Walks to the end of a list and back again; returns how many pages it has.
async fn walk(server: &Running, path: &str, by: &str, entries: &[String]) -> usize {
    let mut left = entries;
    let mut last = page(server, path, by).await;
    let mut pages = 1;
    loop {
        assert!(!last.ids.is_empty() && left.starts_with(&last.ids), "{path}, page {pages}");
        left = &left[last.ids.len()..];
        assert_eq!(last.done, left.is_empty(), "{path}, page {pages}");
        if last.done || pages == MOST_PAGES {
            break;
        }
        last = page(server, &format!("{path}&iterator={}", last.iterator.unwrap()), by).await;
        pages += 1;
    }
    let mut left = &entries[..entries.len() - last.ids.len()];
    while !left.is_empty() {
        let behind = entries[left.len()].clone();
        last = page(server, &format!("{path}&iterator={}", last.previous.unwrap()), by).await;
        assert!(!last.ids.is_empty() && left.ends_with(&last.ids), "{path}, {} left", left.len());
        left = &left[..left.len() - last.ids.len()];
        assert_eq!(last.done, left.is_empty(), "{path}, {} left", left.len());
        // What comes behind the page is where it was.
        let on = format!("{path}&limit=1&iterator={}", last.iterator.unwrap());
        assert_eq!(page(server, &on.replacen(&limit_of(path), "", 1), by).await.ids, [behind]);
    }
    pages
}

/// Returns the limit that a path asks for.
fn limit_of(path: &str) -> String {
    let limit = path.split('&').find(|part| part.starts_with("limit="));
    limit.map_or_else(String::new, |limit| format!("&{limit}"))
}

/// Makes sure that nothing is taken for an iterator that no page gave.
async fn garbage(server: &Running, list: &List) {
    let mut iterators = vec!["-", "a%20b", "-a%20b", "%C3%A9", "at_%2B"];
    if list.by != "name" {
        iterators
            .extend(["garbage", "-garbage", "msg_1.5", "17", "-17.4", "msg_", "at_", "at_AAAA"]);
    }
    for iterator in iterators {
        let answer = server.get(&format!("{}&iterator={iterator}", list.path)).await;
        assert_eq!(answer.status.as_u16(), 422, "{}, {iterator}", list.path);
        answer.invalid("query.iterator");
    }
}

/// Asks every operation that reads, and returns the ones that answer with a page of a list.
async fn all_operations(server: &Running, rows: &Rows) -> BTreeSet<String> {
    let document = server.get("/openapi.json").await.expect(200);
    let mut lists = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let operation = &item["get"];
        let Some(id) = operation["operationId"].as_str() else { continue };
        let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        if schema["$ref"].as_str().is_some_and(|name| name.contains("/ListResponse")) {
            lists.insert(id.to_owned());
        }
        let mut path = path.strip_prefix("/api/v1").unwrap().to_owned();
        for (name, value) in &rows.names {
            path = path.replace(&format!("{{{name}}}"), value);
        }
        let answer = server.get(&path).await;
        let (status, size) = (answer.status.as_u16(), answer.text.len());
        assert!(size <= PAGE_BYTES, "{id} answers with {size} bytes");
        assert!(matches!(status, 200 | 204 | 501), "{id}: {status} {}", answer.text);
    }
    lists
}

/// A delivery shows its newest attempts, and where the others are.
async fn whole_timeline(server: &Running, rows: &Rows) {
    let name = |wanted: &str| &rows.names.iter().find(|(name, _)| *name == wanted).unwrap().1;
    let app = name("app_id");
    let shown =
        server.get(&format!("/app/{app}/delivery/{}", name("delivery_id"))).await.expect(200);
    assert_eq!(shown["attempts"], rows.attempts.len());
    let timeline = shown["timeline"].as_array().unwrap().iter().rev();
    let mut seen: Vec<_> = timeline.map(|it| it["id"].as_str().unwrap().to_owned()).collect();
    // Fifty of them have more bytes than an answer may have.
    assert!((30..50).contains(&seen.len()), "{} attempts", seen.len());
    let (message, endpoint) = (name("msg_id"), name("endpoint_id"));
    let list = format!("/app/{app}/attempt/msg/{message}?endpoint_id={endpoint}");
    let mut iterator = shown["timelineIterator"].as_str().map(str::to_owned);
    while let Some(place) = iterator {
        let page = page(server, &format!("{list}&iterator={place}"), "id").await;
        seen.extend(page.ids);
        iterator = page.iterator.filter(|_| !page.done);
    }
    assert_eq!(seen, rows.attempts);
}
