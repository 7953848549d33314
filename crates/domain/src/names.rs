//! Names that people choose: event types, channels, uids.
//!
//! They reach headers, URLs and log lines, so they are parsed once, at the door, into types that
//! hold nothing unsafe there.

use std::fmt;

/// Why a text is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// Nothing was written.
    #[error("is empty")]
    Empty,
    /// Too many characters.
    #[error("is longer than {0} characters")]
    TooLong(usize),
    /// A character that names do not have.
    #[error("contains `{}`; allowed are letters, digits and {allowed}", .found.escape_default())]
    Character {
        /// The character.
        found: char,
        /// What is allowed besides letters and digits.
        allowed: &'static str,
    },
    /// A uid that looks like an id.
    #[error("begins with `{0}`, which only ids do; choose another")]
    LooksLikeId(&'static str),
}

const LONGEST: usize = 256;

/// The name of an event type, such as `invoice.paid`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventTypeName(String);

/// A channel, such as `project-1337`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(String);

/// An id that the sender chose for one of its objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(String);

impl EventTypeName {
    /// Reads a name.
    ///
    /// # Errors
    /// If it is empty, too long, or has a character that is not allowed.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        check(text, b"-_.", "- _ .")?;
        Ok(Self(text.to_owned()))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Channel {
    /// Reads a channel.
    ///
    /// # Errors
    /// If it is empty, too long, or has a character that is not allowed.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        check(text, b"-_.:+", "- _ . : +")?;
        Ok(Self(text.to_owned()))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Uid {
    /// Reads a uid of something whose ids begin with `prefix`.
    ///
    /// # Errors
    /// If it is empty, too long, has a character that is not allowed, or could be taken for an id.
    pub fn parse(text: &str, prefix: &'static str) -> Result<Self, BadName> {
        check(text, b"-_.", "- _ .")?;
        if text.starts_with(prefix) {
            return Err(BadName::LooksLikeId(prefix));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventTypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check(text: &str, punctuation: &[u8], allowed: &'static str) -> Result<(), BadName> {
    if text.is_empty() {
        return Err(BadName::Empty);
    }
    let fits = |c: char| {
        c.is_ascii_alphanumeric() || u8::try_from(c).is_ok_and(|byte| punctuation.contains(&byte))
    };
    if let Some(found) = text.chars().find(|c| !fits(*c)) {
        return Err(BadName::Character { found, allowed });
    }
    if text.len() > LONGEST {
        return Err(BadName::TooLong(LONGEST));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_take_letters_digits_and_their_punctuation() {
        for text in ["invoice.paid", "a", "A-b_c.9", &"x".repeat(256)] {
            assert!(EventTypeName::parse(text).is_ok(), "{text}");
            assert!(Uid::parse(text, "app_").is_ok(), "{text}");
            assert_eq!(Channel::parse(text).unwrap().to_string(), text);
        }
        assert!(Channel::parse("project:1+2").is_ok());
        assert!(EventTypeName::parse("project:1").is_err());
        assert!(Uid::parse("a+b", "app_").is_err());
    }

    #[test]
    fn a_refused_name_says_why() {
        let error = |text: &str| EventTypeName::parse(text).unwrap_err().to_string();
        assert_eq!(error(""), "is empty");
        assert_eq!(error(&"x".repeat(257)), "is longer than 256 characters");
        assert_eq!(error("a b"), "contains ` `; allowed are letters, digits and - _ .");
        assert_eq!(error("a\r\nb"), "contains `\\r`; allowed are letters, digits and - _ .");
        assert_eq!(error("ä"), "contains `\\u{e4}`; allowed are letters, digits and - _ .");
    }

    #[test]
    fn a_uid_cannot_be_taken_for_an_id() {
        assert_eq!(Uid::parse("app_1", "app_"), Err(BadName::LooksLikeId("app_")));
        assert_eq!(Uid::parse("app_1", "ep_").unwrap().as_str(), "app_1");
    }
}
