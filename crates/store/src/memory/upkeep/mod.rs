//! Upkeep, step by step.

mod bury;
mod missing;
mod number;
mod prune;
mod replay;
mod request;
mod rollup;
mod run;

use crate::memory::State;
use crate::queue::{Done, Upkeep};

impl State {
    pub(in crate::memory) fn keep_up(&mut self, step: Upkeep) -> Done {
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
                if lease.is_some_and(|lease| !self.is_current(lease)) {
                    return Done::Fenced;
                }
                if self.done_once.insert(once) {
                    self.add_all(&rollups);
                }
                changed(rollups.len())
            }
            Upkeep::Fold { now, most } => Done::Changed(self.fold(now, most)),
            Upkeep::Prune { now, most } => Done::Changed(self.prune(now, most)),
        }
    }
}

fn changed(rows: usize) -> Done {
    Done::Changed(u32::try_from(rows).unwrap_or(u32::MAX))
}
