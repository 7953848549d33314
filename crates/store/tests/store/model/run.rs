//! Everything that happens but batches: what was drawn, done, and worded.

use std::time::Duration;

use bytes::Bytes;
use domain::delivery::Cause;
use domain::endpoint::Reason;
use domain::partition::Partition;
use store::Error;
use store::catalog::{
    Application, ApplicationSettings, Changed, Confidential, Edit, Endpoint, EndpointEdit,
    EndpointSettings, NewApplication, NewEndpoint, Refusal, Secret,
};
use store::conformance::{NOW, fresh};
use store::keys::{ApplicationKey, Cursor, EndpointKey};
use store::ledger::{DeliveryFilter, NewTask, StoredAnswer, TaskKind, Within};
use store::page::{From, Page};
use store::queue::{
    Bury, Chosen, Ending, Load, Minute, Number, Order, Replay, Request, RequestKind, Rollup,
    Subject, Upkeep,
};

use super::operation::{Operation, SetUp, Step, Touch};
use super::world::{World, choose, turn, word};

/// How much later each operation is than the one before.
const STEP_SECONDS: u64 = 10;

impl World {
    /// Does one thing, and words what the store answered.
    pub(super) async fn run(&mut self, operation: &Operation) -> String {
        self.notes.seconds += STEP_SECONDS;
        let done = match operation {
            Operation::Commit { accepts, settles, again } => {
                Some(self.commit(accepts, settles, *again).await)
            }
            Operation::TakeOver => Some(self.take_over().await.to_string()),
            Operation::Release => Some(self.release().await.to_string()),
            Operation::Wait { hours } => {
                self.notes.seconds += u64::from(*hours) * 3_600;
                None
            }
            Operation::Prune { most } => {
                self.prune(*most).await;
                None
            }
            Operation::Fold { most } => {
                self.fold(*most).await;
                None
            }
            Operation::SetUp(set_up) => self.set_up(set_up).await,
            Operation::Step(step) => self.step(step).await,
            Operation::Touch(touch) => self.touch(touch).await,
        };
        done.unwrap_or_default()
    }

    pub(super) async fn set_up(&mut self, set_up: &SetUp) -> Option<String> {
        let at = self.now();
        let catalog = self.store().catalog.clone();
        let named = |uid: &Option<u8>| uid.map(|number| format!("uid-{number}"));
        match set_up {
            SetUp::CreateApplication { uid } => {
                let settings = ApplicationSettings::default();
                let new = NewApplication { id: self.id(), uid: named(uid), settings, at };
                let created = catalog.create_application(new).await;
                self.notes.applications.extend(created.as_ref().ok().cloned());
                Some(word(created.map(|created| (created.id, created.uid))))
            }
            SetUp::UpdateApplication { application, uid } => {
                let key = choose(&self.notes.applications, *application)?.key;
                let uid = named(uid);
                let change: Edit<Application> =
                    Box::new(move |row| Ok(Application { uid: uid.clone(), ..row.clone() }));
                let changed = catalog.change_application(key, change, at).await;
                Some(word(changed.map(|Changed { after, .. }| (after.id, after.uid))))
            }
            SetUp::DeleteApplication { application } => {
                let key = choose(&self.notes.applications, *application)?.key;
                Some(word(catalog.delete_application(key, at).await))
            }
            SetUp::CreateEndpoint { application, fifo, uid } => {
                let application = choose(&self.notes.applications, *application)?.key;
                let new = NewEndpoint {
                    application,
                    id: self.id(),
                    uid: named(uid),
                    state: domain::endpoint::State::Active,
                    order: order(*fifo),
                    settings: EndpointSettings::default(),
                    confidential: Confidential::default(),
                    secret: Secret { text: "whsec_1".to_owned(), created_at: at, expires_at: None },
                    at,
                };
                let created = catalog.create_endpoint(new).await;
                self.notes.endpoints.extend(created.as_ref().ok().cloned());
                Some(word(created.map(|created| (created.id, created.partition))))
            }
            SetUp::UpdateEndpoint { endpoint, fifo, uid } => {
                let endpoint = self.endpoint_at(*endpoint)?;
                let (order, uid) = (order(*fifo), named(uid));
                let changed = self.change(endpoint, move |row| {
                    Ok(Endpoint { order, uid: uid.clone(), ..row.clone() })
                });
                Some(word(changed.await.map(|changed| (changed.id, changed.uid, changed.order))))
            }
            SetUp::DisableEndpoint { endpoint } => {
                let endpoint = self.endpoint_at(*endpoint)?;
                Some(self.disable(endpoint).await)
            }
            SetUp::DeleteEndpoint { endpoint } => {
                let endpoint = choose(&self.notes.endpoints, *endpoint)?;
                Some(word(catalog.delete_endpoint(endpoint.application, endpoint.key, at).await))
            }
            SetUp::RotateSecret { endpoint } => {
                let secret = Secret {
                    text: format!("whsec_{}", self.notes.seconds),
                    created_at: at,
                    expires_at: None,
                };
                let grace_ends = at.after(Duration::from_secs(3_605));
                let endpoint = choose(&self.notes.endpoints, *endpoint)?;
                let (application, key) = (endpoint.application, endpoint.key);
                Some(word(catalog.rotate_secret(application, key, secret, grace_ends).await))
            }
        }
    }

