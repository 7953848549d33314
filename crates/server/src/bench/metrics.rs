//! What the server itself counts, read from the text that it shows to Prometheus.
//!
//! A server that does not count something leaves the figure out; it is not made up.

use super::shapes;

/// Counters of a server, as they stood at some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counters {
    /// Transactions that were committed.
    pub(super) commits: Option<f64>,
    /// Rows that were written in them.
    pub(super) rows: Option<f64>,
    /// How often the disk was asked to sync.
    pub(super) syncs: Option<f64>,
    /// Attempts that were made.
    pub(super) attempts: Option<f64>,
    /// Deliveries that were read back from the store before they were sent.
    pub(super) loaded: Option<f64>,
}

impl Counters {
    /// Reads the counters.
    pub(super) fn read(text: &str) -> Self {
        Self {
            commits: total(text, shapes::METRIC_COMMITS),
            rows: total(text, shapes::METRIC_ROWS),
            syncs: total(text, shapes::METRIC_SYNCS),
            attempts: total(text, shapes::METRIC_ATTEMPTS),
            loaded: total(text, shapes::METRIC_LOADED),
        }
    }

    /// Returns what was counted since an earlier moment.
    pub(super) fn since(self, earlier: Self) -> Self {
        let less = |now: Option<f64>, then: Option<f64>| Some(now? - then.unwrap_or(0.0));
        Self {
            commits: less(self.commits, earlier.commits),
            rows: less(self.rows, earlier.rows),
            syncs: less(self.syncs, earlier.syncs),
            attempts: less(self.attempts, earlier.attempts),
            loaded: less(self.loaded, earlier.loaded),
        }
    }
}

/// Adds up a counter over all its labels.
fn total(text: &str, name: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with([' ', '{']).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
    });
    values.reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_added_up_over_its_labels() {
        let text = "# TYPE a counter\na_total{lane=\"x y\"} 3\na_total{lane=\"z\"} 4\n\
                    a_total_other 9\nb_total 1.5\n";
        assert_eq!(total(text, "a_total"), Some(7.0));
        assert_eq!(total(text, "b_total"), Some(1.5));
        assert_eq!(total(text, "c_total"), None);
    }

    #[test]
    fn what_is_not_counted_stays_unknown() {
        let now = Counters { commits: Some(5.0), ..Counters::default() };
        let then = Counters { commits: Some(2.0), rows: Some(1.0), ..Counters::default() };
        let between = now.since(then);
        assert_eq!((between.commits, between.rows), (Some(3.0), None));
    }
}
