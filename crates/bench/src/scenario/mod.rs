//! What is measured, one file for each.
//!
//! A scenario starts its own servers on empty stores, so that none depends on another and each can
//! be run alone.

mod accept;
mod backlog;
mod bare;
mod crowd;
mod end_to_end;
mod fleet;
mod latency;
mod old;
mod slow;

use super::Bench;
use super::figure::Figure;

/// Something that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// A client and a receiver with nothing between.
    Bare,
    /// Accepting, with nobody to deliver to.
    Accept,
    /// From the sender to the receivers.
    EndToEnd,
    /// How long that takes at rates that can be kept up.
    Latency,
    /// How long it takes while many endpoints never answer.
    Hanging,
    /// How long it takes while one endpoint is flooded.
    Flood,
    /// How long it takes for one application while another one has many busy endpoints.
    Busy,
    /// Many deliveries that wait: memory, a restart, and how they drain.
    Backlog,
    /// End to end, with many old deliveries in the store.
    Old,
    /// Accepting and delivering on a disk that takes long to sync.
    SlowSync,
    /// Two nodes, with everything accepted on one.
    Fleet,
}

impl Scenario {
    /// All of them, in the order in which they are run.
    pub(crate) const ALL: [Self; 11] = [
        Self::Bare,
        Self::Accept,
        Self::EndToEnd,
        Self::Latency,
        Self::Hanging,
        Self::Flood,
        Self::Busy,
        Self::Backlog,
        Self::Old,
        Self::SlowSync,
        Self::Fleet,
    ];

    /// Returns its name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Accept => "accept",
            Self::EndToEnd => "end-to-end",
            Self::Latency => "latency",
            Self::Hanging => "hanging",
            Self::Flood => "flood",
            Self::Busy => "busy",
            Self::Backlog => "backlog",
            Self::Old => "old",
            Self::SlowSync => "slow-sync",
            Self::Fleet => "fleet",
        }
    }

    /// Returns what it is, in a line.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Bare => "a bare client and a bare receiver",
            Self::Accept => "accepting, with nobody to deliver to",
            Self::EndToEnd => "end to end",
            Self::Latency => "how long it takes",
            Self::Hanging => "endpoints that hang",
            Self::Flood => "an endpoint that is flooded",
            Self::Busy => "an application with many busy endpoints",
            Self::Backlog => "a backlog",
            Self::Old => "old deliveries in the store",
            Self::SlowSync => "a disk that takes long to sync",
            Self::Fleet => "two nodes",
        }
    }

    /// Says why it cannot be measured with a store, if it cannot.
    pub(crate) const fn obstacle(self, postgres: bool) -> Option<&'static str> {
        match self {
            Self::Fleet if !postgres => Some("a fleet shares a database; name one with --database"),
            Self::SlowSync if postgres => {
                Some("what PostgreSQL does to its disk cannot be slowed down from here")
            }
            Self::Fleet
            | Self::Bare
            | Self::Accept
            | Self::EndToEnd
            | Self::Latency
            | Self::Hanging
            | Self::Flood
            | Self::Busy
            | Self::Backlog
            | Self::Old
            | Self::SlowSync => None,
        }
    }

    /// Tells whether its ratios can be trusted after a few seconds.
    pub(crate) const fn is_quick(self) -> bool {
        match self {
            Self::Bare | Self::Accept | Self::EndToEnd => true,
            Self::Latency
            | Self::Hanging
            | Self::Flood
            | Self::Busy
            | Self::Backlog
            | Self::Old
            | Self::SlowSync
            | Self::Fleet => false,
        }
    }

    /// Measures it. After each pair a scenario leaves in `figures`, which is empty at first, what it
    /// knows then, so that minutes of measuring are not lost if the next pair fails or is interrupted.
    pub(super) async fn run(
        self,
        bench: &Bench<'_>,
        figures: &mut Vec<Figure>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Bare => bare::run(bench, figures).await,
            Self::Accept => accept::run(bench, figures).await,
            Self::EndToEnd => end_to_end::run(bench, figures).await,
            Self::Latency => latency::run(bench, figures).await,
            Self::Hanging => crowd::hanging(bench, figures).await,
            Self::Flood => crowd::flood(bench, figures).await,
            Self::Busy => crowd::busy(bench, figures).await,
            Self::Backlog => backlog::run(bench, figures).await,
            Self::Old => old::run(bench, figures).await,
            Self::SlowSync => slow::run(bench, figures).await,
            Self::Fleet => fleet::run(bench, figures).await,
        }
    }
}
