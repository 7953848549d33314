//! Unix times as they stand in headers, and how far they may be off.
//!
//! A time has one spelling: digits without sign, space or leading zero. What is hashed is therefore
//! the same text whether it is taken from the header or written anew.

use crate::error::{Error, ValueFault};

/// A unix time in whole seconds together with its digits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timestamp {
    seconds: i64,
    digits: [u8; Self::MAX_DIGITS],
    start: usize,
}

impl Timestamp {
    const MAX_DIGITS: usize = 19;

    /// Times before 1970 have no spelling.
    pub(crate) fn new(seconds: i64) -> Result<Self, ValueFault> {
        let mut rest = u64::try_from(seconds).map_err(|_| ValueFault::NotATimestamp)?;
        let mut digits = [b'0'; Self::MAX_DIGITS];
        let mut start = Self::MAX_DIGITS;
        loop {
            start -= 1;
            // The remainder always fits; written so because a plain cast would hide one that does not.
            digits[start] = b'0' + u8::try_from(rest % 10).unwrap_or_default();
            rest /= 10;
            if rest == 0 {
                return Ok(Self { seconds, digits, start });
            }
        }
    }

    pub(crate) fn parse(text: &[u8]) -> Result<Self, ValueFault> {
        let seconds = text
            .iter()
            .try_fold(0i64, |sum, byte| {
                let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
                sum.checked_mul(10)?.checked_add(digit)
            })
            .ok_or(ValueFault::NotATimestamp)?;
        let timestamp = Self::new(seconds)?;
        if timestamp.as_bytes() == text { Ok(timestamp) } else { Err(ValueFault::NotATimestamp) }
    }

    pub(crate) fn seconds(&self) -> i64 {
        self.seconds
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }

    pub(crate) fn push_to(&self, text: &mut String) {
        text.extend(self.as_bytes().iter().copied().map(char::from));
    }

    pub(crate) fn to_text(self) -> String {
        let mut text = String::with_capacity(Self::MAX_DIGITS);
        self.push_to(&mut text);
        text
    }

    /// Refuses a time further than `tolerance` seconds from `now`, in either direction.
    pub(crate) fn check(&self, now: i64, tolerance: u64) -> Result<(), Error> {
        let seconds = self.seconds.abs_diff(now);
        if seconds <= tolerance {
            Ok(())
        } else if self.seconds < now {
            Err(Error::TooOld { seconds, tolerance })
        } else {
            Err(Error::TooNew { seconds, tolerance })
        }
    }

    /// Tells whether the number makes sense as milliseconds: within a day of `now`.
    pub(crate) fn looks_like_milliseconds(&self, now: i64) -> bool {
        const DAY: u64 = 86_400;
        (self.seconds / 1000).abs_diff(now) <= DAY && self.seconds.abs_diff(now) > DAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_plain_digits() {
        for (seconds, text) in [
            (0, "0"),
            (9, "9"),
            (10, "10"),
            (1_674_087_231, "1674087231"),
            (i64::MAX, "9223372036854775807"),
        ] {
            assert_eq!(Timestamp::new(seconds).unwrap().to_text(), text);
            assert_eq!(Timestamp::parse(text.as_bytes()).unwrap().seconds(), seconds);
        }
        assert!(Timestamp::new(-1).is_err());
    }

    #[test]
    fn any_other_spelling_is_refused() {
        for text in
            ["", "+1", "-1", " 1", "1 ", "01", "1.0", "1e9", "0x1", "9223372036854775808", "١"]
        {
            assert!(Timestamp::parse(text.as_bytes()).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn the_tolerance_is_inclusive_and_holds_in_both_directions() {
        let timestamp = Timestamp::new(1000).unwrap();
        assert_eq!(timestamp.check(1300, 300), Ok(()));
        assert_eq!(timestamp.check(700, 300), Ok(()));
        assert_eq!(timestamp.check(1301, 300), Err(Error::TooOld { seconds: 301, tolerance: 300 }));
        assert_eq!(timestamp.check(699, 300), Err(Error::TooNew { seconds: 301, tolerance: 300 }));
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let timestamp = Timestamp::new(i64::MAX).unwrap();
        assert!(matches!(
            timestamp.check(i64::MIN, 300),
            Err(Error::TooNew { seconds: u64::MAX, .. })
        ));
        assert_eq!(timestamp.check(i64::MIN, u64::MAX), Ok(()));
    }
}
