//! Sums by minute.

use crate::memory::State;
use crate::queue::{Minute, Rollup, Subject};

impl State {
    /// Returns a subject's sums from one minute up to, but without, another.
    #[must_use]
    pub fn rollups(&self, subject: Subject, from: Minute, to: Minute) -> Vec<Rollup> {
        let rows = self.rollups.iter();
        let theirs = rows
            .filter(|((whose, minute), _)| *whose == subject && *minute >= from && *minute < to);
        theirs.map(|(_, rollup)| rollup.clone()).collect()
    }
}
