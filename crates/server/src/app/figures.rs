//! What came of deliveries in a range of time, of an endpoint, an application or everything: sums, rates
//! and percentiles; and what waits now.
//!
//! Sums are kept by minute for a day, and by hour for as long as they are kept at all. So whatever the
//! range, a few thousand rows are read; and an older range begins and ends at full hours.

use std::ops::Range;
use std::time::Duration;

use domain::time::Timestamp;
use store::ledger::{Depth, Tally, Within, percentile};
use store::limits::{MINUTES, ROLLUPS};
use store::queue::{Minute, Rollup};

use super::{App, Error, Scope, fields};

/// The range that is meant if none is asked for.
const USUAL_RANGE: Duration = Duration::from_secs(86_400);
/// How much earlier than the store folds minutes into hours a range is taken for one of hours: clocks
/// differ, and between two reads of one node's the store may fold.
const MARGIN: Duration = Duration::from_secs(3_600);

/// Figures of a range of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// When the range begins: at a full minute, or at a full hour if it is old.
    pub since: Timestamp,
    /// When it ends.
    pub until: Timestamp,
    /// What came of deliveries in it.
    pub sums: Rollup,
    /// What waits now.
    pub depth: Depth,
    /// How many dead letters there are now.
    pub dead_letters: Tally,
}

/// Half, 95 and 99 of a hundred took no longer. Each is at most a fifth more than it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percentiles {
    /// The half.
    pub p50: Duration,
    /// 95 of a hundred.
    pub p95: Duration,
    /// 99 of a hundred.
    pub p99: Duration,
}

impl Percentiles {
    /// Returns them, if anything was counted.
    #[must_use]
    pub fn of(buckets: &[u32]) -> Option<Self> {
        let at = |percent| percentile(buckets, percent);
        Some(Self { p50: at(50)?, p95: at(95)?, p99: at(99)? })
    }
}

impl Figures {
    /// Returns how many attempts were recorded.
    #[must_use]
    pub const fn attempts(&self) -> u64 {
        self.sums.succeeded.saturating_add(self.sums.failed)
    }

