//! The secrets of sender and receiver as they are written down: `whsec_`, `plain:`, `whsk_`, `whpk_`.
//!
//! A secret has exactly one text: base64 is read strictly, so that what was given and what is shown
//! are the same characters. The forms that use the text itself as the key depend on that.
//! Nothing here makes randomness; the caller brings it.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::error::{Error, SecretFault};
use crate::key_pair::{self, PrivateKey, PublicKey};
use crate::limits::PLAIN_SECRET_CHARACTERS;

const MIN_BYTES: usize = 24;
const MAX_BYTES: usize = 75;

/// A secret that sender and receiver share: `whsec_` and base64 of 24 to 75 bytes, or `plain:` and the
/// text of a secret that receivers have already, 16 to 256 visible characters of ASCII with blanks
/// only between them.
#[derive(Clone)]
pub struct SharedSecret {
    bytes: Zeroizing<Vec<u8>>,
    notation: Notation,
}

/// How a shared secret is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// `whsec_` and base64 of the bytes.
    Encoded,
    /// `plain:` and the bytes, which are text.
    Plain,
}

impl SharedSecret {
    const ENCODED: &str = "whsec_";
    const PLAIN: &str = "plain:";

    /// Makes a secret of 24 to 75 random bytes, which the caller provides.
    pub fn from_random(bytes: &[u8]) -> Result<Self, Error> {
        if (MIN_BYTES..=MAX_BYTES).contains(&bytes.len()) {
            Ok(Self { bytes: Zeroizing::new(bytes.to_vec()), notation: Notation::Encoded })
        } else {
            Err(Error::Secret(SecretFault::Length {
                prefix: SharedSecret::ENCODED,
                allowed: "24 to 75",
                actual: bytes.len(),
            }))
        }
    }

    fn from_plain(text: &str) -> Result<Self, Error> {
        let is_printable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        if !text.bytes().all(is_printable) || text.trim_ascii() != text {
            return Err(Error::Secret(SecretFault::PlainCharacters));
        }
        if !PLAIN_SECRET_CHARACTERS.contains(&text.len()) {
            return Err(Error::Secret(SecretFault::PlainLength(text.len())));
        }
        Ok(Self { bytes: Zeroizing::new(text.as_bytes().to_vec()), notation: Notation::Plain })
    }

    /// Returns the text to hand to the receiver. It is erased from memory when dropped.
    pub fn reveal(&self) -> Zeroizing<String> {
        match self.notation {
            Notation::Encoded => self.reveal_encoded(),
            Notation::Plain => {
                let room = SharedSecret::PLAIN.len() + self.bytes.len();
                let mut text = Zeroizing::new(String::with_capacity(room));
                text.push_str(SharedSecret::PLAIN);
                text.extend(self.bytes.iter().copied().map(char::from));
                text
            }
        }
    }

    /// Returns `whsec_` and base64 of the bytes, also of a plain secret: what a library of Standard
    /// Webhooks takes.
    pub fn reveal_encoded(&self) -> Zeroizing<String> {
        encode(SharedSecret::ENCODED, &self.bytes)
    }

    /// Tells whether it is written down as `plain:`.
    pub fn is_plain(&self) -> bool {
        self.notation == Notation::Plain
    }

    /// The bytes that Standard Webhooks key the hash with.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes that the other forms key the hash with: those of the text that the receiver pastes
    /// into a library, `whsec_` included and without the mark `plain:`.
    pub(crate) fn text_bytes(&self) -> Zeroizing<Vec<u8>> {
        match self.notation {
            Notation::Encoded => Zeroizing::new(self.reveal().as_bytes().to_vec()),
            Notation::Plain => self.bytes.clone(),
        }
    }
}

impl FromStr for SharedSecret {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.strip_prefix(SharedSecret::PLAIN) {
            Some(plain) => Self::from_plain(plain),
            None => Self::from_random(&decode(SharedSecret::ENCODED, text)?),
        }
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SharedSecret(…)")
    }
}

/// A secret to sign with: what the sender keeps for an endpoint.
#[derive(Debug, Clone)]
pub enum SigningSecret {
    /// Signs with HMAC-SHA256; the receiver has the same secret.
    Shared(SharedSecret),
    /// Signs with ed25519; the receiver has the public key.
    Private(PrivateKey),
}

impl SigningSecret {
    /// Returns the text to store, from which the secret can be parsed again.
    pub fn reveal(&self) -> Zeroizing<String> {
        match self {
            Self::Shared(secret) => secret.reveal(),
            Self::Private(key) => key.reveal(),
        }
    }

    /// Returns what the receiver needs to verify: the same secret, or the public key.
    pub fn for_receiver(&self) -> VerifyingSecret {
        match self {
            Self::Shared(secret) => VerifyingSecret::Shared(secret.clone()),
            Self::Private(key) => VerifyingSecret::Public(key.public_key()),
        }
    }
}

impl FromStr for SigningSecret {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match Kind::of(text)? {
            Kind::Shared => text.parse().map(Self::Shared),
            Kind::Private => text.parse().map(Self::Private),
            Kind::Public => Err(Error::Secret(SecretFault::CannotSign)),
        }
    }
}

/// A secret to verify with: what the receiver was given.
#[derive(Debug, Clone)]
pub enum VerifyingSecret {
    /// Verifies HMAC-SHA256.
    Shared(SharedSecret),
    /// Verifies ed25519.
    Public(PublicKey),
}

impl VerifyingSecret {
    /// Returns the text that the receiver is given.
    pub fn reveal(&self) -> Zeroizing<String> {
        match self {
            Self::Shared(secret) => secret.reveal(),
            Self::Public(key) => Zeroizing::new(key.to_string()),
        }
    }
}

