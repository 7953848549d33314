//! Which messages an endpoint gets: by event type and by channel.

use std::collections::BTreeSet;
use std::fmt;

use crate::names::{BadName, Channel, EventTypeName};

/// An entry of an endpoint's event types: one of them, or all below a prefix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventTypePattern {
    /// `invoice.paid`
    Exact(EventTypeName),
    /// `invoice.*`: everything that begins with `invoice.`
    Below(EventTypeName),
}

/// Why a text is no pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPattern {
    /// A lone star.
    #[error("matches everything; leave the event types out to get all of them")]
    Everything,
    /// A star that does not end a prefix.
    #[error("has a `*` elsewhere than at the end, after a dot; write for example invoice.*")]
    Star,
    /// No name.
    #[error(transparent)]
    Name(#[from] BadName),
}

impl EventTypePattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If it is neither a name nor a name followed by `.*`.
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        if text == "*" {
            return Err(BadPattern::Everything);
        }
        if let Some(prefix) = text.strip_suffix(".*").filter(|prefix| !prefix.contains('*')) {
            return Ok(Self::Below(EventTypeName::parse(prefix)?));
        }
        if text.contains('*') {
            return Err(BadPattern::Star);
        }
        Ok(Self::Exact(EventTypeName::parse(text)?))
    }

    /// Tells whether an event type is meant.
    #[must_use]
    pub fn matches(&self, event_type: &EventTypeName) -> bool {
        match self {
            Self::Exact(name) => name == event_type,
            Self::Below(prefix) => event_type
                .as_str()
                .strip_prefix(prefix.as_str())
                .and_then(|rest| rest.strip_prefix('.'))
                .is_some_and(|rest| !rest.is_empty()),
        }
    }
}

impl fmt::Display for EventTypePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => name.fmt(f),
            Self::Below(prefix) => write!(f, "{prefix}.*"),
        }
    }
}

/// What an endpoint subscribed to. An empty list means no restriction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// The event types it gets.
    pub event_types: Vec<EventTypePattern>,
    /// The channels it listens on.
    pub channels: BTreeSet<Channel>,
}

impl Filter {
    /// Reads a filter from what an endpoint lists. Names that do not read match nothing; a list of
    /// such names alone must not match everything, so that there is no filter then.
    #[must_use]
    pub fn read(event_types: &[String], channels: &[String]) -> Option<Self> {
        let patterns = event_types.iter().filter_map(|text| EventTypePattern::parse(text).ok());
        let filter = Self {
            event_types: patterns.collect(),
            channels: channels.iter().filter_map(|text| Channel::parse(text).ok()).collect(),
        };
        let emptied = filter.event_types.is_empty() && !event_types.is_empty()
            || filter.channels.is_empty() && !channels.is_empty();
        (!emptied).then_some(filter)
    }

    /// Tells whether a message of this event type, on these channels, is for the endpoint. One
    /// with channels gets only messages that share one of them.
    #[must_use]
    pub fn matches(&self, event_type: &EventTypeName, channels: &BTreeSet<Channel>) -> bool {
        let by_type = self.event_types.is_empty()
            || self.event_types.iter().any(|pattern| pattern.matches(event_type));
        let by_channel = self.channels.is_empty() || !self.channels.is_disjoint(channels);
        by_type && by_channel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(event_types: &[&str], channels: &[&str]) -> Filter {
        Filter {
            event_types: event_types
                .iter()
                .map(|it| EventTypePattern::parse(it).unwrap())
                .collect(),
            channels: set(channels),
        }
    }

    fn set(channels: &[&str]) -> BTreeSet<Channel> {
        channels.iter().map(|channel| Channel::parse(channel).unwrap()).collect()
    }

    /// Event types and channels of the endpoint; event type and channels of the message; fits?
    type Row = (
        &'static [&'static str],
        &'static [&'static str],
        &'static str,
        &'static [&'static str],
        bool,
    );

    #[test]
    fn a_message_must_fit_both_lists_and_an_empty_list_fits_all() {
        let table: [Row; 15] = [
            (&[], &[], "invoice.paid", &[], true),
            (&["invoice.paid"], &[], "invoice.paid", &[], true),
            (&["invoice.paid"], &[], "invoice.paid.late", &[], false),
            (&["invoice.paid"], &[], "Invoice.paid", &[], false),
            (&["invoice.*"], &[], "invoice.paid", &[], true),
            (&["invoice.*"], &[], "invoice.paid.late", &[], true),
            (&["invoice.*"], &[], "invoice", &[], false),
            (&["invoice.*"], &[], "invoice.", &[], false),
            (&["invoice.*"], &[], "invoices.paid", &[], false),
            (&["user.*", "invoice.paid"], &[], "invoice.paid", &[], true),
            (&[], &["a"], "x", &[], false),
            (&[], &["a"], "x", &["b"], false),
            (&[], &["a", "b"], "x", &["b", "c"], true),
            (&[], &[], "x", &["b"], true),
            (&["y"], &["b"], "x", &["b"], false),
        ];
        for (types, own, event_type, channels, fits) in table {
            let event_type = EventTypeName::parse(event_type).unwrap();
            let matched = filter(types, own).matches(&event_type, &set(channels));
            assert_eq!(matched, fits, "{types:?} {own:?} {event_type} {channels:?}");
        }
    }

    #[test]
    fn patterns_read_and_write_alike_and_say_what_is_wrong() {
        for text in ["invoice.paid", "invoice.*", "a.b.*"] {
            assert_eq!(EventTypePattern::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(EventTypePattern::parse("*"), Err(BadPattern::Everything));
        for text in ["invoice*", "*.paid", "in*voice.paid", "a.*.*", "a.*.b"] {
            assert_eq!(EventTypePattern::parse(text), Err(BadPattern::Star), "{text}");
        }
        assert_eq!(EventTypePattern::parse(".*"), Err(BadPattern::Name(BadName::Empty)));
        assert!(EventTypePattern::parse("").is_err());
    }
}
