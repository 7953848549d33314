//! Applications take turns at the store: the lists of one of them hold up neither others' lists nor what every
//! request depends on.
//!
//! The lists of messages stop at a gate, so that it can be counted how many are in progress at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::Method;
use serde_json::{Value, json};
use store::keys::{ApplicationKey, Node};
use store::postgres::{Postgres, Settings};
use store::{Ledger, Queue as _, Vault};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use super::{ADMIN, Answered, Running};
use crate::ledger::{Asked, Meddled};
use crate::sdk::database::Database;

/// How many lists an attacker asks for at a time.
const FLOOD: usize = 40;
/// Longer than a list waits for its turn in these tests.
const BRIEF: (&str, &str) = ("limits.lane_wait", "300ms");
/// No request is refused for waiting too long.
const PATIENT: (&str, &str) = ("limits.lane_wait", "60s");

/// Where lists of messages wait until it is opened.
struct Gate {
    open: watch::Sender<bool>,
    lists: Mutex<BTreeMap<ApplicationKey, Lists>>,
}

/// The lists of an application that are at the gate.
#[derive(Debug, Clone, Copy, Default)]
struct Lists {
    now: usize,
    most: usize,
}

impl Gate {
    fn new() -> Arc<Self> {
        Arc::new(Self { open: watch::Sender::new(false), lists: Mutex::default() })
    }

    /// Puts the gate in front of a ledger.
    fn before(self: &Arc<Self>, ledger: Arc<dyn Ledger>) -> Arc<dyn Ledger> {
        let gate = Arc::clone(self);
        let meddle = move |asked| -> store::Answer<'static, ()> {
            let gate = Arc::clone(&gate);
            Box::pin(async move {
                if let Asked::Messages(application) = asked {
                    gate.pass(application).await;
                }
                Ok(())
            })
        };
        Arc::new(Meddled::new(ledger, meddle))
    }

    async fn pass(&self, application: ApplicationKey) {
        {
            let mut lists = self.lists.lock().unwrap();
            let own = lists.entry(application).or_default();
            own.now += 1;
            own.most = own.most.max(own.now);
        }
        self.open.subscribe().wait_for(|open| *open).await.unwrap();
        self.lists.lock().unwrap().get_mut(&application).unwrap().now -= 1;
    }

    /// Returns the most lists of each application that were in progress at a time, applications in the order
    /// in which they were created.
    fn most(&self) -> Vec<usize> {
        self.lists.lock().unwrap().values().map(|lists| lists.most).collect()
    }

    /// Waits until lists of so many applications are in progress.
    async fn holds(&self, applications: usize) {
        let held = || self.lists.lock().unwrap().values().filter(|lists| lists.now > 0).count();
        while held() < applications {
            tokio::task::yield_now().await;
        }
    }
}

/// Begins to ask for an application's lists, all at once.
fn begin(
    (server, token): (&Arc<Running>, &str),
    app: &str,
    lists: usize,
    asked: &mut JoinSet<Answered>,
) {
    for _ in 0..lists {
        let (server, token) = (Arc::clone(server), token.to_owned());
        let path = format!("/app/{app}/msg");
        asked.spawn(async move { server.ask(&token, Method::GET, &path, &Value::Null).await });
    }
}

/// The lists of one customer are stopped at the gate; an operator and another customer go on. `each` is how many
/// lists one application may have in progress.
async fn a_customer_that_floods_is_asked_to_wait(options: &[(&str, &str)], each: usize) {
    let gate = Gate::new();
    let meddle = |ledger| gate.before(ledger);
    let server = Arc::new(Running::reading(&[options, &[BRIEF]].concat(), &meddle).await);
    let (one, other) = (server.application().await, server.application().await);
    let flooding = server.token(&one, true).await;
    let token = server.token(&other, false).await;
    let mut flood = JoinSet::new();
    begin((&server, &flooding), &one, FLOOD, &mut flood);
    // All that find no turn are told so while the others still hold theirs.
    for _ in each..FLOOD {
        let refused = flood.join_next().await.unwrap().unwrap();
        assert_eq!(refused.headers["retry-after"], "1");
        refused.refused(429, "too_many_requests");
    }
    assert_eq!(gate.most(), [each]);
    // What everything depends on goes on: a token and an application that were never looked up, health.
    let message = json!({ "eventType": "a", "payload": {} });
    let path = format!("/app/{other}/msg");
    server.ask(&token, Method::POST, &path, &message).await.expect(202);
    server.get("/health").await.expect(200);
    server.get("/event-type").await.expect(200);
    // Another customer has a turn, and so has an operator, also for the application that floods.
    let mut asked = JoinSet::new();
    begin((&server, &token), &other, 1, &mut asked);
    gate.holds(2).await;
    begin((&server, ADMIN), &one, 1, &mut asked);
    while gate.most() != [each + 1, 1] {
        tokio::task::yield_now().await;
    }
    gate.open.send_replace(true);
    for answer in asked.join_all().await.into_iter().chain(flood.join_all().await) {
        answer.expect(200);
    }
}

