//! How long one attempt may take.

use std::time::Duration;

use super::Problem;
use crate::span;

/// The longest time that one attempt may be given.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(300);

/// The deadlines of an attempt. `whole` spans name look-up, connect, TLS, sending, headers and
/// body together; the other two are parts of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    connect: Duration,
    read: Option<Duration>,
    whole: Duration,
}

impl Timeouts {
    /// Makes deadlines.
    ///
    /// # Errors
    /// If one of them is zero, a part is longer than the whole, or the whole than five minutes.
    pub fn new(
        connect: Duration,
        read: Option<Duration>,
        whole: Duration,
    ) -> Result<Self, Problem> {
        if whole.is_zero() || whole > LONGEST_ATTEMPT {
            let (is, most) = (span::format(whole), span::format(LONGEST_ATTEMPT));
            let text = format!("is {is}; it must be above 0 and at most {most}");
            return Err(Problem::new("whole", text));
        }
        for (field, part) in [("connect", Some(connect)), ("read", read)] {
            if let Some(part) = part.filter(|part| part.is_zero() || *part > whole) {
                let (is, whole) = (span::format(part), span::format(whole));
                let text = format!("is {is}; it must be above 0 and at most the whole of {whole}");
                return Err(Problem::new(field, text));
            }
        }
        Ok(Self { connect, read, whole })
    }

    /// Returns the time for name look-up, connect and TLS.
    #[must_use]
    pub const fn connect(&self) -> Duration {
        self.connect
    }

    /// Returns the time from the request's last byte to the answer's end, if limited by itself.
    #[must_use]
    pub const fn read(&self) -> Option<Duration> {
        self.read
    }

    /// Returns the time for everything.
    #[must_use]
    pub const fn whole(&self) -> Duration {
        self.whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeouts(connect: u64, read: Option<u64>, whole: u64) -> Result<Timeouts, Problem> {
        let seconds = Duration::from_secs;
        Timeouts::new(seconds(connect), read.map(seconds), seconds(whole))
    }

    #[test]
    fn parts_fit_into_the_whole() {
        assert!(timeouts(30, Some(30), 60).is_ok());
        assert!(timeouts(5, None, 5).is_ok());
        assert_eq!(timeouts(6, None, 5).unwrap_err().field(), "connect");
        assert_eq!(timeouts(5, Some(6), 5).unwrap_err().field(), "read");
    }

    #[test]
    fn no_deadline_is_zero_and_none_is_above_five_minutes() {
        assert_eq!(timeouts(0, None, 5).unwrap_err().field(), "connect");
        assert_eq!(timeouts(1, Some(0), 5).unwrap_err().field(), "read");
        assert_eq!(timeouts(1, None, 0).unwrap_err().field(), "whole");
        assert_eq!(timeouts(1, None, 301).unwrap_err().field(), "whole");
        assert!(timeouts(1, None, 300).is_ok());
    }
}
