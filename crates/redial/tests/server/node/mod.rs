//! A node on a store in memory, with a way out that does what a test says.

mod announcements;
mod clocks;
mod grenade;
mod replays;
mod scene;
mod script;
mod trouble;

use std::time::Duration;

use domain::delivery::{Cause, Delivery};
use domain::endpoint::{Reason, State};
use domain::time::Timestamp;

use serde_json::json;
use store::Catalog as _;
use store::catalog::{EventType, EventTypeSettings};
use store::queue::Order;

use scene::{Scene, Step};

#[tokio::test]
async fn a_message_taken_in_is_delivered() {
    let scene = Scene::begin(&[Step::Answer(200)]).await;
    let message = scene.send().await;
    let entry = scene.settled(message).await;
    assert_eq!(entry.state, Delivery::Delivered);
    assert_eq!((entry.recorded, entry.last_status), (1, Some(200)));
    assert_eq!(scene.arrivals(), 1);
    scene.end().await;
}

#[tokio::test]
async fn a_failed_attempt_is_made_again_when_it_is_due() {
    let scene = Scene::begin(&[Step::Answer(503), Step::Answer(500), Step::Answer(204)]).await;
    let message = scene.send().await;
    let entry = scene.settled(message).await;
    assert_eq!(entry.state, Delivery::Delivered);
    assert_eq!((entry.recorded, scene.arrivals()), (3, 3));
    scene.end().await;
}

#[tokio::test]
async fn a_delivery_that_makes_us_panic_three_times_is_buried_and_others_go_on() {
    let scene = Scene::begin(&[Step::Panic, Step::Panic, Step::Panic, Step::Answer(200)]).await;
    let poison = scene.send().await;
    let entry = scene.settled(poison).await;
    assert_eq!(entry.state, Delivery::Dead(Cause::Poison));
    assert_eq!(entry.recorded, 0);
    let next = scene.send().await;
    assert_eq!(scene.settled(next).await.state, Delivery::Delivered);
    scene.end().await;
}

#[tokio::test]
async fn gone_disables_the_endpoint_and_buries_what_waits() {
    let scene = Scene::begin(&[Step::Answer(410)]).await;
    let messages = [scene.send().await, scene.send().await, scene.send().await];
    for message in messages {
        let state = scene.settled(message).await.state;
        assert!(
            matches!(state, Delivery::Dead(Cause::Permanent | Cause::EndpointDisabled)),
            "{state:?}"
        );
    }
    scene.endpoint_becomes(State::Disabled(Reason::Gone)).await;
    scene.end().await;
}

#[tokio::test]
async fn stopping_lets_what_is_in_flight_end_and_settles_it() {
    let scene = Scene::begin(&[Step::Slow(Duration::from_millis(300), 200)]).await;
    let message = scene.send().await;
    scene.arrived(1).await;
    let store = scene.end().await;
    let entry = scene::entry(&store, message).await;
    assert_eq!(entry.state, Delivery::Delivered);
}

#[tokio::test]
async fn what_is_still_in_flight_after_the_grace_time_is_interrupted_and_costs_nothing() {
    let scene = Scene::begin(&[Step::Slow(Duration::from_secs(600), 200)]).await;
    let message = scene.send().await;
    scene.arrived(1).await;
    let store = scene.end().await;
    let entry = scene::entry(&store, message).await;
    assert!(matches!(entry.state, Delivery::Pending(_)));
    assert_eq!(entry.recorded, 0);
    let again = Scene::on(store, &[Step::Answer(200)]).await;
    assert_eq!(again.settled(message).await.state, Delivery::Delivered);
    again.end().await;
}

#[tokio::test]
async fn a_replay_task_sends_a_dead_letter_again() {
    let scene = Scene::begin(&[Step::Answer(400), Step::Answer(200)]).await;
    let message = scene.send().await;
    assert_eq!(scene.settled(message).await.state, Delivery::Dead(Cause::Permanent));
    scene.replay().await;
    scene.arrived(2).await;
    let entry = scene.becomes(message, Delivery::Delivered).await;
    assert_eq!(entry.recorded, 2);
    scene.end().await;
}

#[tokio::test]
async fn a_message_for_one_endpoint_alone_is_missing_nowhere_else() {
    let scene = Scene::begin(&[Step::Answer(200)]).await;
    let only = Some(scene.endpoint());
    let example = scene.send_as(|draft| draft.only = only).await;
    let message = scene.send().await;
    let late = scene.late_endpoint(Order::Due).await;
    assert_eq!(late.iter().map(|entry| entry.message).collect::<Vec<_>>(), [message]);
    assert_eq!(scene.settled(example).await.state, Delivery::Delivered);
    scene.end().await;
}

#[tokio::test]
async fn what_is_sent_because_it_was_missing_keeps_its_delivery_time_and_its_policy() {
    let scene = Scene::begin(&[Step::Answer(200)]).await;
    let tomorrow = scene.now().after(Duration::from_secs(86_400));
    let own = json!({ "policy": { "give_up_after": "7m" } });
    scene
        .send_as(|draft| {
            draft.deliver_at = Some(tomorrow);
            draft.message.policy = Some(own.to_string());
        })
        .await;
    let late = scene.late_endpoint(Order::Due).await;
    let [Delivery::Pending(pending)] = late.iter().map(|it| it.state).collect::<Vec<_>>()[..]
    else {
        panic!("{late:?}");
    };
    assert_eq!(pending.due, tomorrow);
    let give_up = tomorrow.after(Duration::from_secs(7 * 60));
    assert_eq!(pending.budget.expires_at, Some(give_up));
    scene.end().await;
}

