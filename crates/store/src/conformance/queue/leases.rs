//! Leases: one owner at a time, a new epoch for each, and nothing taken from the living.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::partition::Partition;

use crate::Queue;
use crate::conformance::Harness;
use crate::keys::{Epoch, Lease, Node};
use crate::limits::LEASE;
use crate::queue::Renewal;

pub async fn a_new_node_owns_nothing(harness: Harness) {
    let renewal = harness.store.queue.renew(node("a")).await.unwrap();
    assert_eq!((renewal.owned, renewal.others), (Vec::new(), 0));
}

pub async fn a_node_owns_what_it_took(harness: Harness) {
    let queue = &*harness.store.queue;
    queue.renew(node("a")).await.unwrap();
    let taken = sorted(queue.take(node("a"), 64).await.unwrap());
    let partitions: BTreeSet<_> = taken.iter().map(|lease| lease.partition).collect();
    assert_eq!(partitions, Partition::all().collect());
    assert_eq!(sorted(queue.renew(node("a")).await.unwrap().owned), taken);
}

pub async fn no_more_is_taken_than_was_asked_for(harness: Harness) {
    let queue = &*harness.store.queue;
    queue.renew(node("a")).await.unwrap();
    assert_eq!(queue.take(node("a"), 0).await.unwrap(), []);
    assert_eq!(queue.take(node("a"), 5).await.unwrap().len(), 5);
    assert_eq!(queue.take(node("a"), 64).await.unwrap().len(), 59);
    assert_eq!(queue.take(node("a"), 64).await.unwrap(), []);
}

pub async fn nothing_is_taken_from_a_node_that_renews(harness: Harness) {
    let (one, two) = (&*harness.store.queue, &*harness.other.queue);
    one.renew(node("a")).await.unwrap();
    one.take(node("a"), 40).await.unwrap();
    for _ in 0..3 {
        pass(&harness, LEASE - Duration::from_secs(2)).await;
        one.renew(node("a")).await.unwrap();
    }
    two.renew(node("b")).await.unwrap();
    let taken = two.take(node("b"), 64).await.unwrap();
    assert_eq!(taken.len(), 24);
    assert_eq!(one.renew(node("a")).await.unwrap().owned.len(), 40);
}

pub async fn what_a_silent_node_owned_is_taken_under_a_new_epoch(harness: Harness) {
    let (one, two) = (&*harness.store.queue, &*harness.other.queue);
    one.renew(node("a")).await.unwrap();
    let before = sorted(one.take(node("a"), 64).await.unwrap());
    pass(&harness, LEASE - Duration::from_secs(1)).await;
    two.renew(node("b")).await.unwrap();
    assert_eq!(two.take(node("b"), 64).await.unwrap(), []);
    pass(&harness, Duration::from_secs(2)).await;
    let taken = sorted(two.take(node("b"), 64).await.unwrap());
    let raised: Vec<_> = before.iter().map(raised).collect();
    assert_eq!(taken, raised);
    assert_eq!(one.renew(node("a")).await.unwrap().owned, []);
    assert_eq!(sorted(two.renew(node("b")).await.unwrap().owned), taken);
}

pub async fn a_silent_node_that_nobody_replaced_still_owns_its_own(harness: Harness) {
    let queue = &*harness.store.queue;
    queue.renew(node("a")).await.unwrap();
    let taken = sorted(queue.take(node("a"), 64).await.unwrap());
    pass(&harness, LEASE * 3).await;
    assert_eq!(sorted(queue.renew(node("a")).await.unwrap().owned), taken);
    assert_eq!(queue.take(node("a"), 64).await.unwrap(), []);
}

pub async fn a_node_counts_the_others_that_are_alive(harness: Harness) {
    let queue = &*harness.store.queue;
    queue.renew(node("a")).await.unwrap();
    queue.renew(node("b")).await.unwrap();
    assert_eq!(others(queue, "c").await, 2);
    assert_eq!(others(queue, "a").await, 2);
    pass(&harness, LEASE * 2).await;
    assert_eq!(others(queue, "a").await, 0);
    assert_eq!(others(queue, "b").await, 1);
}

pub async fn a_node_knows_when_the_first_of_the_others_ends(harness: Harness) {
    let queue = &*harness.store.queue;
    let renewal = queue.renew(node("a")).await.unwrap();
    assert_eq!(renewal.others_until, None);
    pass(&harness, Duration::from_secs(3)).await;
    queue.renew(node("b")).await.unwrap();
    let left = |renewal: Renewal| renewal.others_until.unwrap().since(renewal.now);
    // A test may be slow, and a lease is never longer than it is.
    let (seven, second) = (LEASE - Duration::from_secs(3), Duration::from_secs(1));
    let ends = left(queue.renew(node("c")).await.unwrap());
    assert!(ends <= seven && ends > seven - second, "{ends:?}");
    queue.renew(node("a")).await.unwrap();
    let ends = left(queue.renew(node("c")).await.unwrap());
    assert!(ends <= LEASE && ends > LEASE - second, "{ends:?}");
    pass(&harness, LEASE * 2).await;
    assert_eq!(queue.renew(node("c")).await.unwrap().others_until, None);
}

