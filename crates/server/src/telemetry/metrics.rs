//! What the server counts about itself, in the form that Prometheus reads.
//!
//! Everything is counted in batches, where a batch is written; nothing has a label that names an
//! application, an endpoint or a message. What only the store knows is asked when somebody looks.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::Announcement;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// A gauge that may have a fraction.
type Fraction = Gauge<f64, AtomicU64>;

/// Why a delivery is dead.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfCause {
    pub(super) cause: &'static str,
}

/// How attempts in flight are counted; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct InFlight(Gauge<i64, AtomicI64>);

/// An attempt in flight, until it is dropped.
#[derive(Debug)]
pub(crate) struct Flying(InFlight);

/// What only some stores know. The others show nothing: a zero would be a lie.
#[derive(Debug, Clone, Default)]
struct Known(Arc<Mutex<Files>>);

/// What is known of the files of a store.
#[derive(Debug, Clone, Copy, Default)]
struct Files {
    syncs: Option<u64>,
    free: Option<u64>,
}

/// All that is counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(super) accepted: Counter,
    pub(super) fanned_out: Counter,
    pub(super) attempts: Counter,
    pub(super) failed: Counter,
    pub(super) retried: Counter,
    pub(super) delivered: Counter,
    pub(super) delivered_at_first: Counter,
    pub(super) dead: Family<OfCause, Counter>,
    pub(super) loaded: Counter,
    pub(super) commits: Counter,
    pub(super) rows: Counter,
    pub(super) commit_errors: Counter,
    pub(super) spread: Spread,
    known: Known,
    in_flight: InFlight,
    opened: Counter,
    disabled: Counter,
    waiting: Gauge,
    pending: Gauge,
    dead_letters: Gauge,
    oldest_due: Fraction,
    damaged: Gauge,
    clock_offset: Fraction,
    memory: Gauge,
}

/// What is counted by size.
#[derive(Debug)]
pub(super) struct Spread {
    pub(super) batch_rows: Histogram,
    pub(super) commit_seconds: Histogram,
    pub(super) attempt_seconds: Histogram,
    pub(super) delivery_seconds: Histogram,
}

impl Default for Spread {
    fn default() -> Self {
        Self {
            batch_rows: Histogram::new(exponential_buckets(1.0, 4.0, 8)),
            commit_seconds: Histogram::new(exponential_buckets(0.000_25, 2.0, 14)),
            attempt_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
            // Up to four days: so long a delivery may be tried by the policy that stands by itself.
            delivery_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 30)),
        }
    }
}

/// What is found out only when somebody looks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Look {
    /// What the store says, if it answers.
    pub(crate) waiting: Option<Waiting>,
    /// How often the store had its disk sync, if it knows.
    pub(crate) syncs: Option<u64>,
    /// How many bytes are free for the store's files, if it has any.
    pub(crate) free: Option<u64>,
    /// How many rows were found damaged.
    pub(crate) damaged: usize,
    /// By how many seconds the time of the rows is ahead of the wall clock.
    pub(crate) clock_offset: f64,
}

/// What the store says when somebody looks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waiting {
    /// Endpoints with something pending.
    pub(crate) endpoints: u32,
    /// Pending deliveries, as far as they are counted.
    pub(crate) deliveries: u32,
    /// Dead letters, as far as they are counted.
    pub(crate) dead_letters: u32,
    /// For how long the delivery that has waited longest has been due.
    pub(crate) oldest_due: std::time::Duration,
}

impl InFlight {
    /// Counts an attempt until what is returned is dropped.
    pub(crate) fn begin(&self) -> Flying {
        self.0.inc();
        Flying(self.clone())
    }
}

impl Drop for Flying {
    fn drop(&mut self) {
        self.0.0.dec();
    }
}

impl Known {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Known {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Files { syncs, free } = *self.files();
        if let Some(count) = syncs {
            let (counter, help) = (ConstCounter::new(count), "Syncs of the store's files.");
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor("syncs", help, None, kind)?)?;
        }
        if let Some(bytes) = free {
            let (gauge, help) = (ConstGauge::new(bytes), "Free bytes where the store's files are.");
            let kind = gauge.metric_type();
            gauge.encode(encoder.encode_descriptor("store_free_bytes", help, None, kind)?)?;
        }
        Ok(())
    }
}

impl Metrics {
    /// Begins to count.
    pub(crate) fn new() -> Arc<Self> {
        let mut metrics = Self::default();
        let mut registry = Registry::with_prefix("redial");
        metrics.register_flow(&mut registry);
        metrics.register_writing(&mut registry);
        metrics.register_state(&mut registry);
        metrics.registry = registry;
        Arc::new(metrics)
    }

