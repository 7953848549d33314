//! Pruning: what has outlived its time goes, so many rows at a step.
//!
//! A delivery goes with its attempts, and a message when none of its deliveries is left. A delivery
//! that has more rows than a step may change has a step of its own.

use std::collections::BTreeMap;

use domain::delivery::{Cause, Delivery};
use domain::endpoint::State as EndpointState;
use domain::time::Timestamp;

use crate::catalog::Scope;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::TaskState;
use crate::limits;
use crate::memory::State;
use crate::memory::rows::ApplicationRow;
use crate::queue::{Minute, NewMessage, Subject};
use crate::retention::Term;

/// How many rows a step may still change.
struct Allowance {
    most: usize,
    used: usize,
}

impl Allowance {
    fn is_used_up(&self) -> bool {
        self.used >= self.most
    }

    /// Uses it for something that is done as a whole; the first thing always fits.
    fn take(&mut self, rows: usize) -> bool {
        let fits = self.used == 0 || self.used + rows <= self.most;
        if fits {
            self.used += rows;
        }
        fits && self.most > 0
    }
}

impl State {
    pub(in crate::memory) fn prune(&mut self, now: Timestamp, most: u32) -> u32 {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut allowance = Allowance { most, used: 0 };
        self.prune_secrets(now, &mut allowance);
        // A deleted application of any size leaves half of the step to the deleted endpoints of others.
        let left = most.saturating_sub(allowance.used);
        let mut half = Allowance { most: left / 2, used: 0 };
        if half.most > 0 {
            self.prune_applications(now, &mut half);
        }
        allowance.used += half.used;
        self.bury_for_deleted_endpoints(now, &mut allowance);
        self.prune_applications(now, &mut allowance);
        self.prune_dead_letters(now, &mut allowance);
        self.prune_messages(now, &mut allowance);
        self.prune_endpoints(&mut allowance);
        self.prune_memories(now, &mut allowance);
        u32::try_from(allowance.used).unwrap_or(u32::MAX)
    }

    /// Removes sums, answers, steps, tasks and tokens that have been remembered for long enough.
    fn prune_memories(&mut self, now: Timestamp, allowance: &mut Allowance) {
        let oldest = Minute::of(now.before(limits::ROLLUPS));
        let mut goes = |over: bool| {
            let goes = over && !allowance.is_used_up();
            allowance.used += usize::from(goes);
            goes
        };
        self.rollups.retain(|(_, minute), _| !goes(*minute < oldest));
        self.hours.retain(|(_, minute), _| !goes(*minute < oldest));
        self.answers.retain(|_, (_, at)| !goes(now.since(*at) >= limits::IDEMPOTENCY));
        self.done_once.retain(|once| !goes(now.since(once.at) >= limits::REMEMBERED));
        self.tasks.retain(|_, task| {
            let over = now.since(task.updated_at) > limits::TASKS;
            !goes(over && task.state == TaskState::Finished)
        });
        let before = now.before(limits::TOKENS);
        self.tokens.retain(|_, token| {
            let ends = [token.expires_at, token.revoked_at];
            !goes(ends.into_iter().flatten().any(|end| end < before))
        });
        self.prune_nodes();
    }

    /// Forgets nodes that are gone. Their time is that of the leases, whatever else is pruned by:
    /// the last renewal is the least that it can be. They are few, and cost no step anything.
    fn prune_nodes(&mut self) {
        let latest = self.nodes.values().max().copied();
        self.nodes.retain(|_, renewed| {
            latest.is_none_or(|latest| latest.since(*renewed) <= limits::LEASE + limits::NODES)
        });
    }

    /// Removes what belongs to deleted applications, their own rows last.
    fn prune_applications(&mut self, now: Timestamp, allowance: &mut Allowance) {
        // Until then each node finds the deletion among the changes.
        let before = now.before(limits::CHANGING);
        let is_over = |row: &&ApplicationRow| row.deleted && row.application.updated_at <= before;
        let deleted = self.applications.iter().filter(|(_, row)| is_over(row));
        let deleted: Vec<_> = deleted.map(|(key, _)| *key).collect();
        for application in deleted {
            let theirs = self.messages.iter().filter(|(_, row)| row.application == application);
            let theirs: Vec<_> = theirs.map(|(key, _)| *key).collect();
            for message in theirs {
                if !self.remove_message(message, allowance) {
                    return;
                }
            }
            let theirs =
                self.endpoints.iter().filter(|(_, row)| row.endpoint.application == application);
            let theirs: Vec<_> = theirs.map(|(key, _)| *key).collect();
            for endpoint in theirs {
                self.remove_sums(Subject::Endpoint(endpoint));
                if !allowance.take(1) {
                    return;
                }
                self.endpoints.remove(&endpoint);
            }
            if !allowance.take(1) {
                return;
            }
            self.forget(application);
        }
    }

