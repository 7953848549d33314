//! From where on the store may hold deliveries that memory does not know.
//!
//! Turns are due times, or places in a sequence for a FIFO endpoint. Of a sequence only the head
//! matters: a later row does not hurry it.

use std::cmp::Ordering;

use domain::time::Timestamp;
use store::queue::{Loaded, PendingDelivery};

/// From where on the store may hold rows that memory does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Horizon {
    /// Every pending row with a lower turn is known.
    pub(crate) turn: i64,
    /// When the first of the others is due, as far as that is known.
    pub(crate) at: Timestamp,
}

impl Horizon {
    /// Knows nothing but when something is due.
    pub(crate) const fn unknown(at: Timestamp) -> Self {
        Self { turn: i64::MIN, at }
    }

    /// Begins with this row.
    pub(crate) fn of(row: &PendingDelivery) -> Self {
        Self { turn: row.turn, at: row.pending.due }
    }

    /// Takes in that there is another row, or a row at an unknown place.
    pub(crate) fn lowered(self, other: Self) -> Self {
        let by_due = |horizon: Self| horizon.turn == horizon.at.as_micros();
        if other.turn == i64::MIN || by_due(other) || by_due(self) {
            return Self { turn: self.turn.min(other.turn), at: self.at.min(other.at) };
        }
        match other.turn.cmp(&self.turn) {
            Ordering::Less => other,
            Ordering::Equal => Self { at: self.at.min(other.at), ..self },
            Ordering::Greater => self,
        }
    }
}

/// Tells whether a row's turn is a place in a sequence rather than its due time.
pub(crate) fn is_fifo(row: &PendingDelivery) -> bool {
    row.turn != row.pending.due.as_micros()
}

/// Returns from where on a load has left rows out.
///
/// Rows with the turn of the last one may be missing from an answer that is not complete; but no
/// two rows have the same place in a sequence.
pub(crate) fn unseen(answer: &Loaded) -> Option<Horizon> {
    if answer.complete {
        return None;
    }
    let Some(last) = answer.deliveries.last() else {
        // None of the rows could be read. There are some, and nobody knows where.
        return Some(Horizon::unknown(Timestamp::EPOCH));
    };
    if is_fifo(last) {
        return Some(Horizon { turn: last.turn.saturating_add(1), at: Timestamp::EPOCH });
    }
    Some(Horizon::of(last))
}

/// Returns the lower one of two.
pub(crate) fn least(horizon: Option<Horizon>, other: Horizon) -> Horizon {
    horizon.map_or(other, |horizon| if other.turn < horizon.turn { other } else { horizon })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(turn: i64, at: i64) -> Horizon {
        Horizon { turn, at: Timestamp::from_micros(at) }
    }

    #[test]
    fn among_due_times_the_earliest_counts() {
        assert_eq!(at(50, 50).lowered(at(20, 20)), at(20, 20));
        assert_eq!(at(20, 20).lowered(at(50, 50)), at(20, 20));
    }

    #[test]
    fn a_later_row_of_a_sequence_does_not_hurry_the_head() {
        assert_eq!(at(5, 9_000).lowered(at(6, 100)), at(5, 9_000));
        assert_eq!(at(6, 100).lowered(at(5, 9_000)), at(5, 9_000));
        assert_eq!(at(5, 9_000).lowered(at(5, 100)), at(5, 100));
    }

    #[test]
    fn a_row_at_an_unknown_place_may_be_the_first() {
        let unknown = Horizon::unknown(Timestamp::from_micros(100));
        assert_eq!(at(5, 9_000).lowered(unknown), unknown);
        assert_eq!(unknown.lowered(at(6, 50)), unknown);
        assert_eq!(unknown.lowered(at(50, 50)).at, Timestamp::from_micros(50));
    }
}
