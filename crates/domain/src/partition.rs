//! The fixed share of endpoints that one node owns at a time.

use crate::ids::EndpointId;

/// How many partitions there are. Changing it would move every endpoint to another owner.
pub const PARTITIONS: u8 = 64;

/// One of the [`PARTITIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(u8);

impl Partition {
    /// Returns the partition of an endpoint: FNV-1a with 64 bits over the id's bytes, folded by
    /// exclusive or into 32 bits, modulo 64. Stored rows rely on it, so it never changes.
    #[must_use]
    pub fn of(endpoint: &EndpointId) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in endpoint.as_bytes() {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let folded = (hash >> 32) ^ (hash & 0xffff_ffff);
        Self(u8::try_from(folded % u64::from(PARTITIONS)).unwrap_or(0))
    }

    /// Takes a number as it is stored.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        if number < PARTITIONS { Some(Self(number)) } else { None }
    }

    /// Returns the number as it is stored.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Lists all partitions.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..PARTITIONS).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn the_hash_is_the_named_one_for_ever() {
        let known = [([0_u8; 20], 8), ([1; 20], 11), ([255; 20], 49)];
        let numbers =
            known.map(|(bytes, _)| Partition::of(&EndpointId::from_bytes(bytes)).number());
        assert_eq!(numbers, known.map(|(_, number)| number));
    }

    #[test]
    fn endpoints_spread_over_all_partitions() {
        let mut counts = [0_u32; PARTITIONS as usize];
        for n in 0..64_000_u32 {
            let mut random = [0; 16];
            random[4..8].copy_from_slice(&n.to_be_bytes());
            let made = Timestamp::from_seconds(1_700_000_000 + i64::from(n));
            let partition = Partition::of(&EndpointId::new(made, random));
            counts[usize::from(partition.number())] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }

    #[test]
    fn numbers_outside_are_refused() {
        assert_eq!(Partition::from_number(64), None);
        assert_eq!(Partition::from_number(63).map(Partition::number), Some(63));
        assert_eq!(Partition::all().count(), 64);
    }
}
