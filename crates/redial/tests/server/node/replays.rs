//! Replay tasks, from chunk to chunk.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::delivery::{Cause, Delivery};
use domain::endpoint::{Reason, State};
use domain::ids::{DeliveryId, MessageId};
use domain::names::{Channel, EventTypeName};
use domain::time::Timestamp;
use redial::clock::SystemClock;
use serde_json::{Value, json};
use store::catalog::{Endpoint, EndpointEdit};
use store::ledger::{TaskKind, TaskState};
use store::{Catalog as _, Ledger as _};
use tokio::task::JoinSet;

use super::scene::{Scene, Step, Store, entry, entry_of, selection, until};
use super::trouble::{Panics, obedient};
use crate::ledger::Meddled;

const MINUTE: Duration = Duration::from_secs(60);

fn delivery(scene: &Scene, message: &MessageId) -> DeliveryId {
    DeliveryId::derive(message, scene.endpoint().0.cast_unsigned())
}

#[tokio::test]
async fn a_damaged_row_among_those_that_a_replay_names_is_passed_over() {
    let first = Scene::begin(&[Step::Answer(200)]).await;
    let now = first.now();
    let messages = first.dead_letters([now; 3]).await;
    let ids: Vec<DeliveryId> = messages.iter().map(|message| delivery(&first, message)).collect();
    let store = first.end().await;
    let ledger = Meddled::damaged(Arc::clone(store.memory()) as _, ids[1]);
    let scene = Scene::reading(store, Arc::new(ledger), &[Step::Answer(200)]).await;
    let mut named = selection("dead");
    named["ids"] = json!(ids.iter().map(ToString::to_string).collect::<Vec<_>>());
    let task = scene.start(TaskKind::BulkReplay, scene.endpoint(), named).await;
    assert_eq!(scene.done(task).await.replayed, 2);
    scene.end().await;
}

#[tokio::test]
async fn a_damaged_delivery_does_not_hold_up_what_an_endpoint_never_got() {
    let first = Scene::begin(&[Step::Answer(200)]).await;
    let now = first.now();
    let messages = first.dead_letters([now; 3]).await;
    let odd = delivery(&first, &messages[1]);
    let store = first.end().await;
    let ledger = Meddled::damaged(Arc::clone(store.memory()) as _, odd);
    let scene = Scene::reading(store, Arc::new(ledger), &[Step::Answer(200)]).await;
    let all = selection("undelivered");
    let task = scene.start(TaskKind::ReplayMissing, scene.endpoint(), all).await;
    assert_eq!(scene.done(task).await.replayed, 2);
    scene.end().await;
}

#[tokio::test]
async fn a_row_that_the_database_refuses_is_passed_over_and_the_others_are_sent() {
    for (count, unfit) in [(600, 123), (1, 0), (2, 1)] {
        let (scene, queue) = obedient(&[Step::Answer(200)]).await;
        let messages = scene.dead_letters(vec![scene.now(); count]).await;
        queue.refuse(scene.look(messages[unfit]).await.key.message);
        let task = scene.start(TaskKind::Recover, scene.endpoint(), selection("dead")).await;
        assert_eq!(scene.done(task).await.replayed, u64::try_from(count).unwrap() - 1);
        let refused = scene.look(messages[unfit]).await.state;
        assert_eq!(refused, Delivery::Dead(Cause::Permanent));
        scene.end().await;
    }
}

#[tokio::test]
async fn a_message_that_was_received_late_does_not_end_a_replay_before_its_time() {
    let scene = Scene::begin(&[Step::Answer(200)]).await;
    let now = scene.now();
    let since = now.before(5 * MINUTE);
    // Rows are in the order of their commits: the second one was long on its way.
    let mut moments: Vec<Timestamp> = vec![now; 501];
    moments[1] = since.before(MINUTE);
    let messages = scene.dead_letters(moments).await;
    let mut young = selection("dead");
    young["since"] = json!(since.as_micros());
    let task = scene.start(TaskKind::Recover, scene.endpoint(), young).await;
    assert_eq!(scene.done(task).await.replayed, 500);
    scene.becomes(messages[0], Delivery::Delivered).await;
    scene.end().await;
}

