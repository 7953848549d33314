//! Invariant 7, for what is to be delivered later: when and where it takes its place in a sequence.

use std::time::Duration;

use domain::time::Timestamp;
use store::keys::{ApplicationKey, EndpointKey};
use store::memory::State;
use store::queue::turn::{self, SCHEDULED};
use store::queue::{Load, Number, PendingDelivery};

use super::Watch;

impl Watch {
    /// An owner numbers nothing that is not due by its own clock.
    pub(super) fn check_until(&mut self, number: &Number, rows: Timestamp) {
        if number.until > rows {
            let early = number.until.since(rows);
            self.complain(7, format!("{:?} is numbered {early:?} early", number.endpoint));
        }
    }

    /// Scheduled deliveries took their places: behind all that have one, each of them once, by due
    /// time and then by acceptance.
    pub(crate) fn numbered(&mut self, number: &Number, now: Duration, state: &State) {
        self.now = now;
        let (mut fresh, mut highest, mut left) = (Vec::new(), i64::MIN, None);
        for row in pending_in(state, number.application, number.endpoint) {
            let Some(entry) = self.deliveries.get_mut(&row.key) else { continue };
            if let Some(due) = turn::due_if_scheduled(row.turn) {
                left = left.or((due <= number.until).then_some(row.key));
                continue;
            }
            let before = entry.turn.replace(row.turn);
            if std::mem::take(&mut entry.scheduled) {
                fresh.push((row.pending.due, row.key.message, row.turn));
            } else {
                highest = highest.max(row.turn);
            }
            if before.is_some_and(|before| before != row.turn) {
                self.complain(7, format!("{:?} had its place and got another", row.key));
            }
        }
        fresh.sort_unstable();
        let full = usize::try_from(number.most) == Ok(fresh.len());
        if let Some(left) = left.filter(|_| !full) {
            self.complain(7, format!("{left:?} is due and got no place"));
        }
        let places: Vec<i64> = fresh.iter().map(|one| one.2).collect();
        if !places.is_sorted() || places.iter().any(|place| *place < highest) {
            self.complain(7, format!("{fresh:?} took places before {highest}, or each other"));
        }
        if let Some(early) = fresh.iter().find(|one| one.0 > number.until) {
            self.complain(7, format!("{early:?} got a place and is not due"));
        }
    }
}

/// Returns everything that is pending for an endpoint, scheduled or not.
pub(super) fn pending_in(
    state: &State,
    application: ApplicationKey,
    endpoint: EndpointKey,
) -> Vec<PendingDelivery> {
    let load = |from| Load { application, endpoint, from, most: u32::MAX, most_bytes: 0 };
    let with_turns = state.load(load(i64::MIN)).deliveries;
    with_turns.into_iter().chain(state.load(load(SCHEDULED)).deliveries).collect()
}
