//! Settling: under the current epoch only, and each attempt once.

use domain::delivery::{Delivery, Pending};

use crate::memory::State;
use crate::memory::rows::{AttemptRow, DeliveryRow};
use crate::queue::{Order, Settle, Settled};

impl State {
    pub(in crate::memory) fn settle(&mut self, settle: Settle) -> Settled {
        if !self.is_current(settle.lease) {
            return Settled::Fenced;
        }
        let attempt = (settle.key.endpoint, settle.attempt.id);
        let known = self.attempts.get(&attempt).map(|known| known.applied);
        // A settle that is known wrote its running state then; there may be a newer one since.
        if let Some(running) = settle.running.filter(|_| known.is_none()) {
            self.run(settle.key.application, settle.key.endpoint, running);
        }
        let Some(row) = self.delivery_row(settle.key) else {
            return Settled::Missing;
        };
        if let Some(known) = known {
            // Not the verdict but what it did then: a cancel in between must look the same again.
            return if known { applied(row) } else { Settled::LeftAlone };
        }
        self.record(settle)
    }

    fn record(&mut self, settle: Settle) -> Settled {
        let Settle { key, recorded, ended_before, next, budget, attempt, .. } = settle;
        let changed = self.change(key, |row| {
            let applies = row.is_as_loaded(recorded, ended_before);
            let previous = row.last_attempt.replace(attempt.id);
            row.recorded += 1;
            row.last_attempt_at = Some(attempt.ended_at);
            row.last_status = attempt.outcome.status();
            let mut next_due = None;
            if applies && let Ok(state) = row.state.settle(next, budget) {
                row.state = state;
                if let Delivery::Pending(Pending { due, .. }) = state {
                    next_due = Some(due);
                    match row.order {
                        Order::Due => row.turn = due.as_micros(),
                        Order::Fifo => {}
                    }
                } else {
                    row.settled_at = Some(attempt.ended_at);
                }
            }
            let answer = if applies { applied(row) } else { Settled::LeftAlone };
            (row.recorded, previous, next_due, answer)
        });
        let Some((number, previous, next_due, answer)) = changed else {
            return Settled::Missing;
        };
        let applied = answer != Settled::LeftAlone;
        let mut record = attempt;
        record.response_body.truncate(record.kept_body().len());
        let row = AttemptRow { message: key.message, number, previous, applied, next_due, record };
        self.attempts.insert((key.endpoint, row.record.id), row);
        answer
    }
}

/// Answers for a delivery that a settle has moved.
fn applied(row: &DeliveryRow) -> Settled {
    match row.state {
        Delivery::Pending(_) => Settled::Applied { turn: Some(row.turn) },
        Delivery::Delivered | Delivery::Dead(_) | Delivery::Cancelled => {
            Settled::Applied { turn: None }
        }
    }
}
