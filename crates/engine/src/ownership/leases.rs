//! Which partitions this node owns, and for how long it may believe so.
//!
//! Trust counts from before a renewal was sent. What a renewal says may be as old as its question:
//! a partition taken since is not missed, and one given back is not believed in again.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::partition::{PARTITIONS, Partition};
use store::keys::{Epoch, Lease};
use store::queue::Renewal;

use crate::ownership::unclaimed::Unclaimed;
use crate::planted::{self, Bug};

/// The most renewals that may be on their way at once; a slow store gets no more of them.
const RENEWALS: u32 = 4;

/// How long after the end of another node's lease to look: the store may be late by a little.
const AFTER_THE_END: Duration = Duration::from_millis(50);

/// What is known about a partition that is owned.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Held {
    /// Under which epoch.
    pub(crate) epoch: Epoch,
    /// Since when, on the clock that never jumps.
    pub(crate) since: Duration,
    /// When the question was asked that brought it. Between it and its answer the lease may have
    /// run out already, so a renewal that was asked for later and does not know it counts.
    pub(crate) asked: Duration,
    /// Whether a walk that began after the take-over has answered.
    pub(crate) surveyed: bool,
    /// Whether it is being given back: nothing is started any more.
    pub(crate) leaving: bool,
    /// Attempts and steps of upkeep that must be answered before it can be given back.
    pub(crate) busy: u32,
    /// It is not given back before: what arrived late at a receiver counts there for a second.
    pub(crate) quiet_at: Duration,
    /// The last answer to a load of an endpoint that memory has let go since; or the take-over.
    /// A hand-over from before may be settled already.
    pub(crate) answered: Duration,
}

/// The partitions of this node.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// By the number of the partition; empty until the first one is held.
    held: Vec<Option<Held>>,
    leaving: bool,
    /// The last epoch under which each partition was given back.
    given_back: BTreeMap<Partition, Epoch>,
    /// When the newest renewal that was answered had been asked for.
    renewed: Option<Duration>,
    others: u32,
    unclaimed: Unclaimed,
    renewing: u32,
    next_renewal: Duration,
    /// When partitions were asked for, while there is no answer.
    pub(crate) taking: Option<Duration>,
    /// Leases on their way back; one question at a time.
    pub(crate) releasing: Vec<Lease>,
    /// Whether what has drained is given back at once, come what may.
    pub(crate) hurried: bool,
}

/// What a renewal changed.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// Owned no more, or under another epoch.
    pub(crate) lost: Vec<Partition>,
    /// Owned since, unknown until now.
    pub(crate) found: Vec<Lease>,
    /// Given back before, and still ours in the store.
    pub(crate) stuck: Vec<Lease>,
}

impl Leases {
    /// Tells whether it is time to renew, and counts the question.
    pub(crate) fn renewal_is_due(&mut self, now: Duration, every: Duration) -> bool {
        if now < self.next_renewal || self.renewing >= RENEWALS {
            return false;
        }
        self.renewing += 1;
        self.next_renewal = now.saturating_add(every);
        true
    }

    /// Returns when the next renewal is due.
    pub(crate) fn next_renewal(&self) -> Option<Duration> {
        (self.renewing < RENEWALS).then_some(self.next_renewal)
    }

    /// Has the next renewal sent at this moment.
    pub(crate) fn renew_at(&mut self, moment: Duration) {
        self.next_renewal = self.next_renewal.min(moment);
    }

    /// Has the next renewal sent when the first of the other nodes' leases has ended. Those who live
    /// have renewed theirs long before; only of the dead is it noticed at once.
    pub(crate) fn renew_after_others(&mut self, renewal: &Renewal, now: Duration) {
        if let Some(until) = renewal.others_until {
            let left = until.since(renewal.now).saturating_add(AFTER_THE_END);
            self.renew_at(now.saturating_add(left));
        }
    }

    /// Takes in that a renewal was answered, whatever the answer is.
    pub(crate) fn renewal_ended(&mut self) {
        self.renewing = self.renewing.saturating_sub(1);
    }