#[tokio::test]
async fn a_replay_reaches_an_endpoint_that_keeps_the_order_oldest_first() {
    for by_endpoint in [true, false] {
        let scene = Scene::begin_in_order(&[Step::Answer(200)]).await;
        let messages = scene.dead_letters([scene.now(); 1_200]).await;
        let endpoint = by_endpoint.then_some(scene.endpoint());
        let task = scene.start(TaskKind::BulkReplay, endpoint, selection("dead")).await;
        scene.arrived(1_200).await;
        assert!(scene.messages() == messages, "by endpoint: {by_endpoint}");
        assert_eq!(scene.done(task).await.replayed, 1_200);
        scene.end().await;
    }
}

#[tokio::test]
async fn what_a_replay_names_reaches_an_endpoint_that_keeps_the_order_oldest_first() {
    let scene = Scene::begin_in_order(&[Step::Answer(200)]).await;
    let messages = scene.dead_letters([scene.now(); 20]).await;
    let ids = messages.iter().rev().map(|message| delivery(&scene, message).to_string());
    let mut named = selection("dead");
    named["ids"] = json!(ids.collect::<Vec<_>>());
    scene.start(TaskKind::BulkReplay, scene.endpoint(), named).await;
    scene.arrived(20).await;
    assert_eq!(scene.messages(), messages);
    scene.end().await;
}

#[tokio::test]
async fn a_replay_of_a_time_passes_over_what_came_before_and_after_it() {
    for by_endpoint in [true, false] {
        let scene = Scene::begin(&[Step::Answer(200)]).await;
        let (now, hour) = (scene.now(), 60 * MINUTE);
        let moments = [now.before(3 * hour), now.before(2 * hour), now.before(hour), now];
        let messages = scene.dead_letters(moments.iter().flat_map(|at| [*at; 400])).await;
        let mut some = selection("dead");
        some["since"] = json!(now.before(2 * hour).as_micros());
        some["until"] = json!(now.as_micros());
        let endpoint = by_endpoint.then_some(scene.endpoint());
        let task = scene.start(TaskKind::BulkReplay, endpoint, some).await;
        scene.arrived(800).await;
        assert_eq!(scene.done(task).await.replayed, 800);
        let arrived: BTreeSet<MessageId> = scene.messages().into_iter().collect();
        assert!(arrived.iter().eq(&messages[400..1_200]), "by endpoint: {by_endpoint}");
        scene.end().await;
    }
}

/// Counts the deliveries that have arrived, and what was recorded of them.
async fn arrived(store: &Store, messages: &[MessageId]) -> (usize, u32) {
    let (mut delivered, mut recorded) = (0, 0);
    for message in messages {
        let entry = entry(store, *message).await;
        delivered += usize::from(entry.state == Delivery::Delivered);
        recorded += entry.recorded;
    }
    (delivered, recorded)
}

#[tokio::test]
async fn a_replay_that_a_restart_cuts_off_goes_on_and_sends_everything_once() {
    let store = Scene::begin(&[Step::Answer(200)]).await.end().await;
    let queue = Panics::after_chunks(&store, 1);
    let first = Scene::over(store, Arc::new(queue), &[Step::Answer(200)]).await;
    let messages = first.dead_letters([first.now(); 1_200]).await;
    let task = first.start(TaskKind::Recover, first.endpoint(), selection("dead")).await;
    first.arrived(500).await;
    let store = first.end().await;
    let cut_off = store.memory().task(task).await.unwrap();
    assert_eq!((cut_off.state, cut_off.replayed), (TaskState::Running, 500));
    assert_eq!(arrived(&store, &messages).await, (500, 500));

    let second = Scene::on(store.clone(), &[Step::Answer(200)]).await;
    assert_eq!(second.done(task).await.replayed, 1_200);
    until(|| async { (arrived(&store, &messages).await.0 == 1_200).then_some(()) }).await;
    assert_eq!(second.arrivals(), 700);
    second.end().await;
    assert_eq!(arrived(&store, &messages).await, (1_200, 1_200), "none of them twice");
}

