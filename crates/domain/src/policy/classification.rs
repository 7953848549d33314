//! What each answer and each failure means: success, retry, ambiguous, permanent.
//!
//! A policy lists statuses and failures under a class; a single code weighs more than a range, a
//! range more than a whole hundred, and what nobody listed is `otherwise`. The lists are kept for
//! people; beside them stands a table with one entry per status, so that judging is one look-up.

use std::fmt;

use super::status::{HIGHEST, LOWEST};
use super::{Pattern, Problem};
use crate::outcome::{NetworkFailure, Outcome};

/// What an outcome means for the delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Delivered.
    Success,
    /// Try again.
    Retry,
    /// Perhaps "never": try again, but not as often.
    Ambiguous,
    /// "Never".
    Permanent,
    /// "Never, and never anything else either": the endpoint is disabled.
    Disable,
}

impl Class {
    /// All classes, in the order in which they are listed to people.
    pub const ALL: [Self; 5] =
        [Self::Success, Self::Retry, Self::Ambiguous, Self::Permanent, Self::Disable];

    /// Returns the word a policy uses for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Retry => "retry",
            Self::Ambiguous => "ambiguous",
            Self::Permanent => "permanent",
            Self::Disable => "disable",
        }
    }
}

/// One entry of a class's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listed {
    /// Some statuses.
    Status(Pattern),
    /// One kind of failure without an answer.
    Failure(NetworkFailure),
    /// All of them: `network`.
    Network,
}

impl Listed {
    /// Reads an entry, or returns none if it is neither a status nor a failure.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "network" {
            return Some(Self::Network);
        }
        let failure = NetworkFailure::ALL.into_iter().find(|failure| failure.word() == text);
        failure.map(Self::Failure).or_else(|| Pattern::parse(text).map(Self::Status))
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(pattern) => pattern.fmt(f),
            Self::Failure(failure) => f.write_str(failure.word()),
            Self::Network => f.write_str("network"),
        }
    }
}

const STATUSES: usize = (HIGHEST - LOWEST + 1) as usize;
const FAILURES: usize = NetworkFailure::ALL.len();

/// The lists of a policy, and the table made from them.
#[derive(Clone, PartialEq)]
pub struct Classification {
    lists: Vec<(Class, Vec<Listed>)>,
    otherwise: Class,
    ambiguous_limit: u32,
    table: Box<[Class]>,
    failures: [Class; FAILURES],
}

impl Classification {
    /// Makes the table from the lists.
    ///
    /// # Errors
    /// If nothing is a success, an entry stands in two lists, or a failure counts as a success.
    pub fn new(
        lists: Vec<(Class, Vec<Listed>)>,
        otherwise: Class,
        ambiguous_limit: u32,
    ) -> Result<Self, Problem> {
        if ambiguous_limit == 0 {
            let text = "is 0; it counts answers up to the one that buries, so use 1 or more";
            return Err(Problem::new("ambiguous_limit", text));
        }
        check_otherwise(otherwise)?;
        let entries = in_order_of_weight(&lists);
        let mut table = Table { statuses: [None; STATUSES], failures: [None; FAILURES] };
        for entry in &entries {
            table.enter(*entry)?;
        }
        let statuses: Box<[Class]> =
            table.statuses.iter().map(|set| set.map_or(otherwise, |set| set.class)).collect();
        if !statuses.contains(&Class::Success) {
            return Err(Problem::new("success", "is empty; list at least one status, such as 2xx"));
        }
        let failures = table.failures.map(|set| set.map_or(otherwise, |set| set.class));
        Ok(Self { lists, otherwise, ambiguous_limit, table: statuses, failures })
    }

    /// Returns what an outcome means. Only a status outside of HTTP has no entry of its own.
    #[must_use]
    pub fn class_of(&self, outcome: Outcome) -> Class {
        match (outcome, NetworkFailure::of(outcome)) {
            (_, Some(failure)) => self.failures[position(failure)],
            (Outcome::Answered { status, .. }, None) => self.status(status),
            (Outcome::Blocked, None) => Class::Permanent,
            (_, None) => Class::Retry,
        }
    }

