//! What can go wrong, sorted by what the caller can do about it.
//!
//! A sender meets the first three variants while it sets up; a receiver meets the others once per
//! refused request. The texts are written for the developer who reads the log: they name the header,
//! how far off the clock is, and what probably happened. None of them contains a secret, a body or a
//! signature, so they may be logged; do not answer a request with them.

use crate::{Profile, Suspicion, limits};

/// Says why a secret, a profile, an attempt or a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The secret cannot be used: give another one.
    #[error("this secret cannot be used: {0}")]
    Secret(SecretFault),

    /// Secrets and profiles do not fit together: change the configuration.
    #[error("signing cannot be set up: {0}")]
    Setup(SetupFault),

    /// The attempt holds a value that cannot be signed or sent as a header: mend the value.
    #[error("the attempt's {field} {fault}")]
    Attempt {
        /// Names the field of [`Attempt`](crate::Attempt).
        field: &'static str,
        /// Says what is wrong with it.
        fault: ValueFault,
    },

    /// The request lacks a header: it comes from another sender, or a proxy removed the header.
    #[error("the header {name} is missing: is this request from the expected sender?")]
    MissingHeader {
        /// The header's name.
        name: String,
    },

    /// A header is there but cannot be read: the sender, or something in between, is broken.
    #[error("the header {name} {fault}")]
    MalformedHeader {
        /// The header's name.
        name: String,
        /// Says what is wrong with its value.
        fault: ValueFault,
    },

    /// The request was signed too long ago: it is a replay, or a clock is wrong.
    #[error(
        "the request was signed {seconds} s ago, more than the {tolerance} s allowed: \
         compare this machine's clock with the sender's, or suspect a replay"
    )]
    TooOld {
        /// How many seconds lie between the timestamp and now.
        seconds: u64,
        /// How many seconds were allowed.
        tolerance: u64,
    },

    /// The request was signed in the future: a clock is wrong.
    #[error(
        "the request was signed {seconds} s in the future, more than the {tolerance} s allowed: \
         compare this machine's clock with the sender's"
    )]
    TooNew {
        /// How many seconds lie between now and the timestamp.
        seconds: u64,
        /// How many seconds were allowed.
        tolerance: u64,
    },

    /// The header holds no signature that the given secrets could check.
    #[error("the header {name} holds no signature of a kind that the given secrets check: {hint}")]
    NoUsableSignature {
        /// The header's name.
        name: String,
        /// What would have been usable.
        hint: &'static str,
    },

    /// There are signatures of the right kind, and none of them fits.
    #[error("no signature fits: {0}")]
    Mismatch(Suspicion),
}

/// Says what is wrong with the text or the bytes of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretFault {
    /// The text starts with none of the known prefixes.
    #[error(
        "it starts with none of whsec_ (shared), plain: (shared, the text of a secret that receivers \
         have already), whsk_ (private key) and whpk_ (public key)"
    )]
    UnknownPrefix,
    /// What follows the prefix is not base64.
    #[error(
        "what follows {prefix} is not base64 of the standard alphabet with its padding: \
         was it cut off, or copied with spaces?"
    )]
    NotBase64 {
        /// The prefix that was found.
        prefix: &'static str,
    },
    /// The decoded bytes are too few or too many.
    #[error("{prefix} must be followed by base64 of {allowed} bytes, these are {actual}")]
    Length {
        /// The prefix that was found.
        prefix: &'static str,
        /// The number of bytes allowed.
        allowed: &'static str,
        /// The number of bytes found.
        actual: usize,
    },
    /// The text of a plain secret is too short or too long.
    #[error(
        "plain: must be followed by {least} to {most} characters, these are {0}",
        least = limits::PLAIN_SECRET_CHARACTERS.start(),
        most = limits::PLAIN_SECRET_CHARACTERS.end()
    )]
    PlainLength(usize),
    /// The text of a plain secret has characters that get lost or changed where it is pasted.
    #[error(
        "plain: must be followed by visible characters of ASCII, with blanks only between them: \
         was it copied with a blank or a line break?"
    )]
    PlainCharacters,
    /// The two halves of a private key do not belong together.
    #[error("the second half of the private key is not the public key of the first half")]
    HalvesDiffer,
    /// The bytes are no public key, or one for which signatures can be forged.
    #[error("these 32 bytes are not a usable ed25519 public key")]
    BadPublicKey,
    /// A public key was given where something has to be signed.
    #[error("a public key (whpk_) only verifies: signing needs whsec_, plain: or whsk_")]
    CannotSign,
    /// A private key was given to a receiver.
    #[error("a private key (whsk_) belongs to the sender alone: a receiver takes its whpk_")]
    NotForReceivers,
}

