//! How many deliveries of an endpoint stand where.

use std::time::Duration;

use domain::time::Timestamp;
pub use store::ledger::Counts;
use store::ledger::Within;

use super::{App, Error, Scope, fields};

/// The longest range that is counted.
const LONGEST_RANGE: Duration = Duration::from_secs(28 * 86_400);

impl App {
    /// Counts an endpoint's deliveries by state, of messages received in a range.
    ///
    /// # Errors
    /// If there is no such endpoint, or the range is too long.
    pub async fn endpoint_statistics(
        &self,
        scope: &Scope,
        endpoint: &str,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Result<Counts, Error> {
        let now = self.clock.now();
        let until = until.unwrap_or(now);
        let since = since.unwrap_or_else(|| until.before(LONGEST_RANGE));
        fields::range(since, until, LONGEST_RANGE)?;
        let endpoint = self.endpoint(scope, endpoint).await?;
        let (application, key) = (endpoint.application, endpoint.key);
        Ok(self.ledger.delivery_counts(application, key, since, until).await?)
    }

    /// Counts an endpoint's attempts in a range: those that succeeded, and those that failed.
    ///
    /// # Errors
    /// If there is no such endpoint, or the range is too long.
    pub async fn attempt_statistics(
        &self,
        scope: &Scope,
        endpoint: &str,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Result<(u64, u64), Error> {
        let until = until.unwrap_or_else(|| self.clock.now());
        let since = since.unwrap_or_else(|| until.before(LONGEST_RANGE));
        fields::range(since, until, LONGEST_RANGE)?;
        let endpoint = self.endpoint(scope, endpoint).await?;
        let within = Within::Endpoint(endpoint.application, endpoint.key);
        let (_, sums) = self.sums(within, since, until).await?;
        Ok((sums.succeeded, sums.failed))
    }
}
