//! What only several nodes can do to each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::delivery::Cause;
use domain::endpoint::State;
use domain::partition::Partition;
use store::catalog::{Endpoint, EndpointEdit};
use store::conformance::{Handle, NOW, Scene, fresh, long_ago};
use store::keys::{DeliveryKey, Lease, Node};
use store::ledger::{NewTask, TaskKind};
use store::limits;
use store::page::{From, Page};
use store::postgres::{Postgres, Settings};
use store::queue::{
    Accept, Accepted, Batch, Call, Chosen, Done, NextState, Order, Replay, Settle, Settled, Upkeep,
};
use store::{Error, Queue};

use super::proxy::{Fault, Proxy};
use super::server::{Schema, url};
use super::{harness, open};

/// Counts those who wait for a lock.
pub(super) const WAITING: &str = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' \
                       and application_name = current_schema()";

fn other() -> Node {
    Node("other".to_owned())
}

/// Counts the gates that are closed, or are about to be.
const STANDING: &str = "select count(*) from pg_locks join pg_stat_activity using (pid) \
                        where locktype = 'advisory' and mode = 'ExclusiveLock' \
                        and application_name = current_schema()";

/// Starts a replay of one delivery, and returns all of its work.
async fn replay_of(scene: &Scene, endpoint: &Endpoint, key: DeliveryKey) -> Replay {
    let task = NewTask {
        id: scene.id(),
        application: endpoint.application,
        endpoint: Some(endpoint.key),
        kind: TaskKind::BulkReplay,
        selection: serde_json::Value::Null,
        by: "somebody".to_owned(),
        at: NOW,
    };
    let entry = scene.look(key).await;
    let chosen = Chosen {
        key,
        partition: endpoint.partition,
        state: entry.state,
        ended_at: entry.settled_at,
        pending: fresh(NOW),
    };
    Replay {
        lease: scene.some_lease(),
        task: scene.store().ledger.start_task(task).await.unwrap().id,
        cursor: None,
        next_cursor: None,
        deliveries: vec![chosen],
        missing: None,
        passed_over: 0,
        at: NOW,
    }
}

