//! What is sent: each message has a number, and its payload follows from it byte by byte, so that
//! whoever gets one knows whether a byte of it was changed on the way.

use bytes::Bytes;

const BEGINNING: &str = "{\"number\": ";

/// Returns the payload of a message. Its blanks are unusual, and must be kept as they are.
pub(crate) fn payload(number: u64, padding: usize) -> String {
    let text = "fault ".repeat(1 + usize::try_from(number % 40).unwrap_or(0) + padding);
    format!("{BEGINNING}{number} ,  \"text\":\"{text}\\u00e9\" }}")
}

/// Returns a whole message.
pub(crate) fn message(payload: &str, channels: &[&str]) -> Bytes {
    let channels = channels.join("\",\"");
    let text = format!(
        "{{\"eventType\":\"fault.tried\",\"channels\":[\"{channels}\"],\"payload\":{payload}}}"
    );
    text.into()
}

/// Reads the number of a payload back; none if it is not exactly what was sent.
pub(crate) fn number_of(body: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(body).ok()?;
    let number: u64 = text.strip_prefix(BEGINNING)?.split(' ').next()?.parse().ok()?;
    let least = payload(number, 0);
    let padding = text.len().saturating_sub(least.len()) / "fault ".len();
    (text == payload(number, padding)).then_some(number)
}
