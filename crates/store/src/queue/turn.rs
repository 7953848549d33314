//! Turns: what orders an endpoint's pending deliveries.
//!
//! Of most endpoints it is the due time. A FIFO endpoint's deliveries are numbered, in the order in
//! which they were accepted. One that is to be delivered later is *scheduled*: it has no number yet, its
//! turn lies behind all numbers, and nothing sends it. When it is due, its owner has it numbered by
//! [`super::Upkeep::Number`], and from then on it is one like the others.

use domain::time::Timestamp;

use super::Order;

/// The turn of a scheduled delivery that was due in 1970. Numbers and due times are all below it.
pub const SCHEDULED: i64 = 1 << 62;

/// Returns the turn of a delivery that becomes pending, unless it gets the next number.
#[must_use]
pub fn first(order: Order, due: Timestamp, now: Timestamp) -> Option<i64> {
    match order {
        Order::Due => Some(due.as_micros()),
        Order::Fifo => (due > now).then(|| scheduled(due)),
    }
}

/// Returns the turn of a scheduled delivery.
#[must_use]
pub const fn scheduled(due: Timestamp) -> i64 {
    SCHEDULED.saturating_add(due.as_micros())
}

/// Returns when a delivery with this turn is due and gets a number, if it is scheduled.
#[must_use]
pub const fn due_if_scheduled(turn: i64) -> Option<Timestamp> {
    if turn < SCHEDULED { None } else { Some(Timestamp::from_micros(turn - SCHEDULED)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduled_turn_is_behind_all_numbers_and_tells_when_it_is_due() {
        let now = Timestamp::from_micros(1_000);
        let later = Timestamp::from_micros(1_001);
        assert_eq!(first(Order::Due, later, now), Some(1_001));
        assert_eq!(first(Order::Fifo, now, now), None);
        let turn = first(Order::Fifo, later, now).unwrap();
        assert!(turn > SCHEDULED);
        assert_eq!(due_if_scheduled(turn), Some(later));
        assert_eq!(due_if_scheduled(SCHEDULED - 1), None);
        assert!(scheduled(now) < scheduled(later));
    }
}
