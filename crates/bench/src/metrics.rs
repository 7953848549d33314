//! What the server itself counts, read from the text that it shows to Prometheus.
//!
//! What a server should count and does not is an error: a figure that is silently left out looks like
//! one that nobody promised.

use anyhow::Context as _;

use super::shapes;

/// Counters of a server, as they stood at some moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counters {
    /// Transactions that were committed.
    pub(super) commits: f64,
    /// Rows that were written or changed in them.
    pub(super) rows: f64,
    /// How often the disk was asked to sync, if the store is a file.
    pub(super) syncs: Option<f64>,
    /// Attempts that were made.
    pub(super) attempts: f64,
    /// Rows of pending deliveries that were read back from the store.
    pub(super) loaded: f64,
    /// Deliveries that were written down as delivered.
    pub(super) delivered: f64,
    /// Dead letters.
    pub(super) dead: f64,
    /// Endpoints with something pending, at this moment.
    pub(super) waiting: f64,
}

impl Counters {
    /// Reads the counters.
    ///
    /// # Errors
    /// If one is not there.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let found = |name: &str| {
            total(text, name).with_context(|| format!("the server does not show {name}"))
        };
        Ok(Self {
            commits: found(shapes::METRIC_COMMITS)?,
            rows: found(shapes::METRIC_ROWS)?,
            syncs: total(text, shapes::METRIC_SYNCS),
            attempts: found(shapes::METRIC_ATTEMPTS)?,
            loaded: found(shapes::METRIC_LOADED)?,
            delivered: found(shapes::METRIC_DELIVERED)?,
            dead: total(text, shapes::METRIC_DEAD).unwrap_or(0.0),
            waiting: found(shapes::METRIC_WAITING)?,
        })
    }

    /// Adds what another node of the same fleet counts. Each says for the whole fleet how much waits.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            waiting: self.waiting.max(other.waiting),
            ..self.with(other, |own, others| own + others)
        }
    }

    /// Returns what was counted since an earlier moment.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self { waiting: self.waiting, ..self.with(earlier, |now, then| now - then) }
    }

    fn with(self, other: Self, join: fn(f64, f64) -> f64) -> Self {
        Self {
            commits: join(self.commits, other.commits),
            rows: join(self.rows, other.rows),
            syncs: self.syncs.zip(other.syncs).map(|(own, others)| join(own, others)),
            attempts: join(self.attempts, other.attempts),
            loaded: join(self.loaded, other.loaded),
            delivered: join(self.delivered, other.delivered),
            dead: join(self.dead, other.dead),
            waiting: join(self.waiting, other.waiting),
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
    fn what_is_not_shown_is_an_error_unless_only_files_have_it() {
        let names = [
            shapes::METRIC_COMMITS,
            shapes::METRIC_ROWS,
            shapes::METRIC_ATTEMPTS,
            shapes::METRIC_LOADED,
            shapes::METRIC_DELIVERED,
            shapes::METRIC_WAITING,
        ];
        let page = names.map(|name| format!("{name} 0\n")).concat();
        assert_eq!(Counters::read(&page).unwrap().syncs, None);
        let synced = format!("{page}{} 3\n", shapes::METRIC_SYNCS);
        assert_eq!(Counters::read(&synced).unwrap().syncs, Some(3.0));
        for name in names {
            let missing = Counters::read(&page.replace(name, "other")).unwrap_err().to_string();
            assert_eq!(missing, format!("the server does not show {name}"));
        }
    }

    #[test]
    fn nodes_are_added_up_and_moments_taken_apart() {
        let counters = |number: f64| Counters {
            commits: number,
            rows: 2.0 * number,
            syncs: None,
            attempts: 0.0,
            loaded: 0.0,
            delivered: number,
            dead: 0.0,
            waiting: number,
        };
        let both = counters(5.0).and(counters(3.0));
        assert_eq!((both.commits, both.rows, both.waiting), (8.0, 16.0, 5.0));
        let between = both.since(counters(1.0));
        assert_eq!((between.commits, between.rows, between.waiting), (7.0, 14.0, 5.0));
    }
}
