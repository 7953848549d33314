//! Counting deliveries, and removing dead letters by hand.

use std::ops::Range;

use domain::ids::MessageId;
use domain::time::Timestamp;

use crate::keys::{ApplicationKey, EndpointKey, MessageKey};
use crate::ledger::{Counts, MOST_COUNTED, MOST_WALKED, Tally, Within};
use crate::limits;
use crate::memory::State;

impl State {
    /// Counts an endpoint's deliveries whose message was received within some time.
    #[must_use]
    pub fn delivery_counts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        range: &Range<Timestamp>,
    ) -> Counts {
        let keys = self.keys_around(application, range);
        let mut counts = Counts::begin();
        let theirs = (endpoint, MessageKey(i64::MIN))..=(endpoint, MessageKey(i64::MAX));
        let rows = self.deliveries.range(theirs).rev().filter(|((_, message), row)| {
            row.application == application && keys.contains(&message.0)
        });
        for (walked, ((_, message), row)) in (0..).zip(rows) {
            if walked == MOST_WALKED {
                counts.complete = false;
                break;
            }
            let message = self.messages.get(message).map(|row| row.message.received_at);
            if message.is_some_and(|received_at| range.contains(&received_at)) {
                counts.add(row.state);
            }
        }
        counts
    }

    /// Counts dead letters.
    #[must_use]
    pub fn dead_letter_count(&self, within: Within) -> Tally {
        let is_walked = |application| match within {
            Within::Whole => true,
            Within::Application(key) | Within::Endpoint(key, _) => key == application,
        };
        let most = usize::try_from(MOST_COUNTED).unwrap_or(usize::MAX) + 1;
        let dead = self
            .deliveries
            .iter()
            .filter(|(_, row)| is_walked(row.application) && row.state.word() == "dead");
        let (mut walked, mut counted) = (0, 0);
        for ((endpoint, _), row) in dead.take(most) {
            walked += 1;
            counted += u32::from(within.has(row.application, *endpoint));
        }
        Tally::up_to(MOST_COUNTED, walked, counted)
    }

    /// Returns between which keys the messages are that were received within some time: ids tell
    /// when a message was made, and none is on its way for long.
    fn keys_around(&self, application: ApplicationKey, range: &Range<Timestamp>) -> Range<i64> {
        let earliest = MessageId::first_at(range.start.before(limits::UNDER_WAY));
        let latest = MessageId::first_at(range.end.after(limits::UNDER_WAY));
        let first = MessageId::from_bytes([0; 20]);
        let last = MessageId::from_bytes([0xff; 20]);
        let mut before = self.message_ids.range((application, first)..(application, earliest));
        let mut behind = self.message_ids.range((application, latest)..=(application, last));
        let start = before.next_back().map_or(i64::MIN, |(_, key)| key.0 + 1);
        let end = behind.next().map_or(i64::MAX, |(_, key)| key.0);
        start..end
    }
}
