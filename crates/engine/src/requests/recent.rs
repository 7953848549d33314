//! What is remembered of the deliveries that something happened to last: bounded, and what is
//! forgotten first is what is oldest, whichever key it has.

use std::collections::BTreeMap;

use store::keys::DeliveryKey;

/// Something about deliveries, each at most once, in the order in which it was last said.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    most: usize,
    values: BTreeMap<DeliveryKey, (u64, T)>,
    /// The keys by age. Beside the values, because some are removed before their time.
    ages: BTreeMap<u64, DeliveryKey>,
    next: u64,
}

impl<T> Recent<T> {
    /// Makes a memory for so many deliveries.
    pub(crate) const fn new(most: usize) -> Self {
        Self { most, values: BTreeMap::new(), ages: BTreeMap::new(), next: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn get(&self, key: &DeliveryKey) -> Option<&T> {
        self.values.get(key).map(|(_, value)| value)
    }

    /// Remembers a value as the newest, and forgets the oldest if there are too many.
    pub(crate) fn insert(&mut self, key: DeliveryKey, value: T) {
        self.remove(&key);
        self.next += 1;
        self.ages.insert(self.next, key);
        self.values.insert(key, (self.next, value));
        if self.values.len() > self.most
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.values.remove(&oldest);
        }
    }

    /// Forgets a delivery.
    pub(crate) fn remove(&mut self, key: &DeliveryKey) -> Option<T> {
        let (age, value) = self.values.remove(key)?;
        self.ages.remove(&age);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use store::keys::{ApplicationKey, EndpointKey, MessageKey};

    use super::*;

    fn key(message: i64) -> DeliveryKey {
        let (application, endpoint) = (ApplicationKey(1), EndpointKey(1));
        DeliveryKey { application, endpoint, message: MessageKey(message) }
    }

    #[test]
    fn the_oldest_is_forgotten_and_not_the_one_with_the_lowest_key() {
        let mut recent = Recent::new(3);
        for message in [5, 9, 7, 1, 9, 2] {
            recent.insert(key(message), message);
        }
        let known = |message: &i64| recent.get(&key(*message)).is_some();
        let known: Vec<i64> = (0..10).filter(known).collect();
        assert_eq!(known, [1, 2, 9], "nine was said again");
    }

    #[test]
    fn what_is_removed_makes_room() {
        let mut recent = Recent::new(2);
        recent.insert(key(1), "one");
        recent.insert(key(2), "two");
        assert_eq!(recent.remove(&key(1)), Some("one"));
        recent.insert(key(3), "three");
        assert_eq!((recent.get(&key(2)), recent.ages.len()), (Some(&"two"), 2));
        assert_eq!(recent.remove(&key(1)), None);
        recent.remove(&key(2));
        recent.remove(&key(3));
        assert!(recent.is_empty() && recent.ages.is_empty());
    }
}
