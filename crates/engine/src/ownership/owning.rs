//! Owning partitions: renewing, taking, losing, giving back.

use std::time::Duration;

use domain::partition::Partition;
use store::keys::Lease;
use store::queue::Renewal;

use crate::endpoints::endpoint::At;
use crate::engine::{Act, Engine};
use crate::planted::{self, Bug};
use crate::protocol::announcement::Announcement;
use crate::protocol::effect::Effect;
use crate::protocol::event::Unanswered;

impl Engine {
    /// Notices when the lease has not been renewed for too long: whatever is in flight is stopped,
    /// because another node may begin to send.
    pub(crate) fn weigh_trust(&mut self, act: &mut Act<'_>) {
        let until = self.leases.trusted_until(self.settings.lease_trusted);
        let trusted = until.is_some_and(|until| act.now.elapsed < until);
        if self.trusted && !trusted {
            let flying = self.attempts.in_flight();
            act.effects.extend(flying.into_iter().map(Effect::Abort));
        }
        let regained = trusted && !self.trusted;
        self.trusted = trusted;
        if regained {
            self.look_at_all(act);
        }
    }

    pub(crate) fn renewed(
        &mut self,
        asked_at: Duration,
        answer: Result<Renewal, Unanswered>,
        act: &mut Act<'_>,
    ) {
        self.leases.renewal_ended();
        let Ok(renewal) = answer else { return };
        let changes = self.leases.renewed(asked_at, &renewal, self.trusted);
        self.lose(&changes.lost, act);
        self.weigh_trust(act);
        if self.stopping.is_some() {
            // What an unanswered take brought in is not wanted any more.
            self.release_when_idle([changes.found, changes.stuck].concat(), act);
            return;
        }
        self.leases.renew_after_others(&renewal, act.now.elapsed);
        self.take_over(changes.found, asked_at, act);
        // What was judged under it is still being written, and would be refused once another has it. The
        // next renewal brings it up again.
        let idle = |lease: &Lease| !self.attempts.are_under(*lease);
        let stuck = changes.stuck.into_iter().filter(idle).collect();
        self.release(stuck, act);
        let (most, now) = (self.settings.partitions, act.now.elapsed);
        self.leases.mark_leaving(most, now);
        let wanted = self.leases.wanted(most, now);
        if let Some(wanted) = wanted.filter(|_| self.trusted && self.leases.taking.is_none()) {
            self.leases.take(wanted, most, now);
            act.effects.push(Effect::Take { most: wanted });
        }
    }

    pub(crate) fn taken(&mut self, answer: Result<Vec<Lease>, Unanswered>, act: &mut Act<'_>) {
        let asked_at = self.leases.taking.take().unwrap_or_default();
        // What an unanswered question took shows in the next renewal.
        let Ok(leases) = answer else { return };
        if self.stopping.is_some() {
            // One that a renewal brought before may be busy; it goes when it has drained.
            let is_held = |lease: &Lease| self.leases.lease(lease.partition) == Some(*lease);
            let unknown = leases.into_iter().filter(|lease| !is_held(lease)).collect();
            self.release_when_idle(unknown, act);
        } else if self.leases.was_renewed_since(asked_at) {
            // The answer is older than what is known: the next renewal tells what is ours.
            self.leases.renew_at(act.now.elapsed);
        } else {
            self.take_over(leases, asked_at, act);
        }
    }

    pub(crate) fn released(&mut self, answer: Result<(), Unanswered>, act: &Act<'_>) {
        let asked = std::mem::take(&mut self.leases.releasing);
        // Unless it stops, what is still ours shows in the next renewal and is given back again.
        if let Some(stopping) = &mut self.stopping {
            stopping.released(answer.is_ok(), asked, act.now.elapsed);
        }
    }

    /// Gives back, while stopping, what had to wait or what the store did not take.
    pub(crate) fn release_again(&mut self, act: &mut Act<'_>) {
        if let Some(stopping) = self.stopping.as_mut().filter(|_| self.leases.releasing.is_empty())
        {
            let again = stopping.release_again(act.now.elapsed);
            self.release_when_idle(again, act);
        }
    }

    /// Gives back, while stopping, what is not held here: at once, or when what was judged under it
    /// has been written. It would be refused once another has it, and what has arrived sent again.
    fn release_when_idle(&mut self, leases: Vec<Lease>, act: &mut Act<'_>) {
        let (busy, idle) = leases.into_iter().partition(|lease| self.attempts.are_under(*lease));
        if let Some(stopping) = &mut self.stopping {
            stopping.keep(busy, act.now.elapsed);
        }
        self.release(idle, act);
    }

