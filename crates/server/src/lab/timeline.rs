//! Attempts before, during and after the outage.
//!
//! Each of the three is counted by itself and from its own beginning. So no bucket lies across an
//! edge of the outage, and nothing that failed in it is ever shown outside of it.

use domain::time::Timestamp;

use super::histogram::Histogram;
use super::scenario::{Outage, START};

/// All attempts of a run over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timeline {
    phases: [Phase; 3],
    last: Timestamp,
}

/// A part of the run in which the receiver stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Phase {
    /// Its first moment.
    pub(crate) start: Timestamp,
    /// The first moment after it; the last phase goes on for as long as the run.
    pub(crate) end: Option<Timestamp>,
    /// Its attempts.
    pub(crate) histogram: Histogram,
}

impl Timeline {
    /// Begins to count.
    pub(crate) fn new(outage: &Outage) -> Self {
        let (down, up) = (outage.start(), outage.end());
        let phase = |start, end| Phase { start, end, histogram: Histogram::starting_at(start) };
        let phases = [phase(START, Some(down)), phase(down, Some(up)), phase(up, None)];
        Self { phases, last: START }
    }

    /// Counts an attempt by the moment at which it began.
    pub(crate) fn count(&mut self, began: Timestamp, succeeded: bool) {
        self.last = self.last.max(began);
        let holds = |phase: &&mut Phase| phase.end.is_none_or(|end| began < end);
        if let Some(phase) = self.phases.iter_mut().find(holds) {
            phase.histogram.count(began, succeeded);
        }
    }

    /// Returns before, during and after the outage. The first two are empty if they take no time.
    pub(crate) fn phases(&self) -> &[Phase; 3] {
        &self.phases
    }

    /// Returns when the last attempt began.
    pub(crate) fn last(&self) -> Timestamp {
        self.last
    }

    /// Returns the width of the widest buckets: all others fit into them a whole number of times.
    pub(crate) fn width_micros(&self) -> u64 {
        self.phases.iter().map(|phase| phase.histogram.width_micros()).max().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::histogram::Bucket;
    use super::super::scenario::Answer;
    use super::*;

    /// Counts an attempt at each of these milliseconds; down from 1,050 to 2,070.
    fn counted(millis: &[i64]) -> [Vec<Bucket>; 3] {
        let outage = Outage {
            starts: Duration::from_millis(1_050),
            lasts: Duration::from_millis(1_020),
            answer: Answer::Unavailable,
        };
        let mut timeline = Timeline::new(&outage);
        for at in millis {
            let began = Timestamp::from_micros(at * 1_000);
            timeline.count(began, !outage.covers(began));
        }
        assert_eq!(Some(timeline.last().as_micros()), millis.last().map(|at| at * 1_000));
        timeline.phases.map(|phase| phase.histogram.in_buckets_of(100_000))
    }

    #[test]
    fn no_bucket_lies_across_an_edge_of_the_outage() {
        let [before, during, after] = counted(&[1_049, 1_050, 2_069, 2_070]);
        let success = Bucket { succeeded: 1, failed: 0 };
        let failure = Bucket { succeeded: 0, failed: 1 };
        assert_eq!(before.last(), Some(&success));
        assert_eq!((during[0], during[10]), (failure, failure));
        assert_eq!(after, [success]);
    }
}
