//! What the items of one batch decide about each other, in memory.
//!
//! A round holds only items that share no key, so that one statement can answer them all; the others
//! wait for the answer of the one before them.

use std::collections::{BTreeMap, BTreeSet};

use domain::ids::MessageId;
use domain::time::Timestamp;

use crate::keys::ApplicationKey;
use crate::limits;
use crate::postgres::queue::accept::look::Used;
use crate::queue::{Accept, Accepted};

/// A batch on its way to its answers.
pub(crate) struct Rounds<'a> {
    accepts: &'a [Accept],
    answers: Vec<Option<Accepted>>,
    /// Which message an idempotency key stands for by now, and since when.
    keys: BTreeMap<(ApplicationKey, [u8; 32]), (MessageId, Timestamp)>,
    /// The uids that applications bear, as far as they were read. They do not change meanwhile.
    uids: BTreeMap<ApplicationKey, Option<String>>,
    /// Which message has an event id by now.
    event_ids: BTreeMap<(ApplicationKey, &'a str), MessageId>,
}

impl<'a> Rounds<'a> {
    pub(crate) fn new(accepts: &'a [Accept]) -> Self {
        let answers = vec![None; accepts.len()];
        let (keys, uids, event_ids) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { accepts, answers, keys, uids, event_ids }
    }

    /// Returns the items to be answered next; none if all are.
    pub(crate) fn next(&mut self) -> Vec<usize> {
        let (mut ids, mut keys, mut event_ids) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut round = Vec::new();
        for (position, accept) in self.accepts.iter().enumerate() {
            if self.answers[position].is_some() {
                continue;
            }
            if let Some(answer) = self.known(accept) {
                self.answers[position] = Some(answer);
                continue;
            }
            let application = accept.application;
            let id_is_new = ids.insert((application, accept.message.id));
            let key_is_new = accept.idempotency.is_none_or(|key| keys.insert((application, key)));
            let event_id_is_new = accept.message.event_id.as_deref().is_none_or(|event_id| {
                event_ids.insert((application, event_id))
                    // Who has it is settled: all that ask for it can be answered together.
                    || self.event_ids.contains_key(&(application, event_id))
            });
            if id_is_new && key_is_new && event_id_is_new {
                round.push(position);
            }
        }
        round
    }

    /// Takes the uid that an item's application bears.
    pub(crate) fn bears(&mut self, position: usize, uid: Option<&str>) {
        let application = self.accepts[position].application;
        self.uids.entry(application).or_insert_with(|| uid.map(str::to_owned));
    }

    /// Takes the answer to an item.
    pub(crate) fn answer(&mut self, position: usize, answer: Accepted) {
        let accept = &self.accepts[position];
        let application = accept.application;
        match &answer {
            Accepted::New { .. } => {
                let (id, at) = (accept.message.id, accept.message.received_at);
                if let Some(key) = accept.idempotency {
                    self.keys.insert((application, key), (id, at));
                }
                if let Some(event_id) = &accept.message.event_id {
                    self.event_ids.insert((application, event_id), id);
                }
            }
            Accepted::EventIdTaken(first) => {
                if let Some(event_id) = &accept.message.event_id {
                    self.event_ids.insert((application, event_id), *first);
                }
            }
            // When a key was first used is told with `repeated`.
            Accepted::Repeated(_)
            | Accepted::Stale(_)
            | Accepted::ApplicationMissing
            | Accepted::NameMoved
            | Accepted::Refused(_) => {}
        }
        self.answers[position] = Some(answer);
    }

    /// Answers an item whose key was used before the batch. Those that follow with the same key are
    /// answered by this one.
    pub(crate) fn repeated(&mut self, position: usize, first: Used) {
        let accept = &self.accepts[position];
        if let Some(key) = accept.idempotency {
            self.keys.insert((accept.application, key), (first.message, first.at));
        }
        self.answer(position, Accepted::Repeated(first.message));
    }

    /// Returns the answers, in the order of the items.
    pub(crate) fn finish(self) -> Vec<Accepted> {
        let missing = || Accepted::Refused("it was not answered".to_owned());
        self.answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }

    /// Answers an item by what another of the batch was answered.
    fn known(&self, accept: &Accept) -> Option<Accepted> {
        let own = accept.message.id;
        if self.is_elsewhere(accept) {
            return None;
        }
        if let Some(key) = accept.idempotency {
            let (first, at) = self.keys.get(&(accept.application, key))?;
            let young = accept.message.received_at.since(*at) < limits::IDEMPOTENCY;
            return (young && *first != own).then_some(Accepted::Repeated(*first));
        }
        let event_id = accept.message.event_id.as_deref()?;
        let first = self.event_ids.get(&(accept.application, event_id))?;
        (*first != own).then_some(Accepted::EventIdTaken(*first))
    }

