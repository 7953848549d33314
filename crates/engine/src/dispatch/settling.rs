//! The answer to a settle: the delivery is done with, waits again, or was not ours to settle.

use domain::time::Timestamp;
use store::queue::{NextState, Settled};

use crate::dispatch::attempts::Stage;
use crate::endpoints::horizon::{Horizon, is_fifo};
use crate::engine::{Act, Engine};
use crate::planted::{self, Bug};
use crate::protocol::event::Number;

impl Engine {
    pub(crate) fn settled(&mut self, number: Number, answer: Settled, act: &mut Act<'_>) {
        let Some(attempt) = self.attempts.get(number) else { return };
        let Stage::Settling(next) = attempt.stage else { return };
        let Some(attempt) = self.attempts.remove(number) else { return };
        let lease = attempt.lease;
        self.vacate(lease);
        // Also of an attempt whose partition was lost meanwhile: what is written is true, and the next
        // owner does not tell of it.
        let news = attempt.news.into_iter().filter(|one| one.holds(answer));
        news.for_each(|one| self.tell(one, &attempt.member, act));
        if attempt.stray {
            return;
        }
        if answer == Settled::Fenced {
            return self.fenced(lease, act);
        }
        let mut delivery = attempt.delivery;
        let key = delivery.key;
        let at = (key.application, key.endpoint);
        self.walks.leaves(&delivery);
        let room = self.room(act.now.rows);
        let cancelled = self.requests.was_cancelled(&key);
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        endpoint.settling = endpoint.settling.saturating_sub(1);
        let window = &mut endpoint.window;
        match (answer, next) {
            (Settled::Applied { turn: Some(turn) }, NextState::Pending { due }) => {
                let fifo = is_fifo(&delivery);
                let hurried = if fifo { delivery.turn != turn } else { due.as_micros() != turn };
                (delivery.turn, delivery.pending.due) = (turn, due);
                if cancelled {
                    // It was settled first; the store knows whether it has been replayed since.
                    window.settled(key.message);
                    window.lower(Horizon::unknown(act.now.rows));
                } else if hurried {
                    // Somebody changed it since; only the store knows how.
                    window.settled(key.message);
                    let at = if fifo { act.now.rows } else { Timestamp::from_micros(turn) };
                    window.lower(Horizon { turn, at });
                } else {
                    window.wait_again(delivery, room);
                }
            }
            (Settled::LeftAlone, _) if planted::has(Bug::SendCancelledAgain) => {
                window.wait_again(delivery, room);
            }
            (Settled::Applied { turn: Some(_) }, NextState::Delivered | NextState::Dead(_))
            | (Settled::LeftAlone, _) => {
                // It may be pending again: replayed since, or settled by somebody else.
                window.settled(key.message);
                window.lower(Horizon::unknown(act.now.rows));
            }
            (Settled::Applied { turn: None } | Settled::Missing | Settled::Fenced, _) => {
                window.settled(key.message);
            }
            (Settled::Refused, _) => {
                // It was sent and cannot be recorded; sending it again would go on for ever. So it
                // stays out until it is buried, wherever the horizon is: a load must not find it.
                self.bury_poison(key, act);
            }
        }
        self.go_on_by_hand(at, act);
        self.look(at, act);
    }
}
