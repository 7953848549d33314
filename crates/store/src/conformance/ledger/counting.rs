//! Counting, and removing dead letters by hand.

use std::time::Duration;

use domain::delivery::{Cause, Delivery};
use domain::partition::Partition;
use domain::time::Timestamp;

use crate::catalog::Endpoint;
use crate::conformance::{Harness, MINUTE, NOW, Scene, attempts_of, later};
use crate::keys::{DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{Counts, DeliveryFilter, MOST_WALKED, Tally, Within};
use crate::limits;
use crate::page::{From, Listed, Page};
use crate::queue::{Backlog, Batch, NextState, Settled, Upkeep};

const EXHAUSTED: NextState = NextState::Dead(Cause::Exhausted);

pub async fn deliveries_are_counted_by_state(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (endpoint, other) = (scene.endpoint().await, scene.endpoint().await);
    assert_eq!(counts(&scene, &endpoint, NOW, later(1)).await, Counts::begin());
    for _ in 0..3 {
        scene.settled(&endpoint, NextState::Delivered).await;
    }
    scene.settled(&endpoint, EXHAUSTED).await;
    scene.pending(&endpoint).await;
    scene.pending(&endpoint).await;
    let cancelled = scene.pending(&endpoint).await;
    scene.store().ledger.cancel(cancelled, NOW).await.unwrap();
    scene.pending(&other).await;
    let all = Counts { delivered: 3, pending: 2, dead: 1, cancelled: 1, complete: true };
    assert_eq!(counts(&scene, &endpoint, NOW, later(1)).await, all);
    let theirs = scene.another_application().await.key;
    let ledger = &scene.store().ledger;
    let none = ledger.delivery_counts(theirs, endpoint.key, NOW, later(1)).await.unwrap();
    assert_eq!(none, Counts::begin());
}

pub async fn deliveries_are_counted_from_a_moment_up_to_another(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let hour = MINUTE * 60;
    for hours in [0_u32, 3, 5, 9] {
        let mut accept = scene.message(&[&endpoint]).await;
        accept.message.received_at = NOW.after(hour * hours);
        accept.message.id = domain::ids::Id::new(NOW.after(hour * hours), [7; 16]);
        scene.accept_new(accept).await;
    }
    let cases = [(0, 10, 4), (3, 5, 1), (3, 9, 2), (4, 5, 0), (9, 20, 1), (10, 20, 0), (5, 3, 0)];
    for (since, until, pending) in cases {
        let (since_at, until_at) = (NOW.after(hour * since), NOW.after(hour * until));
        let counted = counts(&scene, &endpoint, since_at, until_at).await;
        assert_eq!(counted, Counts { pending, ..Counts::begin() }, "{since} to {until}");
    }
}

pub async fn a_count_that_would_walk_too_far_says_so(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let template = scene.message(&[&endpoint]).await;
    let rows = MOST_WALKED + 10;
    for _ in 0..rows / 1_001 + 1 {
        let accepts = (0..1_001).map(|_| scene.again(&template)).collect();
        scene.commit(Batch { accepts, ..Batch::default() }).await;
    }
    let counted = counts(&scene, &endpoint, NOW, later(1)).await;
    assert_eq!(counted, Counts { pending: MOST_WALKED, complete: false, ..Counts::begin() });
    // What is far away in time is not walked.
    let day = Duration::from_secs(86_400);
    let counted = counts(&scene, &endpoint, NOW.after(day), NOW.after(day * 2)).await;
    assert_eq!(counted, Counts::begin());
}

pub async fn dead_letters_are_counted_by_application_and_endpoint(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (one, two) = (scene.endpoint().await, scene.endpoint().await);
    let application = scene.application.key;
    let other = scene.another_application().await.key;
    scene.settled(&one, EXHAUSTED).await;
    scene.settled(&two, EXHAUSTED).await;
    scene.settled(&two, NextState::Delivered).await;
    scene.pending(&one).await;
    let ledger = &scene.store().ledger;
    scene.settled(&two, EXHAUSTED).await;
    let table = [
        (Within::Whole, 3),
        (Within::Application(application), 3),
        (Within::Endpoint(application, one.key), 1),
        (Within::Endpoint(application, two.key), 2),
        (Within::Application(other), 0),
        (Within::Endpoint(other, one.key), 0),
    ];
    for (within, number) in table {
        let counted = ledger.dead_letter_count(within).await.unwrap();
        assert_eq!(counted, Tally { number, complete: true }, "{within:?}");
    }
}

pub async fn the_backlog_counts_endpoints_and_knows_the_oldest(harness: Harness) {
    let scene = Scene::new(harness).await;
    let all: Vec<_> = Partition::all().collect();
    let queue = &scene.store().queue;
    assert_eq!(queue.backlog(all.clone()).await.unwrap(), Backlog::default());
    let (one, two) = (scene.endpoint().await, scene.endpoint().await);
    for due in [90, 40, 70] {
        scene.pending_due(&one, later(due)).await;
    }
    scene.pending_due(&two, later(50)).await;
    scene.settled(&scene.endpoint().await, NextState::Delivered).await;
    let backlog = Backlog { endpoints: 2, oldest_due: Some(later(40)) };
    assert_eq!(queue.backlog(all).await.unwrap(), backlog);
    let mut theirs = queue.backlog(vec![two.partition]).await.unwrap();
    if one.partition == two.partition {
        theirs.endpoints -= 1;
    }
    assert_eq!(theirs.endpoints, 1);
    assert_eq!(queue.backlog(Vec::new()).await.unwrap(), Backlog::default());
}

pub async fn purged_dead_letters_are_gone_with_their_attempts(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (endpoint, other) = (scene.endpoint().await, scene.endpoint().await);
    let accept = scene.message(&[&endpoint, &other]).await;
    let message = scene.accept_new(accept.clone()).await;
    let (dead, kept) = (scene.key(&endpoint, message), scene.key(&other, message));
    let settle = scene.settling(dead, 0, EXHAUSTED).await;
    scene.settle_one(settle.clone()).await;
    let delivered = scene.settled(&endpoint, NextState::Delivered).await;
    let purged = purge(&scene, DeliveryFilter::default(), From::Start, 10).await;
    assert_eq!((purged.entries, purged.done), (vec![dead], true));

    let ledger = &scene.store().ledger;
    assert_eq!(
        ledger.dead_letter_count(Within::Application(dead.application)).await.unwrap().number,
        0
    );
    let of = ledger.deliveries_of(dead.application, message).await.unwrap();
    assert_eq!(of.iter().map(|entry| entry.key).collect::<Vec<_>>(), [kept]);
    assert!(matches!(of[0].state, Delivery::Pending(_)));
    assert_eq!(attempts_of(ledger, dead).await.unwrap(), []);
    let page = Page { from: From::Start, limit: 10 };
    let attempts = ledger.attempts(dead.application, endpoint.key, Default::default(), page).await;
    let attempts: Vec<_> = attempts.unwrap().entries.iter().map(|entry| entry.key).collect();
    assert_eq!(attempts, [delivered]);
    // Whatever comes late finds nothing, and the rest goes on.
    assert_eq!(scene.settle_one(settle).await, Settled::Missing);
    assert_eq!(scene.loaded(&other).await, [message]);
    assert!(matches!(
        scene.accept(vec![accept]).await[..],
        [crate::queue::Accepted::New { message: again, .. }] if again == message
    ));
}

pub async fn dead_letters_are_purged_as_they_are_filtered_page_by_page(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let mut keys = Vec::new();
    for number in 0..6 {
        let cause = if number % 2 == 0 { Cause::Exhausted } else { Cause::Permanent };
        keys.push(scene.settled(&endpoint, NextState::Dead(cause)).await);
    }
    keys.reverse();
    let filter = DeliveryFilter { cause: Some(Cause::Exhausted), ..DeliveryFilter::default() };
    let first = purge(&scene, filter.clone(), From::Start, 2).await;
    assert_eq!((first.entries, first.done), (vec![keys[1], keys[3]], false));
    let rest = purge(&scene, filter.clone(), From::After(first.reached.unwrap()), 2).await;
    assert_eq!((rest.entries, rest.done), (vec![keys[5]], true));
    assert_eq!(purge(&scene, filter, From::Start, 2).await.entries, []);
    let page = Page { from: From::Start, limit: 10 };
    let application = scene.application.key;
    let left = scene.store().ledger.dead_letters(application, Default::default(), page).await;
    let left: Vec<_> = left.unwrap().entries.iter().map(|entry| entry.key).collect();
    assert_eq!(left, [keys[0], keys[2], keys[4]]);
}

pub async fn a_message_whose_dead_letters_were_purged_goes_in_its_time(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let mut accept = scene.message(&[&endpoint]).await;
    accept.message.retained_until = NOW.after(MINUTE);
    let message = scene.accept_new(accept.clone()).await;
    let key = scene.key(&endpoint, message);
    scene.settle_one(scene.settling(key, 0, EXHAUSTED).await).await;
    purge(&scene, DeliveryFilter::default(), From::Start, 10).await;
    let name = || crate::catalog::Name::Id(accept.message.id);
    let ledger = &scene.store().ledger;
    assert!(ledger.message(key.application, name()).await.is_ok());
    assert!(limits::DEAD_LETTERS > MINUTE * 2, "a dead letter would have kept it");
    scene.keep_up(Upkeep::Prune { now: NOW.after(MINUTE * 2), most: 100 }).await;
    assert!(ledger.message(key.application, name()).await.is_err());
}

async fn counts(scene: &Scene, endpoint: &Endpoint, since: Timestamp, until: Timestamp) -> Counts {
    let ledger = &scene.store().ledger;
    ledger.delivery_counts(endpoint.application, endpoint.key, since, until).await.unwrap()
}

async fn purge(
    scene: &Scene,
    filter: DeliveryFilter,
    from: From<(MessageKey, EndpointKey)>,
    limit: u32,
) -> Listed<DeliveryKey, (MessageKey, EndpointKey)> {
    let page = Page { from, limit };
    scene.store().ledger.purge_dead_letters(scene.application.key, filter, page).await.unwrap()
}
