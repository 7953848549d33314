//! Expunging: a message's payload goes, and what is pending of it is cancelled with it.

use std::collections::BTreeSet;

use domain::partition::Partition;
use domain::time::Timestamp;

use crate::Error;
use crate::keys::{ApplicationKey, MessageKey};
use crate::memory::State;

impl State {
    /// Removes a message's payload on purpose, and cancels what is pending of it. Returns whose
    /// owners have something to forget.
    ///
    /// # Errors
    /// If the application has no such message.
    pub fn expunge(
        &mut self,
        application: ApplicationKey,
        message: MessageKey,
        at: Timestamp,
    ) -> Result<Vec<Partition>, Error> {
        self.forget_payload(application, message)?;
        let mut partitions = BTreeSet::new();
        for entry in self.deliveries_of(application, message) {
            if self.cancel(entry.key, at).is_ok() {
                partitions.extend(self.delivery_row(entry.key).map(|row| row.partition));
            }
        }
        Ok(partitions.into_iter().collect())
    }
}
