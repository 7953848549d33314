//! Sums that a crash took along, counted again from attempts.
//!
//! Sums gather in memory for some seconds, and are written by upkeep. Whoever takes a partition over
//! looks at the last two minutes in which its endpoints were sent to before, once all that living
//! nodes hold must have been written, and adds what is missing. Nothing is added twice: what is
//! there already is subtracted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::delivery::Delivery;
use domain::ids::{AttemptId, DeliveryId};
use domain::outcome::Outcome;
use domain::partition::Partition;
use domain::time::Timestamp;
use store::catalog::Endpoint;
use store::keys::{ApplicationKey, Epoch};
use store::ledger::{AttemptEntry, AttemptFilter, BUCKETS, bucket};
use store::page::{From, Page};
use store::queue::{Minute, Once, Rollup, Subject, Upkeep};
use store::{Catalog, Ledger};

use super::World;
use crate::dice;

/// How long after the end of a minute everything that living nodes know of it has been written.
const WRITTEN_AFTER: Duration = Duration::from_secs(30);
/// How much earlier an attempt can have begun than it ended.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(5 * 60);
/// How far the clock that ids are made by may be from the one that rows are on.
const CLOCKS_APART: Duration = Duration::from_secs(10 * 60);
/// The most attempts of one endpoint that are counted; a busier one keeps its gap.
const MOST_ATTEMPTS: usize = 20_000;
/// The most entries on a page.
const PAGE: u32 = 250;
/// The most sums in one step of upkeep.
const CHUNK: usize = 64;

/// Counts again for each partition that this node has taken.
pub(super) async fn run(world: Arc<World>) {
    let mut leases = world.leases.subscribe();
    let mut known: BTreeMap<Partition, Epoch> = BTreeMap::new();
    let mut waiting: BTreeMap<Timestamp, BTreeMap<Partition, Epoch>> = BTreeMap::new();
    loop {
        let owned = leases.borrow_and_update().clone();
        let is_new =
            |(partition, epoch): &(&Partition, &Epoch)| known.get(partition) != Some(epoch);
        let taken = owned.iter().filter(is_new);
        let taken: BTreeMap<_, _> = taken.map(|(partition, epoch)| (*partition, *epoch)).collect();
        known = owned;
        let now = world.timeline.rows();
        if !taken.is_empty() {
            waiting.insert(now, taken);
        }
        let next = waiting.first_entry();
        let due = next.as_ref().map(|next| written_at(*next.key()));
        if let Some(entry) = next.filter(|entry| written_at(*entry.key()) <= now) {
            let (taken_at, taken) = entry.remove_entry();
            // What has passed on since is counted again by whoever has it now.
            let still =
                |(partition, epoch): &(&Partition, &Epoch)| known.get(partition) == Some(epoch);
            let taken = taken.iter().filter(still).map(|it| *it.0).collect();
            if let Err(error) = repair(&world, &taken, taken_at).await {
                tracing::warn!(%error, "sums could not be counted again");
            }
            continue;
        }
        let wait = due.map_or(Duration::MAX, |due| due.since(now));
        if let Ok(Err(_)) = tokio::time::timeout(wait, leases.changed()).await {
            return;
        }
    }
}

/// Returns when all that living nodes knew when a partition was taken has been written.
fn written_at(taken_at: Timestamp) -> Timestamp {
    start_of(Minute(Minute::of(taken_at).0 + 1)).after(WRITTEN_AFTER)
}

async fn repair(
    world: &World,
    taken: &BTreeSet<Partition>,
    taken_at: Timestamp,
) -> Result<(), store::Error> {
    let books = Books { catalog: world.catalog.as_ref(), ledger: world.ledger.as_ref() };
    let missing = books.missing(taken, taken_at).await?;
    for chunk in missing.chunks(CHUNK) {
        let mut id = [0; 16];
        dice::entropy(&mut id);
        let once = Once { at: world.timeline.rows(), id };
        let step = Upkeep::RollUp { once, rollups: chunk.to_vec() };
        if let Err(error) = world.committer.upkeep(step).await {
            return Err(store::Error::Unavailable { text: error.to_string(), source: None });
        }
    }
    Ok(())
}