    fn forget(&mut self, application: ApplicationKey) {
        if let Some(row) = self.applications.get(&application) {
            let own = Scope::Application(row.application.id);
            self.tokens.retain(|_, token| token.scope != own);
        }
        self.remove_sums(Subject::Application(application));
        self.idempotency.retain(|(whose, _), _| *whose != application);
        self.tasks.retain(|_, task| task.application != application);
        self.requests.retain(|_, request| request.application != application);
        self.applications.remove(&application);
    }

    fn remove_sums(&mut self, whose: Subject) {
        self.rollups.retain(|(subject, _), _| *subject != whose);
        self.hours.retain(|(subject, _), _| *subject != whose);
    }

    fn bury_for_deleted_endpoints(&mut self, now: Timestamp, allowance: &mut Allowance) {
        let is_deleted = |endpoint: &EndpointKey| {
            self.endpoints
                .get(endpoint)
                .is_some_and(|row| row.endpoint.state == EndpointState::Deleted)
        };
        let left = self.pending.iter().filter(|(endpoint, ..)| is_deleted(endpoint)).copied();
        // Applications take turns, so that none waits until all of another's is buried.
        let mut turns = BTreeMap::<ApplicationKey, usize>::new();
        let turn = |(endpoint, _, message): (EndpointKey, i64, MessageKey)| {
            let application = self.deliveries.get(&(endpoint, message))?.application;
            let count = turns.entry(application).or_default();
            *count += 1;
            Some((*count, endpoint, message))
        };
        let mut left: Vec<_> = left.filter_map(turn).collect();
        left.sort_by_key(|(turn, ..)| *turn);
        for (_, endpoint, message) in left {
            if allowance.is_used_up() {
                return;
            }
            let Some(row) = self.deliveries.get(&(endpoint, message)) else {
                continue;
            };
            let key = DeliveryKey { application: row.application, endpoint, message };
            self.change(key, |row| {
                let Ok(state) = row.state.bury(Cause::EndpointDeleted) else { return };
                (row.state, row.settled_at) = (state, Some(now));
            });
            let whose = (key.application, key.endpoint);
            self.count_buried(whose, (Cause::EndpointDeleted, 1), now);
            allowance.used += 1;
        }
    }

    fn prune_secrets(&mut self, now: Timestamp, allowance: &mut Allowance) {
        for row in self.endpoints.values_mut() {
            row.secrets.retain(|secret| {
                let over = secret.expires_at.is_some_and(|end| end <= now);
                let goes = over && !allowance.is_used_up();
                allowance.used += usize::from(goes);
                !goes
            });
        }
    }

    /// Removes dead letters that have been kept for long enough, also if their message stays.
    fn prune_dead_letters(&mut self, now: Timestamp, allowance: &mut Allowance) {
        let dead = self.deliveries.iter().filter(|(_, row)| match row.state {
            Delivery::Dead(_) => {
                row.settled_at.is_some_and(|at| at.after(self.dead_letters_kept) < now)
            }
            Delivery::Pending(_) | Delivery::Delivered | Delivery::Cancelled => false,
        });
        let over: Vec<_> = dead.map(|(place, _)| *place).collect();
        for (endpoint, message) in over {
            if !self.remove_deliveries(message, &[endpoint], allowance) {
                return;
            }
        }
    }

    /// Removes deliveries of a message with their attempts; answers whether the allowance was enough
    /// for them.
    fn remove_deliveries(
        &mut self,
        message: MessageKey,
        endpoints: &[EndpointKey],
        allowance: &mut Allowance,
    ) -> bool {
        for endpoint in endpoints {
            let row = self.deliveries.get(&(*endpoint, message));
            let recorded = row.map_or(0, |row| usize::try_from(row.recorded).unwrap_or(usize::MAX));
            if !allowance.take(1 + recorded) {
                return false;
            }
            self.remove_before_message(*endpoint, message);
        }
        true
    }

    /// Removes a delivery; its message remembers that it was there.
    pub(in crate::memory) fn remove_before_message(
        &mut self,
        endpoint: EndpointKey,
        message: MessageKey,
    ) {
        self.remove_delivery(endpoint, message);
        if let Some(row) = self.messages.get_mut(&message) {
            row.fan_out.retain(|sent| *sent != endpoint);
            row.removed.push(endpoint);
        }
    }

    /// Walks the messages from where the last step stopped, once around.
    fn prune_messages(&mut self, now: Timestamp, allowance: &mut Allowance) {
        let ahead = self.messages.range(self.pruned_up_to..).map(|(key, _)| *key);
        let behind = self.messages.range(..self.pruned_up_to).map(|(key, _)| *key);
        let around: Vec<_> = ahead.chain(behind).collect();
        for key in around {
            if allowance.is_used_up() {
                self.pruned_up_to = key;
                return;
            }
            self.prune_idempotency(key, now, allowance);
            if !self.prune_message(key, now, allowance) {
                self.pruned_up_to = key;
                return;
            }
        }
    }

