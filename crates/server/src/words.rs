//! Numbers and spans as people say them: `1,234,567`, `1h7m`.

use std::time::Duration;

use domain::span;

/// Writes a number with a comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a span rounded to what matters at its length: milliseconds below ten seconds, seconds
/// below an hour, minutes below two days, hours beyond.
pub(crate) fn short(span: Duration) -> String {
    let whole = match span.as_secs() {
        0..10 => return span::format(span),
        10..3_600 => 1_000,
        3_600..172_800 => 60_000,
        _ => 3_600_000,
    };
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    span::format(Duration::from_millis(millis.saturating_add(whole / 2) / whole * whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let texts = [0, 999, 1_000, 12_345, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn spans_are_rounded_to_what_people_say() {
        let texts = [3_050, 75_400, 75_600, 4_000_000, 200_000_000]
            .map(|millis| short(Duration::from_millis(millis)));
        assert_eq!(texts, ["3s50ms", "1m15s", "1m16s", "1h7m", "56h"]);
    }
}
