//! Burying what an attempt did not bury: expired, or held by an endpoint that is disabled.

use domain::delivery::Delivery;

use crate::keys::DeliveryKey;
use crate::memory::State;
use crate::memory::upkeep::changed;
use crate::queue::{Bury, Done, Ending};

impl State {
    pub(super) fn bury(&mut self, bury: &Bury) -> Done {
        if !self.is_current(bury.lease) {
            return Done::Fenced;
        }
        let mut buried = 0;
        for doomed in &bury.deliveries {
            let Bury { application, endpoint, .. } = *bury;
            let key = DeliveryKey { application, endpoint, message: doomed.message };
            let end = |state: Delivery| match bury.ending {
                Ending::Dead(cause) => state.bury(cause),
                Ending::Cancelled => state.cancel(),
            };
            let done = self.change(key, |row| match end(row.state) {
                Ok(ended) if row.is_as_loaded(doomed.recorded, doomed.ended_before) => {
                    row.state = ended;
                    row.settled_at = Some(bury.at);
                    true
                }
                Ok(_) | Err(_) => false,
            });
            buried += usize::from(done == Some(true));
        }
        if let Ending::Dead(cause) = bury.ending {
            self.count_buried((bury.application, bury.endpoint), (cause, buried), bury.at);
        }
        changed(buried)
    }
}
