//! Sums that a crash took along, counted again from attempts.
//!
//! Sums gather in memory for some seconds, and are written by upkeep, under the lease of the
//! partition they come from. Whoever takes a partition over looks at the last two minutes in which
//! its endpoints were sent to before, once all that this node itself holds has been written, and adds
//! what is missing. Nothing is added twice: what is there already is subtracted, the owner before can
//! add nothing more, and neither can this node once it is not the owner any more. Minutes that were
//! folded into their hour were written a day before that, and are left alone.
//!
//! What was accepted is counted by whichever node accepts it. It is counted again only by a node that owns
//! everything: others of a fleet may have yet to write what they have accepted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use domain::delivery::{Cause, Delivery};
use domain::ids::{ApplicationId, AttemptId, DeliveryId, EndpointId};
use domain::partition::{PARTITIONS, Partition};
use domain::time::Timestamp;
use futures_util::future::join_all;
use store::catalog::Endpoint;
use store::keys::{ApplicationKey, Epoch, Lease};
use store::ledger::{AttemptEntry, AttemptFilter, DeliveryEntry, DeliveryFilter};
use store::page::{From, Page};
use store::queue::{Done, Minute, Once, Rollup, Subject, Upkeep};
use store::{Catalog, Ledger};

use super::World;
use super::sums::{self, Sheet};
use crate::dice;

/// How long after the end of a minute everything that this node knows of it should be written.
const WRITTEN_AFTER: Duration = Duration::from_secs(30);
/// The wait before looking again whether it is, or whether the store answers.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How much earlier an attempt can have begun than it ended.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(5 * 60);
/// How far the clock that ids are made by may be from the one that rows are on.
const CLOCKS_APART: Duration = Duration::from_secs(10 * 60);
/// How much earlier a message can have been received than those before it in the order of acceptance.
const ON_ITS_WAY: Duration = Duration::from_secs(2 * 60);
/// The most entries on a page.
const PAGE: u32 = 250;
/// The most endpoints that are looked at together: what they lack is one step for each partition.
const ENDPOINTS: u32 = 30;

type Owned = BTreeMap<Partition, Epoch>;
type Minutes = std::ops::Range<Minute>;

/// Counts again for each partition that this node has taken.
pub(super) async fn run(world: Arc<World>) {
    let mut leases = world.leases.subscribe();
    let mut known = Owned::new();
    let mut waiting: BTreeMap<Timestamp, Owned> = BTreeMap::new();
    loop {
        let owned = leases.borrow_and_update().clone();
        let taken = common(&owned, |partition, epoch| known.get(partition) != Some(epoch));
        known = owned;
        let now = world.timeline.rows();
        if !taken.is_empty() {
            waiting.insert(now, taken);
        }
        let next = waiting.first_entry();
        let due = next.as_ref().map(|next| written_at(*next.key()));
        if let Some(entry) = next.filter(|entry| written_at(*entry.key()) <= now) {
            let (taken_at, taken) = entry.remove_entry();
            repair_until_done(&world, &taken, taken_at).await;
            continue;
        }
        let wait = due.map_or(Duration::MAX, |due| due.since(now));
        if let Ok(Err(_)) = tokio::time::timeout(wait, leases.changed()).await {
            return;
        }
    }
}

fn common(owned: &Owned, wanted: impl Fn(&Partition, &Epoch) -> bool) -> Owned {
    let some = owned.iter().filter(|(partition, epoch)| wanted(partition, epoch));
    some.map(|(partition, epoch)| (*partition, *epoch)).collect()
}

/// Returns when all that this node knows of the minute in which it took a partition is written.
fn written_at(taken_at: Timestamp) -> Timestamp {
    Minute(Minute::of(taken_at).0 + 1).begins_at().after(WRITTEN_AFTER)
}

