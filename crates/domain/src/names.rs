//! Names that people choose: event types, channels, uids.
//!
//! They reach headers, URLs and log lines, so they are parsed once, at the door, into types that
//! hold nothing unsafe there. A client that puts `..` into a path asks for another path, and a name
//! that is a word of the API's own paths cannot be reached: no name is either.

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
    /// A step within a path.
    #[error("is `.` or `..`, which clients take out of a path; choose another")]
    DotSegment,
    /// A text of nothing that can be seen.
    #[error("is blank")]
    Blank,
    /// A character that does not show itself.
    #[error("contains `{}`, which cannot be seen", .0.escape_unicode())]
    Invisible(char),
    /// A word that stands in the API's paths where the name would.
    #[error("is `{0}`, which means something else in a path; choose another")]
    PathWord(&'static str),
}

const LONGEST: usize = 256;

/// The words of the API's own paths at whose place a uid would stand, by the prefix of the ids that
/// stand there too. A test of the API compares them with its routes.
pub const PATH_WORDS: [(&str, &[&str]); 1] =
    [("msg_", &["batch", "bulk-expunge", "expunge-all-contents"])];

/// Tells whether a text in a path is a step within it, and no name.
#[must_use]
pub fn is_dot_segment(text: &str) -> bool {
    matches!(text, "." | "..")
}

/// Checks a name for people: any text that shows itself as it is, and no more of it than fits a line.
///
/// # Errors
/// If it is blank, too long, a step within a path, or has a character that cannot be seen.
pub fn readable(text: &str) -> Result<(), BadName> {
    if text.is_empty() {
        return Err(BadName::Empty);
    }
    if text.chars().count() > LONGEST {
        return Err(BadName::TooLong(LONGEST));
    }
    if let Some(found) = text.chars().find(|c| is_invisible(*c)) {
        return Err(BadName::Invisible(found));
    }
    if text.chars().all(char::is_whitespace) {
        return Err(BadName::Blank);
    }
    if is_dot_segment(text) {
        return Err(BadName::DotSegment);
    }
    Ok(())
}

/// Tells whether a character controls what is around it: breaks a line, moves a cursor, turns the
/// direction of a text, or has no width.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{ffa0}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

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
    /// If it is empty, too long, `.` or `..`, or has a character that is not allowed.
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
    /// If it is empty, too long, `.` or `..`, or has a character that is not allowed.
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
    /// If it is empty, too long, has a character that is not allowed, could be taken for an id, or
    /// means something else in a path.
    pub fn parse(text: &str, prefix: &'static str) -> Result<Self, BadName> {
        check(text, b"-_.", "- _ .")?;
        if text.starts_with(prefix) {
            return Err(BadName::LooksLikeId(prefix));
        }
        let words = PATH_WORDS.iter().find(|(own, _)| *own == prefix);
        if let Some(word) = words.and_then(|(_, words)| words.iter().find(|word| **word == text)) {
            return Err(BadName::PathWord(word));
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
    if is_dot_segment(text) {
        return Err(BadName::DotSegment);
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

    #[test]
    fn no_name_is_a_step_within_a_path() {
        for text in [".", ".."] {
            assert_eq!(EventTypeName::parse(text), Err(BadName::DotSegment), "{text}");
            assert_eq!(Channel::parse(text), Err(BadName::DotSegment), "{text}");
            assert_eq!(Uid::parse(text, "app_"), Err(BadName::DotSegment), "{text}");
        }
        for text in ["...", ".a", "a.", "a..b", "-"] {
            assert!(Uid::parse(text, "app_").is_ok(), "{text}");
            assert!(EventTypeName::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn only_a_uid_that_would_stand_at_its_place_is_refused_for_a_word_of_a_path() {
        assert_eq!(Uid::parse("batch", "msg_"), Err(BadName::PathWord("batch")));
        for text in ["Batch", "batch-1", "precheck", "health"] {
            assert!(Uid::parse(text, "msg_").is_ok(), "{text}");
        }
        assert!(Uid::parse("batch", "app_").is_ok());
        assert!(EventTypeName::parse("batch").is_ok());
    }

    #[test]
    fn a_name_for_people_shows_itself_as_it_is() {
        for text in ["robot", "Jörg's laptop", "出荷 2", " a ", "a. b", &"ä".repeat(256)] {
            assert_eq!(readable(text), Ok(()), "{text}");
        }
        let table = [
            ("", BadName::Empty),
            (" \u{a0}\u{3000}", BadName::Blank),
            ("a\nb", BadName::Invisible('\n')),
            ("\u{1b}[2J", BadName::Invisible('\u{1b}')),
            ("a\0", BadName::Invisible('\0')),
            ("\u{85}", BadName::Invisible('\u{85}')),
            ("a\u{202e}b", BadName::Invisible('\u{202e}')),
            ("\u{2066}a", BadName::Invisible('\u{2066}')),
            ("\u{200b}", BadName::Invisible('\u{200b}')),
            ("a\u{2028}b", BadName::Invisible('\u{2028}')),
            ("\u{3164}", BadName::Invisible('\u{3164}')),
            ("\u{2800}", BadName::Invisible('\u{2800}')),
            ("..", BadName::DotSegment),
        ];
        for (text, expected) in table {
            assert_eq!(readable(text), Err(expected), "{text:?}");
        }
        assert_eq!(readable(&"ä".repeat(257)), Err(BadName::TooLong(256)));
        let told = BadName::Invisible('\u{202e}').to_string();
        assert_eq!(told, "contains `\\u{202e}`, which cannot be seen");
    }
}
