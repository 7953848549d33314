//! Rows that do not read as what they should be: the rest of the store goes on, and they are noted.
//!
//! They are broken past the store, in statements that both dialects understand.

use std::time::Duration;

use domain::delivery::Cause;
use domain::endpoint::Reason;
use domain::partition::Partition;
use domain::time::Timestamp;
use store::Error;
use store::catalog::{Endpoint, EndpointEdit, Name};
use store::conformance::{NOW, Scene, attempts_of, long_ago};
use store::keys::DeliveryKey;
use store::ledger::{NewTask, TaskKind};
use store::page::{From, Page};
use store::queue::{Accept, Accepted, Done, NextState, Request, RequestKind, Upkeep};

/// Breaks one row of each kind, and looks at the others. `odd_id` is a blob that is no id, as the
/// dialect writes it.
pub(crate) async fn are_passed_over(scene: &Scene, odd_id: &str, breaks: impl AsyncFn(&str)) {
    a_load_and_its_lists(scene, odd_id, &breaks).await;
    what_waits_and_what_is_asked(scene, &breaks).await;
    what_a_message_collides_with(scene, odd_id, &breaks).await;
    attempts_and_dead_letters(scene, &breaks).await;
    what_is_pruned(scene, odd_id, &breaks).await;
    the_catalog_and_the_tasks(scene, &breaks).await;
    let noted = scene.store().ledger.damage();
    assert!(noted.len() >= 6, "{noted:#?}");
    assert!(noted.iter().any(|damage| damage.what.contains("endpoint ")), "{noted:#?}");
}

async fn a_load_and_its_lists(scene: &Scene, odd_id: &str, breaks: impl AsyncFn(&str)) {
    let endpoint = scene.endpoint().await;
    let mut keys = Vec::new();
    for _ in 0..3 {
        keys.push(scene.pending(&endpoint).await);
    }
    let middle = keys.remove(1).message.0;
    breaks(&format!("update messages set id = {odd_id} where key = {middle}")).await;
    let messages: Vec<_> = keys.iter().map(|key| key.message).collect();
    let loaded = scene.load(&endpoint).await;
    let found: Vec<_> = loaded.deliveries.iter().map(|one| one.key.message).collect();
    assert_eq!((found, loaded.complete), (messages.clone(), true));
    let ledger = &scene.store().ledger;
    let application = scene.application.key;
    let listed = ledger.messages(application, Default::default(), page()).await.unwrap();
    let mut found: Vec<_> = listed.entries.iter().map(|entry| entry.key).collect();
    found.reverse();
    assert_eq!((found, listed.done), (messages.clone(), true));
    let listed = ledger.deliveries(application, endpoint.key, Default::default(), page()).await;
    assert_eq!(listed.unwrap().entries.len(), 2);
    for key in keys {
        scene.store().ledger.cancel(key, NOW).await.unwrap();
    }
    // What is damaged does not keep the others from being pruned.
    let now = NOW.after(Duration::from_secs(91 * 86_400));
    for _ in 0..5 {
        scene.keep_up(Upkeep::Prune { now, most: 100 }).await;
    }
    let listed = ledger.messages(application, Default::default(), page()).await.unwrap();
    assert_eq!(listed.entries, []);
}

/// A delivery whose partition is odd hides neither its own endpoint nor the others; a request that
/// cannot be read hides no other.
async fn what_waits_and_what_is_asked(scene: &Scene, breaks: impl AsyncFn(&str)) {
    let endpoints = [scene.endpoint().await, scene.endpoint().await];
    let odd = scene.pending(&endpoints[0]).await;
    for endpoint in &endpoints {
        scene.pending(endpoint).await;
        let request = Request {
            number: 0,
            application: endpoint.application,
            endpoint: endpoint.key,
            partition: endpoint.partition,
            kind: RequestKind::Refresh,
            at: NOW,
        };
        scene.ask(request).await;
    }
    let row = format!("endpoint = {} and message = {}", odd.endpoint.0, odd.message.0);
    breaks(&format!("update deliveries set partition = 99 where {row}")).await;
    breaks(&format!("update requests set kind = 99 where endpoint = {}", odd.endpoint.0)).await;
    let queue = &scene.store().queue;
    let waiting = queue.waiting(Partition::all().collect()).await.unwrap();
    for endpoint in &endpoints {
        let place = (endpoint.key, endpoint.partition);
        assert!(waiting.iter().any(|one| (one.endpoint, one.partition) == place), "{waiting:#?}");
    }
    let asked = queue.requests(Partition::all().collect()).await.unwrap();
    let asked = endpoints.map(|one| asked.iter().any(|request| request.endpoint == one.key));
    assert_eq!(asked, [false, true]);
}

