//! The shell of a simulated process: carries out what its engine says.

use std::time::Duration;

use engine::{Announcement, Effect, Number};

use crate::bugs::Bug;
use crate::calls::{Question, Reader};
use crate::committer::{Asker, SettleTicket};
use crate::counters::Path;
use crate::node::NodeRef;
use crate::watch::TRUSTED;
use crate::world::World;

impl World {
    /// Carries out an effect.
    pub(crate) fn carry_out(&mut self, me: NodeRef, effect: Effect) {
        match effect {
            Effect::Renew => {
                let Some(process) = self.process(me) else { return };
                let asked_at = process.moment(self.now).elapsed;
                self.call(me, Question::Renew { asked_at });
            }
            Effect::Take { most } => self.call(me, Question::Take { most }),
            Effect::Release(leases) => self.call(me, Question::Release(leases)),
            Effect::Walk(partitions) => self.call(me, Question::Walk(partitions)),
            Effect::ReadRequests(partitions) => self.call(me, Question::Requests(partitions)),
            Effect::Load { load, what } => self.call(me, Question::Load { load, what }),
            Effect::ReadRoster(application) => {
                self.call(me, Question::Roster { application, reader: Reader::Engine });
            }
            Effect::ReadChanges { since } => self.call(me, Question::Changes { since }),
            Effect::Confirm { heard } => {
                self.counters.count(Path::ChangeConfirmed);
                self.watch.confirms(me, heard);
            }
            Effect::Send(sending) => self.send(me, *sending),
            Effect::Abort(attempt) => {
                self.question_abort(me, attempt);
                self.abort(me, attempt);
            }
            Effect::Settle { attempt, settle } => {
                self.watch.settles(me, attempt, &settle);
                self.offer_settle(me, SettleTicket { attempt, settle: *settle });
            }
            Effect::Upkeep { step, upkeep } => {
                let Some(rows) = self.process(me).map(|process| process.rows(self.now)) else {
                    return;
                };
                self.watch.keeps_up(me, &upkeep, rows);
                self.offer_upkeep(me, Asker::Engine(step), upkeep);
            }
            Effect::Disable { application, endpoint, reason, tried } => {
                self.call(me, Question::Disable { application, endpoint, reason, tried });
            }
            Effect::Announce(announcement) => self.announced(me, &announcement),
            Effect::WakeAt(at) => {
                // A process that sleeps through its alarm for good must be found out.
                if self.bug == Some(Bug::LoseAnAlarm) && self.chance.permille(3) {
                    return;
                }
                self.set_alarm(me, at);
            }
            Effect::Stopped => self.stopped(me),
        }
    }

    /// An attempt is stopped only by who must: a process whose lease may have run out, or that has no
    /// time left. Its receiver may have got what is sent again then.
    fn question_abort(&mut self, me: NodeRef, attempt: Number) {
        let Some(process) = self.process(me) else { return };
        let since = |asked: Duration| self.now.saturating_sub(asked);
        let trusts = process.renewed.is_some_and(|asked| since(asked) < TRUSTED);
        if let Some(wire) = process.attempts.get(&attempt).copied()
            && trusts
            && !process.hurried
        {
            self.watch.aborts(me, wire, self.now);
        }
    }

    fn announced(&mut self, me: NodeRef, announcement: &Announcement) {
        let path = match announcement {
            Announcement::Warned { .. } => Path::Warned,
            Announcement::Disabled { .. } => Path::DisabledByHealth,
            Announcement::Tripped { .. } => Path::BreakerTripped,
            // The watch counts probes by itself.
            Announcement::Probing { .. } => return,
            Announcement::Reopened { .. } => Path::BreakerReopened,
            Announcement::Closed { .. } => Path::BreakerClosed,
            Announcement::Noticed { .. } => Path::Noticed,
            Announcement::Buried { .. } => Path::BuriedUnsent,
            Announcement::Panicked { .. } => Path::Panicked,
            Announcement::Took(partitions) => {
                if let Some(process) = self.process_mut(me) {
                    process.owned.extend(partitions);
                }
                Path::Took
            }
            Announcement::Lost(partitions) => {
                if let Some(process) = self.process_mut(me) {
                    process.owned.retain(|it| !partitions.contains(it));
                }
                Path::Lost
            }
        };
        self.counters.count(path);
    }
}
