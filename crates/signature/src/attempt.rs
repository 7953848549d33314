//! What is signed: one attempt of a delivery, and the headers that come of it.

use std::borrow::Cow;

use crate::error::{Error, ValueFault};
use crate::limits::MAX_VALUE_BYTES;
use crate::timestamp::Timestamp;

/// One attempt to deliver a message, as far as headers and signatures depend on it.
///
/// Ids and body stay the same from attempt to attempt, the timestamp does not.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// The message's id. It is part of what Standard Webhooks sign and must not contain a full stop.
    pub message_id: &'a str,
    /// The delivery's id.
    pub delivery_id: &'a str,
    /// The message's event type.
    pub event_type: &'a str,
    /// When the attempt is made, as unix time in seconds.
    pub timestamp: i64,
    /// The bytes that are sent.
    pub body: &'a [u8],
}

impl<'a> Attempt<'a> {
    pub(crate) fn checked_timestamp(&self) -> Result<Timestamp, Error> {
        Timestamp::new(self.timestamp).map_err(|fault| Error::Attempt { field: "timestamp", fault })
    }

    pub(crate) fn checked_message_id(&self) -> Result<&'a str, Error> {
        checked("message id", self.message_id, check_value(self.message_id.as_bytes()))
    }

    /// The message's id as part of a signed text.
    pub(crate) fn signable_message_id(&self) -> Result<&'a str, Error> {
        checked("message id", self.message_id, check_signed_id(self.message_id.as_bytes()))
    }

    pub(crate) fn checked_delivery_id(&self) -> Result<&'a str, Error> {
        checked("delivery id", self.delivery_id, check_value(self.delivery_id.as_bytes()))
    }

    pub(crate) fn checked_event_type(&self) -> Result<&'a str, Error> {
        checked("event type", self.event_type, check_value(self.event_type.as_bytes()))
    }
}

/// A header to send with an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name, spelled as its profile publishes it; HTTP does not care about capitals.
    pub name: &'a str,
    /// The value: visible ASCII and, between signatures, spaces.
    pub value: Cow<'a, str>,
}

fn checked<'a>(
    field: &'static str,
    value: &'a str,
    check: Result<(), ValueFault>,
) -> Result<&'a str, Error> {
    check.map(|()| value).map_err(|fault| Error::Attempt { field, fault })
}

/// Refuses what cannot be a header's value, line breaks above all.
pub(crate) fn check_value(value: &[u8]) -> Result<(), ValueFault> {
    if value.is_empty() {
        Err(ValueFault::Empty)
    } else if value.len() > MAX_VALUE_BYTES {
        Err(ValueFault::TooLong(MAX_VALUE_BYTES))
    } else if !value.iter().all(u8::is_ascii_graphic) {
        Err(ValueFault::NotVisibleAscii)
    } else {
        Ok(())
    }
}

/// Refuses in addition a full stop. `id.timestamp.body` could otherwise be cut elsewhere: whoever gets
/// `.1700000000.` into a body could present its end as a message of its own, under a fitting signature.
pub(crate) fn check_signed_id(id: &[u8]) -> Result<(), ValueFault> {
    check_value(id)?;
    if id.contains(&b'.') { Err(ValueFault::FullStop) } else { Ok(()) }
}
