//! Changes of applications' endpoints that are being read: one read at a time for each application,
//! however fast it changes.
//!
//! Whoever makes thousands of endpoints changes one application thousands of times, and each read is
//! as long as all that there are by then. A read for each change would take the square of their
//! number, and they would pile up; so a change that comes while one is read is read after it,
//! together with all others that came meanwhile.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use store::keys::ApplicationKey;

/// The applications whose changes are being read.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Whether each has changed again since its read began.
    reading: Mutex<BTreeMap<ApplicationKey, bool>>,
}

impl Changes {
    /// Hears of a change; tells whether the caller is to read it. If not, somebody reads already and
    /// will do so once more.
    pub(super) fn begins(&self, application: ApplicationKey) -> bool {
        let mut reading = self.lock();
        match reading.get_mut(&application) {
            Some(again) => {
                *again = true;
                false
            }
            None => {
                reading.insert(application, false);
                true
            }
        }
    }

    /// Hears that a read is done; tells whether there must be another.
    pub(super) fn is_again(&self, application: ApplicationKey) -> bool {
        let mut reading = self.lock();
        let again = reading.get_mut(&application).is_some_and(std::mem::take);
        if !again {
            reading.remove(&application);
        }
        again
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ApplicationKey, bool>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ApplicationKey = ApplicationKey(1);
    const OTHER: ApplicationKey = ApplicationKey(2);

    #[test]
    fn changes_during_a_read_are_read_together_after_it() {
        let changes = Changes::default();
        assert!(changes.begins(ONE));
        for _ in 0..1_000 {
            assert!(!changes.begins(ONE));
        }
        assert!(changes.begins(OTHER), "another application has its own read");
        assert!(changes.is_again(ONE), "they came after the read began");
        assert!(!changes.is_again(ONE));
        assert!(!changes.is_again(OTHER));
        assert!(changes.begins(ONE), "a change after the last read is read");
    }
}
