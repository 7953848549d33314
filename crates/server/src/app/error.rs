//! Why something was not done, by what the caller can do about it.
//!
//! How each of them looks on the wire is decided in `problem` alone. Texts are for whoever called;
//! what only the operator may know is in [`Error::Internal`] and [`Error::Unavailable`], which show
//! nothing of it.

use domain::address::{Reason, Refusal};

use super::access::Caller;
use super::condition::Tag;
use super::tokens::Reach;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There was no token, or none that works.
    #[error("the token is missing, unknown, expired or revoked")]
    Unauthenticated,
    /// The token works, but not for this.
    #[error("{0}")]
    Forbidden(&'static str),
    /// There is no such thing, or not in this application.
    #[error("there is no such {0}")]
    Missing(&'static str),
    /// A name is taken, or the state of things does not allow it.
    #[error("{0}")]
    Conflict(String),
    /// An event type of that name exists and is not archived.
    #[error("an event type `{0}` exists already")]
    EventTypeExists(String),
    /// The row is another version than the one the caller means, or there is none.
    #[error("{}", outdated(.current.as_ref()))]
    Outdated {
        /// Its version, if it is there.
        current: Option<Tag>,
    },
    /// Parts of the request make no sense.
    #[error("{}", listed(.0))]
    Invalid(Vec<Fault>),
    /// The request is well formed, and refused.
    #[error("{text}")]
    Refused {
        /// Which refusal it is.
        refusal: RefusalKind,
        /// Why, and what to do.
        text: String,
    },
    /// The request's body is larger than allowed.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// The application sends faster than its share allows.
    #[error("this application sends faster than its messages can be stored; try again soon")]
    TooFast,
    /// So much of all applications waits that the server could not store it in time.
    #[error("the server cannot store messages as fast as they are sent; try again soon")]
    Overloaded,
    /// The application's tokens ask for changes, replays and resends faster than they may.
    #[error(
        "this application's tokens ask for too many changes, replays and resends; try again soon, or have \
         the operator raise limits.configuration_rate"
    )]
    TooManyChanges,
    /// The operation is not offered.
    #[error("{0}")]
    NotOffered(&'static str),
    /// The store or the server cannot do it now. The text is for the operator.
    #[error("{0}")]
    Unavailable(String),
    /// Something is wrong with us. The text is for the operator.
    #[error("{0}")]
    Internal(String),
}

/// The refusals that have a code of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// No other fits.
    Generic,
    /// The endpoint's URL leads where deliveries may not go.
    UrlNotAllowed,
    /// There may be no more of these.
    LimitReached,
    /// A range of time is too long, or ends before it begins.
    InvalidRange,
    /// The payload is gone.
    MissingPayload,
    /// The event type has no example that could be sent.
    InvalidScheme,
}

/// A part of a request that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where: `body` or `query` or `path`, then the names that lead there.
    pub place: Vec<String>,
    /// What is wrong, and what to write instead.
    pub text: String,
    /// What kind of fault it is.
    pub kind: FaultKind,
}

/// The kinds of faults, as the SDKs name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A value is not allowed.
    Value,
    /// The body is not JSON, or a value has another type.
    Json,
    /// The application in the body is another one than in the path.
    ApplicationUidMismatch,
    /// The application in the body has no uid.
    ApplicationUidMissing,
}

impl Error {
    /// Refuses one field of the body.
    pub fn field(name: &str, text: impl Into<String>) -> Self {
        Self::Invalid(vec![Fault::field(name, text)])
    }

    /// Refuses one parameter of the query.
    pub fn parameter(name: &str, text: impl Into<String>) -> Self {
        let place = vec!["query".to_owned(), name.to_owned()];
        Self::Invalid(vec![Fault { place, text: text.into(), kind: FaultKind::Value }])
    }

    /// Refuses a request that is well formed.
    pub fn refused(refusal: RefusalKind, text: impl Into<String>) -> Self {
        Self::Refused { refusal, text: text.into() }
    }

    /// Refuses an endpoint's URL: its owner is told what is wrong with its spelling, and nothing
    /// about the network. An operator is told which rule refused it.
    #[must_use]
    pub fn url(refusal: &Refusal, caller: &Caller) -> Self {
        let text = match caller.reach {
            Reach::Everything => refusal.for_operator(),
            Reach::Application(_) => refusal.for_application(),
        };
        match refusal.reason() {
            Reason::Malformed(_) | Reason::InvalidName(_) => Self::field("url", text),
            Reason::Name(..)
            | Reason::Port(..)
            | Reason::PlainHttp
            | Reason::NotPublic { .. }
            | Reason::OwnAddress(_)
            | Reason::NoAddress
            | Reason::OtherPeer { .. } => Self::refused(RefusalKind::UrlNotAllowed, text),
        }
    }
}

impl Fault {
    /// Makes a fault of a field of the body.
    pub fn field(name: &str, text: impl Into<String>) -> Self {
        let place = ["body"].into_iter().chain(name.split('.')).map(str::to_owned).collect();
        Self { place, text: text.into(), kind: FaultKind::Value }
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Missing(what) => Self::Missing(what),
            store::Error::Taken { what, name } => {
                Self::Conflict(format!("{what} `{name}` is taken already; choose another"))
            }
            store::Error::Refused(text) => Self::Conflict(text),
            // What a change of ours declined with comes back as it was.
            store::Error::Declined(refusal) => match refusal.downcast::<Self>() {
                Ok(own) => *own,
                Err(other) => Self::Internal(other.to_string()),
            },
            store::Error::Unavailable { .. } => Self::Unavailable(error.to_string()),
            store::Error::CannotOpen(_) | store::Error::Damaged { .. } => {
                Self::Internal(error.to_string())
            }
        }
    }
}

fn outdated(current: Option<&Tag>) -> String {
    match current {
        Some(tag) => {
            let tag = tag.text();
            format!(
                "it is not the version that the request means: its ETag is {tag}; read it again"
            )
        }
        None => "there is no version of it that the request could mean".to_owned(),
    }
}

fn listed(faults: &[Fault]) -> String {
    let texts: Vec<String> =
        faults.iter().map(|it| format!("{}: {}", it.place.join("."), it.text)).collect();
    texts.join("; ")
}