#[tokio::test]
async fn a_customer_that_floods_a_file_with_lists_delays_no_other() {
    a_customer_that_floods_is_asked_to_wait(&[], 1).await;
}

#[tokio::test]
async fn a_customer_that_floods_a_database_with_lists_delays_no_other() {
    let database = Database::create("turns").await;
    a_customer_that_floods_is_asked_to_wait(&database.settings(), 2).await;
}

#[tokio::test]
async fn lists_that_wait_for_their_turn_are_all_answered() {
    let gate = Gate::new();
    let meddle = |ledger| gate.before(ledger);
    let server = Arc::new(Running::reading(&[PATIENT], &meddle).await);
    let mut applications = Vec::new();
    for _ in 0..4 {
        let app = server.application().await;
        let token = server.token(&app, true).await;
        applications.push((app, token));
    }
    let mut asked = JoinSet::new();
    for (app, token) in &applications {
        begin((&server, token), app, 10, &mut asked);
        begin((&server, ADMIN), app, 10, &mut asked);
    }
    gate.holds(1).await;
    gate.open.send_replace(true);
    for answer in asked.join_all().await {
        answer.expect(200);
    }
    assert!(gate.most().into_iter().all(|most| most <= 2), "{:?}", gate.most());
}

#[tokio::test]
async fn a_caller_that_hangs_up_does_not_leave_its_read_to_others() {
    let gate = Gate::new();
    let meddle = |ledger| gate.before(ledger);
    let server = Arc::new(Running::reading(&[PATIENT], &meddle).await);
    let app = server.application().await;
    let token = server.token(&app, true).await;
    let mut gone = JoinSet::new();
    begin((&server, &token), &app, FLOOD, &mut gone);
    gate.holds(1).await;
    // The connections are closed with what waits on them.
    gone.shutdown().await;
    let mut asked = JoinSet::new();
    begin((&server, &token), &app, 3, &mut asked);
    // By the time that others were answered, these would have been at the gate.
    for _ in 0..20 {
        server.get("/event-type").await.expect(200);
    }
    assert_eq!(gate.most(), [1], "the read goes on, and so its turn");
    gate.open.send_replace(true);
    for answer in asked.join_all().await {
        answer.expect(200);
    }
    assert_eq!(gate.most(), [1]);
}

#[tokio::test]
async fn a_change_that_waits_for_other_nodes_holds_no_turn() {
    let database = Database::create("rollout").await;
    let server = Running::with(&[&database.settings()[..], &[BRIEF]].concat()).await;
    let server = Arc::new(server);
    let app = server.application().await;
    let token = server.token(&app, false).await;
    let mut paths = Vec::new();
    for _ in 0..8 {
        paths.push(format!("/app/{app}/endpoint/{}", server.endpoint(&app).await));
    }
    // A node that hangs: its lease is current, and it never says that it knows of a change.
    let mut key = *b"trial-trial-trial-trial-trial-tr";
    let vault = Vault::new(&mut key, |bytes| bytes.fill(7));
    let hanging = Postgres::connect(Settings::new(database.url(), vault)).await.unwrap();
    hanging.renew(Node("a-node-that-hangs".to_owned())).await.unwrap();
    let mut deleted = JoinSet::new();
    for path in paths {
        let (server, token) = (Arc::clone(&server), token.clone());
        deleted.spawn(async move { server.ask(&token, Method::DELETE, &path, &Value::Null).await });
    }
    // Each waits for longer than the others would wait for its turn.
    for answer in deleted.join_all().await {
        assert_eq!(answer.expect(202), json!({ "status": "pending" }));
    }
}

#[tokio::test]
async fn made_up_tokens_are_looked_up_one_at_a_time_and_hold_up_no_other_look() {
    let database = Database::create("made_up").await;
    let server = Running::with(&[&database.settings()[..], &[BRIEF]].concat()).await;
    let server = Arc::new(server);
    let app = server.application().await;
    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("begin; lock table tokens in access exclusive mode").await.unwrap();
    let mut asked = JoinSet::new();
    for number in 0..FLOOD {
        let server = Arc::clone(&server);
        asked.spawn(async move {
            server.ask(&made_up(number), Method::GET, "/app", &Value::Null).await
        });
    }
    for _ in 1..FLOOD {
        let refused = asked.join_next().await.unwrap().unwrap();
        assert_eq!(refused.headers["retry-after"], "1");
        refused.refused(503, "unavailable");
    }
    // An operator's message looks its application up.
    server.message(&app).await;
    client.batch_execute("commit").await.unwrap();
    asked.join_next().await.unwrap().unwrap().refused(401, "authentication_failed");
    let token = server.token(&app, true).await;
    server.ask(&token, Method::GET, "/auth/whoami", &Value::Null).await.expect(200);
}

/// Makes a token that looks right.
fn made_up(number: usize) -> String {
    let body = format!("rdl_{number:016x}_{}", "A".repeat(43));
    let step = |sum: u32, byte: u8| {
        let shift = |sum: u32, _| if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
        (0..8).fold(sum ^ u32::from(byte), shift)
    };
    format!("{body}{:08x}", !body.bytes().fold(!0, step))
}