#[tokio::test]
async fn a_replay_of_several_chunks_goes_on_at_another_node_and_sends_everything_once() {
    let store = Scene::begin(&[Step::Answer(200)]).await.end().await;
    let queue = Panics::after_chunks(&store, 1);
    let first = Scene::over(store, Arc::new(queue), &[Step::Answer(200)]).await;
    let messages = first.dead_letters([first.now(); 1_200]).await;
    let task = first.start(TaskKind::Recover, first.endpoint(), selection("dead")).await;
    first.arrived(500).await;
    // The other node is there before the first one goes, and takes over what that gives back.
    let second = first.beside(Arc::new(SystemClock::start()), true).await;
    let store = first.end().await;
    assert_eq!(second.done(task).await.replayed, 1_200);
    until(|| async { (arrived(&store, &messages).await.0 == 1_200).then_some(()) }).await;
    assert_eq!(second.arrivals(), 700);
    second.end().await;
    assert_eq!(arrived(&store, &messages).await, (1_200, 1_200), "none of them twice");
}

/// Sends a message of a type and on channels, and waits until it is settled.
async fn settled_as(scene: &Scene, event_type: &str, channels: &[&str]) -> MessageId {
    let message = scene.send_as(|draft| {
        draft.message.event_type = event_type.to_owned();
        draft.event_type = EventTypeName::parse(event_type).unwrap();
        draft.message.channels = channels.iter().map(|&name| name.to_owned()).collect();
        draft.channels = channels.iter().map(|name| Channel::parse(name).unwrap()).collect();
    });
    let message = message.await;
    scene.settled(message).await;
    message
}

/// A message for each of the letters, which say how their deliveries stand: two are delivered (`a` and,
/// on a channel, `b`), three are dead letters (`c`, on a channel and of another type `d`, never tried
/// `e`), one is cancelled (`f`), one is pending (`g`).
async fn one_of_each(scene: &Scene, store: &Store) -> [MessageId; 7] {
    let a = settled_as(scene, "scene.made", &[]).await;
    let c = settled_as(scene, "scene.made", &[]).await;
    let b = settled_as(scene, "scene.made", &["quiet"]).await;
    let d = settled_as(scene, "scene.other", &["quiet", "loud"]).await;
    let e = scene.dead_letters([scene.now()]).await[0];
    let tomorrow = scene.now().after(24 * 60 * MINUTE);
    let f = scene.send_as(|draft| draft.deliver_at = Some(tomorrow)).await;
    let g = scene.send_as(|draft| draft.deliver_at = Some(tomorrow)).await;
    store.memory().cancel(scene.look(f).await.key, scene.now()).await.unwrap();
    [a, b, c, d, e, f, g]
}

#[tokio::test]
async fn a_bulk_replay_sends_what_it_describes_and_nothing_else() {
    let table: [(&str, Value, &str); 11] = [
        ("settled", json!({}), "abcdef"),
        ("delivered", json!({}), "ab"),
        ("dead", json!({}), "cde"),
        ("cancelled", json!({}), "f"),
        ("undelivered", json!({}), "cdef"),
        ("settled", json!({ "event_types": ["scene.other"] }), "d"),
        ("settled", json!({ "event_types": ["scene.other", "scene.made"] }), "abcdef"),
        ("settled", json!({ "channel": "quiet" }), "bd"),
        ("settled", json!({ "status_class": 400 }), "cd"),
        ("dead", json!({ "status_class": 200 }), ""),
        ("dead", json!({ "channel": "quiet", "status_class": 400 }), "d"),
    ];
    // Each has a node of its own; to begin and to end one takes seconds.
    let mut cases = JoinSet::new();
    for (states, filter, expected) in table {
        cases.spawn(sends_only(states, filter, expected));
    }
    cases.join_all().await;
}

/// Replays what is described, and compares what arrives with the letters.
async fn sends_only(states: &str, filter: Value, expected: &str) {
    let store = Scene::begin(&[Step::Answer(200)]).await.end().await;
    let steps = [200, 400, 200, 400, 200].map(Step::Answer);
    let scene = Scene::on(store.clone(), &steps).await;
    let messages = one_of_each(&scene, &store).await;
    let before = scene.arrivals();
    let mut described = selection(states);
    for (name, value) in filter.as_object().unwrap() {
        described[name] = value.clone();
    }
    let task = scene.start(TaskKind::BulkReplay, scene.endpoint(), described).await;
    let done = scene.done(task).await;
    scene.arrived(before + expected.len()).await;
    let again: BTreeSet<MessageId> = scene.messages().split_off(before).into_iter().collect();
    let letters = "abcdefg".chars().zip(messages);
    let arrived: String =
        letters.filter(|(_, message)| again.contains(message)).map(|(letter, _)| letter).collect();
    assert_eq!(arrived, expected, "{states} {filter}");
    assert_eq!(scene.arrivals(), before + expected.len(), "{states} {filter}");
    let counts = (done.replayed, done.skipped);
    assert_eq!(counts, (u64::try_from(expected.len()).unwrap(), 0), "{states} {filter}");
    scene.end().await;
}

