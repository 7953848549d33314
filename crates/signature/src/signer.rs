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
use crate::mac::MacKey;
use crate::profile::{self, Profile, StandardHeaders};
use crate::secret::SigningSecret;
use crate::timestamp::Timestamp;

/// Signs the attempts of one endpoint.
#[derive(Debug, Clone)]
pub struct Signer {
    profiles: Vec<Profile>,
    /// For `id.timestamp.body`, in the order of the secrets; empty if no profile wants it.
    standard_keys: Vec<StandardKey>,
    /// For the forms whose key is the secret's text; empty if no profile wants them.
    text_keys: Vec<MacKey>,
    header_count: usize,
}

impl Signer {
    /// Prepares to sign with all the secrets, the newest first, in the form of all the profiles.
    ///
    /// Several secrets are used while one replaces another. Standard Webhooks and branded headers
    /// then hold one signature per secret; a digest has room for one, and the first secret makes it.
    /// The keyed hashes other than Standard Webhooks pass over private keys, and are refused if there
    /// is no shared secret.
    pub fn new(secrets: &[SigningSecret], profiles: &[Profile]) -> Result<Self, Error> {
        check_number_of_secrets(secrets.len())?;
        check_header_names(profiles)?;
        let mut signer = Self {
            profiles: profiles.to_vec(),
            standard_keys: Vec::new(),
            text_keys: Vec::new(),
            header_count: profiles.iter().map(|profile| profile.header_names().len()).sum(),
        };
        for profile in profiles {
            match profile {
                Profile::StandardWebhooks | Profile::Svix => {
                    signer.standard_keys = secrets.iter().map(StandardKey::new).collect();
                }
                Profile::Branded(_) | Profile::WebhookDigest | Profile::Digest(_) => {
                    signer.text_keys = secrets.iter().filter_map(text_key).collect();
                    if signer.text_keys.is_empty() {
                        let name = profile.to_string();
                        return Err(Error::Setup(SetupFault::NeedsSharedSecret(name)));
                    }
                }
                Profile::EventId => {}
            }
        }
        if signer.standard_keys.is_empty() && signer.text_keys.is_empty() {
            return Err(Error::Setup(SetupFault::NothingSigned));
        }
        Ok(signer)
    }

    /// Returns all headers for an attempt, in the order of the profiles.
    pub fn headers<'a>(&'a self, attempt: &Attempt<'a>) -> Result<Vec<Header<'a>>, Error> {
        let timestamp = attempt.checked_timestamp()?;
        let standard = self.standard_signatures(attempt, &timestamp)?;
        let mut headers = Vec::with_capacity(self.header_count);
        for profile in &self.profiles {
            match profile {
                Profile::StandardWebhooks => {
                    push_standard(&mut headers, &profile::STANDARD, attempt, &timestamp);
                    headers.push(owned(profile::STANDARD.signature, standard.clone()));
                }
                Profile::Svix => {
                    push_standard(&mut headers, &profile::SVIX, attempt, &timestamp);
                    headers.push(owned(profile::SVIX.signature, standard.clone()));
                }
                Profile::Branded(brand) => {
                    let stamped = self.stamped_signatures(attempt, &timestamp);
                    headers.push(owned(brand.signature_header(), stamped));
                    headers.push(borrowed(brand.delivery_header(), attempt.checked_delivery_id()?));
                }
                Profile::WebhookDigest => {
                    headers.push(owned(profile::WEBHOOK_SIGNATURE, self.body_signature(attempt)));
                    headers.push(borrowed(profile::WEBHOOK_ID, attempt.checked_delivery_id()?));
                    headers.push(borrowed(profile::WEBHOOK_EVENT, attempt.checked_event_type()?));
                    headers.push(owned(profile::WEBHOOK_TIMESTAMP, timestamp.to_text()));
                }
                Profile::Digest(header) => {
                    headers.push(owned(header.as_str(), self.body_signature(attempt)));
                }
                Profile::EventId => {
                    headers.push(borrowed(profile::EVENT_ID, attempt.checked_message_id()?));
                }
            }
        }
        Ok(headers)
    }

    /// `v1,<base64> v1a,<base64> …` over `id.timestamp.body`, made once for all who want it.
    fn standard_signatures(
        &self,
        attempt: &Attempt<'_>,
        timestamp: &Timestamp,
    ) -> Result<String, Error> {
        if self.standard_keys.is_empty() {
            return Ok(String::new());
        }
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

    /// `sha256=<hex>` over the body, by the first secret; [`Signer::new`] made sure that there is one.
    fn body_signature(&self, attempt: &Attempt<'_>) -> String {
        let mut value = String::with_capacity(71);
        value.push_str("sha256=");
        if let Some(key) = self.text_keys.first() {
            key.digest(&[attempt.body]).push_hex(&mut value);
        }
        value
    }
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

/// The receivers' libraries for these forms key the hash with the text they are shown.
fn text_key(secret: &SigningSecret) -> Option<MacKey> {
    match secret {
        SigningSecret::Shared(secret) => Some(MacKey::new(secret.reveal().as_bytes())),
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

/// Two headers of one name would reach the receiver as one value that fits neither form.
fn check_header_names(profiles: &[Profile]) -> Result<(), Error> {
    let mut names: Vec<&str> = profiles.iter().flat_map(Profile::header_names).collect();
    names.sort_unstable_by_key(|name| name.to_ascii_lowercase());
    match names.windows(2).find(|pair| pair[0].eq_ignore_ascii_case(pair[1])) {
        Some(pair) => Err(Error::Setup(SetupFault::HeaderTwice(pair[0].to_owned()))),
        None => Ok(()),
    }
}

fn push_standard<'a>(
    headers: &mut Vec<Header<'a>>,
    names: &'static StandardHeaders,
    attempt: &Attempt<'a>,
    timestamp: &Timestamp,
) {
    headers.push(borrowed(names.id, attempt.message_id));
    headers.push(owned(names.timestamp, timestamp.to_text()));
}

fn borrowed<'a>(name: &'a str, value: &'a str) -> Header<'a> {
    Header { name, value: Cow::Borrowed(value) }
}

fn owned(name: &str, value: String) -> Header<'_> {
    Header { name, value: Cow::Owned(value) }
}