pub async fn a_node_counts_what_nobody_owns(harness: Harness) {
    let (one, two) = (&*harness.store.queue, &*harness.other.queue);
    assert_eq!(one.renew(node("a")).await.unwrap().free, 64);
    let taken = one.take(node("a"), 40).await.unwrap();
    assert_eq!(two.renew(node("b")).await.unwrap().free, 24);
    one.release(node("a"), taken[..7].to_vec()).await.unwrap();
    assert_eq!(two.renew(node("b")).await.unwrap().free, 31, "given back");
    pass(&harness, LEASE * 2).await;
    assert_eq!(two.renew(node("b")).await.unwrap().free, 64, "what the dead have, too");
    assert_eq!(one.renew(node("a")).await.unwrap().free, 31, "but not one's own");
}

pub async fn what_is_released_can_be_taken_at_once(harness: Harness) {
    let (one, two) = (&*harness.store.queue, &*harness.other.queue);
    one.renew(node("a")).await.unwrap();
    let taken = sorted(one.take(node("a"), 64).await.unwrap());
    one.release(node("a"), taken[..10].to_vec()).await.unwrap();
    assert_eq!(sorted(one.renew(node("a")).await.unwrap().owned), taken[10..]);
    two.renew(node("b")).await.unwrap();
    let given = sorted(two.take(node("b"), 64).await.unwrap());
    let raised: Vec<_> = taken[..10].iter().map(raised).collect();
    assert_eq!(given, raised);
}

pub async fn a_release_that_comes_too_late_is_left_alone(harness: Harness) {
    let (one, two) = (&*harness.store.queue, &*harness.other.queue);
    one.renew(node("a")).await.unwrap();
    let before = one.take(node("a"), 64).await.unwrap();
    pass(&harness, LEASE * 2).await;
    two.renew(node("b")).await.unwrap();
    let taken = sorted(two.take(node("b"), 64).await.unwrap());
    one.release(node("a"), before).await.unwrap();
    one.release(node("a"), taken.clone()).await.unwrap();
    assert_eq!(sorted(two.renew(node("b")).await.unwrap().owned), taken);
}

pub async fn a_release_that_comes_twice_gives_back_once(harness: Harness) {
    let queue = &*harness.store.queue;
    queue.renew(node("a")).await.unwrap();
    let first = queue.take(node("a"), 64).await.unwrap();
    queue.release(node("a"), first.clone()).await.unwrap();
    let second = sorted(queue.take(node("a"), 64).await.unwrap());
    queue.release(node("a"), first).await.unwrap();
    assert_eq!(sorted(queue.renew(node("a")).await.unwrap().owned), second);
}

pub async fn a_node_that_gave_everything_back_does_not_count(harness: Harness) {
    let (one, two) = (&*harness.store.queue, &*harness.other.queue);
    one.renew(node("a")).await.unwrap();
    let taken = one.take(node("a"), 64).await.unwrap();
    one.release(node("a"), taken[..63].to_vec()).await.unwrap();
    assert_eq!(others(two, "b").await, 1, "it has one left");
    one.release(node("a"), taken[63..].to_vec()).await.unwrap();
    assert_eq!(others(two, "b").await, 0);
    // Nothing left to give back is the same.
    one.renew(node("a")).await.unwrap();
    assert_eq!(others(two, "b").await, 1, "it renewed");
    one.release(node("a"), Vec::new()).await.unwrap();
    assert_eq!(others(two, "b").await, 0);
    assert_eq!(two.take(node("b"), 64).await.unwrap().len(), 64);
}

pub async fn a_node_that_takes_again_counts_again(harness: Harness) {
    let (one, two) = (&*harness.store.queue, &*harness.other.queue);
    one.renew(node("a")).await.unwrap();
    let taken = one.take(node("a"), 64).await.unwrap();
    one.release(node("a"), taken).await.unwrap();
    assert_eq!(one.take(node("a"), 40).await.unwrap().len(), 40);
    assert_eq!(others(two, "b").await, 1);
    assert_eq!(two.take(node("b"), 64).await.unwrap().len(), 24, "nothing of what the other took");
}

pub async fn epochs_only_grow(harness: Harness) {
    let queue = &*harness.store.queue;
    queue.renew(node("a")).await.unwrap();
    let mut last = Vec::new();
    for _ in 0..4 {
        let leases = sorted(queue.take(node("a"), 64).await.unwrap());
        let expected: Vec<_> = last.iter().map(raised).collect();
        assert!(last.is_empty() || leases == expected, "{leases:?}");
        queue.release(node("a"), leases.clone()).await.unwrap();
        last = leases;
    }
}

pub async fn time_does_not_go_back(harness: Harness) {
    let queue = &*harness.store.queue;
    let first = queue.renew(node("a")).await.unwrap().now;
    let second = queue.renew(node("a")).await.unwrap().now;
    assert!(first <= second, "{first:?} {second:?}");
}

pub async fn whoever_asks_for_the_time_is_not_a_node(harness: Harness) {
    let queue = &*harness.store.queue;
    let before = queue.renew(node("a")).await.unwrap().now;
    let now = queue.now().await.unwrap();
    let after = queue.renew(node("a")).await.unwrap();
    assert!(before <= now && now <= after.now, "{before:?} {now:?} {:?}", after.now);
    assert_eq!(after.others, 0);
}

fn node(name: &str) -> Node {
    Node(name.to_owned())
}

fn sorted(mut leases: Vec<Lease>) -> Vec<Lease> {
    leases.sort_unstable();
    leases
}

fn raised(lease: &Lease) -> Lease {
    Lease { epoch: Epoch(lease.epoch.0 + 1), ..*lease }
}

async fn others(queue: &dyn Queue, name: &str) -> u32 {
    queue.renew(node(name)).await.unwrap().others
}

async fn pass(harness: &Harness, by: Duration) {
    (harness.pass)(by).await.unwrap();
}
