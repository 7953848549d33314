//! What the fuzz targets call: the readers of what strangers send, without a server around them.
//! It exists in builds of `cargo fuzz` only.

use axum::extract::Query;
use bytes::Bytes;
use serde_json::Value;

use super::applications::CreateQuery;
use super::deliveries::{EndpointQuery, FilterQuery};
use super::extract;
use super::messages::{ContentQuery, MessageIn};
use super::values::PageQuery;

/// Reads a message's body. What is accepted has the payload that was given.
pub fn message(body: &[u8]) {
    let body = Bytes::copy_from_slice(body);
    let Ok(given) = extract::read_object::<MessageIn<'_>>(&body) else { return };
    let Ok(draft) = given.draft(&body) else { return };
    // Deeper than this reader goes, there is nothing to compare with.
    let Ok(whole) = serde_json::from_slice::<Value>(&body) else { return };
    if !whole["transformationsParams"]["rawPayload"].is_string() {
        let payload: Option<Value> = serde_json::from_slice(&draft.payload).ok();
        assert_eq!(payload.as_ref(), whole.get("payload").or(whole.get("data")));
    }
}

/// Reads a batch's body.
pub fn batch(body: &[u8]) {
    let body = Bytes::copy_from_slice(body);
    for part in super::batch::split(&body, 1_000).unwrap_or_default() {
        message(&part);
    }
}

/// Reads a query in every way that an operation does. Writing it in its normal form twice changes
/// nothing more.
pub fn query(text: &str) {
    let normal = extract::normal(text);
    assert_eq!(extract::normal(&normal), normal);
    let Ok(uri) = format!("/?{normal}").parse() else { return };
    if let Ok(Query(page)) = Query::<PageQuery>::try_from_uri(&uri) {
        let _ = page.ordered("ascending");
    }
    let _ = Query::<FilterQuery>::try_from_uri(&uri);
    let _ = Query::<EndpointQuery>::try_from_uri(&uri);
    let _ = Query::<ContentQuery>::try_from_uri(&uri);
    let _ = Query::<CreateQuery>::try_from_uri(&uri);
}
