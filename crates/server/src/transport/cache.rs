//! Prepared requests by endpoint, as many as a limit allows.
//!
//! Two generations: what is used moves to the young one; when that is full, it becomes the old one,
//! and what was old and unused is forgotten. That is nearly "least recently used", for the price of
//! a look-up.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use store::keys::EndpointKey;

/// Remembers something about endpoints.
pub(super) struct Cache<Item> {
    /// The most that one generation holds.
    most: usize,
    generations: Mutex<Generations<Item>>,
}

struct Generations<Item> {
    young: BTreeMap<EndpointKey, Arc<Item>>,
    old: BTreeMap<EndpointKey, Arc<Item>>,
}

impl<Item> Cache<Item> {
    /// Makes an empty one that holds about so many.
    pub(super) fn new(most: usize) -> Self {
        let generations = Generations { young: BTreeMap::new(), old: BTreeMap::new() };
        Self { most: (most / 2).max(1), generations: Mutex::new(generations) }
    }

    /// Finds what is remembered about an endpoint.
    pub(super) fn find(&self, key: EndpointKey) -> Option<Arc<Item>> {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = generations.young.get(&key) {
            return Some(Arc::clone(found));
        }
        let found = generations.old.remove(&key)?;
        generations.put(key, Arc::clone(&found), self.most);
        Some(found)
    }

    /// Remembers something about an endpoint, in place of what was.
    pub(super) fn put(&self, key: EndpointKey, item: Arc<Item>) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.old.remove(&key);
        generations.put(key, item, self.most);
    }
}

impl<Item> Generations<Item> {
    fn put(&mut self, key: EndpointKey, item: Arc<Item>, most: usize) {
        if self.young.len() >= most && !self.young.contains_key(&key) {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: i64) -> EndpointKey {
        EndpointKey(number)
    }

    #[test]
    fn what_is_used_stays_and_the_rest_is_forgotten() {
        let cache = Cache::new(8);
        for number in 0..100 {
            cache.put(key(number), Arc::new(number));
            assert_eq!(cache.find(key(0)).as_deref(), Some(&0), "after {number}");
        }
        let left = (0..100).filter(|number| cache.find(key(*number)).is_some()).count();
        assert!(left <= 8, "{left} are left");
    }

    #[test]
    fn what_is_put_again_replaces_what_was() {
        let cache = Cache::new(2);
        cache.put(key(1), Arc::new("first"));
        cache.put(key(2), Arc::new("other"));
        cache.put(key(1), Arc::new("second"));
        assert_eq!(cache.find(key(1)).as_deref(), Some(&"second"));
    }
}
