//! HMAC-SHA256 with the key's share of the work done beforehand, and its two spellings.
//!
//! A prepared key saves two of the compressions of every signature; for a small body that is nearly
//! half of the hashing.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

/// A key that is ready to hash. The state is erased from memory when dropped.
#[derive(Clone)]
pub(crate) struct MacKey(Hmac<Sha256>);

impl MacKey {
    #[expect(clippy::expect_used, reason = "HMAC shortens or fills up keys of every length")]
    pub(crate) fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes keys of every length"))
    }

    /// Hashes the parts as if they were one text, without copying them together.
    pub(crate) fn digest(&self, parts: &[&[u8]]) -> Digest {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(part);
        }
        Digest(mac.finalize().into_bytes().into())
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("MacKey(…)")
    }
}

/// How a form spells its signatures.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Spelling {
    Base64,
    Hex,
}

/// The outcome of hashing. It must only be compared through [`Digest::equals_any`].
pub(crate) struct Digest([u8; 32]);

impl Digest {
    pub(crate) fn push_base64(&self, text: &mut String) {
        STANDARD.encode_string(self.0, text);
    }

    pub(crate) fn push_hex(&self, text: &mut String) {
        const DIGITS: [char; 16] =
            ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
        for byte in self.0 {
            text.push(DIGITS[usize::from(byte >> 4)]);
            text.push(DIGITS[usize::from(byte & 15)]);
        }
    }

    /// Tells whether one of the texts spells this digest. How long that takes depends on the number
    /// and length of the texts, never on their content.
    ///
    /// The spelled-out texts are compared, not the bytes they stand for, so that a signature has one
    /// spelling only: no capitals in hexadecimal, no stray bits at the end of base64.
    pub(crate) fn equals_any(&self, spelling: Spelling, texts: &[&[u8]]) -> bool {
        let mut expected = String::with_capacity(64);
        match spelling {
            Spelling::Base64 => self.push_base64(&mut expected),
            Spelling::Hex => self.push_hex(&mut expected),
        }
        let found = texts.iter().fold(Choice::from(0), |found, text| {
            // Lengths first: a comparison over the shorter of the two would accept an empty text.
            let fits = text.len() == expected.len();
            found | (Choice::from(u8::from(fits)) & expected.as_bytes().ct_eq(text))
        });
        found.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_digest_is_reproduced() {
        // The example in GitHub's documentation on validating deliveries.
        let digest = MacKey::new(b"It's a Secret to Everybody").digest(&[b"Hello, ", b"World!"]);
        let mut hex = String::new();
        digest.push_hex(&mut hex);
        assert_eq!(hex, "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17");
    }

    #[test]
    fn only_the_whole_text_equals_a_digest() {
        let digest = MacKey::new(b"key").digest(&[b"body"]);
        let mut text = String::new();
        digest.push_base64(&mut text);
        let text = text.as_bytes();
        assert!(digest.equals_any(Spelling::Base64, &[b"", text]));
        assert!(!digest.equals_any(Spelling::Base64, &[]));
        assert!(!digest.equals_any(Spelling::Base64, &[b"", &text[..1], &text[..43]]));
        assert!(!digest.equals_any(Spelling::Hex, &[text]));
    }
}
