//! Encryption at rest: XChaCha20-Poly1305 under one master key.
//!
//! Each value is bound to its place: the context names table, application, endpoint and purpose,
//! so that a value copied to another row does not open there. Nonces are random, and long enough
//! that nobody has to count them; the randomness is an argument, as everywhere.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use zeroize::Zeroize;

use crate::Error;

/// The length of a master key.
pub const KEY_BYTES: usize = 32;
/// The length of the random nonce in front of each value.
const NONCE_BYTES: usize = 24;
/// What the canary says, and where it pretends to be.
const CANARY: (&str, &[u8]) = ("canary", b"the key fits");

/// Fills a slice with random bytes.
pub type Entropy = fn(&mut [u8]);

/// Seals and opens values.
pub struct Vault {
    cipher: XChaCha20Poly1305,
    entropy: Entropy,
}

impl Vault {
    /// Takes the master key; the caller's copy is wiped.
    #[must_use]
    pub fn new(key: &mut [u8; KEY_BYTES], entropy: Entropy) -> Self {
        let cipher = XChaCha20Poly1305::new(&Key::from(*key));
        key.zeroize();
        Self { cipher, entropy }
    }

    /// Encrypts a value for one place.
    ///
    /// # Errors
    /// Only if the value is longer than the cipher can take, which is hundreds of gigabytes.
    pub fn seal(&self, context: &str, plain: &[u8]) -> Result<Vec<u8>, Error> {
        let mut nonce = [0; NONCE_BYTES];
        (self.entropy)(&mut nonce);
        let payload = Payload { msg: plain, aad: context.as_bytes() };
        let sealed = self.cipher.encrypt(&XNonce::from(nonce), payload);
        let sealed =
            sealed.map_err(|_| damaged(context, "the value is too long to be encrypted"))?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Decrypts a value at its place.
    ///
    /// # Errors
    /// If the key is another, the value was changed, or it belongs elsewhere.
    pub fn open(&self, context: &str, sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let Some((nonce, sealed)) = sealed.split_first_chunk::<NONCE_BYTES>() else {
            return Err(damaged(context, "the encrypted value is too short"));
        };
        let payload = Payload { msg: sealed, aad: context.as_bytes() };
        let opened = self.cipher.decrypt(&XNonce::from(*nonce), payload);
        opened.map_err(|_| damaged(context, "the encrypted value does not fit the key and place"))
    }

    /// Makes the value by which a store recognises its key.
    ///
    /// # Errors
    /// As [`Vault::seal`].
    pub fn canary(&self) -> Result<Vec<u8>, Error> {
        self.seal(CANARY.0, CANARY.1)
    }

    /// Tells whether a store's canary was made with this key.
    #[must_use]
    pub fn knows(&self, canary: &[u8]) -> bool {
        self.open(CANARY.0, canary).is_ok_and(|plain| plain == CANARY.1)
    }
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vault(…)")
    }
}

fn damaged(context: &str, text: &str) -> Error {
    Error::Damaged { what: context.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    fn vault(key: u8) -> Vault {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        Vault::new(&mut [key; KEY_BYTES], |bytes| bytes.fill(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    #[test]
    fn a_value_opens_with_its_key_at_its_place_only() {
        let sealed = vault(1).seal("endpoint 7, secret", b"whsec_").unwrap();
        assert_eq!(vault(1).open("endpoint 7, secret", &sealed).unwrap(), b"whsec_");
        assert!(vault(1).open("endpoint 8, secret", &sealed).is_err());
        assert!(vault(2).open("endpoint 7, secret", &sealed).is_err());
    }

    #[test]
    fn a_value_that_was_changed_or_cut_does_not_open() {
        let vault = vault(1);
        let sealed = vault.seal("here", b"secret").unwrap();
        for position in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[position] ^= 1;
            assert!(vault.open("here", &changed).is_err(), "byte {position}");
            assert!(vault.open("here", &sealed[..position]).is_err(), "cut at {position}");
        }
    }

    #[test]
    fn sealing_twice_gives_different_values_that_do_not_show_the_plain_one() {
        let vault = vault(1);
        let (one, two) =
            (vault.seal("c", b"whsec_x").unwrap(), vault.seal("c", b"whsec_x").unwrap());
        assert_ne!(one, two);
        assert!(!one.windows(7).any(|window| window == b"whsec_x"));
    }

    #[test]
    fn the_canary_tells_the_right_key_from_a_wrong_one() {
        let canary = vault(1).canary().unwrap();
        assert!(vault(1).knows(&canary));
        assert!(!vault(2).knows(&canary));
        assert!(!vault(1).knows(b""));
        assert_eq!(format!("{:?}", vault(1)), "Vault(…)");
    }

    #[test]
    fn the_callers_key_is_wiped() {
        let mut key = [7; KEY_BYTES];
        let _vault = Vault::new(&mut key, |_| ());
        assert_eq!(key, [0; KEY_BYTES]);
    }
}