    /// Removes the idempotency key of a message, or of the later one that has taken it over.
    fn prune_idempotency(&mut self, key: MessageKey, now: Timestamp, allowance: &mut Allowance) {
        let row = self.messages.get(&key);
        let Some(place) = row.and_then(|row| Some((row.application, row.idempotency?))) else {
            return;
        };
        let found = self.idempotency.get(&place);
        if found.is_some_and(|found| now.since(found.at) >= limits::IDEMPOTENCY) {
            self.idempotency.remove(&place);
            allowance.used += 1;
        }
    }

    /// Removes what need not be kept of a message whose time is over, and the message itself if
    /// nothing stays; answers whether the allowance was enough.
    fn prune_message(
        &mut self,
        key: MessageKey,
        now: Timestamp,
        allowance: &mut Allowance,
    ) -> bool {
        let Some(row) = self.messages.get(&key) else {
            return true;
        };
        let NewMessage { received_at, deliver_at, retained_until, .. } = row.message;
        let term = Term { received_at, deliver_at, retained_until };
        let Some(settled_before) = term.settled_before(now) else {
            return true;
        };
        let dead_before = now.before(self.dead_letters_kept);
        let goes = |endpoint: &&EndpointKey| {
            let found = self.deliveries.get(&(**endpoint, key));
            found.is_none_or(|delivery| {
                let settled = |before| delivery.settled_at.is_none_or(|at| at < before);
                match delivery.state {
                    Delivery::Pending(_) => false,
                    Delivery::Dead(_) => settled(dead_before),
                    Delivery::Delivered | Delivery::Cancelled => settled(settled_before),
                }
            })
        };
        let over: Vec<_> = row.fan_out.iter().filter(goes).copied().collect();
        if over.len() < row.fan_out.len() {
            self.remove_deliveries(key, &over, allowance)
        } else {
            self.remove_message(key, allowance)
        }
    }

    /// Removes a message, its deliveries first; answers whether the allowance was enough for all of it.
    fn remove_message(&mut self, key: MessageKey, allowance: &mut Allowance) -> bool {
        let Some(row) = self.messages.get(&key).cloned() else {
            return true;
        };
        if !self.remove_deliveries(key, &row.fan_out, allowance) || !allowance.take(1) {
            return false;
        }
        self.message_ids.remove(&(row.application, row.message.id));
        if let Some(event_id) = row.message.event_id {
            self.event_ids.remove(&(row.application, event_id));
        }
        if let Some(hash) = row.idempotency {
            let place = (row.application, hash);
            if self.idempotency.get(&place).is_some_and(|found| found.message == row.message.id) {
                self.idempotency.remove(&place);
            }
        }
        self.messages.remove(&key);
        true
    }

    fn remove_delivery(&mut self, endpoint: EndpointKey, message: MessageKey) {
        let Some(row) = self.deliveries.remove(&(endpoint, message)) else {
            return;
        };
        self.pending.remove(&(endpoint, row.turn, message));
        let mut next = row.last_attempt;
        while let Some(attempt) = next.and_then(|id| self.attempts.remove(&(endpoint, id))) {
            next = attempt.previous;
        }
    }

    /// Removes the tombstones of endpoints that nothing refers to any more, and their sums, for which
    /// nobody can ask.
    fn prune_endpoints(&mut self, allowance: &mut Allowance) {
        let is_referred_to = |endpoint: EndpointKey| {
            let theirs = (endpoint, MessageKey(i64::MIN))..=(endpoint, MessageKey(i64::MAX));
            self.deliveries.range(theirs).next().is_some()
        };
        let over = self.endpoints.iter().filter(|(key, row)| {
            row.endpoint.state == EndpointState::Deleted && !is_referred_to(**key)
        });
        let over: Vec<_> = over.map(|(key, _)| *key).collect();
        for endpoint in over {
            if !allowance.take(1) {
                return;
            }
            self.endpoints.remove(&endpoint);
            self.remove_sums(Subject::Endpoint(endpoint));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Node;

    #[test]
    fn nodes_that_are_gone_for_long_are_forgotten_and_nothing_else_about_them() {
        let mut state = State::default();
        let (begun, node) = (Timestamp::from_seconds(1_800_000_000), Node("first".to_owned()));
        state.renew(node.clone(), begun);
        let leases = state.take(&node, 64, begun);
        let later = begun.after(limits::LEASE + limits::NODES);
        let other = Node("second".to_owned());
        state.renew(other.clone(), later);
        state.prune(later, 64);
        assert_eq!(state.nodes.len(), 2);
        state.renew(other.clone(), later.after(std::time::Duration::from_secs(1)));
        // However late it is for rows, it is not later for leases.
        state.prune(begun, 64);
        assert_eq!(state.nodes.keys().collect::<Vec<_>>(), [&other]);
        assert_eq!(state.take(&other, 64, later).len(), leases.len());
    }
}