/// Where sums and attempts are.
struct Books<'a> {
    catalog: &'a dyn Catalog,
    ledger: &'a dyn Ledger,
}

type Sums = BTreeMap<(Subject, Minute), Rollup>;

impl Books<'_> {
    /// Returns what the sums of some partitions lack, from before they were taken.
    async fn missing(
        &self,
        taken: &BTreeSet<Partition>,
        taken_at: Timestamp,
    ) -> Result<Vec<Rollup>, store::Error> {
        let mut missing = Sums::new();
        let mut from = From::Start;
        loop {
            let listed = self.catalog.applications(Page { from, limit: PAGE }).await?;
            for application in listed.entries {
                self.of_application(application.key, taken, taken_at, &mut missing).await?;
            }
            match listed.reached.filter(|_| !listed.done) {
                Some(reached) => from = From::After(reached),
                None => return Ok(missing.into_values().collect()),
            }
        }
    }

    async fn of_application(
        &self,
        application: ApplicationKey,
        taken: &BTreeSet<Partition>,
        taken_at: Timestamp,
        missing: &mut Sums,
    ) -> Result<(), store::Error> {
        let mut from = From::Start;
        loop {
            let listed = self.catalog.endpoints(application, Page { from, limit: PAGE }).await?;
            for endpoint in listed.entries.iter().filter(|it| taken.contains(&it.partition)) {
                for lost in self.of_endpoint(endpoint, taken_at).await? {
                    let whose = [lost.subject, Subject::Application(application), Subject::Whole];
                    whose.into_iter().for_each(|subject| add(missing, subject, &lost));
                }
            }
            match listed.reached.filter(|_| !listed.done) {
                Some(reached) => from = From::After(reached),
                None => return Ok(()),
            }
        }
    }

    async fn of_endpoint(
        &self,
        endpoint: &Endpoint,
        taken_at: Timestamp,
    ) -> Result<Vec<Rollup>, store::Error> {
        let key = endpoint.key;
        let Some(last) = self.last(endpoint, taken_at).await? else { return Ok(Vec::new()) };
        let minutes = Minute(last.0 - 1)..Minute(last.0 + 1);
        let Some(counted) = self.count(endpoint, minutes.clone()).await? else {
            return Ok(Vec::new());
        };
        let subject = Subject::Endpoint(key);
        let stored = self.ledger.rollups(subject, minutes.start, minutes.end).await?;
        let lack = |sum: Rollup| {
            let known = stored.iter().find(|known| known.minute == sum.minute);
            known.map_or(Some(sum.clone()), |known| difference(&sum, known))
        };
        Ok(counted.into_values().filter_map(lack).collect())
    }

    /// Returns the minute in which the last attempt ended that began before a moment.
    async fn last(
        &self,
        endpoint: &Endpoint,
        before: Timestamp,
    ) -> Result<Option<Minute>, store::Error> {
        let (application, key) = (endpoint.application, endpoint.key);
        let filter = AttemptFilter { until: Some(before), ..AttemptFilter::default() };
        let mut from = From::After(AttemptId::first_at(before.after(CLOCKS_APART)));
        loop {
            let page = Page { from, limit: 1 };
            let listed = self.ledger.attempts(application, key, filter.clone(), page).await?;
            if let Some(newest) = listed.entries.first() {
                return Ok(Some(Minute::of(newest.record.ended_at)));
            }
            match listed.reached.filter(|_| !listed.done) {
                Some(reached) => from = From::After(reached),
                None => return Ok(None),
            }
        }
    }

    /// Counts an endpoint's attempts that ended in some minutes; none if they are too many.
    async fn count(
        &self,
        endpoint: &Endpoint,
        minutes: std::ops::Range<Minute>,
    ) -> Result<Option<Sums>, store::Error> {
        let (application, key) = (endpoint.application, endpoint.key);
        let since = start_of(minutes.start).before(LONGEST_ATTEMPT);
        let until = start_of(minutes.end);
        let filter =
            AttemptFilter { since: Some(since), until: Some(until), ..AttemptFilter::default() };
        // Ids are made by another clock than rows.
        let oldest = AttemptId::first_at(since.before(CLOCKS_APART));
        let mut from = From::After(AttemptId::first_at(until.after(CLOCKS_APART)));
        let (mut sums, mut seen) = (Sums::new(), 0);
        loop {
            let page = Page { from, limit: PAGE };
            let listed = self.ledger.attempts(application, key, filter.clone(), page).await?;
            seen += listed.entries.len();
            for entry in &listed.entries {
                if minutes.contains(&Minute::of(entry.record.ended_at)) {
                    let one = self.one(entry).await?;
                    add(&mut sums, one.subject, &one);
                }
            }
            if seen >= MOST_ATTEMPTS {
                return Ok(None);
            }
            match listed.reached.filter(|reached| !listed.done && *reached > oldest) {
                Some(reached) => from = From::After(reached),
                None => return Ok(Some(sums)),
            }
        }
    }

    /// Returns what one attempt adds.
    async fn one(&self, entry: &AttemptEntry) -> Result<Rollup, store::Error> {
        let endpoint = entry.key.endpoint;
        let outcome = &entry.record.outcome;
        let succeeded = matches!(outcome, Outcome::Answered { status: 200..=299, .. });
        let mut sum = nothing(Subject::Endpoint(endpoint), Minute::of(entry.record.ended_at));
        sum.succeeded = u64::from(succeeded);
        sum.failed = u64::from(!succeeded);
        let id = DeliveryId::derive(&entry.message, endpoint.0.cast_unsigned());
        let delivery = match self.ledger.delivery(entry.key.application, id).await {
            Ok(delivery) => delivery,
            Err(store::Error::Missing(_)) => return Ok(sum),
            Err(error) => return Err(error),
        };
        let is_last = entry.next_due.is_none() && delivery.last_attempt == Some(entry.record.id);
        let (delivered, dead) = match delivery.state {
            Delivery::Delivered if is_last => (true, false),
            Delivery::Dead(_) if is_last => (false, true),
            Delivery::Cancelled if is_last => (false, false),
            // It was replayed since; what it had come to then shows in the attempt alone.
            Delivery::Pending(_)
            | Delivery::Delivered
            | Delivery::Dead(_)
            | Delivery::Cancelled => (succeeded, !succeeded && entry.next_due.is_none()),
        };
        (sum.delivered, sum.dead) = (u64::from(delivered), u64::from(dead));
        if delivered {
            sum.latencies.resize(BUCKETS, 0);
            let place = bucket(entry.record.ended_at.since(delivery.received_at));
            if let Some(count) = sum.latencies.get_mut(place) {
                *count = 1;
            }
        }
        Ok(sum)
    }
}

