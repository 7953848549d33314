//! What a call does to the store when it takes effect: the reference store, and whoever watches it.

use domain::endpoint::Reason;
use domain::time::Timestamp;
use engine::roster::Member;
use store::catalog::EndpointEdit;
use store::keys::{ApplicationKey, EndpointKey, Lease};
use store::queue::{Accept, Accepted, Batch, Bury, Done, Ending, Settle, Settled, Upkeep};

use crate::bugs::Bug;
use crate::calls::Reply;
use crate::counters::Path;
use crate::node::{BEGINNING, NodeRef};
use crate::world::World;

/// The state of the way to the store.
#[derive(Debug, Default)]
pub(crate) struct Weather {
    /// How many outages there are at the moment.
    pub(crate) down: u32,
    /// How many things slow it down.
    pub(crate) slow: u32,
}

impl World {
    fn rows_now(&self) -> Timestamp {
        BEGINNING.after(self.now)
    }

    /// Renews a lease.
    pub(crate) fn renew(&mut self, me: NodeRef) -> Reply {
        let now = self.rows_now();
        let name = self.name_of(me);
        self.watch.renewed(me, self.now);
        Reply::Renewal(self.state.renew(name, now))
    }

    /// Takes partitions.
    pub(crate) fn take(&mut self, me: NodeRef, most: u8) -> Reply {
        let now = self.rows_now();
        let name = self.name_of(me);
        let now = match self.bug {
            // Far enough in the future, every other lease has run out.
            Some(Bug::TakeWhatIsOwned) => now.after(store::limits::LEASE),
            Some(_) | None => now,
        };
        let mut leases = self.state.take(&name, most, now);
        if self.bug == Some(Bug::AnswerTheOldEpoch) {
            for lease in &mut leases {
                lease.epoch = self.epochs.get(&lease.partition).copied().unwrap_or(lease.epoch);
            }
        }
        for lease in &leases {
            if self.watch.is_taken_over(lease.partition) {
                self.counters.count(Path::TookOver);
            }
            self.epochs.insert(lease.partition, lease.epoch);
            self.watch.took(me, *lease, self.now, &self.state);
        }
        Reply::Leases(leases)
    }

    /// Gives partitions back.
    pub(crate) fn release(&mut self, me: NodeRef, leases: &[Lease]) -> Reply {
        let name = self.name_of(me);
        self.state.release(&name, leases);
        self.watch.released(me, leases);
        self.counters.count(Path::Released);
        self.notify_of_free(me);
        Reply::Nothing
    }

    /// The name outlives the process: its last calls may take effect after it.
    fn name_of(&self, me: NodeRef) -> store::keys::Node {
        store::keys::Node(format!("node-{}-{}", me.slot, me.life))
    }

    /// Accepts a message.
    pub(crate) fn commit_accept(&mut self, mut accept: Accept) -> Accepted {
        if self.bug == Some(Bug::AcceptWithAnOldRevision) {
            let now = self.rows_now();
            let current = self.state.fan_out(accept.application, now);
            accept.revision = current.map_or(accept.revision, |current| current.revision);
        }
        if self.bug == Some(Bug::ForgetIdempotencyKeys) {
            accept.idempotency = None;
        }
        let said = accept.clone();
        if self.bug == Some(Bug::AcceptAnyName) {
            accept.named = None;
        }
        let known = self.watch.knows(accept.message.id);
        let batch = Batch { accepts: vec![accept.clone()], ..Batch::default() };
        let answer = self.state.commit(batch).accepts.pop();
        let answer = answer.unwrap_or_else(|| Accepted::Refused("no answer".to_owned()));
        match &answer {
            Accepted::New { message, .. } if !known => {
                self.watch.accepted(&said, *message, &self.state);
            }
            Accepted::New { .. } => self.counters.count(Path::AcceptFoundItself),
            Accepted::Repeated(_) => self.counters.count(Path::KeyRepeated),
            Accepted::Stale(_) => self.counters.count(Path::StaleFanOut),
            Accepted::EventIdTaken(_) | Accepted::ApplicationMissing | Accepted::Refused(_) => {}
            Accepted::NameMoved => self.counters.count(Path::NameRefused),
        }
        answer
    }