    async fn disable(&mut self, endpoint: usize) -> String {
        let disabled = self.change(endpoint, |row| {
            Ok(Endpoint { state: row.state.disable(Reason::Gone)?, ..row.clone() })
        });
        word(disabled.await.map(|disabled| (disabled.id, disabled.state)))
    }

    async fn change(
        &mut self,
        endpoint: usize,
        edit: impl Fn(&Endpoint) -> Result<Endpoint, Refusal> + Send + Sync + 'static,
    ) -> Result<Endpoint, Error> {
        let Endpoint { application, key, .. } = self.notes.endpoints[endpoint];
        let (catalog, edit) = (&self.store().catalog, EndpointEdit::of(edit));
        let changed = catalog.change_endpoint(application, key, edit, self.now()).await?.after;
        self.notes.endpoints[endpoint] = changed.clone();
        Ok(changed)
    }

    async fn step(&mut self, step: &Step) -> Option<String> {
        let at = self.now();
        let step = match step {
            Step::Bury { endpoint, deliveries } => {
                Upkeep::Bury(self.burial(*endpoint, deliveries).await?)
            }
            Step::RetryNow { delivery } => {
                let living = self.living_deliveries().await;
                let key = choose(&living, *delivery)?.key;
                let partition = self.endpoint(key.endpoint).partition;
                let kind = RequestKind::RetryNow(key.message);
                let (application, endpoint) = (key.application, key.endpoint);
                let request = Request { number: 0, application, endpoint, partition, kind, at };
                Upkeep::Ask { once: self.once(), request }
            }
            Step::Number { endpoint, seconds, most } => {
                let endpoint = choose(&self.notes.endpoints, *endpoint)?;
                Upkeep::Number(Number {
                    lease: self.lease(endpoint.partition),
                    application: endpoint.application,
                    endpoint: endpoint.key,
                    until: at.after(Duration::from_secs(*seconds)),
                    most: *most,
                })
            }
            Step::Replay { task, deliveries, astray, last } => {
                Upkeep::Replay(self.replay(*task, deliveries, *astray, *last).await?)
            }
            Step::Consume { endpoint, most } => {
                let partition = choose(&self.notes.endpoints, *endpoint)?.partition;
                let asked = self.store().queue.requests(vec![partition]).await.unwrap();
                let requests = asked.iter().take(*most).map(|asked| asked.number).collect();
                Upkeep::Consume { lease: self.lease(partition), requests }
            }
            Step::RollUp { endpoint, minute, latencies } => {
                let endpoint = choose(&self.notes.endpoints, *endpoint)?;
                let living = self.living().await;
                living.iter().find(|one| one.key == endpoint.application)?;
                let minute = Minute(Minute::of(NOW).0 + i64::from(*minute));
                let sums = |subject| Rollup {
                    accepted: 5,
                    succeeded: 1,
                    failed: 2,
                    delivered: 3,
                    dead: 4,
                    latencies: latencies.clone(),
                    buried: latencies.clone(),
                    ..Rollup::empty(subject, minute)
                };
                let own = Subject::Endpoint(endpoint.key);
                let subjects = [own, Subject::Application(endpoint.application), Subject::Whole];
                let (lease, rollups) =
                    (Some(self.lease(endpoint.partition)), subjects.map(sums).to_vec());
                Upkeep::RollUp { lease, once: self.once(), rollups }
            }
        };
        let asks = matches!(step, Upkeep::Ask { .. } | Upkeep::RollUp { .. });
        let done = self.keep_up(step.clone()).await;
        if asks {
            // What comes again changes nothing.
            assert_eq!(self.keep_up(step).await, done);
        }
        // How many rows a request or a sum costs is each store's own matter.
        Some(if asks { "done".to_owned() } else { format!("{done:?}") })
    }