/// Whether a message was accepted before cannot be told if what says so is damaged: it is refused, and
/// the others of its batch are accepted.
async fn what_a_message_collides_with(scene: &Scene, odd_id: &str, breaks: impl AsyncFn(&str)) {
    let other = scene.another_application().await;
    let theirs = scene.message(&[]).await;
    let theirs = Accept { application: other.key, revision: other.revision, ..theirs };
    let same_key = Accept { idempotency: Some([7; 32]), ..theirs.clone() };
    let mut same_event_id = scene.again(&theirs);
    same_event_id.message.event_id = Some("evt_1".to_owned());
    scene.accept_new(same_key.clone()).await;
    let taken = scene.accept_new(same_event_id.clone()).await.0;
    breaks(&format!("update idempotency set message = {odd_id}")).await;
    breaks(&format!("update messages set id = {odd_id} where key = {taken}")).await;
    let batch = vec![
        scene.message(&[]).await,
        scene.again(&same_key),
        scene.again(&same_event_id),
        scene.message(&[]).await,
    ];
    let answers = scene.accept(batch).await;
    let refused = |answer: &Accepted| matches!(answer, Accepted::Refused(_));
    let new = |answer: &Accepted| matches!(answer, Accepted::New { .. });
    assert!(refused(&answers[1]) && refused(&answers[2]), "{answers:#?}");
    assert!(new(&answers[0]) && new(&answers[3]), "{answers:#?}");
    let noted = scene.store().ledger.damage();
    assert!(noted.iter().any(|damage| damage.what.contains(&"07".repeat(32))), "{noted:#?}");
    assert!(noted.iter().any(|damage| damage.what.contains(&format!("key {taken}"))), "{noted:#?}");
}

async fn attempts_and_dead_letters(scene: &Scene, breaks: impl AsyncFn(&str)) {
    let endpoint = scene.endpoint().await;
    let dead = NextState::Dead(Cause::Exhausted);
    let (odd, good) = (scene.settled(&endpoint, dead).await, scene.settled(&endpoint, dead).await);
    let row = format!("endpoint = {} and message = {}", odd.endpoint.0, odd.message.0);
    breaks(&format!("update attempts set outcome = 99 where {row}")).await;
    let ledger = &scene.store().ledger;
    let listed = ledger.attempts(good.application, endpoint.key, Default::default(), page()).await;
    let listed: Vec<_> = listed.unwrap().entries.iter().map(|entry| entry.key).collect();
    assert_eq!(listed, [good]);
    assert_eq!(attempts_of(ledger, odd).await.unwrap(), []);
    breaks(&format!("update deliveries set cause = 99 where {row}")).await;
    let listed = ledger.dead_letters(good.application, Default::default(), page()).await.unwrap();
    let listed: Vec<_> = listed.entries.iter().map(|entry| entry.key).collect();
    assert_eq!(listed, [good]);
    assert_eq!(ledger.deliveries_of(odd.application, odd.message).await.unwrap(), []);
}

/// A delivery that cannot be read keeps its message, and nothing else. An attempt that does not say
/// which was before it keeps nothing. An application that is deleted goes with whatever is damaged in
/// it.
async fn what_is_pruned(scene: &Scene, odd_id: &str, breaks: impl AsyncFn(&str)) {
    let endpoint = scene.endpoint().await;
    let odd = scene.settled(&endpoint, NextState::Delivered).await;
    let chain = scene.settled(&endpoint, NextState::Delivered).await;
    let good = scene.settled(&endpoint, NextState::Delivered).await;
    let row = format!("endpoint = {} and message = {}", odd.endpoint.0, odd.message.0);
    breaks(&format!("update deliveries set last_attempt = {odd_id} where {row}")).await;
    let row = format!("endpoint = {} and message = {}", chain.endpoint.0, chain.message.0);
    breaks(&format!("update attempts set previous = {odd_id} where {row}")).await;
    let now = NOW.after(Duration::from_secs(91 * 86_400));
    prune(scene, now).await;
    let ledger = &scene.store().ledger;
    for gone in [chain, good] {
        assert_eq!(ledger.deliveries_of(gone.application, gone.message).await.unwrap(), []);
    }

    let mut ids = Vec::new();
    for _ in 0..2 {
        let other = scene.another_application().await;
        let theirs = scene.message(&[]).await;
        let theirs = Accept { application: other.key, revision: other.revision, ..theirs };
        let damaged = scene.accept_new(theirs.clone()).await.0;
        let beside = scene.again(&theirs);
        scene.accept_new(beside.clone()).await;
        breaks(&format!("update messages set id = {odd_id} where key = {damaged}")).await;
        scene.store().catalog.delete_application(other.key, long_ago()).await.unwrap();
        ids.push((other.key, beside.message.id));
    }
    prune(scene, NOW).await;
    for (application, id) in ids {
        let found = ledger.message(application, Name::Id(id)).await;
        assert!(matches!(found, Err(Error::Missing("message"))), "{found:?}");
    }
}

