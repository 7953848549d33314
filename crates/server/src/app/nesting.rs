//! How deeply the payloads of messages may be nested.
//!
//! Payloads are sent, and shown in lists, as they came. Most readers of JSON call themselves for each
//! level and give up at some depth: one payload that is deeper would make a whole page unreadable.

use serde::de::IgnoredAny;

/// The most objects and lists within each other.
pub const MOST_LEVELS: usize = 256;

/// Tells whether a payload is JSON that is nested too deeply. What is no JSON has no levels.
#[must_use]
pub fn is_too_deep(payload: &[u8]) -> bool {
    // Nearly every payload is too short for it, or has too few brackets.
    if payload.len() <= 2 * MOST_LEVELS || opening(payload) <= MOST_LEVELS {
        return false;
    }
    deepest(payload) > MOST_LEVELS && serde_json::from_slice::<IgnoredAny>(payload).is_ok()
}

/// Counts what could begin a level. Written so that the compiler counts many bytes at a time.
fn opening(payload: &[u8]) -> usize {
    let count =
        |bytes: &[u8]| bytes.iter().fold(0_u8, |count, byte| count + u8::from(byte | 0x20 == b'{'));
    payload.chunks(usize::from(u8::MAX)).map(|chunk| usize::from(count(chunk))).sum()
}

/// Returns how many levels are open at a time at the most, if this is JSON.
fn deepest(payload: &[u8]) -> usize {
    let (mut deepest, mut depth) = (0_usize, 0_usize);
    let mut bytes = payload.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_text(&mut bytes),
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Goes to the end of a text that has begun.
fn skip_text(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects and lists by turns, the innermost with a text.
    fn nested(levels: usize, inside: &str) -> String {
        let part = |level: usize, even: &'static str, odd: &'static str| {
            if level.is_multiple_of(2) { even } else { odd }
        };
        let open: String = (0..levels).map(|level| part(level, r#"{"a":"#, "[")).collect();
        let close: String = (0..levels).rev().map(|level| part(level, "}", "]")).collect();
        format!("{open}{inside}{close}")
    }

    #[test]
    fn levels_are_counted_and_no_brackets_within_texts() {
        let brackets = format!(r#""\\\"{}""#, "[{".repeat(1_000));
        for inside in ["1", brackets.as_str()] {
            assert!(!is_too_deep(nested(256, inside).as_bytes()), "{inside}");
            assert!(is_too_deep(nested(257, inside).as_bytes()), "{inside}");
        }
        let wide = format!("[{}1]", "[{}],".repeat(10_000));
        assert!(!is_too_deep(wide.as_bytes()));
        assert!(is_too_deep(nested(100_000, "1").as_bytes()));
    }

    #[test]
    fn what_is_no_json_has_no_levels() {
        for text in ["[".repeat(1_000), nested(301, ""), format!("{} a", nested(300, "1"))] {
            assert!(!is_too_deep(text.as_bytes()));
        }
        assert!(!is_too_deep(&[0xff; 1_000]));
    }

    #[test]
    fn as_many_brackets_as_there_are_bytes_are_counted() {
        for size in [0, 1, 254, 255, 256, 511, 10_000] {
            assert_eq!(opening("[{".repeat(size).as_bytes()), 2 * size);
        }
    }
}