    async fn burial(&self, endpoint: usize, deliveries: &[usize]) -> Option<Bury> {
        let endpoint = choose(&self.notes.endpoints, endpoint)?;
        let theirs: Vec<_> = self.notes.deliveries.iter().collect();
        let chosen = deliveries.iter().filter_map(|number| choose(&theirs, *number));
        let theirs = chosen.filter(|key| key.endpoint == endpoint.key);
        let mut keys: Vec<_> = theirs.copied().copied().collect();
        keys.sort_unstable();
        keys.dedup();
        let mut deliveries = Vec::new();
        for key in keys {
            deliveries.push(self.doomed(key).await);
        }
        // Some were tried since they were loaded.
        if let [_, other] = &mut deliveries[..] {
            other.recorded += 1;
        }
        Some(Bury {
            lease: self.lease(endpoint.partition),
            application: endpoint.application,
            endpoint: endpoint.key,
            deliveries,
            ending: Ending::Dead(Cause::Expired),
            at: self.now(),
        })
    }

    async fn replay(
        &self,
        task: usize,
        deliveries: &[usize],
        astray: bool,
        last: bool,
    ) -> Option<Replay> {
        let task = *choose(&self.notes.tasks, task)?;
        let cursor = self.store().ledger.task(task).await.ok().and_then(|task| task.cursor);
        let living = self.living_deliveries().await;
        let mut entries: Vec<_> =
            deliveries.iter().filter_map(|number| choose(&living, *number)).collect();
        entries.sort_unstable_by_key(|entry| entry.key);
        entries.dedup();
        let next = entries.first().map(|entry| Cursor(entry.key.message.0));
        let at = self.now();
        let again = entries.into_iter().map(|entry| Chosen {
            key: entry.key,
            partition: self.endpoint(entry.key.endpoint).partition,
            state: entry.state,
            ended_at: entry.settled_at,
            pending: fresh(at),
        });
        Some(Replay {
            lease: self.lease(Partition::from_number(3).unwrap()),
            task,
            cursor: if astray { Some(Cursor(i64::MAX)) } else { cursor },
            next_cursor: if last { None } else { next },
            deliveries: again.collect(),
            missing: None,
            passed_over: 1,
            at,
        })
    }

    /// Words how much waits and is dead, for each that an endpoint's deliveries belong to.
    async fn depths(&self, application: ApplicationKey, endpoint: EndpointKey) -> String {
        let ledger = &self.store().ledger;
        let mut words = Vec::new();
        for within in [
            Within::Whole,
            Within::Application(application),
            Within::Endpoint(application, endpoint),
        ] {
            words.push(word(ledger.dead_letter_count(within).await));
            words.push(word(ledger.depth(within).await));
        }
        words.join(" ")
    }