    /// Returns the entry by which an outcome has its class, and that class; none if no list names it.
    #[must_use]
    pub fn entry_of(&self, outcome: Outcome) -> Option<(Class, Listed)> {
        let names = |listed: Listed| match (listed, outcome) {
            (Listed::Status(pattern), Outcome::Answered { status, .. }) => pattern.covers(status),
            (Listed::Failure(failure), _) => NetworkFailure::of(outcome) == Some(failure),
            (Listed::Network, _) => NetworkFailure::of(outcome).is_some(),
            (Listed::Status(_), _) => false,
        };
        let entries = in_order_of_weight(&self.lists).into_iter();
        let found = entries.rev().find(|entry| names(entry.listed));
        found.map(|entry| (entry.class, entry.listed))
    }

    /// Returns how many ambiguous answers bury a delivery.
    #[must_use]
    pub const fn ambiguous_limit(&self) -> u32 {
        self.ambiguous_limit
    }

    /// Returns the class of whatever no list names.
    #[must_use]
    pub const fn otherwise(&self) -> Class {
        self.otherwise
    }

    /// Returns the lists as they were written.
    #[must_use]
    pub fn lists(&self) -> &[(Class, Vec<Listed>)] {
        &self.lists
    }

    fn status(&self, status: u16) -> Class {
        let index = status.checked_sub(LOWEST).map(usize::from);
        index.and_then(|index| self.table.get(index)).copied().unwrap_or(self.otherwise)
    }
}

impl fmt::Debug for Classification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The table follows from the lists and would fill pages.
        f.debug_struct("Classification")
            .field("lists", &self.lists)
            .field("otherwise", &self.otherwise)
            .field("ambiguous_limit", &self.ambiguous_limit)
            .finish_non_exhaustive()
    }
}

fn check_otherwise(otherwise: Class) -> Result<(), Problem> {
    match otherwise {
        Class::Retry | Class::Ambiguous | Class::Permanent => Ok(()),
        Class::Success | Class::Disable => {
            let text = format!(
                "is `{}`; what nobody listed can be retry, ambiguous or permanent",
                otherwise.word()
            );
            Err(Problem::new("otherwise", text))
        }
    }
}

fn position(failure: NetworkFailure) -> usize {
    NetworkFailure::ALL.iter().position(|each| *each == failure).unwrap_or(0)
}

#[derive(Clone, Copy)]
struct Entry {
    class: Class,
    listed: Listed,
}

impl Entry {
    /// The heavier entry wins; two of equal weight for one status contradict each other.
    const fn weight(self) -> u8 {
        match self.listed {
            Listed::Network | Listed::Status(Pattern::Hundred(_)) => 0,
            Listed::Status(Pattern::Range(..)) => 1,
            Listed::Failure(_) | Listed::Status(Pattern::Code(_)) => 2,
        }
    }
}

fn in_order_of_weight(lists: &[(Class, Vec<Listed>)]) -> Vec<Entry> {
    let entries = lists.iter().flat_map(|(class, list)| {
        list.iter().map(|listed| Entry { class: *class, listed: *listed })
    });
    let mut entries: Vec<Entry> = entries.collect();
    entries.sort_by_key(|entry| entry.weight());
    entries
}

struct Table {
    statuses: [Option<Entry>; STATUSES],
    failures: [Option<Entry>; FAILURES],
}

impl Table {
    fn enter(&mut self, entry: Entry) -> Result<(), Problem> {
        let slots = match entry.listed {
            Listed::Status(pattern) => {
                let (low, high) = pattern.bounds();
                &mut self.statuses[usize::from(low - LOWEST)..=usize::from(high - LOWEST)]
            }
            Listed::Failure(failure) => {
                check_failure(entry)?;
                let position = position(failure);
                &mut self.failures[position..=position]
            }
            Listed::Network => {
                check_failure(entry)?;
                &mut self.failures[..]
            }
        };
        for slot in slots {
            if let Some(other) = slot.filter(|other| other.weight() == entry.weight()) {
                return Err(contradiction(entry, other));
            }
            *slot = Some(entry);
        }
        Ok(())
    }
}