    fn register_flow(&self, registry: &mut Registry) {
        let counters = [
            ("messages_accepted", "Messages on disk", &self.accepted),
            ("deliveries", "Deliveries that messages were fanned out to", &self.fanned_out),
            ("attempts", "Attempts that were recorded", &self.attempts),
            ("attempts_failed", "Attempts that did not succeed", &self.failed),
            ("deliveries_retried", "Times that a delivery is to be sent again", &self.retried),
            ("deliveries_delivered", "Deliveries that are delivered", &self.delivered),
            (
                "deliveries_delivered_at_first",
                "Deliveries whose first attempt delivered them",
                &self.delivered_at_first,
            ),
            (
                "deliveries_loaded",
                "Rows of pending deliveries read back from the store",
                &self.loaded,
            ),
            ("breakers_opened", "Times that a breaker opened", &self.opened),
            ("endpoints_disabled", "Endpoints that were disabled by a rule", &self.disabled),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register("deliveries_dead", "Dead letters, by their cause", self.dead.clone());
    }

    fn register_writing(&self, registry: &mut Registry) {
        let counters = [
            ("commits", "Batches that were committed", &self.commits),
            ("committed_rows", "Rows that were written or changed in them", &self.rows),
            ("commit_errors", "Batches that the store did not commit", &self.commit_errors),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        let histograms = [
            ("batch_rows", "Rows that a batch wrote or changed", &self.spread.batch_rows),
            (
                "commit_seconds",
                "How long a commit took, sync included",
                &self.spread.commit_seconds,
            ),
            ("attempt_seconds", "How long an attempt took", &self.spread.attempt_seconds),
            (
                "delivery_seconds",
                "How long it took from a message's acceptance to its delivery",
                &self.spread.delivery_seconds,
            ),
        ];
        for (name, help, histogram) in histograms {
            registry.register(name, help, histogram.clone());
        }
        registry.register_collector(Box::new(self.known.clone()));
    }

    fn register_state(&self, registry: &mut Registry) {
        registry.register("attempts_in_flight", "Attempts in flight", self.in_flight.0.clone());
        registry.register(
            "endpoints_waiting",
            "Endpoints with something pending, of all nodes",
            self.waiting.clone(),
        );
        registry.register(
            "deliveries_waiting",
            "Pending deliveries, of all nodes, counted up to 100,000",
            self.pending.clone(),
        );
        registry.register(
            "dead_letters",
            "Dead letters that are kept, counted up to 100,000",
            self.dead_letters.clone(),
        );
        registry.register(
            "oldest_due_age_seconds",
            "For how long the delivery that waits longest has been due, held back or not",
            self.oldest_due.clone(),
        );
        registry.register(
            "damaged_rows",
            "Rows that do not read as what they should be, and were passed over",
            self.damaged.clone(),
        );
        registry.register(
            "clock_offset_seconds",
            "By how much the time of the rows is ahead of this machine's wall clock",
            self.clock_offset.clone(),
        );
        registry.register("resident_memory_bytes", "Memory in use", self.memory.clone());
    }

    /// Returns how attempts in flight are counted.
    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight.clone()
    }

    /// Counts what the engine announces, until it ends.
    pub(crate) async fn listen(self: Arc<Self>, mut announcements: Receiver<Announcement>) {
        loop {
            match announcements.recv().await {
                Ok(Announcement::Tripped { .. }) => count(&self.opened),
                Ok(Announcement::Disabled { .. }) => count(&self.disabled),
                Ok(
                    Announcement::Warned { .. }
                    | Announcement::Probing { .. }
                    | Announcement::Reopened { .. }
                    | Announcement::Closed { .. }
                    | Announcement::Noticed { .. }
                    | Announcement::Buried { .. }
                    | Announcement::Panicked { .. }
                    | Announcement::Took(_)
                    | Announcement::Lost(_),
                ) => {}
                Err(RecvError::Lagged(missed)) => {
                    tracing::warn!(missed, "more was announced than could be counted");
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Writes everything down as it looks now. Without an answer of the store its figures stay as
    /// they were.
    pub(crate) fn page(&self, look: Look) -> String {
        self.damaged.set(i64::try_from(look.damaged).unwrap_or(i64::MAX));
        self.clock_offset.set(look.clock_offset);
        *self.known.files() = Files { syncs: look.syncs, free: look.free };
        if let Some(waiting) = look.waiting {
            self.waiting.set(i64::from(waiting.endpoints));
            self.pending.set(i64::from(waiting.deliveries));
            self.dead_letters.set(i64::from(waiting.dead_letters));
            self.oldest_due.set(waiting.oldest_due.as_secs_f64());
        }
        if let Some(bytes) = resident_memory() {
            self.memory.set(bytes);
        }
        let mut text = String::new();
        // Writing into a text does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn count(counter: &Counter) {
    counter.inc();
}

/// Reads how much memory this process has, where the system tells.
fn resident_memory() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes.saturating_mul(1_024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_store_in_a_file_knows_is_shown_only_there() {
        let metrics = Metrics::new();
        let nothing = metrics.page(Look::default());
        assert!(!nothing.contains("syncs") && !nothing.contains("free"), "{nothing}");
        let page = metrics.page(Look { syncs: Some(17), free: Some(5), ..Look::default() });
        for line in ["redial_syncs_total 17", "redial_store_free_bytes 5"] {
            assert!(page.lines().any(|it| it == line), "{page}");
        }
    }
}