    fn take_over(&mut self, leases: Vec<Lease>, asked_at: Duration, act: &mut Act<'_>) {
        let mut took = Vec::new();
        for lease in leases {
            let known = self.leases.lease(lease.partition);
            if known.is_some_and(|known| known.epoch < lease.epoch) {
                self.lose(&[lease.partition], act);
            }
            if self.leases.hold(lease, asked_at, act.now.elapsed) {
                took.push(lease.partition);
            }
        }
        if !took.is_empty() {
            self.walks.wake(took.clone());
            act.announce(Announcement::Took(took));
        }
    }

    /// Forgets partitions that another node has.
    fn lose(&mut self, partitions: &[Partition], act: &mut Act<'_>) {
        let mut lost = Vec::new();
        for partition in partitions {
            if self.leases.lose(*partition) {
                lost.push(*partition);
            }
        }
        self.forget_partitions(lost, act);
    }

    /// Takes in that the store refused a write because the lease it named is not current.
    pub(crate) fn fenced(&mut self, lease: Lease, act: &mut Act<'_>) {
        // One that was written under an older lease says nothing about the one held now.
        if self.leases.lease(lease.partition) == Some(lease) {
            self.lose(&[lease.partition], act);
            self.leases.renew_at(act.now.elapsed);
        }
    }

    fn forget_partitions(&mut self, partitions: Vec<Partition>, act: &mut Act<'_>) {
        if partitions.is_empty() {
            return;
        }
        for number in self.attempts.of_partitions(&partitions) {
            let Some(attempt) = self.attempts.get_mut(number) else { continue };
            // One of an earlier lease is counted and aborted already.
            if std::mem::replace(&mut attempt.stray, true) {
                continue;
            }
            if attempt.is_in_flight() {
                let key = attempt.delivery.key;
                *self.strays.entry((key.application, key.endpoint)).or_default() += 1;
                act.effects.push(Effect::Abort(number));
            }
        }
        self.requests.lose(&partitions);
        let partition = |at: &At| self.endpoints.get(at).map(|one| one.partition);
        let is_theirs = |at: &At| partition(at).is_some_and(|one| partitions.contains(&one));
        let theirs: Vec<At> = self.endpoints.keys().filter(is_theirs).collect();
        if !planted::has(Bug::KeepLostWindows) {
            theirs.into_iter().for_each(|at| self.forget(at));
        }
        let endpoints = &self.endpoints;
        self.turns.retain(|at| endpoints.contains(at));
        self.load_queue.retain(|at| endpoints.contains(at));
        act.announce(Announcement::Lost(partitions));
    }

    /// Forgets an endpoint, whatever is known about it.
    pub(crate) fn forget(&mut self, at: At) {
        let Some(mut endpoint) = self.endpoints.remove(&at) else { return };
        self.requests.leave(at, endpoint.created());
        self.timers.set(at, &mut endpoint, domain::time::Timestamp::FAR_FUTURE);
        self.payload_bytes = self.payload_bytes.saturating_sub(endpoint.counted);
        self.rows = self.rows.saturating_sub(endpoint.counted_rows);
        if let Some(held) = self.leases.get_mut(endpoint.partition) {
            held.answered = held.answered.max(endpoint.window.answered());
        }
    }

    /// Gives back what is on its way out and has nothing left to settle.
    pub(crate) fn give_back_drained(&mut self, act: &mut Act<'_>) {
        if !self.leases.any_leaving() || !self.leases.releasing.is_empty() {
            return;
        }
        // What is done here should not be done again by the next owner.
        self.consume_done(act);
        if planted::has(Bug::AbortAtHandOver) {
            let is_leaving = |it: &Partition| self.leases.get(*it).is_some_and(|one| one.leaving);
            let leaving: Vec<Partition> = Partition::all().filter(is_leaving).collect();
            let theirs = self.attempts.of_partitions(&leaving);
            act.effects.extend(theirs.into_iter().map(Effect::Abort));
        }
        let drained = self.leases.drained(act.now.elapsed);
        let leases: Vec<Lease> =
            drained.iter().filter_map(|partition| self.leases.give_back(*partition)).collect();
        self.forget_partitions(drained, act);
        self.release(leases, act);
    }

    fn release(&mut self, leases: Vec<Lease>, act: &mut Act<'_>) {
        if leases.is_empty() {
            return;
        }
        if self.leases.releasing.is_empty() {
            self.leases.releasing.clone_from(&leases);
            act.effects.push(Effect::Release(leases));
        } else if let Some(stopping) = &mut self.stopping {
            stopping.release_later(leases);
        }
    }
}
