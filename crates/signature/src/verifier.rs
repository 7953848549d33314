//! The receiver's side: is this request from the sender who has the secret?
//!
//! The caller brings the headers, the raw body and the time. A request is accepted for one reason
//! only: a signature fits, and its timestamp is fresh. Why another one was refused is looked into
//! afterwards, in `diagnosis`, and never changes the answer.

use std::fmt;
use std::time::Duration;

use crate::claim::Claim;
use crate::diagnosis::suspect;
use crate::error::{Error, SetupFault};
use crate::key_pair::PublicKey;
use crate::mac::MacKey;
use crate::profile::{self, Content, DigestForm, Profile, StandardHeaders};
use crate::secret::{SharedSecret, VerifyingSecret};
use crate::signer::check_number_of_secrets;

/// How far a timestamp may be from now, in both directions, unless the caller says otherwise.
pub const DEFAULT_TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// Verifies requests that were signed in the form of one profile.
pub struct Verifier {
    form: Form,
    keys: Vec<Key>,
    tolerance: Duration,
}

impl Verifier {
    /// Prepares to verify with any of the secrets, which are several while one replaces another.
    pub fn new(secrets: &[VerifyingSecret], profile: &Profile) -> Result<Self, Error> {
        check_number_of_secrets(secrets.len())?;
        let form = Form::of(profile)?;
        let keys: Vec<Key> = secrets.iter().map(|secret| Key::new(secret, &form)).collect();
        let usable = match form {
            Form::Standard(_) => true,
            Form::Stamped(_) | Form::V0 { .. } | Form::Digest(..) => {
                keys.iter().any(Key::is_shared)
            }
        };
        if !usable {
            return Err(Error::Setup(SetupFault::NeedsSharedSecret(profile.to_string())));
        }
        Ok(Self { form, keys, tolerance: DEFAULT_TOLERANCE })
    }

    /// Sets how far a timestamp may be from now, in both directions, in whole seconds.
    ///
    /// The longer it is, the longer a request that somebody recorded can be sent again.
    #[must_use]
    pub fn with_tolerance(self, tolerance: Duration) -> Self {
        Self { tolerance, ..self }
    }

    /// Verifies a request.
    ///
    /// `header` looks up a header by its name, regardless of capitals; with the crate `http` it is
    /// `|name| headers.get(name).map(|value| value.as_bytes())`. The body has to be the raw bytes,
    /// before anything parsed them. `now` is unix time in seconds.
    ///
    /// The error says what to look at, which is for the log of the receiver and not for the sender
    /// of a request that may be forged.
    pub fn verify<'h>(
        &'h self,
        header: impl Fn(&str) -> Option<&'h [u8]>,
        body: &[u8],
        now: i64,
    ) -> Result<Verified<'h>, Error> {
        let claim = match &self.form {
            Form::Standard(names) => Claim::standard(names, &header)?,
            Form::Stamped(name) => Claim::stamped(name, &header)?,
            Form::V0 { signature, timestamp } => Claim::v0(signature, timestamp, &header)?,
            Form::Digest(form, name) => Claim::digest(name, *form, &header)?,
        };
        claim.check_time(self.form.timestamp_header(), now, self.tolerance.as_secs())?;
        self.check_kinds(&claim)?;
        match self.keys.iter().position(|key| key.fits(&claim, body)) {
            Some(secret) => Ok(Verified {
                message_id: claim.message_id,
                timestamp: claim.timestamp.map(|timestamp| timestamp.seconds()),
                secret,
            }),
            None => Err(Error::Mismatch(suspect(&self.keys, &claim, body))),
        }
    }

    /// Refuses early, and with a better reason, when no secret is of the kind that signed.
    fn check_kinds(&self, claim: &Claim<'_>) -> Result<(), Error> {
        let has_hash = !claim.hashes.is_empty();
        let has_public = !claim.public_signatures.is_empty();
        let shared = self.keys.iter().any(Key::is_shared);
        let public = self.keys.iter().any(|key| !key.is_shared());
        if (has_hash && shared) || (has_public && public) {
            return Ok(());
        }
        let hint = match (has_hash, has_public) {
            (true, _) => "it lists HMAC signatures (v1), which a public key (whpk_) cannot check",
            (false, true) => {
                "it lists ed25519 signatures (v1a), which a shared secret (whsec_, plain:) cannot check"
            }
            (false, false) => self.form.expected(),
        };
        Err(Error::NoUsableSignature { name: claim.header.to_owned(), hint })
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Verifier")
            .field("form", &self.form)
            .field("secrets", &self.keys.len())
            .field("tolerance", &self.tolerance)
            .finish()
    }
}

