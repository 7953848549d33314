//! People and their programs: they create, change, pause, disable and delete endpoints, switch
//! breakers off and on, cancel, hurry and replay deliveries, expunge payloads, and close breakers, on
//! whichever process they meet.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::delivery::Pending;
use domain::endpoint::{Reason, State};
use domain::ids::{EndpointId, TaskId};
use domain::partition::Partition;
use domain::time::Timestamp;
use engine::Event;
use store::catalog::{Confidential, EndpointEdit, EndpointSettings, Name, NewEndpoint, Secret};
use store::keys::{ApplicationKey, DeliveryKey, EndpointKey};
use store::ledger::{NewTask, TaskKind};
use store::queue::{Call, Chosen, Done, Once, Order, Replay, Request, RequestKind, Upkeep};

use crate::agenda::Happening;
use crate::calls::Question;
use crate::committer::Asker;
use crate::counters::Path;
use crate::node::{BEGINNING, NodeRef};
use crate::plan;
use crate::senders::{CHANNELS, EVENT_TYPES};
use crate::world::World;

/// Something that is written outside of the committers.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    Create(Box<NewEndpoint>),
    Change(Box<Change>),
    Pause(EndpointKey),
    Resume(EndpointKey),
    Disable(EndpointKey),
    Enable(EndpointKey),
    Delete(EndpointKey),
    Cancel(DeliveryKey),
    /// The payload of a delivery's message goes, as it does now or as it did in earlier versions.
    Expunge {
        key: DeliveryKey,
        earlier: bool,
    },
    StartTask(Box<Replay>, ApplicationKey),
    Rotate {
        endpoint: EndpointKey,
        text: String,
        grace: Duration,
    },
    /// Another rate for all endpoints of an application.
    LimitApplication {
        application: ApplicationKey,
        rate: Option<u32>,
    },
    /// The name of one application becomes that of another.
    MoveName {
        name: String,
        from: ApplicationKey,
        to: ApplicationKey,
    },
    DeleteApplication(ApplicationKey),
}

/// What a person changes about an endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    endpoint: EndpointKey,
    rate: Option<u32>,
    in_flight: Option<u32>,
    /// Another URL.
    origin: Option<String>,
    /// Another policy, as a document; none for the server's own.
    policy: Option<Option<serde_json::Value>>,
}

/// A step of upkeep that the shell asked for.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Nobody waits for it.
    Ask,
    /// The owners of these partitions are to be woken.
    Replay(BTreeSet<Partition>),
}

impl World {
    /// A person does something.
    pub(crate) fn person_acts(&mut self) {
        let wait = self.chance.millis(100, 4_000);
        self.agenda.plan(self.now + wait, Happening::PersonActs);
        let open = self.open_processes();
        let Some(me) = self.chance.pick(&open).copied() else { return };
        let endpoints = self.watch.living_endpoints();
        let Some(endpoint) = self.chance.pick(&endpoints).copied() else { return };
        match self.chance.below(32) {
            0 => {
                let application = self.chance.pick(&self.applications).copied();
                let new = application.map(|application| self.new_endpoint(application));
                if let Some(new) = new.filter(|_| endpoints.len() < 12) {
                    self.call(me, Question::Write(Write::Create(Box::new(new))));
                }
            }
            1 | 2 => {
                let change = self.some_change(endpoint);
                self.call(me, Question::Write(Write::Change(Box::new(change))));
            }
            3 | 4 => self.call(me, Question::Write(Write::Pause(endpoint))),
            5..=7 => self.call(me, Question::Write(Write::Resume(endpoint))),
            8 => self.call(me, Question::Write(Write::Disable(endpoint))),
            9 | 10 => self.call(me, Question::Write(Write::Enable(endpoint))),
            11 if endpoints.len() > 2 => self.call(me, Question::Write(Write::Delete(endpoint))),
            11..=13 => self.cancel_one(me),
            14 => self.expunge_one(me),
            15..=17 => self.hurry_one(me),
            18 | 19 => self.ask(me, endpoint, RequestKind::ResetBreaker),
            20..=23 => self.replay_some(me, endpoint),
            _ => {
                if let Some(write) = self.some_catalog_write(endpoint) {
                    self.call(me, Question::Write(write));
                }
            }
        }
    }

