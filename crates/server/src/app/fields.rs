//! What is checked about fields wherever they appear: names, metadata, rates, policies, ranges.
//!
//! [`Checks`] collects what is wrong, so that whoever wrote a request hears all of it at once; of very
//! much, the first [`MOST_FAULTS`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use domain::names::{Channel, Uid};
use domain::time::Timestamp;
use serde_json::Value;

use super::{Error, Fault, RefusalKind};

/// The most faults of one request that are told.
const MOST_FAULTS: usize = 32;
/// The most bytes of a policy, written as JSON. It is kept with each message that has one.
const MOST_POLICY: usize = 16 << 10;
/// The most bytes of metadata, written as JSON.
const MOST_METADATA: usize = 4_096;
/// The most bytes of a name for people.
pub const LONGEST_NAME: usize = 1_024;
/// The most bytes of a description.
pub const LONGEST_DESCRIPTION: usize = 4_096;
/// How much longer than allowed a range may be: clocks differ.
const RANGE_SLACK: Duration = Duration::from_secs(5 * 60);

/// Collects what is wrong with a request.
#[derive(Debug, Default)]
pub struct Checks {
    faults: Vec<Fault>,
}

impl Checks {
    /// Takes a value that could not be read as a fault of its field.
    pub fn value<T, E: Display>(&mut self, field: &str, read: Result<T, E>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(field, || error.to_string());
                None
            }
        }
    }

    /// Complains about a field unless something holds.
    pub fn holds(&mut self, field: &str, holds: bool, text: &str) {
        if !holds {
            self.fault(field, || text.to_owned());
        }
    }

    fn fault(&mut self, field: &str, text: impl FnOnce() -> String) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(Fault::field(field, text()));
        }
    }

    /// Checks a uid.
    pub fn uid(&mut self, field: &str, uid: Option<&String>, prefix: &'static str) {
        if let Some(uid) = uid {
            self.value(field, Uid::parse(uid, prefix));
        }
    }

    /// Checks that a text is not too long.
    pub fn length(&mut self, field: &str, text: &str, most: usize) {
        let size = text.len();
        self.holds(field, size <= most, &format!("has {size} bytes; allowed are {most}"));
    }

    /// Checks metadata.
    pub fn metadata(&mut self, metadata: &BTreeMap<String, String>) {
        let size = serde_json::to_vec(metadata).map_or(usize::MAX, |text| text.len());
        let text = format!("has {size} bytes as JSON; allowed are {MOST_METADATA}");
        self.holds("metadata", size <= MOST_METADATA, &text);
    }

    /// Checks a rate.
    pub fn rate(&mut self, field: &str, rate: Option<u32>, most: u32) {
        let text = format!("must be between 1 and {most}");
        self.holds(field, rate.is_none_or(|rate| (1..=most).contains(&rate)), &text);
    }

    /// Checks a policy: the name of a preset, or a document.
    pub fn policy(&mut self, policy: Option<&Value>) {
        let Some(policy) = policy else { return };
        let size = serde_json::to_vec(policy).map_or(usize::MAX, |text| text.len());
        if size > MOST_POLICY {
            let text = format!("has {size} bytes as JSON; allowed are {MOST_POLICY}");
            self.holds("policy", false, &text);
        } else {
            self.value("policy", engine::roster::read_policy(policy));
        }
    }

    /// Checks channels.
    pub fn channels(&mut self, channels: Option<&[String]>) -> BTreeSet<Channel> {
        let Some(channels) = channels else { return BTreeSet::new() };
        self.holds("channels", (1..=10).contains(&channels.len()), "must have 1 to 10 entries");
        let read = channels.iter().map(|text| Channel::parse(text));
        read.filter_map(|read| self.value("channels", read)).collect()
    }

    /// Ends the checks.
    ///
    /// # Errors
    /// With everything that was wrong.
    pub fn finish(self) -> Result<(), Error> {
        if self.faults.is_empty() { Ok(()) } else { Err(Error::Invalid(self.faults)) }
    }
}

/// Sets what was named, and leaves what was not.
pub(super) fn set<T: Clone>(place: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        place.clone_from(value);
    }
}

/// Checks that a range begins before it ends and is not too long.
///
/// # Errors
/// If it is not so.
pub fn range(since: Timestamp, until: Timestamp, longest: Duration) -> Result<(), Error> {
    let days = longest.as_secs() / 86_400;
    if since > until {
        return Err(Error::refused(RefusalKind::InvalidRange, "`since` is later than `until`"));
    }
    if until.since(since) > longest + RANGE_SLACK {
        let text = format!("the range is longer than {days} days; ask for a part of it");
        return Err(Error::refused(RefusalKind::InvalidRange, text));
    }
    Ok(())
}
