//! Steps of upkeep that wait, in two queues: those that somebody waits for go first.
//!
//! A mass of steps that only tidy up, such as burying what a disabled endpoint has left, must not
//! keep a person's request waiting, nor an endpoint that sends nothing until its step is answered.
//! Nor may those keep the others out for ever, so each cut takes at least one of both.

use std::collections::VecDeque;

use store::queue::Upkeep;

/// How soon a step of upkeep is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Somebody waits for it: a person, or an endpoint.
    Urgent,
    /// It only has to be done some time.
    Patient,
}

impl Urgency {
    /// Returns how soon a step is wanted.
    #[must_use]
    pub const fn of(upkeep: &Upkeep) -> Self {
        match upkeep {
            Upkeep::Run { .. }
            | Upkeep::Number(_)
            | Upkeep::Ask { .. }
            | Upkeep::Consume { .. } => Self::Urgent,
            Upkeep::Bury(_)
            | Upkeep::Replay(_)
            | Upkeep::RollUp { .. }
            | Upkeep::Fold { .. }
            | Upkeep::Prune { .. } => Self::Patient,
        }
    }
}

type Queue<T> = VecDeque<(u32, T)>;

/// Steps that wait, with the rows that each writes.
#[derive(Debug)]
pub(super) struct Steps<T> {
    urgent: Queue<T>,
    patient: Queue<T>,
}

impl<T> Default for Steps<T> {
    fn default() -> Self {
        Self { urgent: Queue::new(), patient: Queue::new() }
    }
}

impl<T> Steps<T> {
    /// Returns how many wait.
    pub(super) fn len(&self) -> usize {
        self.urgent.len() + self.patient.len()
    }

    /// Returns those that wait of one kind.
    pub(super) fn of(&mut self, urgency: Urgency) -> &mut Queue<T> {
        match urgency {
            Urgency::Urgent => &mut self.urgent,
            Urgency::Patient => &mut self.patient,
        }
    }

    /// Takes the oldest of both kinds that fit so many rows, urgent ones first, and at least one each.
    pub(super) fn take(&mut self, most: u32) -> Vec<T> {
        let (mut taken, mut rows) = (Vec::new(), 0_u32);
        for queue in [&mut self.urgent, &mut self.patient] {
            let mut first = true;
            while let Some((weight, _)) = queue.front() {
                rows = rows.saturating_add(*weight);
                if !std::mem::take(&mut first) && rows > most {
                    break;
                }
                taken.extend(queue.pop_front().map(|(_, step)| step));
            }
        }
        taken
    }
}
