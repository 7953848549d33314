//! Lists of the Rust SDK, turned page by page to the end and back.

use serde_json::json;
use svix::api::*;

use super::receiver::eventually;
use super::rust_tour::{APP, FIRST, Tour, text};

/// What all pages have in common.
struct Page {
    keys: Vec<String>,
    iterator: Option<String>,
    prev_iterator: Option<String>,
    done: bool,
}

/// What is asked for.
#[derive(Default)]
struct Ask {
    limit: Option<u64>,
    iterator: Option<String>,
}

fn two(iterator: Option<String>) -> Ask {
    Ask { limit: Some(2), iterator }
}

/// Turns pages of two to the end, and back again to the beginning.
async fn both_ways(what: &str, page: impl AsyncFn(Ask) -> Page) {
    let everything = page(Ask::default()).await.keys;
    assert!(everything.len() >= 3, "{what}: one page holds everything, and that proves nothing");
    let mut last = page(two(None)).await;
    let mut seen = last.keys.clone();
    while !last.done {
        let next = page(two(last.iterator.clone())).await;
        seen.extend_from_slice(&next.keys);
        assert!(seen.len() <= everything.len(), "{what}: {seen:?}");
        // The last page may be empty, and has no way back then.
        last = if next.keys.is_empty() { Page { done: true, ..last } } else { next };
    }
    assert_eq!(seen, everything, "{what}");
    let mut back = last.keys.clone();
    while back.len() < everything.len() {
        last = page(two(last.prev_iterator)).await;
        assert!(!last.keys.is_empty(), "{what}: the way back broke off at {back:?}");
        back.splice(0..0, last.keys.clone());
    }
    assert_eq!(back, everything, "{what}, on the way back");
}

impl Tour {
    pub(super) async fn pages(&self) {
        for number in 0..5 {
            self.send(json!({ "number": number })).await;
        }
        for name in ["second", "fourth"] {
            self.endpoint(name, |it| it.channels = Some([text("nowhere")].into())).await;
        }
        eventually("all attempts are on record", async || {
            (self.attempts(FIRST, Default::default()).await.len() >= 8).then_some(())
        })
        .await;
        self.pages_of_names().await;
        self.pages_of_an_application().await;
        self.pages_of_attempts().await;
    }

    async fn pages_of_names(&self) {
        both_ways("applications", async |Ask { limit, iterator }| {
            let options = ApplicationListOptions { limit, iterator, ..Default::default() };
            let page = self.svix.application().list(Some(options)).await.unwrap();
            let keys = page.data.into_iter().map(|it| it.id).collect();
            let (iterator, prev_iterator) = (page.iterator, page.prev_iterator);
            Page { keys, iterator, prev_iterator, done: page.done }
        })
        .await;
        both_ways("event types", async |Ask { limit, iterator }| {
            let options = EventTypeListOptions { limit, iterator, ..Default::default() };
            let page = self.svix.event_type().list(Some(options)).await.unwrap();
            let keys = page.data.into_iter().map(|it| it.name).collect();
            let (iterator, prev_iterator) = (page.iterator, page.prev_iterator);
            Page { keys, iterator, prev_iterator, done: page.done }
        })
        .await;
    }

    async fn pages_of_an_application(&self) {
        both_ways("endpoints", async |Ask { limit, iterator }| {
            let options = EndpointListOptions { limit, iterator, ..Default::default() };
            let page = self.svix.endpoint().list(text(APP), Some(options)).await.unwrap();
            let keys = page.data.into_iter().map(|it| it.id).collect();
            let (iterator, prev_iterator) = (page.iterator, page.prev_iterator);
            Page { keys, iterator, prev_iterator, done: page.done }
        })
        .await;
        both_ways("messages", async |Ask { limit, iterator }| {
            let options = MessageListOptions { limit, iterator, ..Default::default() };
            let page = self.svix.message().list(text(APP), Some(options)).await.unwrap();
            let keys = page.data.into_iter().map(|it| it.id).collect();
            let (iterator, prev_iterator) = (page.iterator, page.prev_iterator);
            Page { keys, iterator, prev_iterator, done: page.done }
        })
        .await;
    }

    async fn pages_of_attempts(&self) {
        let attempts = self.svix.message_attempt();
        both_ways("attempts", async |Ask { limit, iterator }| {
            let options =
                MessageAttemptListByEndpointOptions { limit, iterator, ..Default::default() };
            let page = attempts.list_by_endpoint(text(APP), text(FIRST), Some(options));
            let page = page.await.unwrap();
            let keys = page.data.into_iter().map(|it| it.id).collect();
            let (iterator, prev_iterator) = (page.iterator, page.prev_iterator);
            Page { keys, iterator, prev_iterator, done: page.done }
        })
        .await;
        both_ways("attempted messages", async |Ask { limit, iterator }| {
            let options = MessageAttemptListAttemptedMessagesOptions {
                limit,
                iterator,
                ..Default::default()
            };
            let page = attempts.list_attempted_messages(text(APP), text(FIRST), Some(options));
            let page = page.await.unwrap();
            let keys = page.data.into_iter().map(|it| it.id).collect();
            let (iterator, prev_iterator) = (page.iterator, page.prev_iterator);
            Page { keys, iterator, prev_iterator, done: page.done }
        })
        .await;
    }
}