/// Says why secrets and profiles cannot be used together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupFault {
    /// No secret was given.
    #[error("at least one secret is needed")]
    NoSecret,
    /// More secrets were given than a receiver would look at.
    #[error("{0} secrets are more than the {max} allowed", max = limits::MAX_SECRETS)]
    TooManySecrets(usize),
    /// More profiles were given than one request is signed in.
    #[error("{0} profiles are more than the {max} allowed", max = limits::MAX_PROFILES)]
    TooManyProfiles(usize),
    /// No given profile signs anything.
    #[error("none of the profiles carries a signature")]
    NothingSigned,
    /// The profile is a keyed hash, and only ed25519 keys were given.
    #[error("the profile {0} needs a shared secret (whsec_ or plain:), not an ed25519 key")]
    NeedsSharedSecret(String),
    /// The profile leaves the brand to a configuration, and was not given it.
    #[error("the profile branded needs a brand: write branded:<Brand>")]
    NeedsBrand,
    /// Two profiles would write the same header.
    #[error(
        "the profiles `{}` and `{}` both write the header {header}: keep one of them",
        profiles[0], profiles[1]
    )]
    HeaderTwice {
        /// The header's name.
        header: String,
        /// The texts of the profiles.
        profiles: [String; 2],
    },
    /// The text names no profile.
    #[error("{0:?} is not a profile: use {forms}", forms = Profile::FORMS.join(", "))]
    UnknownProfile(String),
    /// The text cannot be a brand.
    #[error(
        "{0:?} is not a brand: use 1 to {max} letters, digits and inner hyphens",
        max = limits::MAX_BRAND_BYTES
    )]
    BadBrand(String),
    /// The text cannot be the name of a header.
    #[error(
        "{0:?} is not the name of a header: use letters and digits, with a hyphen, an underscore or a \
         full stop between them, at most {max} characters",
        max = limits::MAX_HEADER_NAME_BYTES
    )]
    BadHeaderName(String),
    /// The name of a header has a meaning of its own.
    #[error(
        "the header {0} has a meaning of its own, and a profile cannot write it: choose another"
    )]
    ReservedHeaderName(String),
}

/// Says what is wrong with a value that is, or would be, part of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ValueFault {
    /// There is nothing.
    #[error("is empty")]
    Empty,
    /// There is too much.
    #[error("is longer than the {0} bytes allowed")]
    TooLong(usize),
    /// It has characters that do not belong in a header.
    #[error("holds characters other than visible ASCII")]
    NotVisibleAscii,
    /// It has a full stop, which would let the signed parts be cut differently.
    #[error("holds a full stop, so that it could be signed for one message and read as another")]
    FullStop,
    /// It is no unix time in whole seconds.
    #[error("is not a unix time in whole seconds, such as 1674087231")]
    NotATimestamp,
    /// It looks like milliseconds.
    #[error("looks like milliseconds: it has to be a unix time in whole seconds")]
    Milliseconds,
    /// It lists more signatures than are looked at.
    #[error("lists more than the {0} signatures allowed")]
    TooManySignatures(usize),
    /// It is not of the form that the profile prescribes.
    #[error("does not have the form {0}")]
    NotOfForm(&'static str),
}

/// Longest text of a stranger that an error repeats.
const SHOWN_CHARACTERS: usize = 80;

/// Returns what an error repeats of a text that cannot be read.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARACTERS).collect()
}
