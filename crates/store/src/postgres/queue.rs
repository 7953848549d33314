//! The hot path's trait: a batch is split into its lanes, which run side by side.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use domain::partition::Partition;
use domain::time::Timestamp;

use super::failure::Failure;
use super::link::{Access, Pool, Transaction};
use super::{Postgres, accept, lease, load, settle, upkeep, wake};
use crate::Answer;
use crate::keys::{Lease, Node};
use crate::queue::{
    Batch, Call, Committed, Confirmed, Load, Loaded, Queue, Renewal, Request, Waiting,
};

impl Queue for Postgres {
    fn commit(&self, batch: Arc<Batch>) -> Answer<'_, Committed> {
        self.answer(async move {
            let Batch { accepts, settles, upkeep } = &*batch;
            // An error in one lane leaves the others their commit; repeating the batch is safe.
            let (accepts, settles, upkeep) = tokio::join!(
                accept::commit(&self.accepts, &self.notes, accepts),
                settle::commit(&self.settles, settles),
                upkeep::commit(&self.upkeep, self.dead_letter_retention, upkeep),
            );
            for touched in [accepts.as_ref().map(|lane| lane.1), upkeep.as_ref().map(|lane| lane.1)]
            {
                self.wake.others(touched.unwrap_or_default());
            }
            Ok(Committed { accepts: accepts?.0, settles: settles?, upkeep: upkeep?.0 })
        })
    }

    fn load(&self, load: Load) -> Answer<'_, Loaded> {
        self.answer(self.loads.load(load))
    }

    fn waiting(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Waiting>> {
        self.answer(load::waiting(&self.pool, partitions))
    }

    fn requests(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Request>> {
        self.answer(load::requests(&self.pool, &self.notes, partitions))
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        self.answer(lease::now(&self.leases))
    }

    fn renew(&self, node: Node) -> Answer<'_, Renewal> {
        self.answer(async move {
            let renewal = lease::renew(&self.leases, &node).await?;
            self.wake.owns(&node, &renewal.owned);
            Ok(renewal)
        })
    }

    fn take(&self, node: Node, most: u8) -> Answer<'_, Vec<Lease>> {
        self.answer(async move {
            let leases = lease::take(&self.leases, &node, most).await?;
            self.wake.took(&node, &leases);
            Ok(leases)
        })
    }

    fn release(&self, node: Node, leases: Vec<Lease>) -> Answer<'_, ()> {
        self.answer(async move {
            // Before the release: whoever takes them next wants to hear of what comes.
            self.wake.disown(&leases);
            lease::release(&self.leases, &node, &leases).await
        })
    }

    fn woken(&self) -> Answer<'_, Call> {
        Box::pin(async { Ok(self.wake.heard().await) })
    }

    fn call(&self) -> Answer<'_, Timestamp> {
        self.answer(wake::call_now(&self.pool))
    }

    fn confirm(&self, node: Node, heard: Timestamp) -> Answer<'_, ()> {
        self.answer(async move { lease::confirm(&self.changes, &node, heard).await })
    }

    fn confirmed(&self) -> Answer<'_, Confirmed> {
        self.answer(lease::confirmed(&self.pool))
    }
}

/// Partitions as bits of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Partitions(pub(super) u64);

impl Partitions {
    /// Adds one.
    pub(super) fn insert(&mut self, partition: Partition) {
        self.0 |= 1 << partition.number();
    }

    /// Lists them, ascending.
    pub(super) fn list(self) -> impl Iterator<Item = Partition> {
        Partition::all().filter(move |partition| self.0 & (1 << partition.number()) != 0)
    }
}

impl FromIterator<Partition> for Partitions {
    fn from_iter<I: IntoIterator<Item = Partition>>(partitions: I) -> Self {
        let mut all = Self::default();
        partitions.into_iter().for_each(|partition| all.insert(partition));
        all
    }
}

/// A partition as its column.
pub(super) fn number(partition: Partition) -> i16 {
    partition.number().into()
}

/// Into how many parts a batch is cut that took too long. Each try that does costs a third of the time
/// there is to answer: what the third one is about has to be little.
const PIECES: usize = 8;

/// A batch on its way through the database, in parts. If one item is bad, halves are tried until it
/// is alone, and the others go on.
pub(super) struct Parts(Vec<Range<usize>>);

