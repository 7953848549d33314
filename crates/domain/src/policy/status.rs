//! Sets of HTTP statuses as policies write them: `404`, `411-417`, `5xx`.

use std::fmt;

use super::Problem;

/// One entry of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// `5xx`
    Hundred(u16),
    /// `411-417`
    Range(u16, u16),
    /// `404`
    Code(u16),
}

/// A list of patterns; a status belongs to it if any of them fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statuses(Vec<Pattern>);

/// The statuses that HTTP allows.
pub(super) const LOWEST: u16 = 100;
/// The highest of them; hyper and browsers let everything below 1000 through.
pub(super) const HIGHEST: u16 = 999;

impl Pattern {
    /// Reads one pattern, or returns none if the text is no pattern at all.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(hundred) = text.strip_suffix("xx") {
            let hundred = hundred.parse().ok().filter(|n| (1..=9).contains(n))?;
            return Some(Self::Hundred(hundred));
        }
        if let Some((low, high)) = text.split_once('-') {
            let (low, high) = (code(low)?, code(high)?);
            return (low < high).then_some(Self::Range(low, high));
        }
        code(text).map(Self::Code)
    }

    /// Returns the first and the last status it covers.
    #[must_use]
    pub const fn bounds(self) -> (u16, u16) {
        match self {
            Self::Hundred(hundred) => (hundred * 100, hundred * 100 + 99),
            Self::Range(low, high) => (low, high),
            Self::Code(code) => (code, code),
        }
    }

    /// Tells whether a status is one of it.
    #[must_use]
    pub fn covers(self, status: u16) -> bool {
        let (low, high) = self.bounds();
        (low..=high).contains(&status)
    }
}

fn code(text: &str) -> Option<u16> {
    let plain = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    let code = plain.then(|| text.parse().ok()).flatten()?;
    (LOWEST..=HIGHEST).contains(&code).then_some(code)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hundred(hundred) => write!(f, "{hundred}xx"),
            Self::Range(low, high) => write!(f, "{low}-{high}"),
            Self::Code(code) => write!(f, "{code}"),
        }
    }
}

impl Statuses {
    /// Makes a set.
    ///
    /// # Errors
    /// If it is empty.
    pub fn new(patterns: Vec<Pattern>) -> Result<Self, Problem> {
        if patterns.is_empty() {
            return Err(Problem::new("on", "is empty; list statuses, or write \"any\""));
        }
        Ok(Self(patterns))
    }

    /// Returns the entries in the order in which they were written.
    #[must_use]
    pub fn patterns(&self) -> &[Pattern] {
        &self.0
    }

    /// Tells whether a status belongs to the set.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|pattern| pattern.covers(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_read_and_write_alike() {
        let cases = [
            ("404", Pattern::Code(404)),
            ("100", Pattern::Code(100)),
            ("999", Pattern::Code(999)),
            ("411-417", Pattern::Range(411, 417)),
            ("5xx", Pattern::Hundred(5)),
            ("9xx", Pattern::Hundred(9)),
        ];
        for (text, pattern) in cases {
            assert_eq!(Pattern::parse(text), Some(pattern));
            assert_eq!(pattern.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_status_is_no_pattern() {
        let texts =
            ["", "99", "1000", "0xx", "10xx", "xx", "4x", "417-411", "404-404", "4-5", "+44"];
        for text in texts {
            assert_eq!(Pattern::parse(text), None, "{text}");
        }
    }

    #[test]
    fn bounds_belong_to_the_pattern() {
        let cases = [("5xx", 500, 599), ("411-417", 411, 417), ("404", 404, 404)];
        for (text, low, high) in cases {
            let pattern = Pattern::parse(text).unwrap();
            assert_eq!(pattern.bounds(), (low, high));
            assert!(pattern.covers(low) && pattern.covers(high));
            assert!(!pattern.covers(low - 1) && !pattern.covers(high + 1));
        }
    }

    #[test]
    fn a_set_needs_an_entry() {
        assert!(Statuses::new(vec![]).is_err());
        let set = Statuses::new(vec![Pattern::Code(429), Pattern::Code(503)]).unwrap();
        assert!(set.contains(429) && set.contains(503) && !set.contains(500));
    }
}
