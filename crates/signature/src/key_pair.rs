//! Ed25519 keys: `whsk_` for the sender, `whpk_` for everybody.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::ed25519::signature::{MultipartSigner, MultipartVerifier};
use ed25519_dalek::{Signature, SigningKey, VerifyingKey};
use zeroize::Zeroizing;

use crate::error::{Error, SecretFault};
use crate::secret::{decode, encode};

pub(crate) const PRIVATE_PREFIX: &str = "whsk_";
pub(crate) const PUBLIC_PREFIX: &str = "whpk_";

/// An ed25519 private key: `whsk_` and base64 of 64 bytes, the key and its public half.
#[derive(Clone)]
pub struct PrivateKey(SigningKey);

impl PrivateKey {
    /// Makes a key of 32 random bytes, which the caller provides.
    pub fn from_random(bytes: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(bytes))
    }

    /// Returns the public key, which the receiver needs.
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Returns the text of the private key. It is erased from memory when dropped.
    pub fn reveal(&self) -> Zeroizing<String> {
        encode(PRIVATE_PREFIX, Zeroizing::new(self.0.to_keypair_bytes()).as_slice())
    }

    /// Signs the parts as if they were one text, without copying them together.
    pub(crate) fn sign(&self, parts: &[&[u8]]) -> [u8; 64] {
        self.0.multipart_sign(parts).to_bytes()
    }
}

impl FromStr for PrivateKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bytes = decode(PRIVATE_PREFIX, text)?;
        let wrong_length = || {
            Error::Secret(SecretFault::Length {
                prefix: PRIVATE_PREFIX,
                allowed: "64 (the private key and its public key)",
                actual: bytes.len(),
            })
        };
        let (seed, public) = bytes.split_first_chunk::<32>().ok_or_else(wrong_length)?;
        let public: &[u8; 32] = public.try_into().map_err(|_| wrong_length())?;
        let key = SigningKey::from_bytes(seed);
        // A foreign public half would let signatures leak the private one.
        if key.verifying_key().as_bytes() != public {
            return Err(Error::Secret(SecretFault::HalvesDiffer));
        }
        Ok(Self(key))
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PrivateKey(whsk_…)")
    }
}

/// An ed25519 public key: `whpk_` and base64 of 32 bytes. It may be shown to anybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Tells whether the signature was made for the parts, taken as one text.
    ///
    /// Weak keys are refused when parsed and a signature's scalar is always checked to be canonical,
    /// so nobody without the private key can turn one valid signature into another.
    pub(crate) fn verifies(&self, parts: &[&[u8]], signature: &[u8; 64]) -> bool {
        self.0.multipart_verify(parts, &Signature::from_bytes(signature)).is_ok()
    }
}

impl FromStr for PublicKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bytes = decode(PUBLIC_PREFIX, text)?;
        let bytes: &[u8; 32] = bytes.as_slice().try_into().map_err(|_| {
            Error::Secret(SecretFault::Length {
                prefix: PUBLIC_PREFIX,
                allowed: "32",
                actual: bytes.len(),
            })
        })?;
        let key = VerifyingKey::from_bytes(bytes)
            .map_err(|_| Error::Secret(SecretFault::BadPublicKey))?;
        // For a key of small order anybody can make signatures that fit.
        if key.is_weak() || key.to_edwards().compress().as_bytes() != bytes {
            return Err(Error::Secret(SecretFault::BadPublicKey));
        }
        Ok(Self(key))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&encode(PUBLIC_PREFIX, self.0.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Error {
        text.parse::<PrivateKey>().unwrap_err()
    }

    #[test]
    fn a_private_key_yields_its_public_key() {
        let key = PrivateKey::from_random(&[3; 32]);
        let again: PrivateKey = key.reveal().parse().unwrap();
        assert_eq!(again.public_key(), key.public_key());
        assert_eq!(key.public_key().to_string().parse::<PublicKey>().unwrap(), key.public_key());
    }

    #[test]
    fn a_private_key_whose_public_half_does_not_fit_is_refused() {
        let key = PrivateKey::from_random(&[3; 32]);
        let mut bytes = key.0.to_keypair_bytes();
        bytes[63] ^= 1;
        assert_eq!(
            refused(&encode(PRIVATE_PREFIX, &bytes)),
            Error::Secret(SecretFault::HalvesDiffer)
        );
    }

    #[test]
    fn a_private_key_of_another_length_is_refused() {
        for length in [0, 31, 32, 63, 65] {
            let text = encode(PRIVATE_PREFIX, &vec![1; length]);
            assert!(matches!(
                refused(&text),
                Error::Secret(SecretFault::Length { actual, .. }) if actual == length
            ));
        }
    }

    #[test]
    fn a_weak_public_key_is_refused() {
        // The identity: with this key every message would have a signature that anybody can make.
        let mut identity = [0; 32];
        identity[0] = 1;
        let text = encode(PUBLIC_PREFIX, &identity);
        assert_eq!(
            text.parse::<PublicKey>().unwrap_err(),
            Error::Secret(SecretFault::BadPublicKey)
        );
    }

    #[test]
    fn debug_output_hides_the_private_key() {
        assert_eq!(format!("{:?}", PrivateKey::from_random(&[3; 32])), "PrivateKey(whsk_…)");
    }
}
