//! The sender's side: from an attempt to its headers.
//!
//! A [`Signer`] is made once per endpoint and used for every attempt. What depends only on secrets and
//! profiles is done when it is made, so that an attempt costs the hashing and the values' memory.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::attempt::{Attempt, Header};
use crate::error::{Error, SetupFault};
use crate::key_pair::PrivateKey;
use crate::limits::MAX_SECRETS;
use crate::mac::{Digest, MacKey};
use crate::profile::{Companion, Content, DigestForm, Profile};
use crate::profiles::Profiles;
use crate::secret::SigningSecret;
use crate::timestamp::Timestamp;

/// Signs the attempts of one endpoint.
#[derive(Debug, Clone)]
pub struct Signer {
    /// The headers with what stands in each, in the order of the profiles.
    parts: Vec<(String, Content)>,
    /// For `id.timestamp.body`, in the order of the secrets; empty if no profile wants it.
    standard_keys: Vec<StandardKey>,
    /// For the other forms; empty if no profile wants them.
    text_keys: Vec<MacKey>,
}

/// What was made for one attempt already: each form is made once, however many headers it is in, so
/// that an owner cannot have a large body hashed for each of them.
#[derive(Default)]
struct Made {
    standard: Option<String>,
    stamped: Option<String>,
    v0: Option<String>,
    digest: Option<Digest>,
}

impl Signer {
    /// Prepares to sign with all the secrets, the newest first, in the form of all the profiles.
    ///
    /// Several secrets are used while one replaces another. Standard Webhooks and `t=…,v1=…` then hold
    /// one signature per secret; `v0=…` and a digest have room for one, and the first secret makes it.
    /// The keyed hashes other than Standard Webhooks pass over private keys, and are refused if there
    /// is no shared secret.
    pub fn new(secrets: &[SigningSecret], profiles: &[Profile]) -> Result<Self, Error> {
        check_number_of_secrets(secrets.len())?;
        let profiles = Profiles::new(profiles.to_vec())?;
        let mut signer =
            Self { parts: Vec::new(), standard_keys: Vec::new(), text_keys: Vec::new() };
        for profile in profiles.iter() {
            if *profile == Profile::Branded(None) {
                return Err(Error::Setup(SetupFault::NeedsBrand));
            }
            for (name, content) in profile.parts() {
                signer.prepare(content, secrets, profile)?;
                signer.parts.push((name.to_owned(), content));
            }
        }
        Ok(signer)
    }

    /// Makes the keys that a header needs.
    fn prepare(
        &mut self,
        content: Content,
        secrets: &[SigningSecret],
        profile: &Profile,
    ) -> Result<(), Error> {
        match content {
            Content::Told(_) => {}
            Content::Standard => {
                self.standard_keys = secrets.iter().map(StandardKey::new).collect();
            }
            Content::Stamped | Content::V0 | Content::Digest(_) => {
                self.text_keys = secrets.iter().filter_map(text_key).collect();
                if self.text_keys.is_empty() {
                    let name = profile.to_string();
                    return Err(Error::Setup(SetupFault::NeedsSharedSecret(name)));
                }
            }
        }
        Ok(())
    }

    /// Tells whether a header carries the delivery's id. Otherwise that may be left empty.
    #[must_use]
    pub fn names_delivery(&self) -> bool {
        self.parts.iter().any(|(_, content)| *content == Content::Told(Companion::DeliveryId))
    }