const fn start_of(minute: Minute) -> Timestamp {
    Timestamp::from_seconds(minute.0 * 60)
}

const fn nothing(subject: Subject, minute: Minute) -> Rollup {
    let latencies = Vec::new();
    Rollup { subject, minute, succeeded: 0, failed: 0, delivered: 0, dead: 0, latencies }
}

fn add(sums: &mut Sums, subject: Subject, more: &Rollup) {
    let place = sums.entry((subject, more.minute));
    let sum = place.or_insert_with(|| nothing(subject, more.minute));
    sum.succeeded += more.succeeded;
    sum.failed += more.failed;
    sum.delivered += more.delivered;
    sum.dead += more.dead;
    sum.latencies.resize(sum.latencies.len().max(more.latencies.len()), 0);
    for (count, more) in sum.latencies.iter_mut().zip(&more.latencies) {
        *count += more;
    }
}

/// Returns what a sum has more than another one, if it has.
fn difference(sum: &Rollup, known: &Rollup) -> Option<Rollup> {
    let latency = |(place, count): (usize, &u32)| {
        count.saturating_sub(known.latencies.get(place).copied().unwrap_or(0))
    };
    let lack = Rollup {
        subject: sum.subject,
        minute: sum.minute,
        succeeded: sum.succeeded.saturating_sub(known.succeeded),
        failed: sum.failed.saturating_sub(known.failed),
        delivered: sum.delivered.saturating_sub(known.delivered),
        dead: sum.dead.saturating_sub(known.dead),
        latencies: sum.latencies.iter().enumerate().map(latency).collect(),
    };
    let total = lack.succeeded + lack.failed + lack.delivered + lack.dead;
    (total > 0).then_some(lack)
}

#[cfg(test)]
mod tests;