/// Repairs, as often as it takes, what is still owned. What has passed on since is counted again by
/// whoever has it now.
async fn repair_until_done(world: &World, taken: &Owned, taken_at: Timestamp) {
    loop {
        let owned = world.leases.borrow().clone();
        let still = common(taken, |partition, epoch| owned.get(partition) == Some(epoch));
        if still.is_empty() {
            return;
        }
        // What gathers here, or waits to be written, would be counted twice.
        if !world.sums.hold_anything_until(Minute::of(taken_at)) {
            match repair(world, &still, taken_at).await {
                Ok(()) => return,
                Err(error) => tracing::warn!(%error, "sums could not be counted again yet"),
            }
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

async fn repair(world: &World, taken: &Owned, taken_at: Timestamp) -> Result<(), store::Error> {
    let owns_all = world.leases.borrow().len() == usize::from(PARTITIONS);
    let (catalog, ledger) = (world.catalog.as_ref(), world.ledger.as_ref());
    let books = Books { catalog, ledger, owns_all };
    let mut walk = Walk::new(books, taken, taken_at);
    while let Some(lacks) = walk.next().await? {
        // Several at once share a commit.
        let steps = lacks.into_iter().map(|(lease, sums)| {
            let once = Once { at: world.timeline.rows(), id: dice::for_id() };
            let (lease, rollups) = (Some(lease), sums.into_values().collect());
            world.committer.upkeep(Upkeep::RollUp { lease, once, rollups })
        });
        for answer in join_all(steps).await {
            match answer {
                Ok(Done::Changed(_) | Done::Numbered { .. } | Done::Fenced) => {}
                Ok(Done::Refused(text)) => return Err(store::Error::Refused(text)),
                Err(error) => {
                    let text = error.to_string();
                    return Err(store::Error::Unavailable { text, source: None });
                }
            }
        }
    }
    Ok(())
}

/// A walk over all endpoints of some partitions, a few at a time.
struct Walk<'a> {
    books: Books<'a>,
    taken: &'a Owned,
    taken_at: Timestamp,
    /// Where the list of applications goes on; none at its end.
    next_applications: Option<From<ApplicationId>>,
    applications: VecDeque<ApplicationKey>,
    /// Where the list of the first one's endpoints goes on.
    next_endpoints: From<EndpointId>,
}

impl<'a> Walk<'a> {
    fn new(books: Books<'a>, taken: &'a Owned, taken_at: Timestamp) -> Self {
        Self {
            books,
            taken,
            taken_at,
            next_applications: Some(From::Start),
            applications: VecDeque::new(),
            next_endpoints: From::Start,
        }
    }

    /// Returns what the sums of the next endpoints lack, with those of their application and of the
    /// whole: each lease's part is written together, or an endpoint would no longer lack what its
    /// application does. None at the end.
    async fn next(&mut self) -> Result<Option<BTreeMap<Lease, Sheet>>, store::Error> {
        let catalog = self.books.catalog;
        loop {
            let Some(application) = self.applications.front().copied() else {
                let Some(from) = self.next_applications.take() else { return Ok(None) };
                let listed = catalog.applications(Page { from, limit: PAGE }).await?;
                self.applications = listed.entries.iter().map(|found| found.key).collect();
                self.next_applications = listed.reached.filter(|_| !listed.done).map(From::After);
                continue;
            };
            let from = std::mem::replace(&mut self.next_endpoints, From::Start);
            let page = Page { from, limit: ENDPOINTS };
            let listed = catalog.endpoints(application, page).await?;
            match listed.reached.filter(|_| !listed.done) {
                Some(reached) => self.next_endpoints = From::After(reached),
                None => drop(self.applications.pop_front()),
            }
            let lacks = self.lacks(&listed.entries).await?;
            if !lacks.is_empty() {
                return Ok(Some(lacks));
            }
        }
    }

    async fn lacks(&self, endpoints: &[Endpoint]) -> Result<BTreeMap<Lease, Sheet>, store::Error> {
        let mut lacks: BTreeMap<Lease, Sheet> = BTreeMap::new();
        for endpoint in endpoints {
            let partition = endpoint.partition;
            let Some(epoch) = self.taken.get(&partition).copied() else { continue };
            for lost in self.books.of_endpoint(endpoint, self.taken_at).await? {
                let sheet = lacks.entry(Lease { partition, epoch }).or_default();
                sums::enter(sheet, endpoint.application, &lost);
            }
        }
        Ok(lacks)
    }
}

/// Where sums and attempts are.
#[derive(Clone, Copy)]
struct Books<'a> {
    catalog: &'a dyn Catalog,
    ledger: &'a dyn Ledger,
    /// Whether this node owns all partitions.
    owns_all: bool,
}

impl Books<'_> {
    async fn of_endpoint(
        &self,
        endpoint: &Endpoint,
        taken_at: Timestamp,
    ) -> Result<Vec<Rollup>, store::Error> {
        let mut lost = Vec::new();
        if let Some(last) = self.last(endpoint, taken_at).await? {
            let minutes = Minute(last.0 - 1)..Minute(last.0 + 1);
            let counted = self.count(endpoint, minutes.clone()).await?;
            lost.extend(self.lacks(endpoint, minutes, counted).await?);
        }
        if !self.owns_all {
            return Ok(lost);
        }
        if let Some(last) = self.last_accepted(endpoint, taken_at).await? {
            let minutes = Minute(last.0 - 1)..Minute(last.0 + 1);
            let counted = self.count_accepted(endpoint, minutes.clone()).await?;
            lost.extend(self.lacks(endpoint, minutes, counted).await?);
        }
        Ok(lost)
    }

    /// Returns what was counted and is not in the sums.
    async fn lacks(
        &self,
        endpoint: &Endpoint,
        minutes: Minutes,
        counted: BTreeMap<Minute, Rollup>,
    ) -> Result<Vec<Rollup>, store::Error> {
        let subject = Subject::Endpoint(endpoint.key);
        let first = minutes.start.hour();
        let stored = self.ledger.rollups(subject, first, minutes.end).await?;
        let lack = |sum: Rollup| {
            if stored.hours.iter().any(|hour| hour.minute == sum.minute.hour()) {
                return None;
            }
            let known = stored.minutes.iter().find(|known| known.minute == sum.minute);
            known.map_or(Some(sum.clone()), |known| sum.beyond(known))
        };
        Ok(counted.into_values().filter_map(lack).collect())
    }

    /// Returns the minute of the last delivery whose message was received before a moment.
    async fn last_accepted(
        &self,
        endpoint: &Endpoint,
        before: Timestamp,
    ) -> Result<Option<Minute>, store::Error> {
        let filter = DeliveryFilter { until: Some(before), ..DeliveryFilter::default() };
        let mut from = From::Start;
        loop {
            let page = Page { from, limit: 1 };
            let (application, key) = (endpoint.application, endpoint.key);
            let listed = self.ledger.deliveries(application, key, filter.clone(), page).await?;
            if let Some(newest) = listed.entries.first() {
                return Ok(Some(Minute::of(newest.received_at)));
            }
            match listed.reached.filter(|_| !listed.done) {
                Some(reached) => from = From::After(reached),
                None => return Ok(None),
            }
        }
    }

    /// Counts an endpoint's deliveries whose message was received in some minutes, page by page.
    async fn count_accepted(
        &self,
        endpoint: &Endpoint,
        minutes: Minutes,
    ) -> Result<BTreeMap<Minute, Rollup>, store::Error> {
        let until = Some(minutes.end.begins_at());
        let filter = DeliveryFilter { until, ..DeliveryFilter::default() };
        let oldest = minutes.start.begins_at().before(ON_ITS_WAY);
        let (mut from, mut sums) = (From::Start, BTreeMap::new());
        loop {
            let page = Page { from, limit: PAGE };
            let (application, key) = (endpoint.application, endpoint.key);
            let listed = self.ledger.deliveries(application, key, filter.clone(), page).await?;
            for entry in &listed.entries {
                let minute = Minute::of(entry.received_at);
                if minutes.contains(&minute) {
                    let subject = Subject::Endpoint(key);
                    let sum = sums.entry(minute).or_insert_with(|| Rollup::empty(subject, minute));
                    sum.accept(was_dead_at_once(entry));
                }
            }
            let is_past = listed.entries.last().is_some_and(|last| last.received_at < oldest);
            match listed.reached.filter(|_| !listed.done && !is_past) {
                Some(reached) => from = From::After(reached),
                None => return Ok(sums),
            }
        }
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

    /// Counts an endpoint's attempts that ended in some minutes, page by page, however many.
    async fn count(
        &self,
        endpoint: &Endpoint,
        minutes: Minutes,
    ) -> Result<BTreeMap<Minute, Rollup>, store::Error> {
        let (application, key) = (endpoint.application, endpoint.key);
        let since = minutes.start.begins_at().before(LONGEST_ATTEMPT);
        let until = minutes.end.begins_at();
        let filter =
            AttemptFilter { since: Some(since), until: Some(until), ..AttemptFilter::default() };
        // Ids are made by another clock than rows.
        let oldest = AttemptId::first_at(since.before(CLOCKS_APART));
        let mut from = From::After(AttemptId::first_at(until.after(CLOCKS_APART)));
        let mut sums = BTreeMap::new();
        loop {
            let page = Page { from, limit: PAGE };
            let listed = self.ledger.attempts(application, key, filter.clone(), page).await?;
            for entry in &listed.entries {
                if minutes.contains(&Minute::of(entry.record.ended_at)) {
                    let one = self.one(entry).await?;
                    let sum = sums.entry(one.minute);
                    sum.or_insert_with(|| Rollup::empty(one.subject, one.minute)).add(&one);
                }
            }
            match listed.reached.filter(|reached| !listed.done && *reached > oldest) {
                Some(reached) => from = From::After(reached),
                None => return Ok(sums),
            }
        }
    }

    /// Returns what one attempt adds.
    async fn one(&self, entry: &AttemptEntry) -> Result<Rollup, store::Error> {
        let endpoint = entry.key.endpoint;
        let succeeded = entry.record.outcome.is_2xx();
        let minute = Minute::of(entry.record.ended_at);
        let (is_first, record) = (entry.number == 1, &entry.record);
        let mut sum = Rollup::empty(Subject::Endpoint(endpoint), minute);
        sum.attempt(succeeded, is_first, record.ended_at.since(record.began_at));
        let id = DeliveryId::derive(&entry.message, endpoint.0.cast_unsigned());
        let delivery = match self.ledger.delivery(entry.key.application, id).await {
            Ok(delivery) => delivery,
            Err(store::Error::Missing(_)) => return Ok(sum),
            Err(error) => return Err(error),
        };
        let is_last = entry.next_due.is_none() && delivery.last_attempt == Some(entry.record.id);
        let (delivered, dead, cause) = match delivery.state {
            Delivery::Delivered if is_last => (true, false, None),
            Delivery::Dead(cause) if is_last => (false, true, Some(cause)),
            Delivery::Cancelled if is_last => (false, false, None),
            // It was replayed since; what it had come to then shows in the attempt alone, but not why.
            Delivery::Pending(_)
            | Delivery::Delivered
            | Delivery::Dead(_)
            | Delivery::Cancelled => (succeeded, !succeeded && entry.next_due.is_none(), None),
        };
        match cause {
            Some(cause) => sum.die(cause),
            None => sum.dead = u64::from(dead),
        }
        if delivered {
            sum.deliver(is_first, record.ended_at.since(delivery.received_at));
        }
        Ok(sum)
    }
}

/// Tells whether a delivery was a dead letter from the beginning: its endpoint was disabled, and nothing
/// was ever attempted.
fn was_dead_at_once(entry: &DeliveryEntry) -> bool {
    let at_once = entry.recorded == 0 && entry.settled_at == Some(entry.received_at);
    at_once && entry.state == Delivery::Dead(Cause::EndpointDisabled)
}

#[cfg(test)]
mod tests;
