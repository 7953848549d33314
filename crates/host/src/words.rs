//! Numbers, spans and texts as people can read them: `1,234,567`, `1 event`, `1h7m`, `too lo…`.

use std::time::Duration;

use domain::span;

/// Writes a number with a comma between thousands.
pub fn grouped(number: u64) -> String {
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
pub fn short(span: Duration) -> String {
    let whole = match span.as_secs() {
        0..10 => return span::format(span),
        10..3_600 => 1_000,
        3_600..172_800 => 60_000,
        _ => 3_600_000,
    };
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    span::format(Duration::from_millis(millis.saturating_add(whole / 2) / whole * whole))
}

/// Writes a number of things: `1 event`, `2,000 events`.
pub fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(number))
}

/// Writes a number of bytes as people say it: `512 bytes`, `1.5 MiB`.
pub fn sized(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut whole, mut rest, mut unit) = (bytes, 0, "bytes");
    for larger in units {
        if whole < 1_024 {
            break;
        }
        (rest, whole, unit) = (whole % 1_024, whole / 1_024, larger);
    }
    match (unit, rest * 10 / 1_024) {
        ("bytes", _) => counted(whole, "byte"),
        (unit, tenths) if whole < 100 => format!("{whole}.{tenths} {unit}"),
        (unit, _) => format!("{} {unit}", grouped(whole)),
    }
}

/// Cuts the end off a text that is longer than so many letters. A letter outside of ASCII counts
/// twice, because it may be as wide as two.
pub fn shortened(text: &str, most: usize) -> String {
    cut(text, most.saturating_sub(1), 0)
}

/// Cuts the middle out of a text that is longer than so many letters: what it is about stands at
/// its beginning, and what to do about it at its end.
pub fn without_middle(text: &str, most: usize) -> String {
    let tail = most.saturating_sub(1) / 3;
    cut(text, most.saturating_sub(1 + tail), tail)
}

/// Keeps so much of a text's beginning and end, unless one letter more holds all of it.
fn cut(text: &str, head: usize, tail: usize) -> String {
    if width(text.chars()) <= head + 1 + tail {
        return text.to_owned();
    }
    let head = fitting(text.chars(), head);
    let mut end = fitting(text.chars().rev(), tail);
    end.reverse();
    head.into_iter().chain(['…']).chain(end).collect()
}

/// Writes a text from somewhere else so that it is nothing but text: a terminal obeys control
/// characters, and others turn the direction in which the rest is read. They are shown as their
/// numbers, `\u{1b}`.
pub fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() || turns_text(letter) {
            safe.extend(letter.escape_unicode());
        } else {
            safe.push(letter);
        }
    }
    safe
}

/// Tells whether a character changes direction or line without being seen.
const fn turns_text(letter: char) -> bool {
    matches!(
        letter,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

fn fitting(letters: impl Iterator<Item = char>, most: usize) -> Vec<char> {
    let mut used = 0;
    let fits = |letter: &char| {
        used += width([*letter]);
        used <= most
    };
    letters.take_while(fits).collect()
}

fn width(letters: impl IntoIterator<Item = char>) -> usize {
    letters.into_iter().map(|letter| if letter.is_ascii() { 1 } else { 2 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_the_unit_that_fits() {
        let table = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1_023, "1,023 bytes"),
            (1_024, "1.0 KiB"),
            (1_536, "1.5 KiB"),
            (1_048_575, "1,023 KiB"),
            (12 << 30, "12.0 GiB"),
            (u64::MAX, "15.9 EiB"),
        ];
        for (bytes, text) in table {
            assert_eq!(sized(bytes), text);
        }
    }

    #[test]
    fn one_thing_is_not_many() {
        let texts = [0, 1, 2_000].map(|number| counted(number, "event"));
        assert_eq!(texts, ["0 events", "1 event", "2,000 events"]);
    }

    #[test]
    fn a_long_text_loses_its_end_or_its_middle() {
        assert_eq!(shortened("delivery-guarantee", 18), "delivery-guarantee");
        assert_eq!(shortened("delivery-guarantee", 10), "delivery-…");
        assert_eq!(without_middle("delivery-guarantee", 18), "delivery-guarantee");
        assert_eq!(without_middle("delivery-guarantee", 10), "delive…tee");
        assert_eq!(without_middle("日本語日本語", 10), "日本語…語");
        assert_eq!(shortened("", 1), "");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_written() {
        let text = "a\u{1b}[31m\n\u{7f}\u{9b}2J\u{202e}é\u{2066}";
        let safe = "a\\u{1b}[31m\\u{a}\\u{7f}\\u{9b}2J\\u{202e}é\\u{2066}";
        assert_eq!(printable(text), safe);
    }

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