    /// Settles an attempt.
    pub(crate) fn commit_settle(&mut self, settle: Settle) -> Settled {
        let mut written = settle.clone();
        if self.bug == Some(Bug::SettleWithoutTheEpoch) {
            let current = self.epochs.get(&settle.lease.partition);
            written.lease.epoch = current.copied().unwrap_or(settle.lease.epoch);
        }
        if self.bug == Some(Bug::DropRunningState) {
            written.running = None;
        }
        let repeated = self.watch.has_recorded(settle.attempt.id);
        let batch = Batch { settles: vec![written], ..Batch::default() };
        let answer = self.state.commit(batch).settles.pop().unwrap_or(Settled::Missing);
        if repeated {
            self.counters.count(Path::SettleRepeated);
            return answer;
        }
        match answer {
            Settled::Applied { .. } | Settled::Missing | Settled::Refused => {}
            Settled::LeftAlone => self.counters.count(Path::SettleLeftAlone),
            Settled::Fenced => self.counters.count(Path::SettleFenced),
        }
        self.watch.settled(&settle, answer, self.now);
        answer
    }

    /// Does a step of upkeep.
    pub(crate) fn commit_upkeep(&mut self, step: Upkeep) -> Done {
        let batch = Batch { upkeep: vec![step.clone()], ..Batch::default() };
        let answer = self.state.commit(batch).upkeep.pop().unwrap_or(Done::Fenced);
        match (&step, &answer) {
            (_, Done::Fenced) => self.counters.count(Path::UpkeepFenced),
            (Upkeep::Bury(bury), Done::Changed(_)) => self.buried(bury),
            (Upkeep::Number(number), Done::Numbered { count, .. }) => {
                if *count > 0 {
                    self.counters.count(Path::Numbered);
                }
                self.watch.numbered(number, self.now, &self.state);
            }
            (Upkeep::Replay(replay), Done::Changed(_)) => {
                self.counters.count(Path::Replayed);
                self.watch.replayed(replay, self.now, &self.state);
            }
            (Upkeep::Ask { .. }, Done::Changed(_)) => self.watch.asked(&step, &self.state),
            (Upkeep::Prune { .. }, Done::Changed(_)) => self.watch.pruned(&self.state),
            (Upkeep::Run { endpoint, running, .. }, Done::Changed(_)) => {
                self.watch.wrote(*endpoint, *running);
            }
            (
                Upkeep::Consume { .. }
                | Upkeep::RollUp { .. }
                | Upkeep::Fold { .. }
                | Upkeep::Number(_),
                Done::Changed(_),
            )
            | (_, Done::Numbered { .. } | Done::Refused(_)) => {}
        }
        answer
    }

    fn buried(&mut self, bury: &Bury) {
        use domain::delivery::Cause;
        let path = match bury.ending {
            Ending::Cancelled => Path::CalledOff,
            Ending::Dead(Cause::Expired) => Path::BuriedExpired,
            Ending::Dead(Cause::EndpointDisabled) => Path::BuriedDisabled,
            Ending::Dead(Cause::BreakerOpen) => Path::BuriedByBreaker,
            Ending::Dead(Cause::Poison) => Path::BuriedPoison,
            Ending::Dead(
                Cause::EndpointDeleted | Cause::Permanent | Cause::Exhausted | Cause::Blocked,
            ) => Path::BuriedUnsent,
        };
        self.counters.count(path);
        self.watch.buried(bury, self.now, &self.state);
    }

    /// Disables an endpoint, as an engine wished.
    pub(crate) fn disable(
        &mut self,
        (application, key): (ApplicationKey, EndpointKey),
        why: Reason,
        tried: &Member,
    ) {
        let change = EndpointEdit::disabling(why, tried.view.endpoint.clone());
        if let Ok(changed) =
            self.state.change_endpoint((application, key), &change, self.rows_now())
        {
            self.watch.state_changed(key, changed.after.state, self.now);
            self.catalog_changed(application);
        }
    }
}
