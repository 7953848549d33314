//! Numbering: scheduled deliveries of a FIFO endpoint that are due take their places in its order.

use crate::keys::{DeliveryKey, MessageKey};
use crate::memory::State;
use crate::queue::{Done, Number};

impl State {
    pub(super) fn number(&mut self, number: Number) -> Done {
        if !self.is_current(number.lease) {
            return Done::Fenced;
        }
        let Number { application, endpoint, until, most, .. } = number;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let due: Vec<MessageKey> =
            self.scheduled(endpoint).take_while(|one| one.0 <= until).map(|one| one.1).collect();
        let mut count = 0;
        for message in due.into_iter().take(most) {
            let turn = self.next_in_sequence();
            let key = DeliveryKey { application, endpoint, message };
            count += usize::from(self.change(key, |row| row.turn = turn).is_some());
        }
        let next = self.scheduled(endpoint).next().map(|one| one.0);
        Done::Numbered { count: u32::try_from(count).unwrap_or(u32::MAX), next }
    }
}
