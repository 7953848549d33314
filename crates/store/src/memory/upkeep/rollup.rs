//! Adding to the sums of a minute, and of an hour.

use std::collections::BTreeSet;

use domain::delivery::Cause;
use domain::time::Timestamp;

use crate::keys::{ApplicationKey, EndpointKey};
use crate::limits;
use crate::memory::State;
use crate::queue::{Minute, Rollup, Subject};

impl State {
    /// Adds to the sums of those who are there.
    pub(super) fn add_all(&mut self, rollups: &[Rollup]) {
        let of_application = |rollup: &Rollup| match rollup.subject {
            Subject::Application(key) => self.applications.get(&key).map(|row| (key, row.deleted)),
            Subject::Whole | Subject::Endpoint(_) => None,
        };
        let living = rollups.iter().filter_map(of_application).filter(|(_, deleted)| !deleted);
        let living: BTreeSet<ApplicationKey> = living.map(|(key, _)| key).collect();
        for rollup in rollups {
            let is_there = match rollup.subject {
                Subject::Whole => true,
                Subject::Application(key) => living.contains(&key),
                Subject::Endpoint(key) => {
                    let row = self.endpoints.get(&key);
                    row.is_some_and(|row| living.contains(&row.endpoint.application))
                }
            };
            if is_there {
                self.add(rollup);
            }
        }
    }

    /// Counts deliveries of an endpoint that are buried without an attempt.
    pub(super) fn count_buried(
        &mut self,
        (application, endpoint): (ApplicationKey, EndpointKey),
        (cause, buried): (Cause, usize),
        at: Timestamp,
    ) {
        let living = self.applications.get(&application).is_some_and(|row| !row.deleted);
        if buried == 0 || !living {
            return;
        }
        for subject in
            [Subject::Endpoint(endpoint), Subject::Application(application), Subject::Whole]
        {
            let mut sum = Rollup::empty(subject, Minute::of(at));
            sum.bury(cause, u32::try_from(buried).unwrap_or(u32::MAX));
            self.add(&sum);
        }
    }

    /// Adds the sums of old minutes to those of their hours: at most so many. Returns how many minutes
    /// that were.
    pub(super) fn fold(&mut self, now: Timestamp, most: u32) -> u32 {
        let until = Minute::of(now.before(limits::MINUTES)).hour();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let old = self.rollups.keys().filter(|(_, minute)| *minute < until).take(most);
        let old: Vec<_> = old.copied().collect();
        for place in &old {
            let Some(minute) = self.rollups.remove(place) else { continue };
            let (subject, hour) = (place.0, place.1.hour());
            let sums = self.hours.entry((subject, hour));
            sums.or_insert_with(|| Rollup::empty(subject, hour)).add(&minute);
        }
        u32::try_from(old.len()).unwrap_or(u32::MAX)
    }

    fn add(&mut self, rollup: &Rollup) {
        let Rollup { subject, minute, .. } = *rollup;
        let sums = self.rollups.entry((subject, minute));
        sums.or_insert_with(|| Rollup::empty(subject, minute)).add(rollup);
    }
}
