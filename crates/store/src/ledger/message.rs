//! Messages as they are looked at.

use bytes::Bytes;
use domain::ids::MessageId;
use domain::time::Timestamp;

use crate::keys::{ApplicationKey, EndpointKey, MessageKey};

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageEntry {
    /// Its row.
    pub key: MessageKey,
    /// Whose it is.
    pub application: ApplicationKey,
    /// Its id.
    pub id: MessageId,
    /// What kind of message it is.
    pub event_type: String,
    /// The sender's own id for it.
    pub event_id: Option<String>,
    /// The channels it goes out on.
    pub channels: Vec<String>,
    /// What the payload is said to be when it is not JSON.
    pub content_type: Option<String>,
    /// The policy that was set on this very message, as a document.
    pub policy: Option<String>,
    /// When it is to be delivered, if not at once.
    pub deliver_at: Option<Timestamp>,
    /// The only endpoint it is for; all that fit if none is named.
    pub only: Option<EndpointKey>,
    /// When it was received.
    pub received_at: Timestamp,
    /// Its payload.
    pub payload: Payload,
}

impl MessageEntry {
    /// Returns how many bytes it has that somebody chose.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let payload = match &self.payload {
            Payload::Kept(bytes) => bytes.len(),
            Payload::Omitted | Payload::Gone => 0,
        };
        let texts = [&self.event_id, &self.content_type, &self.policy];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        let channels: usize = self.channels.iter().map(String::len).sum();
        payload + texts + channels + self.event_type.len()
    }
}

/// A message's payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// The exact bytes.
    Kept(Bytes),
    /// Not asked for.
    Omitted,
    /// Removed: its time was over, or somebody expunged it.
    Gone,
}

/// Which messages are wanted. What is empty or missing does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageFilter {
    /// Only of these event types.
    pub event_types: Vec<String>,
    /// Only on this channel.
    pub channel: Option<String>,
    /// Only received at this moment or later.
    pub since: Option<Timestamp>,
    /// Only received before this moment.
    pub until: Option<Timestamp>,
    /// Whether payloads are wanted.
    pub with_payload: bool,
}

impl MessageFilter {
    /// Tells whether a message is wanted.
    #[must_use]
    pub fn wants(&self, event_type: &str, channels: &[String], received_at: Timestamp) -> bool {
        (self.event_types.is_empty() || self.event_types.iter().any(|it| it == event_type))
            && self.channel.as_ref().is_none_or(|channel| channels.contains(channel))
            && self.since.is_none_or(|since| received_at >= since)
            && self.until.is_none_or(|until| received_at < until)
    }
}