/// Takes what is free until there is something.
async fn take_some(handle: &Handle) -> Vec<Lease> {
    loop {
        let leases = handle.queue.take(other(), 64).await.unwrap();
        if !leases.is_empty() {
            return leases;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_node_that_freezes_before_its_commit_is_ended_and_fenced() {
    let (schema, proxy) = (Arc::new(Schema::create().await), Proxy::start().await);
    // Frozen transactions are ended after half of the patience.
    let patience = Duration::from_secs(1);
    let settings = Settings { patience, ..schema.settings(&proxy.url()) };
    let store = Postgres::connect(settings).await.unwrap();
    let second = schema.open().await;
    let scene = Scene::new(harness(schema, store, second)).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let settle = scene.settling(key, 0, NextState::Delivered).await;

    let thaw = Arc::default();
    proxy.strike(Fault::Freeze(Arc::clone(&thaw)));
    let (frozen, lease) = tokio::join!(scene.settle_one(settle), async {
        proxy.struck().await;
        (scene.harness.pass)(limits::LEASE).await.unwrap();
        scene.harness.other.queue.renew(other()).await.unwrap();
        // It has locked its partition: that one is left, at once and without waiting.
        let rest = scene.harness.other.queue.take(other(), 64).await.unwrap();
        assert!(rest.iter().all(|lease| lease.partition != endpoint.partition));
        assert_eq!(rest.len(), 63);
        let leases = take_some(&scene.harness.other).await;
        thaw.notify_one();
        *leases.iter().find(|lease| lease.partition == endpoint.partition).unwrap()
    });
    assert_eq!(frozen, Settled::Fenced);
    assert_eq!(scene.look(key).await.recorded, 0);
    let settle = Settle { lease, ..scene.settling(key, 0, NextState::Delivered).await };
    let batch = Batch { settles: vec![settle], ..Batch::default() };
    let settled = scene.harness.other.queue.commit(batch.into()).await.unwrap().settles;
    assert_eq!(settled, [Settled::Applied { turn: None }]);
}

#[tokio::test]
async fn a_node_does_not_come_back_while_another_takes_what_it_had() {
    let (schema, proxy) = (Arc::new(Schema::create().await), Proxy::start().await);
    let store = Postgres::connect(schema.settings(&proxy.url())).await.unwrap();
    let second = schema.open().await;
    let harness = harness(Arc::clone(&schema), store, second);
    let (one, two) = (&harness.store.queue, &harness.other.queue);
    two.renew(other()).await.unwrap();
    assert_eq!(two.take(other(), 64).await.unwrap().len(), 64);
    (harness.pass)(limits::LEASE).await.unwrap();
    let first = Node("first".to_owned());
    one.renew(first.clone()).await.unwrap();

    let thaw = Arc::default();
    proxy.strike(Fault::Freeze(Arc::clone(&thaw)));
    let back = async {
        proxy.struck().await;
        let (renewal, ()) = tokio::join!(two.renew(other()), async {
            while schema.number(WAITING).await == 0 {
                tokio::task::yield_now().await;
            }
            thaw.notify_one();
        });
        renewal.unwrap()
    };
    let (taken, renewal) = tokio::join!(one.take(first, 64), back);
    assert_eq!((taken.unwrap().len(), renewal.owned), (64, Vec::new()));
}

#[tokio::test]
async fn what_is_given_back_is_heard_of() {
    let schema = Arc::new(Schema::create().await);
    let (store, second) = (schema.open().await, schema.open().await);
    let harness = harness(schema, store, second);
    let (one, two) = (&harness.store.queue, &harness.other.queue);
    let heard = async { while two.woken().await.unwrap() != Call::Free {} };
    // The other may not be listening yet, so it is told again and again.
    let given = async {
        loop {
            one.renew(other()).await.unwrap();
            let leases = one.take(other(), 64).await.unwrap();
            one.release(other(), leases).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let within = Duration::from_secs(30);
    let heard = tokio::time::timeout(within, async {
        tokio::select! {
            () = heard => {}
            () = given => {}
        }
    });
    assert!(heard.await.is_ok(), "nobody heard of it");
}

#[tokio::test]
async fn an_endpoint_is_created_after_the_accepts_that_do_not_know_it() {
    let (schema, proxy) = (Arc::new(Schema::create().await), Proxy::start().await);
    let store = Postgres::connect(schema.settings(&proxy.url())).await.unwrap();
    let second = schema.open().await;
    let scene = Scene::new(harness(Arc::clone(&schema), store, second)).await;
    let endpoint = scene.endpoint().await;
    let accept = scene.message(&[&endpoint]).await;
    let stale = scene.again(&accept);

    let thaw = Arc::default();
    proxy.strike(Fault::Freeze(Arc::clone(&thaw)));
    let created = async {
        proxy.struck().await;
        let new = scene.new_endpoint(Order::Due);
        let creating = scene.harness.other.catalog.create_endpoint(new);
        let (created, ()) = tokio::join!(creating, async {
            while schema.number(WAITING).await == 0 {
                tokio::task::yield_now().await;
            }
            thaw.notify_one();
        });
        created.unwrap()
    };
    let (accepted, created) = tokio::join!(scene.accept(vec![accept]), created);
    assert!(matches!(accepted[..], [Accepted::New { .. }]), "{accepted:?}");
    assert_eq!(created.state, State::Active);
    let revision = scene.revision().await;
    assert_eq!(scene.accept(vec![stale]).await, [Accepted::Stale(revision)]);
}

/// Has every new message take its time, and with it the accept that holds its application.
const SLOW_MESSAGES: &str = "\
    create function slow() returns trigger language plpgsql as \
        'begin perform pg_sleep(0.03); return new; end'; \
    create trigger slow before insert on messages for each row execute function slow()";

#[tokio::test]
async fn an_endpoint_is_created_however_many_nodes_accept_without_a_pause() {
    const NODES: i64 = 6;
    let schema = Arc::new(Schema::create().await);
    // Enough to wait for one accept of each, much too little for a moment without any.
    let settings = Settings { patience: Duration::from_secs(1), ..schema.settings(&url()) };
    let store = Postgres::connect(settings).await.unwrap();
    let second = schema.open().await;
    let scene = Arc::new(Scene::new(harness(Arc::clone(&schema), store, second)).await);
    let endpoint = scene.endpoint().await;
    let accept = scene.message(&[&endpoint]).await;
    schema.run(SLOW_MESSAGES).await;
    let mut accepting = tokio::task::JoinSet::new();
    for _ in 0..NODES {
        let (node, scene, accept) = (schema.open().await, Arc::clone(&scene), accept.clone());
        accepting.spawn(async move {
            loop {
                let batch = Batch { accepts: vec![scene.again(&accept)], ..Batch::default() };
                let accepts = node.commit(batch.into()).await.unwrap().accepts;
                let [Accepted::New { .. }] = accepts[..] else { return accepts };
            }
        });
    }
    while schema.number("select count(*) from messages").await < NODES {
        tokio::task::yield_now().await;
    }
    let created = scene.store().catalog.create_endpoint(scene.new_endpoint(Order::Due)).await;
    assert!(created.is_ok(), "{created:?}");
    let revision = scene.revision().await;
    while let Some(accepts) = accepting.join_next().await {
        assert_eq!(accepts.unwrap(), [Accepted::Stale(revision)]);
    }
}

#[tokio::test]
async fn no_replay_overtakes_a_change_that_has_waited_for_others() {
    let schema = Arc::new(Schema::create().await);
    let (store, second, beside) = (schema.open().await, schema.open().await, schema.beside().await);
    let scene = Scene::new(harness(Arc::clone(&schema), store, second)).await;
    let endpoint = scene.endpoint().await;
    let key = scene.settled(&endpoint, NextState::Delivered).await;
    let chunk = replay_of(&scene, &endpoint, key).await;
    beside.run("begin; select 1 from applications for share").await;
    let creating = scene.store().catalog.create_endpoint(scene.new_endpoint(Order::Due));
    // It gives up once before it stands in the way of others.
    let replaying = async {
        while schema.number(STANDING).await == 0 {
            tokio::task::yield_now().await;
        }
        scene.keep_up(Upkeep::Replay(chunk)).await
    };
    let commit = async {
        while schema.number(WAITING).await < 2 {
            tokio::task::yield_now().await;
        }
        beside.run("commit").await;
    };
    let (created, done, ()) = tokio::join!(creating, replaying, commit);
    assert!(created.is_ok(), "{created:?}");
    assert_eq!(done, Done::Changed(1));
}

#[tokio::test]
async fn no_order_is_switched_between_a_replay_and_its_commit() {
    let (schema, proxy) = (Arc::new(Schema::create().await), Proxy::start().await);
    let store = Postgres::connect(schema.settings(&proxy.url())).await.unwrap();
    let second = schema.open().await;
    let scene = Scene::new(harness(Arc::clone(&schema), store, second)).await;
    let endpoint = scene.endpoint().await;
    let key = scene.settled(&endpoint, NextState::Delivered).await;
    let chunk = replay_of(&scene, &endpoint, key).await;
    let thaw = Arc::default();
    proxy.strike(Fault::Freeze(Arc::clone(&thaw)));
    let switched = async {
        proxy.struck().await;
        let fifo = Endpoint { order: Order::Fifo, ..endpoint.clone() };
        let (application, key) = (fifo.application, fifo.key);
        let fifo = EndpointEdit::of(move |_| Ok(fifo.clone()));
        let other = &scene.harness.other.catalog;
        let switching = other.change_endpoint(application, key, fifo, NOW);
        let (switched, ()) = tokio::join!(switching, async {
            while schema.number(WAITING).await == 0 {
                tokio::task::yield_now().await;
            }
            thaw.notify_one();
        });
        switched
    };
    let (done, switched) = tokio::join!(scene.keep_up(Upkeep::Replay(chunk)), switched);
    assert_eq!(done, Done::Changed(1));
    assert!(matches!(switched, Err(Error::Refused(_))), "{switched:?}");
    assert_eq!(scene.load(&endpoint).await.deliveries[0].turn, NOW.as_micros());
}

#[tokio::test]
async fn a_dead_letter_that_goes_takes_an_attempt_along_that_came_just_before() {
    let schema = Arc::new(Schema::create().await);
    let (store, second, beside) = (schema.open().await, schema.open().await, schema.beside().await);
    let scene = Scene::new(harness(Arc::clone(&schema), store, second)).await;
    let endpoint = scene.endpoint().await;
    scene.settled(&endpoint, NextState::Dead(Cause::Exhausted)).await;
    // As if it was replayed and buried again by somebody who is about to commit.
    let last = format!("'\\x{}'", "ff".repeat(20));
    let replayed = format!(
        "begin; \
         insert into attempts select n.* from attempts a cross join lateral \
             jsonb_populate_record(a, jsonb_build_object( \
                 'id', {last}, 'number', 2, 'previous', a.id::text)) n; \
         update deliveries set last_attempt = {last}, recorded = 2"
    );
    beside.run(&replayed).await;
    let page = Page { from: From::Start, limit: 10 };
    let purging =
        scene.store().ledger.purge_dead_letters(endpoint.application, Default::default(), page);
    let (purged, ()) = tokio::join!(purging, async {
        while schema.number(WAITING).await == 0 {
            tokio::task::yield_now().await;
        }
        beside.run("commit").await;
    });
    assert_eq!(purged.unwrap().entries.len(), 1);
    assert_eq!(schema.number("select count(*) from attempts").await, 0);
}

#[tokio::test]
async fn nothing_outlives_its_application_because_it_was_changed_meanwhile() {
    for (table, change) in
        [("deliveries", "due = due + 1"), ("endpoint_state", "failures = failures + 1")]
    {
        let schema = Arc::new(Schema::create().await);
        let (store, second) = (schema.open().await, schema.open().await);
        let beside = schema.beside().await;
        let scene = Scene::new(harness(Arc::clone(&schema), store, second)).await;
        let endpoint = scene.endpoint().await;
        scene.pending(&endpoint).await;
        let states = "insert into endpoint_state \
                      (application, endpoint, breaker, failures, permanent_streak) \
                      select application, key, 0, 0, 0 from endpoints";
        schema.run(states).await;
        scene.store().catalog.delete_application(endpoint.application, long_ago()).await.unwrap();
        beside.run(&format!("begin; update {table} set {change}")).await;
        let pruning = async {
            while scene.keep_up(Upkeep::Prune { now: NOW, most: 200 }).await != Done::Changed(0) {}
        };
        tokio::join!(pruning, async {
            while schema.number(WAITING).await == 0 {
                tokio::task::yield_now().await;
            }
            beside.run("commit").await;
        });
        for table in [table, "applications"] {
            let left = schema.number(&format!("select count(*) from {table}")).await;
            assert_eq!(left, 0, "{table}");
        }
    }
}

#[tokio::test]
async fn nodes_that_accept_the_same_keys_at_once_agree_on_one_winner_each() {
    const KEYS: u8 = 20;
    let scene = Scene::new(open().await).await;
    let endpoint = scene.endpoint().await;
    let mut batches = Vec::new();
    for turned in [false, true, false, true] {
        let mut batch = Vec::new();
        for key in 0..KEYS {
            let mut accept = scene.message(&[&endpoint]).await;
            // Odd ones collide by their event id only.
            accept.idempotency = (key % 2 == 0).then_some([key; 32]);
            accept.message.event_id = Some(format!("event {key}"));
            batch.push(accept);
        }
        if turned {
            batch.reverse();
        }
        batches.push(batch);
    }
    let commit = |handle: &Handle, accepts: &Vec<Accept>| {
        let (queue, accepts) = (Arc::clone(&handle.queue), accepts.clone());
        let batch = Batch { accepts, ..Batch::default() };
        tokio::spawn(async move { queue.commit(batch.into()).await.unwrap().accepts })
    };
    let (store, second) = (scene.store(), &scene.harness.other);
    let running = [store, second, second, store].map(|handle| handle.clone());
    let running: Vec<_> =
        running.iter().zip(&batches).map(|(handle, batch)| commit(handle, batch)).collect();
    let mut winners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut new = 0;
    for (batch, answers) in batches.iter().zip(running) {
        for (accept, answer) in batch.iter().zip(answers.await.unwrap()) {
            let winner = match answer {
                Accepted::New { .. } => {
                    new += 1;
                    accept.message.id
                }
                Accepted::Repeated(first) | Accepted::EventIdTaken(first) => first,
                Accepted::Stale(_)
                | Accepted::ApplicationMissing
                | Accepted::NameMoved
                | Accepted::Refused(_) => {
                    unreachable!("{answer:?}")
                }
            };
            let event_id = accept.message.event_id.clone().unwrap();
            winners.entry(event_id).or_default().push(winner.to_string());
        }
    }
    assert_eq!(new, KEYS);
    assert!(winners.values().all(|named| named.iter().all(|one| *one == named[0])), "{winners:?}");
    assert_eq!(scene.load(&endpoint).await.deliveries.len(), usize::from(KEYS));
}

/// Creates two endpoints of different partitions.
async fn endpoints_apart(scene: &Scene) -> (Endpoint, Endpoint) {
    let first = scene.endpoint().await;
    loop {
        let second = scene.endpoint().await;
        if second.partition != first.partition {
            return (first, second);
        }
    }
}

#[tokio::test]
async fn an_owner_hears_of_what_others_accept_and_not_of_its_own() {
    let scene = Scene::new(open().await).await;
    scene.harness.other.queue.renew(other()).await.unwrap();
    let (own, theirs) = endpoints_apart(&scene).await;
    // Whoever has not begun to listen after a second looks everywhere; then it is tried again.
    for _ in 0..20 {
        let (first, second) = (scene.message(&[&own]).await, scene.message(&[&theirs]).await);
        scene.accept(vec![first]).await;
        let batch = Batch { accepts: vec![second], ..Batch::default() };
        scene.harness.other.queue.commit(batch.into()).await.unwrap();
        let heard = tokio::time::timeout(Duration::from_secs(5), next_work(&scene)).await.unwrap();
        if heard.len() < 64 {
            return assert_eq!(heard, [theirs.partition]);
        }
    }
    panic!("nothing was heard");
}

/// Waits for the partitions of the next call to work.
async fn next_work(scene: &Scene) -> Vec<Partition> {
    loop {
        if let Call::Work(partitions) = scene.store().queue.woken().await.unwrap() {
            return partitions;
        }
    }
}

#[tokio::test]
async fn a_change_of_the_catalog_is_heard_of_by_every_node() {
    let scene = Scene::new(open().await).await;
    let heard = async |queue: &dyn Queue| while queue.woken().await.unwrap() != Call::Changed {};
    // A node that has not begun to listen hears nothing, so there is one change after the other.
    let changes = async {
        loop {
            scene.endpoint().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let both = async {
        heard(&*scene.store().queue).await;
        heard(&*scene.harness.other.queue).await;
    };
    tokio::select! {
        () = changes => {}
        both = tokio::time::timeout(Duration::from_secs(30), both) => both.unwrap(),
    }
}

#[tokio::test]
async fn fleets_in_different_schemas_do_not_hear_each_other() {
    let (here, there) = (Scene::new(open().await).await, Scene::new(open().await).await);
    let endpoint = there.endpoint().await;
    let accept = there.message(&[&endpoint]).await;
    let batch = Batch { accepts: vec![accept], ..Batch::default() };
    there.harness.other.queue.commit(batch.into()).await.unwrap();
    next_work(&there).await;
    tokio::select! {
        biased;
        // Whoever has not begun to listen after a second looks everywhere.
        heard = next_work(&here) => assert_eq!(heard.len(), 64),
        () = tokio::task::yield_now() => {}
    }
}