#[tokio::test]
async fn what_is_replayed_keeps_the_policy_of_its_message() {
    let minutes = Duration::from_secs(7 * 60);
    let scene = Scene::begin(&[Step::Answer(400), Step::Slow(Duration::from_secs(600), 200)]).await;
    let own = json!({ "policy": { "give_up_after": "7m" } });
    let message = scene.send_as(|draft| draft.message.policy = Some(own.to_string())).await;
    assert_eq!(scene.settled(message).await.state, Delivery::Dead(Cause::Permanent));
    let began = scene.now();
    scene.replay().await;
    let Delivery::Pending(pending) = scene.look(message).await.state else {
        panic!("it is in flight again");
    };
    let times = began.after(minutes)..=scene.now().after(minutes);
    assert!(pending.budget.expires_at.is_some_and(|at| times.contains(&at)), "{pending:?}");
    scene.end().await;
}

#[tokio::test]
async fn a_node_knows_the_policies_of_event_types_before_it_takes_a_message_in() {
    let store = Scene::begin(&[Step::Answer(200)]).await.end().await;
    let policy = Some(json!({ "policy": { "give_up_after": "7m" } }));
    let settings = EventTypeSettings { policy, ..Default::default() };
    let (name, at) = ("scene.made".to_owned(), Timestamp::EPOCH);
    let event_type = EventType { name, settings, created_at: at, updated_at: at };
    store.memory().create_event_type(event_type).await.unwrap();
    let scene = Scene::on(store, &[Step::Slow(Duration::from_secs(600), 200)]).await;
    let message = scene.send().await;
    let entry = scene.look(message).await;
    let Delivery::Pending(pending) = entry.state else { panic!("{entry:?}") };
    let give_up = entry.received_at.after(Duration::from_secs(7 * 60));
    assert_eq!(pending.budget.expires_at, Some(give_up));
    scene.end().await;
}

#[tokio::test]
async fn an_endpoint_that_keeps_the_order_gets_what_it_missed_of_later_at_its_time() {
    let scene = Scene::begin(&[Step::Answer(200)]).await;
    let tomorrow = scene.now().after(Duration::from_secs(86_400));
    let scheduled = scene.send_as(|draft| draft.deliver_at = Some(tomorrow)).await;
    let message = scene.send().await;
    let late = scene.late_endpoint(Order::Fifo).await;
    assert_eq!(late.iter().map(|entry| entry.message).collect::<Vec<_>>(), [message, scheduled]);
    let due = match late[1].state {
        Delivery::Pending(pending) => Some(pending.due),
        Delivery::Delivered | Delivery::Dead(_) | Delivery::Cancelled => None,
    };
    assert_eq!(due, Some(tomorrow));
    scene.end().await;
}

#[tokio::test]
async fn an_endpoint_created_through_another_node_gets_the_very_next_message() {
    let scene = Scene::begin(&[Step::Answer(200)]).await;
    let before = scene.send().await;
    scene.settled(before).await;
    // This node has its endpoints in memory, and nobody tells it of the new one.
    let created = scene.created_elsewhere(Order::Due).await;
    let next = scene.send().await;
    assert_eq!(scene.endpoints_of(before).await, [scene.endpoint()]);
    assert_eq!(scene.endpoints_of(next).await, [scene.endpoint(), created]);
    scene.end().await;
}

#[tokio::test]
async fn a_replay_finds_an_endpoint_that_another_node_made() {
    let scene = Scene::begin(&[Step::Answer(200)]).await;
    // From now on the node has the application's endpoints in memory.
    let message = scene.send().await;
    scene.settled(message).await;
    let (endpoint, message) = scene.elsewhere().await;
    scene.replay_for(&endpoint).await;
    scene.arrived(2).await;
    let store = scene.end().await;
    assert_eq!(scene::entry_of(&store, message, &endpoint).await.state, Delivery::Delivered);
}

#[tokio::test]
async fn a_dead_letter_without_its_payload_stays_one_when_it_is_replayed() {
    let scene = Scene::begin(&[Step::Answer(400), Step::Answer(200)]).await;
    let message = scene.send().await;
    assert_eq!(scene.settled(message).await.state, Delivery::Dead(Cause::Permanent));
    scene.expunge(message).await;
    let done = scene.replay().await;
    assert_eq!((done.replayed, done.skipped), (0, 1));
    let entry = scene.settled(message).await;
    assert_eq!(entry.state, Delivery::Dead(Cause::Permanent));
    assert_eq!((entry.recorded, scene.arrivals()), (1, 1), "there is nothing to send");
    // And it holds up nobody.
    let next = scene.send().await;
    assert_eq!(scene.settled(next).await.state, Delivery::Delivered);
    scene.end().await;
}
