//! How long what is settled is kept: one rule for all stores.
//!
//! A delivery that was delivered or cancelled is kept until the time of its message is over. What
//! settles late, because it was replayed or had to wait, is kept for as long as that from when it
//! settled: otherwise its record would be gone before anybody could look at it.

use domain::time::Timestamp;

/// What a message says about how long it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) received_at: Timestamp,
    /// When it was to be delivered, if not at once: its time begins then.
    pub(crate) deliver_at: Option<Timestamp>,
    pub(crate) retained_until: Timestamp,
}

impl Term {
    /// Returns the moment before which a delivery must have settled so that it goes now. There is
    /// none before the message's own time is over, when nothing goes.
    pub(crate) fn settled_before(&self, now: Timestamp) -> Option<Timestamp> {
        let begins = self.deliver_at.unwrap_or(self.received_at).max(self.received_at);
        let kept = self.retained_until.since(begins);
        (self.retained_until < now).then(|| now.before(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    fn before(deliver_at: Option<i64>, retained_until: i64, now: i64) -> Option<Timestamp> {
        let (received_at, retained_until) = (at(100), at(retained_until));
        Term { received_at, deliver_at: deliver_at.map(at), retained_until }.settled_before(at(now))
    }

    #[test]
    fn nothing_goes_before_the_time_of_the_message_is_over() {
        assert_eq!(before(None, 150, 149), None);
        assert_eq!(before(None, 150, 150), None);
    }

    #[test]
    fn what_settled_has_the_whole_time_from_then_on() {
        assert_eq!(before(None, 150, 151), Some(at(101)));
        assert_eq!(before(None, 150, 900), Some(at(850)));
    }

    #[test]
    fn the_time_begins_when_the_message_was_to_be_delivered() {
        assert_eq!(before(Some(130), 150, 900), Some(at(880)));
        assert_eq!(before(Some(30), 150, 900), Some(at(850)));
    }

    #[test]
    fn a_time_that_ends_before_it_begins_is_none() {
        assert_eq!(before(None, 90, 900), Some(at(900)));
        assert_eq!(before(Some(500), 150, 900), Some(at(900)));
    }
}
