//! What happened on the wire, told by the transport and judged by nobody yet.

use crate::replay::StatusClass;
use crate::retry_after::RetryAfter;

/// The bytes that are kept of an answer's body if its status is 2xx.
pub const KEPT_OF_SUCCESS: usize = 1_024;
/// The bytes that are kept of any other answer's body.
pub const KEPT_OF_FAILURE: usize = 16 * 1_024;

/// How one attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver answered, and its answer came to its end, or as far as it is kept.
    Answered {
        /// The HTTP status, 100 to 999.
        status: u16,
        /// What its Retry-After header asked for, if it had one that could be read.
        retry_after: Option<RetryAfter>,
    },
    /// One of the policy's deadlines passed.
    TimedOut,
    /// No connection, or it broke before an answer.
    Unreachable(Unreachable),
    /// The TLS handshake failed: certificate, name, or no common version.
    TlsFailed,
    /// Bytes came that are no HTTP answer, more head than we read, or a body that broke off before as much
    /// of it came as is kept.
    BrokenAnswer,
    /// The address guard refused the destination. Nothing was sent.
    Blocked,
    /// We stopped the attempt ourselves: shutdown, lost lease, panic. Costs nothing.
    Interrupted,
}

/// Where a connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unreachable {
    /// The name has no address, or its servers did not say.
    Dns,
    /// The port is closed.
    Refused,
    /// The connection broke.
    Reset,
    /// No route, no network, or another error of the sockets.
    Other,
}

/// The ways an attempt can fail without an answer, as a policy classifies them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkFailure {
    /// [`Outcome::TimedOut`].
    Timeout,
    /// [`Unreachable::Dns`].
    Dns,
    /// [`Unreachable::Refused`].
    Refused,
    /// [`Unreachable::Reset`].
    Reset,
    /// [`Unreachable::Other`].
    Other,
    /// [`Outcome::TlsFailed`].
    Tls,
    /// [`Outcome::BrokenAnswer`].
    Broken,
}

impl NetworkFailure {
    /// All of them, in the order in which they are listed to people.
    pub const ALL: [Self; 7] = [
        Self::Timeout,
        Self::Dns,
        Self::Refused,
        Self::Reset,
        Self::Other,
        Self::Tls,
        Self::Broken,
    ];

    /// Returns the one that an outcome is, if it is one.
    #[must_use]
    pub fn of(outcome: Outcome) -> Option<Self> {
        match outcome {
            Outcome::TimedOut => Some(Self::Timeout),
            Outcome::Unreachable(unreachable) => Some(unreachable.into()),
            Outcome::TlsFailed => Some(Self::Tls),
            Outcome::BrokenAnswer => Some(Self::Broken),
            Outcome::Answered { .. } | Outcome::Blocked | Outcome::Interrupted => None,
        }
    }

    /// Returns the word a policy uses for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Dns => "dns",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Other => "unreachable",
            Self::Tls => "tls",
            Self::Broken => "broken",
        }
    }
}

impl From<Unreachable> for NetworkFailure {
    fn from(unreachable: Unreachable) -> Self {
        match unreachable {
            Unreachable::Dns => Self::Dns,
            Unreachable::Refused => Self::Refused,
            Unreachable::Reset => Self::Reset,
            Unreachable::Other => Self::Other,
        }
    }
}

impl Outcome {
    /// Makes the outcome of an answer without Retry-After.
    #[must_use]
    pub const fn answered(status: u16) -> Self {
        Self::Answered { status, retry_after: None }
    }

    /// Returns the status of the answer, if there was one.
    #[must_use]
    pub const fn status(self) -> Option<u16> {
        match self {
            Self::Answered { status, .. } => Some(status),
            Self::TimedOut
            | Self::Unreachable(_)
            | Self::TlsFailed
            | Self::BrokenAnswer
            | Self::Blocked
            | Self::Interrupted => None,
        }
    }

    /// Tells whether the status is 2xx, as lists and statistics count attempts. What that means for
    /// the delivery is the policy's to say: [`judge`](crate::judge()) does.
    #[must_use]
    pub const fn is_2xx(self) -> bool {
        matches!(StatusClass::of(self.status()), StatusClass::Success)
    }

    /// Returns the most bytes that are kept of the answer's body.
    #[must_use]
    pub const fn most_kept(self) -> usize {
        if self.is_2xx() { KEPT_OF_SUCCESS } else { KEPT_OF_FAILURE }
    }

    /// Tells whether the receiver, by this outcome, asks for less at a time: 429, 502, 503, 504
    /// and silence do, whatever the policy makes of them.
    #[must_use]
    pub const fn asks_for_less(self) -> bool {
        match self {
            Self::Answered { status, .. } => matches!(status, 429 | 502 | 503 | 504),
            Self::TimedOut => true,
            Self::Unreachable(_)
            | Self::TlsFailed
            | Self::BrokenAnswer
            | Self::Blocked
            | Self::Interrupted => false,
        }
    }
}
