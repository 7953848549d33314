//! What waits.

use std::collections::BTreeSet;

use domain::partition::Partition;

use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{Depth, MOST_COUNTED, Tally, Within};
use crate::memory::State;
use crate::queue::turn::SCHEDULED;

impl State {
    /// Returns, of each of some FIFO endpoints, the delivery that comes first in its order.
    #[must_use]
    pub fn first_in_line(
        &self,
        application: ApplicationKey,
        endpoints: &[EndpointKey],
    ) -> Vec<DeliveryKey> {
        let first = |endpoint: &EndpointKey| {
            let numbered = (*endpoint, i64::MIN, MessageKey(i64::MIN))
                ..(*endpoint, SCHEDULED, MessageKey(i64::MIN));
            let (endpoint, _, message) = *self.pending.range(numbered).next()?;
            let key = DeliveryKey { application, endpoint, message };
            self.delivery_row(key).map(|_| key)
        };
        BTreeSet::from_iter(endpoints).into_iter().filter_map(first).collect()
    }

    /// Counts what waits, up to a limit, and finds the earliest due time.
    #[must_use]
    pub fn depth(&self, within: Within) -> Depth {
        let most = usize::try_from(MOST_COUNTED).unwrap_or(usize::MAX) + 1;
        let theirs = |place: &&(EndpointKey, i64, MessageKey)| {
            let row = self.deliveries.get(&(place.0, place.2));
            row.is_some_and(|row| within.has(row.application, place.0))
        };
        let counted = self.pending.iter().filter(theirs).take(most).count();
        let counted = u32::try_from(counted).unwrap_or(u32::MAX);
        let all: Vec<Partition> = Partition::all().collect();
        let waiting = self.waiting(&all).into_iter();
        let waiting = waiting.filter(|one| within.has(one.application, one.endpoint));
        Depth {
            waiting: Tally::up_to(MOST_COUNTED, counted, counted),
            oldest_due: waiting.filter_map(|one| one.first_due()).min(),
        }
    }
}
