//! The Retry-After header: a number of seconds or an HTTP-date.

use std::time::{Duration, SystemTime};

use crate::time::Timestamp;

/// What a receiver asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// So many seconds from the answer on.
    Seconds(u64),
    /// Not before this moment.
    At(Timestamp),
}

impl RetryAfter {
    /// Reads a header value. Anything that is neither seconds nor an HTTP-date is no wish at all:
    /// a receiver's typing error must not change the schedule.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let value = value.trim_matches([' ', '\t']);
        if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
            // More digits than a u64 holds still mean "very long".
            return Some(Self::Seconds(value.parse().unwrap_or(u64::MAX)));
        }
        let date = httpdate::parse_http_date(value).ok()?;
        let since_epoch = date.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Self::At(Timestamp::EPOCH.after(since_epoch)))
    }

    /// Returns the wait that was asked for, counted from `now`. A date in the past and zero
    /// seconds ask for nothing: the backoff stands.
    #[must_use]
    pub fn wait(self, now: Timestamp) -> Option<Duration> {
        let wait = match self {
            Self::Seconds(seconds) => Duration::from_secs(seconds),
            Self::At(moment) => moment.since(now),
        };
        (!wait.is_zero()).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(784_111_777);

    #[test]
    fn both_forms_are_read() {
        let minute_later = Timestamp::from_seconds(784_111_837);
        let cases = [
            ("120", Some(RetryAfter::Seconds(120))),
            (" 120\t", Some(RetryAfter::Seconds(120))),
            ("0", Some(RetryAfter::Seconds(0))),
            ("99999999999999999999999", Some(RetryAfter::Seconds(u64::MAX))),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(RetryAfter::At(minute_later))),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(RetryAfter::At(minute_later))),
            ("Sun Nov  6 08:50:37 1994", Some(RetryAfter::At(minute_later))),
            ("", None),
            ("soon", None),
            ("-5", None),
            ("1.5", None),
            ("+5", None),
            ("2026-11-15T00:00:00Z", None),
        ];
        for (value, wish) in cases {
            assert_eq!(RetryAfter::parse(value), wish, "{value:?}");
        }
    }

    #[test]
    fn a_wish_becomes_a_wait_from_now() {
        assert_eq!(RetryAfter::Seconds(30).wait(NOW), Some(Duration::from_secs(30)));
        let date = RetryAfter::parse("Sun, 06 Nov 1994 08:50:37 GMT").unwrap();
        assert_eq!(date.wait(NOW), Some(Duration::from_secs(60)));
    }

    #[test]
    fn the_past_and_zero_ask_for_nothing() {
        assert_eq!(RetryAfter::Seconds(0).wait(NOW), None);
        assert_eq!(RetryAfter::At(NOW).wait(NOW), None);
        assert_eq!(RetryAfter::At(NOW.before(Duration::from_secs(1))).wait(NOW), None);
    }
}
