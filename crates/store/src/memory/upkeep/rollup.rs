//! Adding to the sums of a minute.

use std::collections::BTreeSet;

use crate::keys::ApplicationKey;
use crate::memory::State;
use crate::queue::{Rollup, Subject};

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

    fn add(&mut self, rollup: &Rollup) {
        let Rollup { subject, minute, .. } = *rollup;
        let sums = self.rollups.entry((subject, minute));
        sums.or_insert_with(|| Rollup::empty(subject, minute)).add(rollup);
    }
}