impl Parts {
    /// Begins with the whole, unless there is nothing.
    pub(super) fn of(items: usize) -> Self {
        Self(std::iter::once(0..items).filter(|whole| !whole.is_empty()).collect())
    }

    /// Returns what is to be tried next; nothing if all was.
    pub(super) fn next(&mut self) -> Option<Range<usize>> {
        self.0.pop()
    }

    /// Takes back a part that the database refused, or returns the one item that it consists of.
    pub(super) fn split(&mut self, part: Range<usize>) -> Option<usize> {
        if part.len() == 1 {
            return Some(part.start);
        }
        let middle = part.start + part.len() / 2;
        self.0.push(middle..part.end);
        self.0.push(part.start..middle);
        None
    }

    /// Takes back a part that took too long, in pieces; tells whether there are any.
    pub(super) fn cut(&mut self, part: &Range<usize>) -> bool {
        if part.len() <= 1 {
            return false;
        }
        let size = part.len().div_ceil(PIECES);
        let starts = part.clone().step_by(size);
        self.0.extend(starts.map(|start| start..part.end.min(start + size)).rev());
        true
    }
}

/// How often a lane repeats a batch that met a conflict or lost its connection.
const REPEATS: u32 = 5;
/// The first wait before a repetition; each is twice as long as the one before, up to so many times.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const DOUBLINGS: u32 = 5;

/// Counts the repetitions of a batch. Once a commit of it was not answered, it is repeated for as long
/// as there is somebody to answer to: only a repetition tells what became of it, and a server that
/// restarts is not there for a while.
#[derive(Default)]
pub(super) struct Again {
    times: u32,
    unknown: bool,
}

impl Again {
    /// Begins the next try.
    pub(super) async fn begin<'a>(&mut self, pool: &'a Pool) -> Result<Transaction<'a>, Failure> {
        loop {
            match pool.begin(Access::Write).await {
                Err(_) if self.unknown => self.wait().await,
                begun => return begun,
            }
        }
    }

    /// Tells whether to repeat after this failure, and waits before that.
    pub(super) async fn after(&mut self, failure: &Failure) -> bool {
        let repeats = match failure {
            Failure::Unknown(_) => {
                self.unknown = true;
                true
            }
            Failure::Lost(_) | Failure::Conflict(_) => self.unknown || self.times < REPEATS,
            Failure::Slow(_) | Failure::Data { .. } | Failure::Final(_) => false,
        };
        if repeats {
            self.wait().await;
        }
        repeats
    }

    async fn wait(&mut self) {
        tokio::time::sleep(FIRST_WAIT * 2_u32.pow(self.times.min(DOUBLINGS))).await;
        self.times = self.times.saturating_add(1);
    }

    /// Tells whether this is a repetition.
    pub(super) const fn is_repetition(&self) -> bool {
        self.times > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_item_is_found_and_the_others_are_tried_in_their_order() {
        let (mut parts, mut good, mut bad) = (Parts::of(9), Vec::new(), Vec::new());
        while let Some(part) = parts.next() {
            if part.contains(&3) || part.contains(&8) {
                bad.extend(parts.split(part));
            } else {
                good.extend(part);
            }
        }
        assert_eq!((bad, good), (vec![3, 8], vec![0, 1, 2, 4, 5, 6, 7]));
        assert_eq!(Parts::of(0).next(), None);
    }

    #[test]
    fn what_takes_too_long_is_tried_in_pieces_and_in_its_order() {
        let (mut parts, mut done) = (Parts::of(100), Vec::new());
        while let Some(part) = parts.next() {
            if part.len() > 5 {
                assert!(parts.cut(&part));
            } else {
                assert!(part.len() > 1 || !parts.cut(&part));
                done.extend(part);
            }
        }
        assert_eq!(done, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn partitions_are_listed_as_they_were_inserted_and_ascending() {
        let numbers = [63_u8, 0, 17];
        let set: Partitions = numbers.iter().filter_map(|n| Partition::from_number(*n)).collect();
        assert_eq!(set.list().map(Partition::number).collect::<Vec<_>>(), [0, 17, 63]);
        assert_eq!(Partitions::default().list().count(), 0);
    }
}
