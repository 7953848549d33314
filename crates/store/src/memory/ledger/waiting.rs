//! What waits.

use std::collections::BTreeSet;

use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
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
}
