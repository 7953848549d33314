//! Numbers by whose they are, and who has most of them.

use std::collections::{BTreeMap, BTreeSet};

/// Numbers by their owner. Owners are known by how many they have, so that finding the largest takes no walk
/// over all of them.
#[derive(Debug)]
pub(super) struct Ranked<Owner> {
    numbers: BTreeMap<Owner, BTreeSet<u64>>,
    counts: BTreeSet<(usize, Owner)>,
    all: usize,
}

impl<Owner> Default for Ranked<Owner> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new(), counts: BTreeSet::new(), all: 0 }
    }
}

impl<Owner: Ord + Copy> Ranked<Owner> {
    pub(super) fn insert(&mut self, owner: Owner, number: u64) {
        let own = self.numbers.entry(owner).or_default();
        self.counts.remove(&(own.len(), owner));
        self.all += usize::from(own.insert(number));
        self.counts.insert((own.len(), owner));
    }

    pub(super) fn remove(&mut self, owner: Owner, number: u64) {
        let Some(own) = self.numbers.get_mut(&owner) else { return };
        self.counts.remove(&(own.len(), owner));
        self.all -= usize::from(own.remove(&number));
        if own.is_empty() {
            self.numbers.remove(&owner);
        } else {
            self.counts.insert((own.len(), owner));
        }
    }

    /// Returns how many numbers there are in all.
    pub(super) const fn len(&self) -> usize {
        self.all
    }

    /// Returns who has numbers, those with most of them first.
    pub(super) fn largest_first(&self) -> impl Iterator<Item = &Owner> {
        self.counts.iter().rev().map(|(_, owner)| owner)
    }

    /// Returns an owner's numbers, the lowest first.
    pub(super) fn of(&self, owner: &Owner) -> impl Iterator<Item = &u64> + use<'_, Owner> {
        self.numbers.get(owner).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_most_comes_first() {
        let mut ranked = Ranked::default();
        for (owner, number) in [('a', 5), ('b', 1), ('b', 3), ('c', 2), ('a', 4), ('a', 4)] {
            ranked.insert(owner, number);
        }
        assert_eq!(ranked.len(), 5);
        ranked.remove('b', 9);
        ranked.remove('d', 9);
        ranked.remove('b', 1);
        let order: Vec<_> = ranked.largest_first().copied().collect();
        assert_eq!(order, ['a', 'c', 'b']);
        assert_eq!(ranked.of(&'a').copied().collect::<Vec<_>>(), [4, 5]);
        for (owner, number) in [('a', 5), ('b', 3), ('c', 2), ('a', 4)] {
            ranked.remove(owner, number);
        }
        assert!(ranked.len() == 0 && ranked.largest_first().next().is_none());
        assert!(ranked.numbers.is_empty());
    }
}