impl FromStr for VerifyingSecret {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match Kind::of(text)? {
            Kind::Shared => text.parse().map(Self::Shared),
            Kind::Private => Err(Error::Secret(SecretFault::NotForReceivers)),
            Kind::Public => text.parse().map(Self::Public),
        }
    }
}

/// What the prefix says.
enum Kind {
    Shared,
    Private,
    Public,
}

impl Kind {
    fn of(text: &str) -> Result<Self, Error> {
        if [SharedSecret::ENCODED, SharedSecret::PLAIN].iter().any(|it| text.starts_with(it)) {
            Ok(Self::Shared)
        } else if text.starts_with(key_pair::PRIVATE_PREFIX) {
            Ok(Self::Private)
        } else if text.starts_with(key_pair::PUBLIC_PREFIX) {
            Ok(Self::Public)
        } else {
            Err(Error::Secret(SecretFault::UnknownPrefix))
        }
    }
}

/// Writes a prefix and bytes as text, without leaving copies in memory.
pub(crate) fn encode(prefix: &str, bytes: &[u8]) -> Zeroizing<String> {
    let mut text =
        Zeroizing::new(String::with_capacity(prefix.len() + bytes.len().div_ceil(3) * 4));
    text.push_str(prefix);
    STANDARD.encode_string(bytes, &mut text);
    text
}

/// Reads the bytes behind a prefix.
pub(crate) fn decode(prefix: &'static str, text: &str) -> Result<Zeroizing<Vec<u8>>, Error> {
    let encoded =
        text.strip_prefix(prefix).ok_or(Error::Secret(SecretFault::UnknownPrefix))?.as_bytes();
    // Room for everything at once: a vector that grows leaves its old content behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(encoded.len()));
    STANDARD
        .decode_vec(encoded, &mut bytes)
        .map_err(|_| Error::Secret(SecretFault::NotBase64 { prefix }))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> SecretFault {
        match text.parse::<SigningSecret>() {
            Err(Error::Secret(fault)) => fault,
            other => panic!("{other:?} is not a fault of the secret"),
        }
    }

    #[test]
    fn a_shared_secret_has_24_to_75_bytes() {
        assert!(SharedSecret::from_random(&[7; 23]).is_err());
        assert!(SharedSecret::from_random(&[7; 24]).is_ok());
        assert!(SharedSecret::from_random(&[7; 75]).is_ok());
        assert!(SharedSecret::from_random(&[7; 76]).is_err());
    }

    #[test]
    fn a_secret_is_shown_as_it_was_given() {
        for length in MIN_BYTES..=MAX_BYTES {
            let text = SharedSecret::from_random(&vec![0xa5; length]).unwrap().reveal();
            assert_eq!(text.parse::<SigningSecret>().unwrap().reveal(), text);
        }
    }

    #[test]
    fn a_faulty_secret_is_refused_with_its_reason() {
        assert_eq!(fault("C2FVsBQIhrscChlQIMV+b5sSYspob7oD"), SecretFault::UnknownPrefix);
        assert_eq!(fault("whsec_%"), SecretFault::NotBase64 { prefix: SharedSecret::ENCODED });
        assert_eq!(
            fault("whsec_AAAA"),
            SecretFault::Length { prefix: SharedSecret::ENCODED, allowed: "24 to 75", actual: 3 }
        );
        assert_eq!(
            fault("whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="),
            SecretFault::CannotSign
        );
    }

    #[test]
    fn a_plain_secret_is_kept_as_it_was_given() {
        let longest = "a".repeat(256);
        for text in
            ["It's a Secret to Everybody", "0123456789abcdef", "whsec_not-base64-at-all", &longest]
        {
            let secret: SharedSecret = format!("plain:{text}").parse().unwrap();
            assert!(secret.is_plain());
            assert_eq!(*secret.reveal(), format!("plain:{text}"));
            assert_eq!(
                (secret.bytes(), secret.text_bytes().as_slice()),
                (text.as_bytes(), text.as_bytes())
            );
            assert_eq!(*secret.reveal_encoded(), format!("whsec_{}", STANDARD.encode(text)));
        }
    }

    #[test]
    fn a_plain_secret_that_would_not_survive_being_pasted_is_refused() {
        for text in [
            " 0123456789abcdef",
            "0123456789abcdef ",
            "0123456789abcdef\n",
            "0123456789\tabcdef",
            "0123456789abcdeä",
        ] {
            assert_eq!(fault(&format!("plain:{text}")), SecretFault::PlainCharacters, "{text:?}");
        }
        assert_eq!(fault("plain:0123456789abcde"), SecretFault::PlainLength(15));
        assert_eq!(fault(&format!("plain:{}", "a".repeat(257))), SecretFault::PlainLength(257));
        assert_eq!(fault("plain:"), SecretFault::PlainLength(0));
        assert_eq!(fault("Plain:0123456789abcdef"), SecretFault::UnknownPrefix);
    }

    #[test]
    fn unpadded_and_sloppy_base64_are_refused_so_that_a_secret_has_one_text() {
        let text = SharedSecret::from_random(&[0xff; 25]).unwrap().reveal();
        assert!(text.ends_with("/w=="));
        assert!(text.trim_end_matches('=').parse::<SharedSecret>().is_err());
        assert!(text.replace("/w==", "/x==").parse::<SharedSecret>().is_err());
    }

    #[test]
    fn debug_output_hides_the_secret() {
        let secret = SharedSecret::from_random(&[7; 24]).unwrap();
        assert_eq!(format!("{:?}", SigningSecret::Shared(secret)), "Shared(SharedSecret(…))");
    }
}
