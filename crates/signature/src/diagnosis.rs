//! Why a signature does not fit, for the developer who has to find out.
//!
//! Runs only after a request was refused, and cannot change that: it returns a suspicion, not an
//! answer. Its work is limited to a few hashes of a body that is not large.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::claim::Claim;
use crate::limits::MAX_DIAGNOSED_BODY_BYTES;
use crate::mac::MacKey;
use crate::verifier::Key;

/// What probably happened to a request whose signature does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Suspicion {
    /// The signer keyed the hash with the secret's text, where the form wants its bytes.
    #[error(
        "the signer used the secret as text instead of decoding it: the key is the base64-decoded \
         part behind whsec_"
    )]
    SecretUsedAsText,
    /// The signer keyed the hash with the secret's bytes or a part of the text, where the form wants
    /// the whole text.
    #[error(
        "the signer decoded or cut the secret: in this form the key is the whole text, whsec_ included"
    )]
    SecretDecoded,
    /// The signer keyed the hash with something else than the text of a plain secret.
    #[error(
        "the signer decoded the secret or kept its mark: the key of a plain secret is the text behind \
         plain:, as it stands there"
    )]
    PlainSecretChanged,
    /// White space was put around the body after it was signed.
    #[error(
        "the body was changed: without the white space around it the signature fits, so something \
         added white space after signing"
    )]
    WhitespaceAdded,
    /// The body's last line break was removed after it was signed.
    #[error(
        "the body was changed: with a line break at its end the signature fits, so something \
         trimmed it after signing"
    )]
    LineBreakRemoved,
    /// There is no body, and nobody signed an empty one.
    #[error(
        "the body is empty: was it read before it came here? Keep its raw bytes and verify those"
    )]
    BodyEmpty,
    /// Nothing that could be tried fits.
    #[error(
        "the secret is not the one that the sender signs with, or the body was changed: compare the \
         secrets, and verify the raw bytes before anything parses or formats them"
    )]
    SecretOrBody,
}

/// Tries what usually goes wrong.
pub(crate) fn suspect(keys: &[Key], claim: &Claim<'_>, body: &[u8]) -> Suspicion {
    if body.len() > MAX_DIAGNOSED_BODY_BYTES {
        return Suspicion::SecretOrBody;
    }
    if let Some(suspicion) = keys.iter().find_map(|key| suspect_key(key, claim, body)) {
        return suspicion;
    }
    // Ed25519 is too slow to be tried several times over for a stranger.
    let hashing: Vec<&Key> = keys.iter().filter(|key| !matches!(key, Key::Public(_))).collect();
    let fits = |body: &[u8]| hashing.iter().any(|key| key.fits(claim, body));
    let trimmed = body.trim_ascii();
    if trimmed.len() < body.len() && (fits(trimmed) || fits(body.trim_ascii_end())) {
        Suspicion::WhitespaceAdded
    } else if fits(&[body, b"\n"].concat()) || fits(&[body, b"\r\n"].concat()) {
        Suspicion::LineBreakRemoved
    } else if body.is_empty() {
        Suspicion::BodyEmpty
    } else {
        Suspicion::SecretOrBody
    }
}

/// Tries the other ways to make a key of a secret.
fn suspect_key(key: &Key, claim: &Claim<'_>, body: &[u8]) -> Option<Suspicion> {
    let fits = |key: &[u8]| claim.fits_key(&MacKey::new(key), body);
    match key {
        Key::Bytes(secret, _) | Key::Text(secret, _) if secret.is_plain() => {
            let decoded = STANDARD.decode(secret.bytes());
            (fits(secret.reveal().as_bytes()) || decoded.is_ok_and(|bytes| fits(&bytes)))
                .then_some(Suspicion::PlainSecretChanged)
        }
        Key::Bytes(secret, _) => {
            let text = secret.reveal();
            (fits(text.as_bytes()) || fits(without_prefix(&text)))
                .then_some(Suspicion::SecretUsedAsText)
        }
        Key::Text(secret, _) => (fits(secret.bytes()) || fits(without_prefix(&secret.reveal())))
            .then_some(Suspicion::SecretDecoded),
        Key::Public(_) => None,
    }
}

fn without_prefix(text: &str) -> &[u8] {
    text.strip_prefix("whsec_").unwrap_or(text).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, SharedSecret, Verifier, VerifyingSecret};

    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    #[test]
    fn a_signer_that_decoded_or_cut_a_textual_secret_is_suspected_and_still_refused() {
        let secret: SharedSecret = SECRET.parse().unwrap();
        let profile = "webhook-digest".parse().unwrap();
        let verifier = Verifier::new(&[VerifyingSecret::Shared(secret.clone())], &profile).unwrap();
        for key in [secret.bytes(), without_prefix(SECRET)] {
            let mut header = "sha256=".to_owned();
            MacKey::new(key).digest(&[b"{}"]).push_hex(&mut header);
            assert_eq!(
                verifier.verify(|_| Some(header.as_bytes()), b"{}", 0),
                Err(Error::Mismatch(Suspicion::SecretDecoded))
            );
        }
    }

    #[test]
    fn a_signer_that_decoded_a_plain_secret_or_kept_its_mark_is_suspected() {
        let text = "AAECAwQFBgcICQoLDA0ODw==";
        let secret: VerifyingSecret = format!("plain:{text}").parse().unwrap();
        let profile = "digest:X-Sig".parse().unwrap();
        let verifier = Verifier::new(&[secret], &profile).unwrap();
        let decoded: Vec<u8> = (0..16).collect();
        for key in [&decoded[..], format!("plain:{text}").as_bytes()] {
            let mut header = "sha256=".to_owned();
            MacKey::new(key).digest(&[b"{}"]).push_hex(&mut header);
            assert_eq!(
                verifier.verify(|_| Some(header.as_bytes()), b"{}", 0),
                Err(Error::Mismatch(Suspicion::PlainSecretChanged))
            );
        }
    }
}
