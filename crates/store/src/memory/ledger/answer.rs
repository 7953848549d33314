//! Answers that are given again.

use domain::time::Timestamp;

use crate::ledger::StoredAnswer;
use crate::limits;
use crate::memory::State;

impl State {
    /// Remembers an answer, unless another one is remembered; returns the one that is.
    pub fn remember_answer(
        &mut self,
        hash: [u8; 32],
        answer: StoredAnswer,
        at: Timestamp,
    ) -> StoredAnswer {
        if let Some(known) = self.answer(hash, at) {
            return known;
        }
        self.answers.insert(hash, (answer.clone(), at));
        answer
    }

    /// Returns the answer that is remembered under a hash.
    #[must_use]
    pub fn answer(&self, hash: [u8; 32], now: Timestamp) -> Option<StoredAnswer> {
        let (answer, at) = self.answers.get(&hash)?;
        (now.since(*at) < limits::IDEMPOTENCY).then(|| answer.clone())
    }

    /// Forgets what was remembered under a hash at a moment or before it.
    pub fn forget_answer(&mut self, hash: [u8; 32], until: Timestamp) {
        if self.answers.get(&hash).is_some_and(|(_, at)| *at <= until) {
            self.answers.remove(&hash);
        }
    }
}
