//! Answers to calls with an idempotency key, as they are remembered.
//!
//! They may hold a secret that was shown once, so that a database keeps them sealed, each for its
//! own hash.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::vault::Vault;

/// What a call was answered. It does not show itself.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The status.
    pub status: u16,
    /// The headers that a repetition needs.
    pub headers: Vec<(String, String)>,
    /// The exact bytes of the body.
    pub body: Bytes,
}

/// What is in front of the body.
#[derive(Serialize, Deserialize)]
struct Head {
    status: u16,
    headers: Vec<(String, String)>,
}

impl StoredAnswer {
    /// Encrypts it for its place.
    pub(crate) fn seal(&self, vault: &Vault, hash: &[u8; 32]) -> Result<Vec<u8>, Error> {
        let head = Head { status: self.status, headers: self.headers.clone() };
        let place = place(hash);
        let mut plain = serde_json::to_vec(&head).map_err(|_| damaged(&place))?;
        // JSON has no such byte outside of a text, nor inside of one.
        plain.push(0);
        plain.extend_from_slice(&self.body);
        vault.seal(&place, &plain)
    }

    /// Decrypts it at its place.
    pub(crate) fn open(vault: &Vault, hash: &[u8; 32], sealed: &[u8]) -> Result<Self, Error> {
        let place = place(hash);
        let plain = vault.open(&place, sealed)?;
        let end = plain.iter().position(|byte| *byte == 0).ok_or_else(|| damaged(&place))?;
        let head: Head = serde_json::from_slice(&plain[..end]).map_err(|_| damaged(&place))?;
        let body = Bytes::copy_from_slice(&plain[end + 1..]);
        Ok(Self { status: head.status, headers: head.headers, body })
    }
}

impl std::fmt::Debug for StoredAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredAnswer").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Names the place that an answer is sealed for.
fn place(hash: &[u8; 32]) -> String {
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("answers, {digits}")
}

/// The error of a parser could quote what it could not read.
fn damaged(place: &str) -> Error {
    Error::Damaged { what: place.to_owned(), text: "it is no answer".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault() -> Vault {
        Vault::new(&mut [3; 32], |bytes| bytes.fill(9))
    }

    #[test]
    fn an_answer_opens_as_it_was_sealed_and_under_its_own_hash_only() {
        let answer = StoredAnswer {
            status: 201,
            headers: vec![("location".to_owned(), "a\0b".to_owned())],
            body: Bytes::from_static(b"{\"key\":\"whsec_\0\"}"),
        };
        let sealed = answer.seal(&vault(), &[1; 32]).unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"whsec_"));
        assert_eq!(StoredAnswer::open(&vault(), &[1; 32], &sealed).unwrap(), answer);
        assert!(StoredAnswer::open(&vault(), &[2; 32], &sealed).is_err());
        assert!(!format!("{answer:?}").contains("whsec_"));
    }
}
