//! Partitions as bits of a number, and as columns.

use domain::partition::Partition;

/// Partitions as bits of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Partitions(pub(crate) u64);

impl Partitions {
    /// Adds one.
    pub(crate) fn insert(&mut self, partition: Partition) {
        self.0 |= 1 << partition.number();
    }

    /// Lists them, ascending.
    pub(crate) fn list(self) -> impl Iterator<Item = Partition> {
        Partition::all().filter(move |partition| self.0 & (1 << partition.number()) != 0)
    }
}

impl FromIterator<Partition> for Partitions {
    fn from_iter<I: IntoIterator<Item = Partition>>(partitions: I) -> Self {
        let mut all = Self::default();
        partitions.into_iter().for_each(|partition| all.insert(partition));
        all
    }
}

/// A partition as its column.
pub(crate) fn number(partition: Partition) -> i16 {
    partition.number().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_listed_as_they_were_inserted_and_ascending() {
        let numbers = [63_u8, 0, 17];
        let set: Partitions = numbers.iter().filter_map(|n| Partition::from_number(*n)).collect();
        assert_eq!(set.list().map(Partition::number).collect::<Vec<_>>(), [0, 17, 63]);
        assert_eq!(Partitions::default().list().count(), 0);
    }
}