    fn some_change(&mut self, endpoint: EndpointKey) -> Change {
        let rate = self.chance.percent(50).then(|| self.chance.count(2, 60));
        let in_flight = self.chance.percent(50).then(|| self.chance.count(1, 8));
        let other = self.chance.bits() % 1_000;
        let origin = (other < 300).then(|| format!("https://receiver-{other}.example"));
        // A breaker goes off at the worst moment, if there is one.
        if let Some(endpoint) = self.watch.some_probed().filter(|_| self.chance.percent(70)) {
            let policy = Some(Some(plan::without_breaker()));
            return Change { endpoint, rate, in_flight, origin, policy };
        }
        let documents = plan::documents();
        let policy = self.chance.percent(60).then(|| self.chance.pick(&documents).cloned());
        Change { endpoint, rate, in_flight, origin, policy }
    }

    fn cancel_one(&mut self, me: NodeRef) {
        let bits = self.chance.bits();
        if let Some(key) = self.watch.some_pending(bits) {
            self.call(me, Question::Write(Write::Cancel(key)));
        }
    }

    fn expunge_one(&mut self, me: NodeRef) {
        let (bits, earlier) = (self.chance.bits(), self.chance.percent(40));
        if let Some(key) = self.watch.some_pending(bits) {
            self.call(me, Question::Write(Write::Expunge { key, earlier }));
        }
    }

    fn hurry_one(&mut self, me: NodeRef) {
        let bits = self.chance.bits();
        if let Some(key) = self.watch.some_pending(bits) {
            self.ask(me, key.endpoint, RequestKind::RetryNow(key.message));
        }
    }

