//! Dead letters of a whole application.

use domain::delivery::Delivery;

use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{DeliveryEntry, DeliveryFilter};
use crate::memory::State;
use crate::memory::page;
use crate::page::{Direction, Listed, Page};

impl State {
    /// Lists an application's dead letters, newest message first.
    #[must_use]
    pub fn dead_letters(
        &self,
        application: ApplicationKey,
        filter: &DeliveryFilter,
        page: &Page<(MessageKey, EndpointKey)>,
    ) -> Listed<DeliveryEntry, (MessageKey, EndpointKey)> {
        let theirs = self.deliveries.iter().filter(|(_, row)| {
            row.application == application && matches!(row.state, Delivery::Dead(_))
        });
        let mut rows: Vec<_> =
            theirs.map(|((endpoint, message), row)| ((*message, *endpoint), row)).collect();
        rows.sort_by_key(|(key, _)| *key);
        let list = (Direction::Descending, DeliveryEntry::bytes as fn(&_) -> _);
        page::page(rows.into_iter(), list, page, |key, _| {
            let (message, endpoint) = *key;
            let entry = self.entry(DeliveryKey { application, endpoint, message })?;
            filter.takes(entry)
        })
    }
}

impl State {
    /// Removes dead letters for good.
    pub fn purge_dead_letters(
        &mut self,
        application: ApplicationKey,
        filter: &DeliveryFilter,
        page: &Page<(MessageKey, EndpointKey)>,
    ) -> Listed<DeliveryKey, (MessageKey, EndpointKey)> {
        let Listed { entries, reached, done } = self.dead_letters(application, filter, page);
        let entries: Vec<_> = entries.into_iter().map(|entry| entry.key).collect();
        for DeliveryKey { endpoint, message, .. } in &entries {
            self.remove_before_message(*endpoint, *message);
        }
        Listed { entries, reached, done }
    }
}