    /// Returns until when what is held may be believed in.
    pub(crate) fn trusted_until(&self, trusted: Duration) -> Option<Duration> {
        self.renewed.map(|asked| asked.saturating_add(trusted))
    }

    /// Tells whether a renewal was answered that had been asked for after a moment.
    pub(crate) fn was_renewed_since(&self, moment: Duration) -> bool {
        self.renewed.is_some_and(|asked| asked > moment)
    }

    /// Takes in a renewal. One that was asked for before another that has answered says nothing.
    ///
    /// While the lease has been trusted all the time, nobody can have taken anything: then one that
    /// was asked for before the answer to a take may have been too early to know of it.
    pub(crate) fn renewed(
        &mut self,
        asked_at: Duration,
        renewal: &Renewal,
        trusted: bool,
    ) -> Changes {
        if self.renewed.is_some_and(|newest| asked_at < newest) {
            return Changes::default();
        }
        self.renewed = Some(asked_at);
        self.others = renewal.others;
        self.unclaimed.count(renewal.free, asked_at);
        let owned: BTreeMap<Partition, Epoch> =
            renewal.owned.iter().map(|lease| (lease.partition, lease.epoch)).collect();
        let mut changes = Changes::default();
        for (partition, held) in self.all() {
            let current = owned.get(&partition);
            // A question from before the take-over could not know of it.
            let silent = current.is_none_or(|epoch| *epoch < held.epoch);
            let from = if trusted { held.since } else { held.asked };
            if current != Some(&held.epoch) && !(silent && asked_at <= from) {
                changes.lost.push(partition);
            }
        }
        for (partition, epoch) in owned {
            let lease = Lease { partition, epoch };
            if self.get(partition).is_some_and(|held| held.epoch >= epoch) {
                continue;
            }
            if self.given_back.get(&partition).is_some_and(|last| *last >= epoch) {
                changes.stuck.push(lease);
            } else {
                changes.found.push(lease);
            }
        }
        changes
    }

    /// Takes a partition in. An epoch that is not newer than what is known changes nothing.
    pub(crate) fn hold(&mut self, lease: Lease, asked: Duration, now: Duration) -> bool {
        let Lease { partition, epoch } = lease;
        let known = self.get(partition).map(|held| held.epoch);
        let given_back = self.given_back.get(&partition).copied();
        if known.max(given_back).is_some_and(|newest| newest >= epoch) {
            return false;
        }
        let held = Held {
            epoch,
            since: now,
            asked,
            surveyed: false,
            leaving: false,
            busy: 0,
            quiet_at: Duration::ZERO,
            answered: now,
        };
        self.held.resize(usize::from(PARTITIONS), None);
        if let Some(place) = self.held.get_mut(usize::from(partition.number())) {
            *place = Some(held);
        }
        true
    }

    /// Lets a partition go that another node has.
    pub(crate) fn lose(&mut self, partition: Partition) -> bool {
        // Should it turn out to be ours all the same, it is given back and taken anew: what was
        // written under the old epoch must not count for a memory that has forgotten it.
        self.give_back(partition).is_some()
    }

    /// Lets a partition go that is given back; its epoch is never believed in again.
    pub(crate) fn give_back(&mut self, partition: Partition) -> Option<Lease> {
        let held = self.remove(partition)?;
        self.given_back.insert(partition, held.epoch);
        Some(Lease { partition, epoch: held.epoch })
    }

    /// Returns what is known about a partition that is held.
    pub(crate) fn get(&self, partition: Partition) -> Option<&Held> {
        self.held.get(usize::from(partition.number()))?.as_ref()
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, partition: Partition) -> Option<&mut Held> {
        self.held.get_mut(usize::from(partition.number()))?.as_mut()
    }

    /// Returns the lease on a partition.
    pub(crate) fn lease(&self, partition: Partition) -> Option<Lease> {
        self.get(partition).map(|held| Lease { partition, epoch: held.epoch })
    }

