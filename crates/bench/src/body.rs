//! The bodies of messages: made once, stamped with a time for each sending, and read by the
//! receiver.
//!
//! The time in a payload is when the message should have been sent. The server keeps the bytes of
//! a payload as they are, so the receiver can tell how long the message took without asking.

use bytes::Bytes;
use domain::time::Timestamp;

use super::shapes;

/// How large a payload is.
const PAYLOAD_BYTES: usize = 512;
/// What a payload begins with.
const OPENING: &str = "{\"at\":";
/// Microseconds since 1970 have so many digits until the year 2286.
const DIGITS: usize = 16;

/// A body with places for the time.
#[derive(Debug, Clone)]
pub(super) struct Body {
    bytes: Vec<u8>,
    stamps: Vec<usize>,
}

impl Body {
    /// Makes the body of a request that has none.
    pub(super) fn empty() -> Self {
        Self { bytes: Vec::new(), stamps: Vec::new() }
    }

    /// Makes what a receiver gets: a payload and nothing around it.
    pub(super) fn bare() -> Self {
        Self::around(&payload())
    }

    /// Makes a message, for the endpoints with a channel if one is named.
    pub(super) fn message(channel: Option<&str>) -> Self {
        Self::around(&shapes::message(&payload(), channel))
    }

    /// Makes a batch of equal messages.
    pub(super) fn batch(messages: usize, channel: Option<&str>) -> Self {
        let message = shapes::message(&payload(), channel);
        Self::around(&shapes::batch(&vec![message; messages]))
    }

    fn around(text: &str) -> Self {
        let places = text.match_indices(OPENING).map(|(at, _)| at + OPENING.len());
        Self { stamps: places.collect(), bytes: text.as_bytes().to_vec() }
    }

    /// Returns the body with a time in each of its messages.
    pub(super) fn stamped(&self, at: Timestamp) -> Bytes {
        let mut bytes = self.bytes.clone();
        for place in &self.stamps {
            write_digits(&mut bytes[*place..*place + DIGITS], at);
        }
        Bytes::from(bytes)
    }

    /// Returns how many messages it holds.
    pub(super) fn messages(&self) -> usize {
        self.stamps.len()
    }
}

/// Reads the time from a payload. Somebody else's payload has none.
pub(super) fn time_in(payload: &[u8]) -> Option<Timestamp> {
    let digits = payload.strip_prefix(OPENING.as_bytes())?.get(..DIGITS)?;
    let add = |micros: i64, digit: &u8| {
        digit.is_ascii_digit().then(|| micros * 10 + i64::from(digit - b'0'))
    };
    digits.iter().try_fold(0, add).map(Timestamp::from_micros)
}

fn payload() -> String {
    let head = format!("{OPENING}{},\"fill\":\"", "0".repeat(DIGITS));
    let fill = "x".repeat(PAYLOAD_BYTES - head.len() - 2);
    format!("{head}{fill}\"}}")
}

fn write_digits(place: &mut [u8], at: Timestamp) {
    let mut rest = at.as_micros().unsigned_abs();
    for digit in place.iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const AT: Timestamp = Timestamp::from_micros(1_763_251_200_123_456);

    #[test]
    fn a_payload_tells_the_time_it_was_stamped_with() {
        let payload = Body::bare().stamped(AT);
        assert_eq!(payload.len(), PAYLOAD_BYTES);
        assert_eq!(time_in(&payload), Some(AT));
        let read: Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!(read["at"], AT.as_micros());
    }

    #[test]
    fn every_message_of_a_batch_is_stamped() {
        let batch = Body::batch(3, Some("c1"));
        assert_eq!(batch.messages(), 3);
        let read: Value = serde_json::from_slice(&batch.stamped(AT)).unwrap();
        let text = read.to_string();
        assert_eq!(text.matches(&AT.as_micros().to_string()).count(), 3, "{text}");
    }

    #[test]
    fn a_foreign_payload_has_no_time() {
        for payload in [&b""[..], b"{\"at\":17}", b"{\"at\":now_or_never____}", b"x"] {
            assert_eq!(time_in(payload), None);
        }
    }
}
