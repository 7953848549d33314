//! What an endpoint lists to get messages by their event type.

use std::fmt;

use crate::names::{BadName, EventTypeName};

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
}

impl fmt::Display for EventTypePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => name.fmt(f),
            Self::Below(prefix) => write!(f, "{prefix}.*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
