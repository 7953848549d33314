//! Durations as people write them: `5s`, `1h30m`, `96h`, `250ms`.
//!
//! One reader and one writer for policies, the configuration and the command line, so that a span
//! looks the same wherever it is met. What is written reads back as the same duration.

use std::time::Duration;

/// The units, largest first, with their length in milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Why a text is not a span of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSpan {
    /// Nothing was written.
    #[error("is empty; write a number and a unit, for example 30s, 5m, 2h or 1h30m")]
    Empty,
    /// A number stands alone.
    #[error("`{0}` has no unit; did you mean `{0}s`?")]
    NoUnit(String),
    /// The unit is none of ours.
    #[error("`{0}` is not a unit; use ms, s, m, h or d")]
    UnknownUnit(String),
    /// A unit stands alone or the number cannot be read.
    #[error("`{0}` does not begin with a whole number; write for example 30s or 1h30m")]
    NoNumber(String),
    /// Longer than ten years: a slip of the finger rather than a wish.
    #[error("`{0}` is longer than 3650d")]
    TooLong(String),
}

/// The longest span that can be written.
pub const LONGEST: Duration = Duration::from_secs(3_650 * 86_400);

/// Reads a span such as `90s`, `1h30m` or `2d 12h`.
///
/// # Errors
/// Says which part could not be read and what is allowed there.
pub fn parse(text: &str) -> Result<Duration, BadSpan> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(BadSpan::Empty);
    }
    let mut millis: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = split_at(rest, |c| !c.is_ascii_digit());
        if number.is_empty() {
            return Err(BadSpan::NoNumber(rest.to_owned()));
        }
        let (unit, after) = split_at(after.trim_start(), |c| !c.is_alphabetic());
        if unit.is_empty() {
            return Err(if after.is_empty() {
                BadSpan::NoUnit(number.to_owned())
            } else {
                BadSpan::NoNumber(rest.to_owned())
            });
        }
        let scale = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
        let scale = scale.ok_or_else(|| BadSpan::UnknownUnit(unit.to_owned()))?;
        let too_long = || BadSpan::TooLong(text.trim().to_owned());
        let count: u64 = number.parse().map_err(|_| too_long())?;
        let part = count.checked_mul(scale).ok_or_else(too_long)?;
        millis = millis.checked_add(part).ok_or_else(too_long)?;
        rest = after.trim_start();
    }
    let span = Duration::from_millis(millis);
    if span > LONGEST {
        return Err(BadSpan::TooLong(text.trim().to_owned()));
    }
    Ok(span)
}

/// Writes a span with as few units as say it exactly, to the millisecond: `1h30m`, `45s`, `0s`.
#[must_use]
pub fn format(span: Duration) -> String {
    let mut millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    // Waits are spoken of in hours up to four days (`96h`), so days appear beyond that only.
    let units = if millis > 4 * UNITS[0].1 { &UNITS[..] } else { &UNITS[1..] };
    let mut text = String::new();
    for (name, scale) in units {
        let count = millis / scale;
        if count > 0 {
            text.push_str(&count.to_string());
            text.push_str(name);
            millis %= scale;
        }
    }
    text
}

fn split_at(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_in_every_unit_and_in_sums() {
        let cases = [
            ("250ms", 250),
            ("5s", 5_000),
            ("30m", 1_800_000),
            ("2h", 7_200_000),
            ("4d", 345_600_000),
            ("1h30m", 5_400_000),
            (" 1h 30m ", 5_400_000),
            ("1 h", 3_600_000),
            ("0s", 0),
            ("3650d", 315_360_000_000),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn a_bad_span_says_what_is_wrong_with_it() {
        let cases = [
            ("", "is empty; write a number and a unit, for example 30s, 5m, 2h or 1h30m"),
            ("30", "`30` has no unit; did you mean `30s`?"),
            ("1h30", "`30` has no unit; did you mean `30s`?"),
            ("5 parsecs", "`parsecs` is not a unit; use ms, s, m, h or d"),
            ("5M", "`M` is not a unit; use ms, s, m, h or d"),
            ("fast", "`fast` does not begin with a whole number; write for example 30s or 1h30m"),
            ("-5s", "`-5s` does not begin with a whole number; write for example 30s or 1h30m"),
            ("1.5h", "`1.5h` does not begin with a whole number; write for example 30s or 1h30m"),
            ("3651d", "`3651d` is longer than 3650d"),
            ("99999999999999999999s", "`99999999999999999999s` is longer than 3650d"),
            ("3650d1ms", "`3650d1ms` is longer than 3650d"),
        ];
        for (text, message) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn a_span_is_written_shortly_and_reads_back() {
        let cases = [
            (0, "0s"),
            (1, "1ms"),
            (5_000, "5s"),
            (90_000, "1m30s"),
            (345_600_000, "96h"),
            (345_600_001, "4d1ms"),
            (432_000_000, "5d"),
            (3_840_000, "1h4m"),
        ];
        for (millis, text) in cases {
            let span = Duration::from_millis(millis);
            assert_eq!(format(span), text);
            assert_eq!(parse(text), Ok(span));
        }
    }
}