/// Leaves an attempt whose message is gone without it: it is listed no more, and does not hide those
/// behind it. In the end its endpoint is gone, too.
pub(crate) async fn chains_leave_an_attempt(
    scene: &Scene,
    odd_id: &str,
    breaks: impl AsyncFn(&str),
) {
    let endpoint = scene.endpoint().await;
    let old = (settled_for_long(scene, &endpoint).await, settled_for_long(scene, &endpoint).await);
    let chain = scene.settled(&endpoint, NextState::Pending { due: NOW }).await;
    scene.settle_one(scene.settling(chain, 1, NextState::Delivered).await).await;
    let kept = [settled_for_long(scene, &endpoint).await, old.1, old.0];
    let row = format!("endpoint = {} and message = {}", endpoint.key.0, chain.message.0);
    breaks(&format!("update attempts set previous = {odd_id} where {row} and number = 2")).await;
    prune(scene, NOW.after(Duration::from_secs(91 * 86_400))).await;
    assert_eq!(attempts_by_page(scene, &endpoint, 2).await, kept);

    scene.store().catalog.delete_endpoint(endpoint.application, endpoint.key, NOW).await.unwrap();
    prune(scene, NOW.after(Duration::from_secs(401 * 86_400))).await;
}

/// Settles a delivery whose message is kept for longer than others.
async fn settled_for_long(scene: &Scene, endpoint: &Endpoint) -> DeliveryKey {
    let mut accept = scene.message(&[endpoint]).await;
    accept.message.retained_until = NOW.after(Duration::from_secs(400 * 86_400));
    let key = scene.key(endpoint, scene.accept_new(accept).await);
    scene.settle_one(scene.settling(key, 0, NextState::Delivered).await).await;
    key
}

/// Lists the attempts of an endpoint, so many at a time.
async fn attempts_by_page(scene: &Scene, endpoint: &Endpoint, limit: u32) -> Vec<DeliveryKey> {
    let (mut found, mut from) = (Vec::new(), From::Start);
    loop {
        let page = Page { from, limit };
        let ledger = &scene.store().ledger;
        let listed =
            ledger.attempts(endpoint.application, endpoint.key, Default::default(), page).await;
        let listed = listed.unwrap();
        found.extend(listed.entries.iter().map(|entry| entry.key));
        match listed.reached.filter(|_| !listed.done) {
            Some(reached) => from = From::After(reached),
            None => return found,
        }
    }
}

/// Prunes until nothing more goes; no step may be refused.
pub(crate) async fn prune(scene: &Scene, now: Timestamp) {
    for _ in 0..100 {
        match scene.keep_up(Upkeep::Prune { now, most: 100 }).await {
            Done::Changed(0) => return,
            Done::Changed(_) => {}
            refused @ (Done::Numbered { .. } | Done::Fenced | Done::Refused(_)) => {
                unreachable!("{refused:?}")
            }
        }
    }
    unreachable!("pruning does not end");
}

async fn the_catalog_and_the_tasks(scene: &Scene, breaks: impl AsyncFn(&str)) {
    let (odd, good) = (scene.endpoint().await, scene.endpoint().await);
    breaks(&format!("update endpoints set settings = 'no document' where key = {}", odd.key.0))
        .await;
    let catalog = &scene.store().catalog;
    let listed = catalog.endpoints(good.application, page()).await.unwrap();
    let listed: Vec<_> = listed.entries.iter().map(|entry| entry.key).collect();
    assert!(listed.contains(&good.key) && !listed.contains(&odd.key));
    // A fan-out that leaves an endpoint out would lose its messages: it fails instead.
    assert!(catalog.fan_out(good.application, NOW).await.is_err());
    let disabling = EndpointEdit::of(|row| {
        Ok(Endpoint { state: row.state.disable(Reason::Gone)?, ..row.clone() })
    });
    let disabled = catalog.change_endpoint(good.application, good.key, disabling, NOW).await;
    assert!(disabled.is_ok(), "{disabled:?}");
    let ledger = &scene.store().ledger;
    for _ in 0..2 {
        let task = NewTask {
            id: scene.id(),
            application: good.application,
            endpoint: None,
            kind: TaskKind::Recover,
            selection: serde_json::json!({}),
            by: "somebody".to_owned(),
            at: NOW,
        };
        ledger.start_task(task).await.unwrap();
    }
    let first = "select id from replay_tasks order by id limit 1";
    breaks(&format!("update replay_tasks set kind = 99 where id = ({first})")).await;
    assert_eq!(ledger.tasks(None, page()).await.unwrap().entries.len(), 1);
}

fn page<Id>() -> Page<Id> {
    Page { from: From::Start, limit: 10 }
}
