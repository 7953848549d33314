//! One chunk of a replay task.

use crate::ledger::TaskState;
use crate::memory::State;
use crate::queue::{Chosen, Done, Order, Replay};

impl State {
    pub(super) fn replay(&mut self, replay: &Replay) -> Done {
        let Some(task) = self.tasks.get(&replay.task) else {
            return Done::Fenced;
        };
        let its_turn = task.state == TaskState::Running && task.cursor == replay.cursor;
        if !its_turn || !self.is_current(replay.lease) || !self.is_as_chosen(replay) {
            return Done::Fenced;
        }
        let (mut replayed, mut gone) = (0, 0);
        for chosen in &replay.deliveries {
            let Chosen { key, partition, pending, .. } = *chosen;
            let message = self.messages.get(&key.message);
            if message.is_some_and(|it| it.application == key.application && it.payload.is_none()) {
                gone += 1;
                continue;
            }
            let meant = self.delivery_row(key).is_some_and(|row| row.is_as_chosen(chosen));
            let endpoint = self.endpoints.get(&key.endpoint).filter(|_| meant);
            let Some(order) = endpoint.map(|row| row.endpoint.order) else { continue };
            let turn = match order {
                Order::Due => pending.due.as_micros(),
                Order::Fifo => self.next_in_sequence(),
            };
            self.change(key, |row| {
                let Ok(state) = row.state.replay(pending) else { return };
                (row.state, row.partition, row.order, row.turn) = (state, partition, order, turn);
                replayed += 1;
            });
        }
        let (made, skipped) = self.make(replay.missing.as_ref(), replay.at);
        replayed += made;
        if let Some(task) = self.tasks.get_mut(&replay.task) {
            task.cursor = replay.next_cursor;
            task.replayed += replayed;
            task.skipped += gone + skipped + u64::from(replay.passed_over);
            task.updated_at = replay.at;
            if replay.next_cursor.is_none() {
                task.state = TaskState::Finished;
            }
        }
        Done::Changed(u32::try_from(replayed).unwrap_or(u32::MAX))
    }

    /// Tells whether nothing has changed since a chunk's missing deliveries were chosen.
    fn is_as_chosen(&mut self, replay: &Replay) -> bool {
        let Some(missing) = &replay.missing else {
            return true;
        };
        let application = self.living(missing.application);
        application.is_some_and(|application| application.revision == missing.revision)
    }
}
