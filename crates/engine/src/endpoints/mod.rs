//! All endpoints that memory knows, found quickly and always walked in the same order.
//!
//! A step asks for the same endpoint many times in a row, so the last one that was found is
//! remembered. The map in front holds small entries only and stays in the cache of the processor.

pub(crate) mod endpoint;
pub(crate) mod horizon;
pub(crate) mod looking;
mod numbering;
pub(crate) mod sharing;
pub(crate) mod timers;
pub(crate) mod window;

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use crate::endpoints::endpoint::{At, Endpoint};

/// Endpoints by application and key.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    places: BTreeMap<At, u32>,
    records: Vec<Option<Box<Endpoint>>>,
    free: Vec<u32>,
    last: Option<(At, u32)>,
}

impl Endpoints {
    /// Finds an endpoint.
    pub(crate) fn get(&self, at: &At) -> Option<&Endpoint> {
        let place = self.place(at)?;
        self.records.get(index(place))?.as_deref()
    }

    /// Finds an endpoint, to change it.
    pub(crate) fn get_mut(&mut self, at: &At) -> Option<&mut Endpoint> {
        let place = self.place(at)?;
        self.last = Some((*at, place));
        self.records.get_mut(index(place))?.as_deref_mut()
    }

    /// Tells whether an endpoint is known.
    pub(crate) fn contains(&self, at: &At) -> bool {
        self.place(at).is_some()
    }

    /// Adds an endpoint, in place of what was known of it.
    pub(crate) fn insert(&mut self, at: At, endpoint: Endpoint) {
        self.remove(&at);
        let record = Some(Box::new(endpoint));
        let place = match self.free.pop() {
            Some(place) => {
                if let Some(free) = self.records.get_mut(index(place)) {
                    *free = record;
                }
                place
            }
            None => {
                self.records.push(record);
                u32::try_from(self.records.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.places.insert(at, place);
    }

    /// Removes an endpoint.
    pub(crate) fn remove(&mut self, at: &At) -> Option<Box<Endpoint>> {
        let place = self.places.remove(at)?;
        self.last = None;
        self.free.push(place);
        self.records.get_mut(index(place))?.take()
    }

    /// Lists those in a range, in order.
    pub(crate) fn range(&self, range: impl RangeBounds<At>) -> impl Iterator<Item = At> {
        self.places.range(range).map(|(at, _)| *at)
    }

    /// Lists all, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = At> {
        self.places.keys().copied()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn place(&self, at: &At) -> Option<u32> {
        match self.last {
            Some((last, place)) if last == *at => Some(place),
            Some(_) | None => self.places.get(at).copied(),
        }
    }
}

fn index(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::partition::Partition;
    use domain::time::Timestamp;
    use store::keys::{ApplicationKey, EndpointKey};

    use super::*;
    use crate::Moment;
    use crate::endpoints::window::Window;

    fn endpoint(partition: u8) -> Endpoint {
        let now = Moment { elapsed: Duration::ZERO, rows: Timestamp::EPOCH };
        let partition = Partition::from_number(partition).unwrap();
        Endpoint::new(partition, Window::new(None, Duration::ZERO), now)
    }

    #[test]
    fn the_last_one_found_is_not_taken_for_another() {
        let mut endpoints = Endpoints::default();
        let at = |key| (ApplicationKey(1), EndpointKey(key));
        for key in 0..3_u8 {
            endpoints.insert(at(key.into()), endpoint(key));
        }
        let number = |endpoints: &mut Endpoints, key| {
            endpoints.get_mut(&at(key)).map(|one| one.partition.number())
        };
        assert_eq!(number(&mut endpoints, 1), Some(1));
        assert!(endpoints.remove(&at(1)).is_some());
        assert_eq!(number(&mut endpoints, 1), None);
        endpoints.insert(at(7), endpoint(7));
        assert_eq!(number(&mut endpoints, 7), Some(7));
        assert_eq!(number(&mut endpoints, 2), Some(2));
        assert_eq!(endpoints.records.len(), 3, "the free place was used");
        assert_eq!(endpoints.keys().collect::<Vec<_>>(), [at(0), at(2), at(7)]);
    }
}
