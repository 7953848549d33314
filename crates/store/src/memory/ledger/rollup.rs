//! Sums by minute, and by hour once they are old.

use std::collections::BTreeMap;

use crate::memory::State;
use crate::queue::{Minute, Rollup, Rollups, Subject};

impl State {
    /// Returns a subject's sums from one minute up to, but without, another.
    #[must_use]
    pub fn rollups(&self, subject: Subject, from: Minute, to: Minute) -> Rollups {
        let of = |rows: &BTreeMap<(Subject, Minute), Rollup>| {
            let theirs = rows
                .iter()
                .filter(|((whose, minute), _)| *whose == subject && (from..to).contains(minute));
            theirs.map(|(_, rollup)| rollup.clone()).collect()
        };
        Rollups { minutes: of(&self.rollups), hours: of(&self.hours) }
    }
}
