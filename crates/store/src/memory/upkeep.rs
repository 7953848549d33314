//! Upkeep, step by step.

use std::collections::BTreeSet;

use domain::delivery::Delivery;
use domain::endpoint::State as EndpointState;
use domain::time::Timestamp;

use super::State;
use crate::keys::{ApplicationKey, DeliveryKey, MessageKey};
use crate::ledger::TaskState;
use crate::queue::{
    Bury, Chosen, Done, Ending, FirstState, Missing, NewDelivery, Number, Order, Replay, Request,
    RequestKind, Rollup, Subject, Upkeep, turn,
};

impl State {
    pub(super) fn keep_up(&mut self, step: Upkeep) -> Done {
        match step {
            Upkeep::Bury(bury) => self.bury(&bury),
            Upkeep::Number(number) => self.number(number),
            Upkeep::Replay(replay) => self.replay(&replay),
            Upkeep::Run { lease, application, endpoint, running } => {
                if !self.is_current(lease) {
                    return Done::Fenced;
                }
                Done::Changed(u32::from(self.run(application, endpoint, running)))
            }
            Upkeep::Ask { once, request } => {
                if self.done_once.insert(once) {
                    self.ask(request);
                }
                Done::Changed(1)
            }
            Upkeep::Consume { lease, requests } => {
                if !self.is_current(lease) {
                    return Done::Fenced;
                }
                let before = self.requests.len();
                self.requests.retain(|number, _| !requests.contains(number));
                changed(before - self.requests.len())
            }
            Upkeep::RollUp { lease, once, rollups } => {
                if !self.is_current(lease) {
                    return Done::Fenced;
                }
                if self.done_once.insert(once) {
                    self.add_all(&rollups);
                }
                changed(rollups.len())
            }
            Upkeep::Prune { now, most } => Done::Changed(self.prune(now, most)),
        }
    }

    fn bury(&mut self, bury: &Bury) -> Done {
        if !self.is_current(bury.lease) {
            return Done::Fenced;
        }
        let mut buried = 0;
        for doomed in &bury.deliveries {
            let Bury { application, endpoint, .. } = *bury;
            let key = DeliveryKey { application, endpoint, message: doomed.message };
            let end = |state: Delivery| match bury.ending {
                Ending::Dead(cause) => state.bury(cause),
                Ending::Cancelled => state.cancel(),
            };
            let done = self.change(key, |row| match end(row.state) {
                Ok(ended) if row.is_as_loaded(doomed.recorded, doomed.ended_before) => {
                    row.state = ended;
                    row.settled_at = Some(bury.at);
                    true
                }
                Ok(_) | Err(_) => false,
            });
            buried += usize::from(done == Some(true));
        }
        changed(buried)
    }

    fn number(&mut self, number: Number) -> Done {
        if !self.is_current(number.lease) {
            return Done::Fenced;
        }
        let Number { application, endpoint, until, most, .. } = number;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let due: Vec<MessageKey> =
            self.scheduled(endpoint).take_while(|one| one.0 <= until).map(|one| one.1).collect();
        let mut count = 0;
        for message in due.into_iter().take(most) {
            let turn = self.next_in_sequence();
            let key = DeliveryKey { application, endpoint, message };
            count += usize::from(self.change(key, |row| row.turn = turn).is_some());
        }
        let next = self.scheduled(endpoint).next().map(|one| one.0);
        Done::Numbered { count: u32::try_from(count).unwrap_or(u32::MAX), next }
    }

    fn replay(&mut self, replay: &Replay) -> Done {
        let Some(task) = self.tasks.get(&replay.task) else {
            return Done::Fenced;
        };
        let its_turn = task.state == TaskState::Running && task.cursor == replay.cursor;
        if !its_turn || !self.is_current(replay.lease) || !self.is_as_chosen(replay) {
            return Done::Fenced;
        }
        let (mut replayed, mut gone) = (0, 0);
        for chosen in &replay.deliveries {
            let Chosen { key, partition, pending, .. } = *chosen;
            let message = self.messages.get(&key.message);
            if message.is_some_and(|it| it.application == key.application && it.payload.is_none()) {
                gone += 1;
                continue;
            }
            let meant = self.delivery_row(key).is_some_and(|row| row.is_as_chosen(chosen));
            let endpoint = self.endpoints.get(&key.endpoint).filter(|_| meant);
            let Some(order) = endpoint.map(|row| row.endpoint.order) else { continue };
            let turn = match order {
                Order::Due => pending.due.as_micros(),
                Order::Fifo => self.next_in_sequence(),
            };
            self.change(key, |row| {
                row.partition = partition;
                row.order = order;
                row.turn = turn;
                row.state = Delivery::Pending(pending);
            });
            replayed += 1;
        }
        let (made, skipped) = self.make(replay.missing.as_ref(), replay.at);
        replayed += made;
        if let Some(task) = self.tasks.get_mut(&replay.task) {
            task.cursor = replay.next_cursor;
            task.replayed += replayed;
            task.skipped += gone + skipped + u64::from(replay.passed_over);
            task.updated_at = replay.at;
            if replay.next_cursor.is_none() {
                task.state = TaskState::Finished;
            }
        }
        Done::Changed(u32::try_from(replayed).unwrap_or(u32::MAX))
    }