/// What is known of a request that was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified<'h> {
    /// The message's id, where the form signs it: deduplicate by it, retries carry the same.
    pub message_id: Option<&'h str>,
    /// When the attempt was signed, where the form says so, as unix time in seconds.
    pub timestamp: Option<i64>,
    /// Which of the verifier's secrets fitted, counted from 0. When requests stop using an old
    /// secret, it can be removed.
    pub secret: usize,
}

#[derive(Debug)]
enum Form {
    Standard(&'static StandardHeaders),
    Stamped(String),
    V0 { signature: String, timestamp: String },
    Digest(DigestForm, String),
}

impl Form {
    fn of(profile: &Profile) -> Result<Self, Error> {
        match profile {
            Profile::StandardWebhooks => return Ok(Self::Standard(&profile::STANDARD)),
            Profile::Svix => return Ok(Self::Standard(&profile::SVIX)),
            Profile::V0 { signature, timestamp } => {
                let [signature, timestamp] = [signature, timestamp].map(ToString::to_string);
                return Ok(Self::V0 { signature, timestamp });
            }
            Profile::Branded(None) => return Err(Error::Setup(SetupFault::NeedsBrand)),
            Profile::Branded(Some(_))
            | Profile::Timestamped(_)
            | Profile::Digest(..)
            | Profile::WebhookDigest
            | Profile::Companion(..)
            | Profile::EventId => {}
        }
        // What is left has one header that signs, if it has any.
        let form = profile.parts().into_iter().find_map(|(name, content)| match content {
            Content::Stamped => Some(Self::Stamped(name.to_owned())),
            Content::Digest(form) => Some(Self::Digest(form, name.to_owned())),
            Content::Told(_) | Content::Standard | Content::V0 => None,
        });
        form.ok_or(Error::Setup(SetupFault::NothingSigned))
    }

    /// The header that holds the time, for messages about it.
    fn timestamp_header(&self) -> &str {
        match self {
            Self::Standard(names) => names.timestamp,
            Self::V0 { timestamp, .. } => timestamp,
            Self::Stamped(name) | Self::Digest(_, name) => name,
        }
    }

    fn expected(&self) -> &'static str {
        match self {
            Self::Standard(_) => "it lists neither v1, nor v1a, signatures",
            Self::Stamped(_) => "it lists no v1= signatures",
            Self::V0 { .. } => "it holds no v0= signature",
            Self::Digest(..) => "it holds no digest",
        }
    }
}

/// A secret prepared for one form. The secret itself is kept for the diagnosis.
pub(crate) enum Key {
    /// The hash is keyed with the secret's bytes.
    Bytes(SharedSecret, MacKey),
    /// The hash is keyed with the secret's text.
    Text(SharedSecret, MacKey),
    /// Signatures are checked with the public key.
    Public(PublicKey),
}

impl Key {
    fn new(secret: &VerifyingSecret, form: &Form) -> Self {
        match (secret, form) {
            (VerifyingSecret::Public(key), _) => Self::Public(key.clone()),
            (VerifyingSecret::Shared(secret), Form::Standard(_)) => {
                Self::Bytes(secret.clone(), MacKey::new(secret.bytes()))
            }
            (
                VerifyingSecret::Shared(secret),
                Form::Stamped(_) | Form::V0 { .. } | Form::Digest(..),
            ) => Self::Text(secret.clone(), MacKey::new(&secret.text_bytes())),
        }
    }

    fn is_shared(&self) -> bool {
        match self {
            Self::Bytes(..) | Self::Text(..) => true,
            Self::Public(_) => false,
        }
    }

    pub(crate) fn fits(&self, claim: &Claim<'_>, body: &[u8]) -> bool {
        match self {
            Self::Bytes(_, key) | Self::Text(_, key) => claim.fits_key(key, body),
            Self::Public(key) => claim.fits_public_key(key, body),
        }
    }
}