    /// Returns all headers for an attempt, in the order of the profiles.
    pub fn headers<'a>(&'a self, attempt: &Attempt<'a>) -> Result<Vec<Header<'a>>, Error> {
        let timestamp = attempt.checked_timestamp()?;
        let mut made = Made::default();
        let header = |(name, content): &'a (String, Content)| {
            let value = match content {
                Content::Told(companion) => told(*companion, attempt, &timestamp)?,
                Content::Standard => {
                    if made.standard.is_none() {
                        made.standard = Some(self.standard_signatures(attempt, &timestamp)?);
                    }
                    made.standard.clone().unwrap_or_default().into()
                }
                Content::Stamped => {
                    let make = || self.stamped_signatures(attempt, &timestamp);
                    made.stamped.get_or_insert_with(make).clone().into()
                }
                Content::V0 => {
                    let make = || self.v0_signature(attempt, &timestamp);
                    made.v0.get_or_insert_with(make).clone().into()
                }
                Content::Digest(form) => {
                    let make = || self.first_digest(&[attempt.body]);
                    spell(*form, made.digest.get_or_insert_with(make)).into()
                }
            };
            Ok(Header { name, value })
        };
        self.parts.iter().map(header).collect()
    }

    /// `v1,<base64> v1a,<base64> …` over `id.timestamp.body`.
    fn standard_signatures(
        &self,
        attempt: &Attempt<'_>,
        timestamp: &Timestamp,
    ) -> Result<String, Error> {
        let id = attempt.signable_message_id()?;
        let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", attempt.body];
        let mut value =
            String::with_capacity(self.standard_keys.iter().map(StandardKey::room).sum());
        for key in &self.standard_keys {
            if !value.is_empty() {
                value.push(' ');
            }
            match key {
                StandardKey::Shared(key) => {
                    value.push_str("v1,");
                    key.digest(&parts).push_base64(&mut value);
                }
                StandardKey::Private(key) => {
                    value.push_str("v1a,");
                    BASE64.encode_string(key.sign(&parts), &mut value);
                }
            }
        }
        Ok(value)
    }

    /// `t=<unix>,v1=<hex>,v1=<hex> …` over `timestamp.body`.
    fn stamped_signatures(&self, attempt: &Attempt<'_>, timestamp: &Timestamp) -> String {
        let mut value = String::with_capacity(22 + 68 * self.text_keys.len());
        value.push_str("t=");
        timestamp.push_to(&mut value);
        for key in &self.text_keys {
            value.push_str(",v1=");
            key.digest(&[timestamp.as_bytes(), b".", attempt.body]).push_hex(&mut value);
        }
        value
    }

    /// `v0=<hex>` over `v0:timestamp:body`.
    fn v0_signature(&self, attempt: &Attempt<'_>, timestamp: &Timestamp) -> String {
        let parts: [&[u8]; 4] = [b"v0:", timestamp.as_bytes(), b":", attempt.body];
        let mut value = String::with_capacity(67);
        value.push_str("v0=");
        self.first_digest(&parts).push_hex(&mut value);
        value
    }

    /// Hashes with the first secret, for the forms that have room for one signature.
    #[expect(clippy::expect_used, reason = "`prepare` refuses a form that needs a key without one")]
    fn first_digest(&self, parts: &[&[u8]]) -> Digest {
        self.text_keys.first().expect("a form of its own has a key").digest(parts)
    }
}

fn told<'a>(
    companion: Companion,
    attempt: &Attempt<'a>,
    timestamp: &Timestamp,
) -> Result<Cow<'a, str>, Error> {
    Ok(match companion {
        Companion::DeliveryId => attempt.checked_delivery_id()?.into(),
        Companion::MessageId => attempt.checked_message_id()?.into(),
        Companion::EventType => attempt.checked_event_type()?.into(),
        Companion::Timestamp => timestamp.to_text().into(),
    })
}

fn spell(form: DigestForm, digest: &Digest) -> String {
    let mut value = String::with_capacity(71);
    match form {
        DigestForm::PrefixedHex => {
            value.push_str("sha256=");
            digest.push_hex(&mut value);
        }
        DigestForm::Hex => digest.push_hex(&mut value),
        DigestForm::Base64 => digest.push_base64(&mut value),
    }
    value
}

#[derive(Debug, Clone)]
enum StandardKey {
    Shared(MacKey),
    Private(PrivateKey),
}

impl StandardKey {
    fn new(secret: &SigningSecret) -> Self {
        match secret {
            SigningSecret::Shared(secret) => Self::Shared(MacKey::new(secret.bytes())),
            SigningSecret::Private(key) => Self::Private(key.clone()),
        }
    }

    /// How many bytes one signature and a space take.
    fn room(&self) -> usize {
        match self {
            Self::Shared(_) => 48,
            Self::Private(_) => 93,
        }
    }
}

fn text_key(secret: &SigningSecret) -> Option<MacKey> {
    match secret {
        SigningSecret::Shared(secret) => Some(MacKey::new(&secret.text_bytes())),
        SigningSecret::Private(_) => None,
    }
}

pub(crate) fn check_number_of_secrets(number: usize) -> Result<(), Error> {
    match number {
        0 => Err(Error::Setup(SetupFault::NoSecret)),
        1..=MAX_SECRETS => Ok(()),
        _ => Err(Error::Setup(SetupFault::TooManySecrets(number))),
    }
}
