//! Which migrations a store still needs, and which stores this binary refuses.
//!
//! Migrations only move forward. They are numbered from 1, alike for every backend, and a store
//! remembers each with a checksum: a step that was edited after it ran anywhere is an error, not a
//! surprise. A binary starts on its own schema version or the next (so that a fleet can be rolled
//! back by one) and refuses all others by name. This module decides; the backends carry it out.

use sha2::{Digest, Sha256};

use crate::Error;

/// One migration.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Its number, counted from 1.
    pub version: i64,
    /// Its name.
    pub name: &'static str,
    /// Its statements.
    pub sql: &'static str,
}

/// A migration that a store has been through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Its number.
    pub version: i64,
    /// Its name.
    pub name: String,
    /// The checksum of its statements.
    pub checksum: Vec<u8>,
}

impl Step {
    /// Returns the checksum of its statements.
    #[must_use]
    pub fn checksum(&self) -> [u8; 32] {
        Sha256::digest(self.sql.as_bytes()).into()
    }
}

/// Returns the steps that a store still needs, in their order.
///
/// # Errors
/// If the store is two versions or more ahead, or was made by other statements than ours.
pub fn missing<'a>(steps: &'a [Step], applied: &[Applied]) -> Result<&'a [Step], Error> {
    let ours = steps.last().map_or(0, |step| step.version);
    for one in applied {
        match steps.iter().find(|step| step.version == one.version) {
            Some(step) if step.checksum().as_slice() != one.checksum => {
                return Err(Error::CannotOpen(format!(
                    "migration {} of the store (`{}`) is not the one this version of redial has \
                     (`{}`); use the version that made the store",
                    one.version, one.name, step.name
                )));
            }
            Some(_) => {}
            None if one.version == ours + 1 => {}
            None => {
                return Err(Error::CannotOpen(format!(
                    "the store has schema version {} (`{}`), this version of redial knows {ours} \
                     and works with {} at most; use a newer one",
                    one.version,
                    one.name,
                    ours + 1
                )));
            }
        }
    }
    let done = applied.iter().map(|one| one.version).max().unwrap_or(0);
    let next = steps.iter().position(|step| step.version > done).unwrap_or(steps.len());
    Ok(&steps[next..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [Step; 2] = [
        Step { version: 1, name: "first", sql: "CREATE TABLE one" },
        Step { version: 2, name: "second", sql: "CREATE TABLE two" },
    ];

    fn applied(version: i64, name: &str, sql: &'static str) -> Applied {
        let checksum = Step { version, name: "", sql }.checksum().to_vec();
        Applied { version, name: name.to_owned(), checksum }
    }

    fn versions(applied: &[Applied]) -> Vec<i64> {
        missing(&STEPS, applied).unwrap().iter().map(|step| step.version).collect()
    }

    #[test]
    fn a_store_gets_the_steps_it_has_not_been_through() {
        assert_eq!(versions(&[]), [1, 2]);
        let first = applied(1, "first", "CREATE TABLE one");
        assert_eq!(versions(std::slice::from_ref(&first)), [2]);
        assert!(versions(&[first, applied(2, "second", "CREATE TABLE two")]).is_empty());
    }

    #[test]
    fn the_next_version_is_worked_with_and_later_ones_are_refused_by_name() {
        let next = applied(3, "third", "CREATE TABLE three");
        assert!(versions(std::slice::from_ref(&next)).is_empty());
        let text = missing(&STEPS, &[next, applied(4, "fourth", "")]).unwrap_err().to_string();
        assert!(text.contains("version 4 (`fourth`)") && text.contains("knows 2"), "{text}");
    }

    #[test]
    fn a_step_that_was_edited_is_refused() {
        let text = missing(&STEPS, &[applied(1, "first", "other")]).unwrap_err().to_string();
        assert!(text.contains("migration 1 of the store (`first`)"), "{text}");
    }
}