    async fn touch(&mut self, touch: &Touch) -> Option<String> {
        let at = self.now();
        let ledger = self.store().ledger.clone();
        match touch {
            Touch::Cancel { delivery } => {
                let key = choose(&self.living_deliveries().await, *delivery)?.key;
                Some(word(ledger.cancel(key, at).await.map(|entry| entry.state)))
            }
            Touch::RetryNow { delivery } => {
                let key = choose(&self.living_deliveries().await, *delivery)?.key;
                Some(word(ledger.retry_now(key, at).await.map(|entry| entry.state)))
            }
            Touch::Purge { application, most } => {
                let application = choose(&self.living().await, *application)?.key;
                let (filter, page) =
                    (DeliveryFilter::default(), Page { from: From::Start, limit: *most });
                let purged = ledger.purge_dead_letters(application, filter, page).await.unwrap();
                let named = purged
                    .entries
                    .iter()
                    .map(|key| (self.message_named(key.message), self.named(key.endpoint)));
                Some(format!("{:?} {}", named.collect::<Vec<_>>(), purged.done))
            }
            Touch::Count { endpoint, hours } => {
                let endpoint = choose(&self.notes.endpoints, *endpoint)?;
                let (application, key) = (endpoint.application, endpoint.key);
                self.living().await.iter().find(|one| one.key == application)?;
                let since = at.before(Duration::from_secs(u64::from(*hours) * 3_600));
                let counts = ledger.delivery_counts(application, key, since, at).await;
                Some(format!("{} {}", word(counts), self.depths(application, key).await))
            }
            Touch::Remember { hash, answer } => {
                let given =
                    StoredAnswer { status: *answer, headers: Vec::new(), body: Bytes::new() };
                let kept = ledger.remember_answer([*hash; 32], given, at).await;
                let again = ledger.answer([*hash; 32], at).await.unwrap();
                assert_eq!(again.as_ref(), kept.as_ref().ok());
                Some(word(kept.map(|kept| kept.status)))
            }
            Touch::Expunge { message } => {
                let (application, key, _) = choose(&self.notes.messages, *message)?;
                Some(word(ledger.expunge(application.key, *key, at).await))
            }
            Touch::StartTask { application } => {
                let application = choose(&self.living().await, *application)?.key;
                let new = NewTask {
                    id: self.id(),
                    application,
                    endpoint: None,
                    kind: TaskKind::BulkReplay,
                    selection: serde_json::json!({ "states": "settled" }),
                    by: "model".to_owned(),
                    at,
                };
                self.notes.tasks.push(new.id);
                Some(word(ledger.start_task(new).await.map(|task| (task.id, task.state))))
            }
            Touch::Load { endpoint, most, most_bytes } => {
                let endpoint = choose(&self.notes.endpoints, *endpoint)?;
                let (application, key) = (endpoint.application, endpoint.key);
                self.living().await.iter().find(|one| one.key == application)?;
                let (from, most, most_bytes) = (i64::MIN, *most, *most_bytes);
                Some(self.load(Load { application, endpoint: key, from, most, most_bytes }).await)
            }
        }
    }

    /// Loads, and words what came.
    pub(super) async fn load(&self, load: Load) -> String {
        let loaded = self.store().queue.load(load).await.unwrap();
        let mut words = vec![format!("complete: {}", loaded.complete)];
        let order = self.endpoint(load.endpoint).order;
        for one in loaded.deliveries {
            let turn = turn(order, one.turn);
            let message = self.message_named(one.key.message);
            let what = (one.pending, one.recorded, one.last_attempt_at, one.payload);
            words.push(format!("{message} {turn} {} {what:?}", one.event_type));
        }
        words.join("\n")
    }

    fn endpoint_at(&self, number: usize) -> Option<usize> {
        number.checked_rem(self.notes.endpoints.len())
    }
}

fn order(fifo: bool) -> Order {
    if fifo { Order::Fifo } else { Order::Due }
}
