//! How much is measured: the whole, as the figures in the documents are from, a quick look, or
//! just enough to see that nothing is badly wrong.

use std::time::Duration;

use host::words::grouped;
use serde_json::{Value, json};

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plan {
    /// Interleaved pairs of runs; the median counts.
    pub(crate) pairs: u32,
    /// About how long each run of a pair takes.
    pub(crate) run: Duration,
    /// How long latency is measured at each rate, each time.
    pub(crate) paced: Duration,
    /// How many connections the load comes over.
    pub(crate) connections: usize,
    /// The fan-outs that are measured end to end.
    pub(crate) fan_outs: &'static [usize],
    /// Which ways of handing messages in are measured with each.
    pub(crate) ways: Ways,
    /// Endpoints that hang.
    pub(crate) hanging: usize,
    /// Messages that flood one endpoint.
    pub(crate) flood: u64,
    /// Endpoints of the busy application.
    pub(crate) busy: usize,
    /// Deliveries that wait.
    pub(crate) backlog: u64,
    /// Deliveries that were settled long ago.
    pub(crate) old: u64,
    /// Which servers are killed.
    pub(crate) kills: Kills,
}

/// Which servers are killed. One of a fleet is missed only when its lease has run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kills {
    /// All that would be.
    All,
    /// None of a fleet: there is no time to wait for leases.
    NoneOfFleets,
}

/// Which ways of handing messages in are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ways {
    /// All of them.
    All,
    /// Those of which it was said what they should reach.
    Promised,
}

impl Plan {
    /// Tells whether something is as large as it was when it was said what should be reached. Of less,
    /// nothing was said.
    pub(crate) fn is_full<S: PartialOrd>(&self, size: fn(&Self) -> S) -> bool {
        size(self) >= size(&Self::FULL)
    }

    /// Returns it in one line.
    pub(super) fn line(&self) -> String {
        let [hanging, busy] = [self.hanging, self.busy]
            .map(|count| grouped(u64::try_from(count).unwrap_or(u64::MAX)));
        let [flood, backlog, old] = [self.flood, self.backlog, self.old].map(grouped);
        let Self { pairs, run, paced, connections, .. } = self;
        format!(
            "medians of {pairs}; runs of {run:?}, latency over {paced:?}, {connections} connections; \
             {hanging} hanging, {flood} in a flood, {busy} busy, {backlog} pending, {old} old"
        )
    }

    /// Returns it as JSON.
    pub(super) fn to_json(self) -> Value {
        json!({
            "pairs": self.pairs,
            "run_seconds": self.run.as_secs_f64(),
            "paced_seconds": self.paced.as_secs_f64(),
            "connections": self.connections,
            "fan_outs": self.fan_outs,
            "hanging": self.hanging,
            "flood": self.flood,
            "busy": self.busy,
            "backlog": self.backlog,
            "old": self.old,
        })
    }

    /// What the documents show. It takes about half an hour.
    pub(crate) const FULL: Self = Self {
        pairs: 5,
        run: Duration::from_secs(3),
        paced: Duration::from_secs(10),
        connections: 256,
        fan_outs: &[1, 5, 100],
        ways: Ways::All,
        hanging: 2_000,
        flood: 200_000,
        busy: 5_000,
        backlog: 1_000_000,
        old: 5_000_000,
        kills: Kills::All,
    };

    /// A look of less than a minute.
    pub(crate) const QUICK: Self = Self {
        pairs: 1,
        run: Duration::from_millis(700),
        paced: Duration::from_millis(1_500),
        connections: 256,
        fan_outs: &[1, 5],
        ways: Ways::All,
        hanging: 300,
        flood: 10_000,
        busy: 300,
        backlog: 30_000,
        old: 20_000,
        kills: Kills::NoneOfFleets,
    };

    /// Some seconds, for whoever changes the code: five short pairs of what was promised.
    pub(crate) const SMOKE: Self =
        Self { pairs: 5, run: Duration::from_millis(250), ways: Ways::Promised, ..Self::QUICK };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_full_plan_has_the_sizes_that_something_was_said_about() {
        let sizes: [fn(&Plan) -> u64; 2] = [|plan| plan.backlog, |plan| plan.old];
        for size in sizes {
            assert!(Plan::FULL.is_full(size) && !Plan::QUICK.is_full(size));
            assert!(Plan { pairs: 1, ..Plan::FULL }.is_full(size));
        }
    }
}
