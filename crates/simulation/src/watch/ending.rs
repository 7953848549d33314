//! Invariant 2, and whether the books agree with the store when everything has ended.

use domain::delivery::Delivery;
use store::catalog::Name;
use store::keys::DeliveryKey;
use store::memory::State;

use super::Watch;
use crate::senders::Letter;

impl Watch {
    /// Tells whether every delivery has ended.
    pub(crate) fn nothing_waits(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns how many deliveries are pending.
    pub(crate) fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Looks at everything once more.
    pub(crate) fn looks_back(&mut self, state: &State, letters: &[Letter], thoroughly: bool) {
        let waiting: Vec<DeliveryKey> = self.pending.iter().copied().collect();
        if let Some(key) = waiting.first() {
            let entry = self.deliveries.get(key);
            let owner = self.place_of(key.endpoint).and_then(|(_, it)| self.owners.get(&it));
            let text = format!(
                "{} deliveries still wait, such as {key:?}: {entry:?}, owned by {owner:?}",
                waiting.len()
            );
            return self.complain(2, text);
        }
        if let Some(unanswered) = letters.iter().find(|it| !it.is_answered()) {
            let text = format!("a sender was never answered: {unanswered:?}");
            return self.complain(2, text);
        }
        self.compare(state);
        for letter in letters {
            let Some(id) = letter.acknowledged else { continue };
            if self.is_gone(letter.application) {
                continue;
            }
            if state.message(letter.application, Name::Id(id)).is_err() {
                self.complain(1, format!("{id} was acknowledged and is lost"));
            }
        }
        if thoroughly {
            for contradiction in state.contradictions() {
                self.complain(1, contradiction);
            }
        }
    }

    fn compare(&mut self, state: &State) {
        let mut problems = Vec::new();
        let kept = |key: &&DeliveryKey| !self.is_gone(key.application);
        let mut keys: Vec<_> = self.deliveries.keys().filter(kept).collect();
        keys.sort_by_key(|key| (key.message, key.endpoint));
        let mut known = Vec::new();
        let mut of = None;
        for key in keys {
            if of != Some(key.message) {
                known = state.deliveries_of(key.application, key.message);
                of = Some(key.message);
            }
            let Some(entry) = self.deliveries.get(key) else { continue };
            let Some(stored) = known.iter().find(|stored| stored.key == *key) else {
                problems.push(format!("{key:?} is lost"));
                continue;
            };
            let same = match (stored.state, entry.state) {
                (Delivery::Pending(stored), Delivery::Pending(own)) => stored == own,
                (stored, own) => stored == own,
            };
            if !same || stored.recorded != entry.recorded {
                problems.push(format!("{key:?} is {stored:?}, and in the books {entry:?}"));
            }
        }
        for problem in problems {
            self.complain(1, problem);
        }
    }
}