fn check_failure(entry: Entry) -> Result<(), Problem> {
    match entry.class {
        Class::Retry | Class::Ambiguous | Class::Permanent => Ok(()),
        Class::Success | Class::Disable => {
            let text = format!(
                "lists `{}`; a failure without an answer can be retry, ambiguous or permanent",
                entry.listed
            );
            Err(Problem::new(entry.class.word(), text))
        }
    }
}

fn contradiction(entry: Entry, other: Entry) -> Problem {
    let text = format!(
        "lists `{}`, which `{}` lists as `{}`; keep one of them",
        entry.listed,
        other.class.word(),
        other.listed
    );
    Problem::new(entry.class.word(), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Unreachable;

    fn list(class: Class, entries: &[&str]) -> (Class, Vec<Listed>) {
        (class, entries.iter().map(|text| Listed::parse(text).unwrap()).collect())
    }

    fn classification(lists: Vec<(Class, Vec<Listed>)>) -> Result<Classification, Problem> {
        Classification::new(lists, Class::Ambiguous, 5)
    }

    #[test]
    fn a_code_outweighs_a_range_and_a_range_a_hundred() {
        let table = classification(vec![
            list(Class::Permanent, &["413"]),
            list(Class::Retry, &["411-417", "network"]),
            list(Class::Success, &["2xx"]),
            list(Class::Disable, &["4xx"]),
        ])
        .unwrap();
        let class = |status| table.class_of(Outcome::answered(status));
        assert_eq!(class(413), Class::Permanent);
        assert_eq!(class(412), Class::Retry);
        assert_eq!(class(404), Class::Disable);
        assert_eq!(class(599), Class::Ambiguous);
        assert_eq!(class(0), Class::Ambiguous);
        assert_eq!(class(1000), Class::Ambiguous);
    }

    #[test]
    fn one_failure_outweighs_the_whole_network() {
        let table = classification(vec![
            list(Class::Success, &["2xx"]),
            list(Class::Retry, &["network"]),
            list(Class::Permanent, &["tls"]),
        ])
        .unwrap();
        assert_eq!(table.class_of(Outcome::TlsFailed), Class::Permanent);
        assert_eq!(table.class_of(Outcome::TimedOut), Class::Retry);
        assert_eq!(table.class_of(Outcome::Unreachable(Unreachable::Dns)), Class::Retry);
    }

    #[test]
    fn an_entry_in_two_lists_is_refused_with_both_named() {
        let success = list(Class::Success, &["2xx"]);
        let codes =
            vec![success.clone(), list(Class::Retry, &["404"]), list(Class::Permanent, &["404"])];
        assert_eq!(
            classification(codes).unwrap_err().to_string(),
            "`permanent` lists `404`, which `retry` lists as `404`; keep one of them"
        );
        let ranges =
            vec![success, list(Class::Retry, &["400-410"]), list(Class::Permanent, &["405-420"])];
        assert!(classification(ranges).is_err());
    }

    #[test]
    fn success_is_an_answer_and_there_must_be_one() {
        assert_eq!(classification(vec![]).unwrap_err().field(), "success");
        let network = vec![list(Class::Success, &["2xx", "timeout"])];
        assert!(classification(network).is_err());
        let success = vec![list(Class::Success, &["2xx"])];
        assert!(Classification::new(success.clone(), Class::Success, 5).is_err());
        assert!(Classification::new(success.clone(), Class::Retry, 0).is_err());
        assert!(Classification::new(success, Class::Retry, 1).is_ok());
    }

    #[test]
    fn every_entry_is_written_as_it_is_read() {
        for text in ["network", "timeout", "dns", "refused", "unreachable", "404", "5xx", "1xx"] {
            assert_eq!(Listed::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Listed::parse("teapot"), None);
    }
}