    /// Tells whether nothing has changed since a chunk's missing deliveries were chosen.
    fn is_as_chosen(&mut self, replay: &Replay) -> bool {
        let Some(missing) = &replay.missing else {
            return true;
        };
        let application = self.living(missing.application);
        application.is_some_and(|application| application.revision == missing.revision)
    }

    /// Makes deliveries that are missing; returns how many, and how many have nothing to send.
    fn make(&mut self, missing: Option<&Missing>, at: Timestamp) -> (u64, u64) {
        let (mut made, mut skipped) = (0, 0);
        let missing = missing.into_iter();
        let theirs = missing.flat_map(|missing| {
            missing.deliveries.iter().filter(|(key, ..)| key.application == missing.application)
        });
        for (key, partition, order, pending) in theirs {
            let endpoint = self.endpoints.get(&key.endpoint).map(|row| &row.endpoint);
            let known = endpoint.is_some_and(|endpoint| {
                endpoint.application == key.application && endpoint.state != EndpointState::Deleted
            });
            let message = self.messages.get(&key.message);
            let message = message.filter(|row| row.application == key.application);
            let Some(message) = message.filter(|_| known) else { continue };
            let mut known = message.fan_out.iter().chain(&message.removed);
            if known.any(|known| *known == key.endpoint) {
                continue;
            }
            if message.payload.is_none() || message.message.retained_until < at {
                skipped += 1;
                continue;
            }
            let delivery = NewDelivery {
                endpoint: key.endpoint,
                partition: *partition,
                order: *order,
                state: FirstState::Pending(*pending),
            };
            let row = self.first_row(&delivery, key.application, at);
            self.pending.insert((key.endpoint, row.turn, key.message));
            self.deliveries.insert((key.endpoint, key.message), row);
            if let Some(row) = self.messages.get_mut(&key.message) {
                row.fan_out.push(key.endpoint);
            }
            made += 1;
        }
        (made, skipped)
    }

    pub(super) fn ask(&mut self, request: Request) {
        let number = self.next_row();
        match request.kind {
            RequestKind::RetryNow(message) => {
                let Request { application, endpoint, at, .. } = request;
                self.change(DeliveryKey { application, endpoint, message }, |row| {
                    let Ok(Delivery::Pending(pending)) = row.state.retry_now(at) else {
                        return;
                    };
                    row.state = Delivery::Pending(pending);
                    row.turn = match row.order {
                        Order::Due => pending.due.as_micros(),
                        Order::Fifo if turn::due_if_scheduled(row.turn).is_some() => {
                            turn::scheduled(pending.due)
                        }
                        Order::Fifo => row.turn,
                    };
                });
            }
            RequestKind::ResetBreaker
            | RequestKind::EndPause
            | RequestKind::Refresh
            | RequestKind::Cancel(_) => {}
        }
        self.requests.insert(number, Request { number, ..request });
    }

    /// Adds to the sums of those who are there.
    fn add_all(&mut self, rollups: &[Rollup]) {
        let of_application = |rollup: &Rollup| match rollup.subject {
            Subject::Application(key) => self.applications.get(&key).map(|row| (key, row.deleted)),
            Subject::Whole | Subject::Endpoint(_) => None,
        };
        let living = rollups.iter().filter_map(of_application).filter(|(_, deleted)| !deleted);
        let living: BTreeSet<ApplicationKey> = living.map(|(key, _)| key).collect();
        for rollup in rollups {
            let is_there = match rollup.subject {
                Subject::Whole => true,
                Subject::Application(key) => living.contains(&key),
                Subject::Endpoint(key) => {
                    let row = self.endpoints.get(&key);
                    row.is_some_and(|row| living.contains(&row.endpoint.application))
                }
            };
            if is_there {
                self.add(rollup);
            }
        }
    }

    fn add(&mut self, rollup: &Rollup) {
        let Rollup { subject, minute, .. } = *rollup;
        let sums = self.rollups.entry((subject, minute));
        sums.or_insert_with(|| Rollup::empty(subject, minute)).add(rollup);
    }
}

fn changed(rows: usize) -> Done {
    Done::Changed(u32::try_from(rows).unwrap_or(u32::MAX))
}
