//! Rows that do not read as what they should be.
//!
//! One such row fails the call that asks for it alone. A list, a load and upkeep pass it over, so
//! that the rest of the store goes on, and note it here for whoever looks after the store.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::Error;

/// The most rows that are noted; older notes give way.
pub const MOST_NOTED: usize = 64;

/// A row that was passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Which row.
    pub what: String,
    /// What is wrong with it.
    pub text: String,
}

/// The notes of one store.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    noted: Mutex<VecDeque<Damage>>,
}

impl Notes {
    /// Passes over a value that is damaged, and notes it; other errors are errors still.
    pub(crate) fn readable<T>(&self, read: Result<T, Error>) -> Result<Option<T>, Error> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(Error::Damaged { what, text }) => {
                self.note(Damage { what, text });
                Ok(None)
            }
            Err(
                error @ (Error::Unavailable { .. }
                | Error::Taken { .. }
                | Error::Missing(_)
                | Error::Refused(_)
                | Error::Declined(_)
                | Error::CannotOpen(_)),
            ) => Err(error),
        }
    }

    /// Returns the notes, oldest first.
    pub(crate) fn list(&self) -> Vec<Damage> {
        self.lock().iter().cloned().collect()
    }

    /// Notes something that was passed over.
    pub(crate) fn note(&self, damage: Damage) {
        let mut noted = self.lock();
        if noted.contains(&damage) {
            return;
        }
        if noted.len() == MOST_NOTED {
            noted.pop_front();
        }
        noted.push_back(damage);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Damage>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damaged(number: usize) -> Result<(), Error> {
        Err(Error::Damaged { what: format!("row {number}"), text: "odd".to_owned() })
    }

    #[test]
    fn a_damaged_row_is_passed_over_and_noted_once() {
        let notes = Notes::default();
        assert_eq!(notes.readable(Ok(7)).unwrap(), Some(7));
        for _ in 0..3 {
            assert_eq!(notes.readable(damaged(1)).unwrap(), None);
        }
        assert_eq!(notes.list().len(), 1);
        assert!(notes.readable::<()>(Err(Error::Missing("row"))).is_err());
    }

    #[test]
    fn notes_are_limited() {
        let notes = Notes::default();
        for number in 0..MOST_NOTED + 5 {
            notes.readable(damaged(number)).unwrap();
        }
        assert_eq!(notes.list().len(), MOST_NOTED);
        assert_eq!(notes.list()[0].what, "row 5");
    }
}