/// Makes another endpoint with a dead letter, and puts it into a state, past the node.
async fn elsewhere_in(scene: &Scene, store: &Store, state: State) -> (Endpoint, MessageId) {
    let (endpoint, message) = scene.elsewhere().await;
    let change = EndpointEdit::of(move |row| Ok(Endpoint { state, ..row.clone() }));
    let (application, key, at) = (endpoint.application, endpoint.key, endpoint.updated_at);
    store.memory().change_endpoint(application, key, change, at).await.unwrap();
    (endpoint, message)
}

const DISABLED: State = State::Disabled(Reason::ByPerson);

#[tokio::test]
async fn a_replay_passes_over_the_dead_letters_of_a_disabled_endpoint_and_says_so() {
    for kind in [TaskKind::BulkReplay, TaskKind::ReplayMissing] {
        let store = Scene::begin(&[Step::Answer(200)]).await.end().await;
        let scene = Scene::on(store.clone(), &[Step::Answer(200)]).await;
        let others = scene.dead_letters([scene.now(); 2]).await;
        let (endpoint, message) = elsewhere_in(&scene, &store, DISABLED).await;
        // What an endpoint never got is looked for by endpoint.
        let (named, sent) = match kind {
            TaskKind::ReplayMissing => (Some(endpoint.key), 0),
            TaskKind::BulkReplay | TaskKind::Recover => (None, 2),
        };
        let task = scene.start(kind, named, selection("dead")).await;
        let done = scene.done(task).await;
        assert_eq!((done.replayed, done.skipped), (sent, 1), "{kind:?}");
        scene.arrived(usize::try_from(sent).unwrap()).await;
        let entry = entry_of(&store, message, &endpoint).await;
        assert_eq!(entry.state, Delivery::Dead(Cause::Permanent), "{kind:?}");
        for other in others.iter().filter(|_| sent > 0) {
            scene.becomes(*other, Delivery::Delivered).await;
        }
        scene.end().await;
    }
}

#[tokio::test]
async fn a_replay_waits_for_an_endpoint_that_is_paused() {
    let store = Scene::begin(&[Step::Answer(200)]).await.end().await;
    let scene = Scene::on(store.clone(), &[Step::Answer(200)]).await;
    let (endpoint, message) = elsewhere_in(&scene, &store, State::Paused).await;
    let task = scene.start(TaskKind::BulkReplay, None, selection("dead")).await;
    let done = scene.done(task).await;
    assert_eq!((done.replayed, done.skipped), (1, 0));
    let entry = entry_of(&store, message, &endpoint).await;
    assert!(matches!(entry.state, Delivery::Pending(_)), "{entry:?}");
    scene.end().await;
}

#[tokio::test]
async fn what_is_passed_over_counts_once_also_if_the_database_refuses_a_row() {
    for (count, unfit) in [(3, 1), (1, 0), (2, 1)] {
        let store = Scene::begin(&[Step::Answer(200)]).await.end().await;
        let queue = Arc::new(Panics::over(&store));
        let scene = Scene::over(store.clone(), Arc::clone(&queue) as _, &[Step::Answer(200)]).await;
        let messages = scene.dead_letters(vec![scene.now(); count]).await;
        elsewhere_in(&scene, &store, DISABLED).await;
        queue.refuse(scene.look(messages[unfit]).await.key.message);
        let task = scene.start(TaskKind::BulkReplay, None, selection("dead")).await;
        let done = scene.done(task).await;
        assert_eq!((done.replayed, done.skipped), (u64::try_from(count).unwrap() - 1, 1));
        scene.end().await;
    }
}