    /// Returns the partitions that are held and not on their way out.
    pub(crate) fn staying(&self) -> Vec<Partition> {
        self.all().filter(|(_, held)| !held.leaving).map(|(partition, _)| partition).collect()
    }

    /// Tells whether no partition is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Tells whether a partition is on its way out.
    pub(crate) fn any_leaving(&self) -> bool {
        self.leaving
    }

    /// Returns how many partitions each node should have, as far as this one knows.
    fn share(&self, most: u8) -> usize {
        let nodes = self.others.saturating_add(1);
        let share = u32::from(PARTITIONS).div_ceil(nodes).min(u32::from(most));
        usize::try_from(share).unwrap_or(usize::MAX)
    }

    /// Returns how many partitions to take, if there are too few, or nobody else takes them.
    pub(crate) fn wanted(&self, most: u8, now: Duration) -> Option<u8> {
        let held = self.all().count();
        let missing = self.share(most).saturating_sub(held);
        let unclaimed = usize::from(self.unclaimed.wanted(now));
        let wanted = missing.max(unclaimed.min(usize::from(most).saturating_sub(held)));
        u8::try_from(wanted).ok().filter(|wanted| *wanted > 0)
    }

    /// Notes that so many partitions are asked for.
    pub(crate) fn take(&mut self, wanted: u8, most: u8, now: Duration) {
        self.taking = Some(now);
        self.unclaimed.ask();
        if self.all().count().saturating_add(usize::from(wanted)) > self.share(most) {
            self.unclaimed.take(now, self.others);
        }
    }

    /// Marks partitions beyond this node's share, if there is more than one of them.
    pub(crate) fn mark_leaving(&mut self, most: u8, now: Duration) {
        let share = self.share(most);
        let staying = self.all().filter(|(_, held)| !held.leaving).count();
        let too_many = staying > share.saturating_add(1);
        if !too_many || self.unclaimed.is_kept(now, self.others) {
            if self.leaving {
                self.unclaimed.give(now);
            }
            return;
        }
        self.unclaimed.give(now);
        self.leaving = true;
        let staying_ones = self.held.iter_mut().rev().flatten().filter(|held| !held.leaving);
        staying_ones.take(staying - share).for_each(|held| held.leaving = true);
    }

    /// Marks everything.
    pub(crate) fn mark_all_leaving(&mut self) {
        self.leaving = true;
        self.held.iter_mut().flatten().for_each(|held| held.leaving = true);
    }

    /// Returns the partitions that can be given back now.
    pub(crate) fn drained(&self, now: Duration) -> Vec<Partition> {
        let drained = self.all().filter(|(_, held)| {
            let settled = held.busy == 0 && self.quiet_at(held) <= now;
            held.leaving && (settled || planted::has(Bug::ReleaseUndrained))
        });
        drained.map(|(partition, _)| partition).collect()
    }

    /// Returns when the next partition can be given back that has nothing left to settle.
    pub(crate) fn next_quiet(&self, now: Duration) -> Option<Duration> {
        if !self.leaving {
            return None;
        }
        let leaving = self.held.iter().flatten().filter(|held| held.leaving && held.busy == 0);
        leaving.map(|held| self.quiet_at(held)).filter(|quiet_at| *quiet_at > now).min()
    }

    /// Where nobody else is, nobody could send too early; and whoever is in a hurry does not wait.
    fn quiet_at(&self, held: &Held) -> Duration {
        if self.others == 0 || self.hurried { Duration::ZERO } else { held.quiet_at }
    }

    fn all(&self) -> impl Iterator<Item = (Partition, &Held)> {
        Partition::all().zip(&self.held).filter_map(|(key, held)| Some((key, held.as_ref()?)))
    }

    fn remove(&mut self, partition: Partition) -> Option<Held> {
        let held = self.held.get_mut(usize::from(partition.number()))?.take();
        self.leaving = self.held.iter().flatten().any(|held| held.leaving);
        held
    }
}

#[cfg(test)]
mod tests;