    fn ask(&mut self, me: NodeRef, endpoint: EndpointKey, kind: RequestKind) {
        let Some((application, partition)) = self.watch.place_of(endpoint) else { return };
        let Some(at) = self.process(me).map(|process| process.rows(self.now)) else { return };
        let request = Request { number: 0, application, endpoint, partition, kind, at };
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.chance.bits().to_be_bytes());
        let once = Once { at, id };
        self.offer_upkeep(me, Asker::Shell(Errand::Ask), Upkeep::Ask { once, request });
    }

    fn replay_some(&mut self, me: NodeRef, endpoint: EndpointKey) {
        let Some((application, partition)) = self.watch.place_of(endpoint) else { return };
        let Some(process) = self.process(me) else { return };
        let now = process.rows(self.now);
        // The task's id decides which process may run it; this one makes an id that it may.
        let task = TaskId::new(now, self.chance.id_bytes());
        let home = Partition::of(&EndpointId::from_bytes(*task.as_bytes()));
        let Some(lease) = self.process(me).and_then(|it| it.leases.get(&home)).copied() else {
            return;
        };
        let Some(limits) = self.watch.limits(endpoint) else { return };
        let bits = self.chance.bits();
        let settled = self.watch.some_settled(application, endpoint, bits);
        let pending = Pending::fresh(&limits, now);
        let chosen = |key: DeliveryKey| {
            let stored = self.state.deliveries_of(application, key.message);
            let entry = stored.into_iter().find(|entry| entry.key == key)?;
            let (state, ended_at) = (entry.state, entry.settled_at);
            Some(Chosen { key, partition, state, ended_at, pending })
        };
        let deliveries = settled.into_iter().filter_map(chosen).collect();
        let replay = Replay {
            lease,
            task,
            cursor: None,
            next_cursor: None,
            deliveries,
            missing: None,
            passed_over: 0,
            at: now,
        };
        self.call(me, Question::Write(Write::StartTask(Box::new(replay), application)));
    }

    /// Makes an endpoint with settings of its own.
    pub(crate) fn new_endpoint(&mut self, application: ApplicationKey) -> NewEndpoint {
        let at = BEGINNING.after(self.now);
        let documents = plan::documents();
        let own = self.chance.percent(85);
        let policy = self.chance.pick(&documents).cloned().filter(|_| own);
        let event_types = EVENT_TYPES.iter().filter(|_| self.chance.percent(25));
        let event_types = event_types.map(|name| (*name).to_owned()).collect();
        let channels = CHANNELS.iter().filter(|_| self.chance.percent(10));
        let channels = channels.map(|name| (*name).to_owned()).collect();
        NewEndpoint {
            application,
            id: EndpointId::new(at, self.chance.id_bytes()),
            uid: None,
            state: State::Active,
            order: if self.chance.percent(30) { Order::Fifo } else { Order::Due },
            settings: EndpointSettings {
                origin: "https://receiver.example".to_owned(),
                event_types,
                channels,
                rate: self.chance.percent(60).then(|| self.chance.count(2, 200)),
                in_flight: self.chance.percent(60).then(|| self.chance.count(1, 12)),
                policy,
                ..EndpointSettings::default()
            },
            confidential: Confidential::default(),
            secret: Secret {
                text: "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ=".to_owned(),
                created_at: at,
                expires_at: None,
            },
            at,
        }
    }

    /// Writes something; false if that is refused.
    pub(crate) fn write(&mut self, write: &Write) -> bool {
        let at = BEGINNING.after(self.now);
        match write {
            Write::Create(new) => self.create(new),
            Write::Change(change) => self.update(change.endpoint, at, |it| {
                it.settings.rate = change.rate;
                it.settings.in_flight = change.in_flight;
                if let Some(origin) = &change.origin {
                    it.settings.origin.clone_from(origin);
                }
                if let Some(policy) = &change.policy {
                    it.settings.policy.clone_from(policy);
                }
                true
            }),
            Write::Pause(key) => self.transition(*key, at, |it| it.pause().ok()),
            Write::Resume(key) => self.transition(*key, at, |it| it.resume().ok()),
            Write::Disable(key) => {
                self.transition(*key, at, |it| it.disable(Reason::ByPerson).ok())
            }
            Write::Enable(key) => self.transition(*key, at, |it| it.enable().ok()),
            Write::Delete(key) => {
                let Some((application, _)) = self.watch.place_of(*key) else { return false };
                let done = self.state.delete_endpoint(application, *key, at).is_ok();
                if done {
                    self.watch.state_changed(*key, State::Deleted, self.now);
                    self.catalog_changed(application);
                }
                done
            }
            Write::Cancel(key) => {
                let done = self.state.cancel(*key, at).is_ok();
                if done {
                    self.counters.count(Path::Cancelled);
                    if self.watch.cancelled(*key, self.now) {
                        self.counters.count(Path::CancelledInFlight);
                    }
                }
                done
            }
            Write::Expunge { key, earlier } => {
                let DeliveryKey { application, message, .. } = *key;
                let done = if *earlier {
                    self.state.forget_payload(application, message).is_ok()
                } else {
                    self.state.expunge(application, message, at).is_ok()
                };
                if done {
                    self.counters.count(Path::Expunged);
                    self.watch.expunged(*key, !earlier, &self.state);
                }
                done
            }
            Write::StartTask(replay, application) => {
                let task = NewTask {
                    id: replay.task,
                    application: *application,
                    endpoint: None,
                    kind: TaskKind::BulkReplay,
                    selection: serde_json::Value::Null,
                    by: "a person".to_owned(),
                    at,
                };
                self.state.start_task(task).is_ok()
            }
            Write::Rotate { .. }
            | Write::LimitApplication { .. }
            | Write::MoveName { .. }
            | Write::DeleteApplication(_) => self.write_catalog(write),
        }
    }

    /// Creates an endpoint, with a receiver at its end.
    pub(crate) fn create(&mut self, new: &NewEndpoint) -> bool {
        let Ok(endpoint) = self.state.create_endpoint(new.clone()) else { return false };
        let at = BEGINNING.after(self.now);
        let Ok(fan_out) = self.state.fan_out(endpoint.application, at) else { return false };
        let roster = self.library.read(endpoint.application, fan_out);
        if let Some(member) = roster.member(endpoint.key) {
            self.watch.created(member, self.now);
        }
        self.catalog_changed(endpoint.application);
        if self.plan.moods && self.now < self.plan.lasting {
            let wait = self.chance.millis(100, 20_000);
            self.agenda.plan(self.now + wait, Happening::MoodSwings(endpoint.key));
        }
        true
    }

    fn transition(
        &mut self,
        key: EndpointKey,
        at: Timestamp,
        change: impl FnOnce(State) -> Option<State>,
    ) -> bool {
        let mut after = None;
        let done = self.update(key, at, |endpoint| {
            after = change(endpoint.state);
            after.map(|state| endpoint.state = state).is_some()
        });
        if let Some(state) = after.filter(|_| done) {
            self.watch.state_changed(key, state, self.now);
        }
        done
    }

    fn update(
        &mut self,
        key: EndpointKey,
        at: Timestamp,
        change: impl FnOnce(&mut store::catalog::Endpoint) -> bool,
    ) -> bool {
        let Some((application, _)) = self.watch.place_of(key) else { return false };
        let Some(id) = self.watch.endpoint_id(key) else { return false };
        let Ok(mut endpoint) = self.state.endpoint(application, &Name::Id(id)) else {
            return false;
        };
        if !change(&mut endpoint) {
            return false;
        }
        let change = EndpointEdit::of(move |_| Ok(endpoint.clone()));
        if self.state.change_endpoint((application, key), &change, at).is_err() {
            return false;
        }
        self.catalog_changed(application);
        true
    }

    /// What was written may have to be told to whoever sends.
    pub(crate) fn written(&mut self, me: NodeRef, write: Write) {
        match write {
            Write::Create(_)
            | Write::Change(_)
            | Write::Pause(_)
            | Write::Disable(_)
            | Write::Delete(_)
            | Write::Cancel(_)
            | Write::Expunge { .. }
            | Write::Rotate { .. }
            | Write::LimitApplication { .. }
            | Write::MoveName { .. }
            | Write::DeleteApplication(_) => {}
            Write::Resume(endpoint) | Write::Enable(endpoint) => {
                self.ask(me, endpoint, RequestKind::EndPause);
            }
            Write::StartTask(replay, _) => {
                let partitions = replay.deliveries.iter().map(|it| it.partition).collect();
                let errand = Errand::Replay(partitions);
                self.offer_upkeep(me, Asker::Shell(errand), Upkeep::Replay(*replay));
            }
        }
    }

    /// A step that the shell asked for is done.
    pub(crate) fn errand_done(&mut self, me: NodeRef, errand: Errand, answer: &Done) {
        match (errand, answer) {
            (Errand::Ask, _)
            | (Errand::Replay(_), Done::Numbered { .. } | Done::Fenced | Done::Refused(_)) => {}
            (Errand::Replay(partitions), Done::Changed(_)) => {
                let own = partitions.iter().copied().collect();
                self.notify(me, partitions);
                self.feed(me, Event::Woken(Call::Work(own)));
            }
        }
    }

    /// Somebody prunes.
    pub(crate) fn prunes(&mut self) {
        let wait = self.chance.millis(2_000, 6_000);
        self.agenda.plan(self.now + wait, Happening::Prunes);
        let open = self.open_processes();
        let Some(me) = self.chance.pick(&open).copied() else { return };
        let Some(now) = self.process(me).map(|process| process.rows(self.now)) else { return };
        let most = self.chance.count(10, 200);
        self.offer_upkeep(me, Asker::Shell(Errand::Ask), Upkeep::Prune { now, most });
    }
}