    /// Returns how many deliveries were settled: delivered or dead.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.sums.delivered.saturating_add(self.sums.all_dead())
    }

    /// Returns how many attempts were not the first of their delivery.
    #[must_use]
    pub const fn retries(&self) -> u64 {
        self.attempts().saturating_sub(self.sums.first_attempts)
    }

    /// Returns the share of settled deliveries that were delivered, if any were settled.
    #[must_use]
    pub fn delivery_rate(&self) -> Option<f64> {
        ratio(self.sums.delivered, self.settled())
    }

    /// Returns the share of attempts that were answered 2xx, if there were any.
    #[must_use]
    pub fn attempt_rate(&self) -> Option<f64> {
        ratio(self.sums.succeeded, self.attempts())
    }

    /// Returns how many retries there were for each settled delivery, if any were settled.
    #[must_use]
    pub fn retries_per_delivery(&self) -> Option<f64> {
        ratio(self.retries(), self.settled())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio needs no more than 53 bits")]
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Returns the minutes of a range; where the store may have hours only, the hours.
fn minutes(since: Timestamp, until: Timestamp, now: Timestamp) -> Range<Minute> {
    let by_minute = Minute::of(now.before(MINUTES.saturating_sub(MARGIN)));
    let (first, last) = (Minute::of(since), Minute::of(until));
    let start = if first < by_minute { first.hour() } else { first };
    let end = if last < by_minute { last.next_hour() } else { Minute(last.0.saturating_add(1)) };
    start..end
}

impl App {
    /// Returns the figures of everything.
    ///
    /// # Errors
    /// If the range is too long.
    pub async fn whole_figures(&self, range: AskedRange) -> Result<Figures, Error> {
        self.figures(Within::Whole, range).await
    }

    /// Returns an application's figures.
    ///
    /// # Errors
    /// If the range is too long.
    pub async fn application_figures(
        &self,
        scope: &Scope,
        range: AskedRange,
    ) -> Result<Figures, Error> {
        self.figures(Within::Application(scope.application().key), range).await
    }

    /// Returns an endpoint's figures.
    ///
    /// # Errors
    /// If there is no such endpoint, or the range is too long.
    pub async fn endpoint_figures(
        &self,
        scope: &Scope,
        endpoint: &str,
        range: AskedRange,
    ) -> Result<Figures, Error> {
        let endpoint = self.endpoint(scope, endpoint).await?;
        self.figures(Within::Endpoint(endpoint.application, endpoint.key), range).await
    }

    async fn figures(&self, within: Within, asked: AskedRange) -> Result<Figures, Error> {
        let AskedRange { since, until } = asked;
        let until = until.unwrap_or_else(|| self.clock.now());
        let since = since.unwrap_or_else(|| until.before(USUAL_RANGE));
        fields::range(since, until, ROLLUPS)?;
        let (range, sums) = self.sums(within, since, until).await?;
        Ok(Figures {
            since: range.start.begins_at(),
            until: range.end.begins_at(),
            sums,
            depth: self.ledger.depth(within).await?,
            dead_letters: self.ledger.dead_letter_count(within).await?,
        })
    }

    /// Returns the sums of a range, with the minutes that these are.
    pub(super) async fn sums(
        &self,
        within: Within,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<(Range<Minute>, Rollup), Error> {
        let minutes = minutes(since, until, self.clock.now());
        let sums = self.accepting.sums(within, minutes.clone()).await?;
        Ok((minutes, sums))
    }
}

/// Which range of time is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct AskedRange {
    /// Since when; a day before the end if nothing is said.
    pub since: Option<Timestamp>,
    /// Until when; now if nothing is said.
    pub until: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use store::queue::Subject;

    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn figures(sums: Rollup) -> Figures {
        let tally = Tally { number: 0, complete: true };
        let depth = Depth { waiting: tally, oldest_due: None };
        Figures { since: NOW, until: NOW, sums, depth, dead_letters: tally }
    }

    #[test]
    fn rates_are_of_what_was_settled_and_of_what_was_attempted() {
        let mut sums = Rollup::empty(Subject::Whole, Minute(0));
        let none = figures(sums.clone());
        let rates = (none.delivery_rate(), none.attempt_rate(), none.retries_per_delivery());
        assert_eq!(rates, (None, None, None));
        (sums.succeeded, sums.failed, sums.first_attempts) = (3, 9, 4);
        sums.delivered = 3;
        sums.bury(domain::delivery::Cause::Expired, 1);
        let figures = figures(sums);
        assert_eq!((figures.attempts(), figures.settled(), figures.retries()), (12, 4, 8));
        let rates = (figures.delivery_rate(), figures.attempt_rate());
        assert_eq!(rates, (Some(0.75), Some(0.25)));
        assert_eq!(figures.retries_per_delivery(), Some(2.0));
    }

    #[test]
    fn a_range_that_is_old_has_full_hours() {
        let ago = |seconds| NOW.before(Duration::from_secs(seconds));
        let Minute(now) = Minute::of(NOW);
        let recent = minutes(ago(90), ago(0), NOW);
        assert_eq!((recent.start.0 - now, recent.end.0 - now), (-2, 1));
        let old = minutes(ago(90 * 86_400), ago(30 * 86_400 + 7), NOW);
        assert_eq!((old.start.0 % 60, old.end.0 % 60), (0, 0));
        assert!(old.end.begins_at() > ago(30 * 86_400 + 7));
        let both = minutes(ago(2 * 86_400 + 7), ago(90), NOW);
        assert_eq!((both.start.0 % 60, both.end.0 - now), (0, -1));
    }

    #[test]
    fn a_range_of_any_length_is_a_few_thousand_rows() {
        let all = minutes(NOW.before(ROLLUPS), NOW, NOW);
        let by_minute = Minute::of(NOW).0 - Minute::of(NOW.before(MINUTES)).hour().0;
        let by_hour = (all.end.0 - all.start.0) / 60;
        assert!(by_minute + by_hour < 4_000, "{by_minute} {by_hour}");
    }
}
