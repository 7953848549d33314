//! How fast an application's own tokens may change its configuration.
//!
//! Each change of what a fan-out uses has messages fanned out again that are on their way, and each is
//! a transaction of its own. So a token that an application's owner hands to its customers, as a
//! portal does, may make so many changes a second, and a few seconds' worth at once. An operator's
//! tokens are not held back. The pace is kept by each node for itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::ids::ApplicationId;
use domain::time::Timestamp;

/// How many seconds' worth of changes may be made at once.
const AT_ONCE: u32 = 10;
/// The most applications whose pace is remembered; when there are more, it begins anew.
const MOST_APPLICATIONS: usize = 10_000;

/// The pace of applications that changed something lately.
#[derive(Debug)]
pub(super) struct Pace {
    /// How much of the time each change takes up.
    each: Duration,
    /// Up to when the changes of each application take up the time.
    until: Mutex<BTreeMap<ApplicationId, Timestamp>>,
}

impl Pace {
    /// Allows so many changes a second, at least one.
    pub(super) fn new(per_second: u32) -> Self {
        Self { each: Duration::from_secs(1) / per_second.max(1), until: Mutex::default() }
    }

    /// Tells whether an application may make a change now, and counts it if so.
    pub(super) fn allows(&self, application: ApplicationId, now: Timestamp) -> bool {
        let mut all = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_APPLICATIONS && !all.contains_key(&application) {
            all.retain(|_, until| *until > now);
            if all.len() >= MOST_APPLICATIONS {
                all.clear();
            }
        }
        let until = all.entry(application).or_insert(now);
        let next = (*until).max(now).after(self.each);
        let allowed = next.since(now) <= self.each * Self::at_once(self.each);
        if allowed {
            *until = next;
        }
        allowed
    }

    /// Returns how many changes may be made at once.
    fn at_once(each: Duration) -> u32 {
        let second = Duration::from_secs(1).as_nanos();
        let per_second = u32::try_from(second / each.as_nanos().max(1)).unwrap_or(u32::MAX);
        per_second.saturating_mul(AT_ONCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_may_come_at_once_and_then_at_their_pace() {
        let (pace, now) = (Pace::new(5), Timestamp::from_seconds(1_000));
        let one = ApplicationId::from_bytes([1; 20]);
        let burst = (0..200).filter(|_| pace.allows(one, now)).count();
        assert_eq!(burst, 50);
        assert!(pace.allows(ApplicationId::from_bytes([2; 20]), now), "another has its own");
        assert!(!pace.allows(one, now.after(Duration::from_millis(199))));
        assert!(pace.allows(one, now.after(Duration::from_millis(200))));
        assert!(!pace.allows(one, now.after(Duration::from_millis(200))));
        let later = now.after(Duration::from_secs(3_600));
        assert_eq!((0..200).filter(|_| pace.allows(one, later)).count(), 50, "no more is saved up");
    }

    #[test]
    fn the_memory_of_it_is_bounded() {
        let (pace, now) = (Pace::new(1), Timestamp::from_seconds(1_000));
        for number in 0..=MOST_APPLICATIONS {
            let mut bytes = [0; 20];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            assert!(pace.allows(ApplicationId::from_bytes(bytes), now));
        }
        assert_eq!(pace.until.lock().unwrap().len(), 1);
    }
}