    /// Tells whether an item's application bears another uid than it was named by: what others of the
    /// application were answered does not concern it.
    fn is_elsewhere(&self, accept: &Accept) -> bool {
        let borne = self.uids.get(&accept.application);
        let moved = |named| borne.is_some_and(|uid| uid.as_deref() != Some(named));
        accept.named.as_deref().is_some_and(moved)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::keys::MessageKey;
    use crate::queue::NewMessage;

    fn accept(id: u8, key: Option<u8>, event_id: Option<&str>) -> Accept {
        let message = NewMessage {
            id: MessageId::from_bytes([id; 20]),
            event_type: "user.created".to_owned(),
            event_id: event_id.map(str::to_owned),
            channels: Vec::new(),
            payload: Bytes::new(),
            content_type: None,
            policy: None,
            deliver_at: None,
            only: None,
            received_at: Timestamp::EPOCH,
            retained_until: Timestamp::EPOCH,
        };
        let idempotency = key.map(|key| [key; 32]);
        let application = ApplicationKey(1);
        Accept {
            application,
            named: None,
            revision: 1,
            message,
            idempotency,
            deliveries: Vec::new(),
        }
    }

    fn new() -> Accepted {
        Accepted::New { message: MessageKey(1), turns: Vec::new() }
    }

    fn id(byte: u8) -> MessageId {
        MessageId::from_bytes([byte; 20])
    }

    #[test]
    fn items_without_common_keys_are_answered_in_one_round() {
        let batch =
            [accept(1, Some(1), Some("a")), accept(2, None, Some("b")), accept(3, None, None)];
        assert_eq!(Rounds::new(&batch).next(), [0, 1, 2]);
    }

    #[test]
    fn a_repeated_key_waits_for_the_first_and_is_answered_by_it() {
        let batch = [accept(1, Some(7), None), accept(2, Some(7), None), accept(3, Some(8), None)];
        let mut rounds = Rounds::new(&batch);
        assert_eq!(rounds.next(), [0, 2]);
        rounds.answer(0, new());
        rounds.answer(2, new());
        assert!(rounds.next().is_empty());
        assert_eq!(rounds.finish()[1], Accepted::Repeated(id(1)));
    }

    #[test]
    fn a_key_whose_first_item_was_not_written_is_free_for_the_next() {
        let batch = [accept(1, Some(7), None), accept(2, Some(7), None)];
        let mut rounds = Rounds::new(&batch);
        assert_eq!(rounds.next(), [0]);
        rounds.answer(0, Accepted::Stale(2));
        assert_eq!(rounds.next(), [1]);
    }

    #[test]
    fn all_that_ask_for_a_taken_event_id_are_answered_together() {
        let batch = [
            accept(1, None, Some("a")),
            accept(2, None, Some("a")),
            accept(3, Some(3), Some("a")),
            accept(4, Some(4), Some("a")),
        ];
        let mut rounds = Rounds::new(&batch);
        assert_eq!(rounds.next(), [0]);
        rounds.answer(0, new());
        // Those with keys of their own may be repetitions of something older.
        assert_eq!(rounds.next(), [2, 3]);
        rounds.answer(2, Accepted::Repeated(id(9)));
        rounds.answer(3, Accepted::EventIdTaken(id(1)));
        assert!(rounds.next().is_empty());
        assert_eq!(rounds.finish()[1], Accepted::EventIdTaken(id(1)));
    }

    #[test]
    fn a_key_that_was_used_before_the_batch_is_looked_for_once() {
        let batch = [1, 2, 3].map(|own| accept(own, Some(7), None));
        let mut rounds = Rounds::new(&batch);
        assert_eq!(rounds.next(), [0]);
        rounds.repeated(0, Used { message: id(9), at: Timestamp::EPOCH });
        assert!(rounds.next().is_empty());
        assert_eq!(rounds.finish(), [1, 2, 3].map(|_| Accepted::Repeated(id(9))));
    }

    #[test]
    fn the_same_message_twice_looks_for_itself() {
        let batch = [accept(1, Some(7), Some("a")), accept(1, Some(7), Some("a"))];
        let mut rounds = Rounds::new(&batch);
        assert_eq!(rounds.next(), [0]);
        rounds.answer(0, new());
        assert_eq!(rounds.next(), [1]);
    }
}
