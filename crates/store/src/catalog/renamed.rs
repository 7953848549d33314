//! Names that a migration had to change, because a path cannot say them any more.

use domain::ids::{ApplicationId, EndpointId, MessageId};

/// What the migration renamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renamed {
    /// Its number in the list.
    pub number: i64,
    /// Whose name it is.
    pub whose: Whose,
    /// The id under which its owner finds it. An event type has none but its name.
    pub id: String,
    /// The name that it had.
    pub old: String,
    /// The name that it has now.
    pub new: String,
}

/// Whose name was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The uid of an application.
    Application,
    /// The uid of an endpoint.
    Endpoint,
    /// The event id of a message.
    Message,
    /// The name of an event type.
    EventType,
    /// The name of a token.
    Token,
}

impl Whose {
    /// Returns what is named in this way, in a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Application => "uid of an application",
            Self::Endpoint => "uid of an endpoint",
            Self::Message => "event id of a message",
            Self::EventType => "event type",
            Self::Token => "name of a token",
        }
    }

    /// Reads the number under which a migration keeps it; the last one stands for any other.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) const fn of(number: i64) -> Self {
        match number {
            0 => Self::Application,
            1 => Self::Endpoint,
            2 => Self::Message,
            3 => Self::EventType,
            _ => Self::Token,
        }
    }

    /// Writes an id as its owner reads it.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn shown(self, id: &[u8]) -> String {
        let text = || String::from_utf8_lossy(id).into_owned();
        let Ok(bytes) = id.try_into() else { return text() };
        match self {
            Self::Application => ApplicationId::from_bytes(bytes).to_string(),
            Self::Endpoint => EndpointId::from_bytes(bytes).to_string(),
            Self::Message => MessageId::from_bytes(bytes).to_string(),
            Self::EventType | Self::Token => text(),
        }
    }
}
