//! What a request claims: the signatures in its headers and what they are said to cover.
//!
//! Everything here comes from a stranger. It is cut into pieces, measured and counted; whether the
//! claim is true is for the [`Verifier`](crate::Verifier) to find out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::attempt::check_signed_id;
use crate::error::{Error, ValueFault};
use crate::key_pair::PublicKey;
use crate::limits::{MAX_SIGNATURE_HEADER_BYTES, MAX_SIGNATURES};
use crate::mac::{MacKey, Spelling};
use crate::profile::{DigestForm, StandardHeaders};
use crate::timestamp::Timestamp;

/// A request's claim to have been signed.
pub(crate) struct Claim<'h> {
    pub(crate) message_id: Option<&'h str>,
    pub(crate) timestamp: Option<Timestamp>,
    /// The name of the header with the signatures.
    pub(crate) header: &'h str,
    /// The texts of keyed hashes.
    pub(crate) hashes: Vec<&'h [u8]>,
    /// The texts of ed25519 signatures.
    pub(crate) public_signatures: Vec<&'h [u8]>,
    spelling: Spelling,
    /// What is signed ahead of the body.
    lead: Vec<u8>,
}

impl<'h> Claim<'h> {
    /// Reads `id`, `timestamp` and `v1,<base64> v1a,<base64> …`. Unknown versions are passed over, as
    /// a sender may add some for newer receivers.
    pub(crate) fn standard(
        names: &'static StandardHeaders,
        header: &impl Fn(&str) -> Option<&'h [u8]>,
    ) -> Result<Self, Error> {
        let id = required(names.id, header)?;
        check_signed_id(id).map_err(|fault| malformed(names.id, fault))?;
        let message_id =
            str::from_utf8(id).map_err(|_| malformed(names.id, ValueFault::NotVisibleAscii))?;
        let timestamp = Timestamp::parse(required(names.timestamp, header)?)
            .map_err(|fault| malformed(names.timestamp, fault))?;
        let value = signature_header(names.signature, header)?;
        let mut claim = Self {
            message_id: Some(message_id),
            timestamp: Some(timestamp),
            header: names.signature,
            hashes: Vec::new(),
            public_signatures: Vec::new(),
            spelling: Spelling::Base64,
            lead: [id, b".", timestamp.as_bytes(), b"."].concat(),
        };
        for item in items(value, b' ', names.signature, MAX_SIGNATURES)? {
            if let Some(signature) = item.strip_prefix(b"v1,") {
                claim.hashes.push(signature);
            } else if let Some(signature) = item.strip_prefix(b"v1a,") {
                claim.public_signatures.push(signature);
            }
        }
        Ok(claim)
    }

    /// Reads `t=<unix>,v1=<hex>,v1=<hex> …`. Other items are passed over.
    pub(crate) fn stamped(
        name: &'h str,
        header: &impl Fn(&str) -> Option<&'h [u8]>,
    ) -> Result<Self, Error> {
        const FORM: ValueFault = ValueFault::NotOfForm("t=<unix time>,v1=<hex>");
        let value = signature_header(name, header)?;
        let mut times = Vec::new();
        let mut hashes = Vec::new();
        // One more than the signatures, for the time.
        for item in items(value, b',', name, MAX_SIGNATURES + 1)? {
            if let Some(time) = item.strip_prefix(b"t=") {
                times.push(time);
            } else if let Some(signature) = item.strip_prefix(b"v1=") {
                hashes.push(signature);
            }
        }
        // With two times it would be open which one was signed.
        let [time] = times.as_slice() else {
            return Err(malformed(name, FORM));
        };
        let timestamp = Timestamp::parse(time).map_err(|fault| malformed(name, fault))?;
        Ok(Self {
            message_id: None,
            timestamp: Some(timestamp),
            header: name,
            hashes,
            public_signatures: Vec::new(),
            spelling: Spelling::Hex,
            lead: [timestamp.as_bytes(), b"."].concat(),
        })
    }

    /// Reads `v0=<hex>`, and the time from a header of its own.
    pub(crate) fn v0(
        name: &'h str,
        timestamp_name: &str,
        header: &impl Fn(&str) -> Option<&'h [u8]>,
    ) -> Result<Self, Error> {
        let timestamp = Timestamp::parse(required(timestamp_name, header)?)
            .map_err(|fault| malformed(timestamp_name, fault))?;
        let hash = prefixed(name, b"v0=", ValueFault::NotOfForm("v0=<hex>"), header)?;
        let lead = [b"v0:", timestamp.as_bytes(), b":"].concat();
        Ok(Self { timestamp: Some(timestamp), lead, ..Self::of_one(name, hash, Spelling::Hex) })
    }

    /// Reads a digest of the body.
    pub(crate) fn digest(
        name: &'h str,
        form: DigestForm,
        header: &impl Fn(&str) -> Option<&'h [u8]>,
    ) -> Result<Self, Error> {
        Ok(match form {
            DigestForm::PrefixedHex => {
                let fault = ValueFault::NotOfForm("sha256=<hex>");
                Self::of_one(name, prefixed(name, b"sha256=", fault, header)?, Spelling::Hex)
            }
            DigestForm::Hex => Self::of_one(name, signature_header(name, header)?, Spelling::Hex),
            DigestForm::Base64 => {
                Self::of_one(name, signature_header(name, header)?, Spelling::Base64)
            }
        })
    }

    /// Makes a claim of one hash, over the body alone.
    fn of_one(name: &'h str, hash: &'h [u8], spelling: Spelling) -> Self {
        Self {
            message_id: None,
            timestamp: None,
            header: name,
            hashes: vec![hash],
            public_signatures: Vec::new(),
            spelling,
            lead: Vec::new(),
        }
    }

    /// Refuses a timestamp outside the tolerance.
    pub(crate) fn check_time(
        &self,
        timestamp_header: &str,
        now: i64,
        tolerance: u64,
    ) -> Result<(), Error> {
        let Some(timestamp) = &self.timestamp else {
            return Ok(());
        };
        let outcome = timestamp.check(now, tolerance);
        if outcome.is_err() && timestamp.looks_like_milliseconds(now) {
            return Err(malformed(timestamp_header, ValueFault::Milliseconds));
        }
        outcome
    }

    /// Tells whether one of the hashes was made with the key for the body.
    pub(crate) fn fits_key(&self, key: &MacKey, body: &[u8]) -> bool {
        key.digest(&[&self.lead, body]).equals_any(self.spelling, &self.hashes)
    }

    /// Tells whether one of the ed25519 signatures was made with the key for the body.
    pub(crate) fn fits_public_key(&self, key: &PublicKey, body: &[u8]) -> bool {
        self.public_signatures.iter().any(|text| {
            decode_signature(text)
                .is_some_and(|signature| key.verifies(&[&self.lead, body], &signature))
        })
    }
}

fn required<'h>(name: &str, header: &impl Fn(&str) -> Option<&'h [u8]>) -> Result<&'h [u8], Error> {
    header(name).ok_or_else(|| Error::MissingHeader { name: name.to_owned() })
}

/// Fetches the header with the signatures, within its limit.
fn signature_header<'h>(
    name: &str,
    header: &impl Fn(&str) -> Option<&'h [u8]>,
) -> Result<&'h [u8], Error> {
    let value = required(name, header)?;
    if value.len() > MAX_SIGNATURE_HEADER_BYTES {
        return Err(malformed(name, ValueFault::TooLong(MAX_SIGNATURE_HEADER_BYTES)));
    }
    if value.is_empty() {
        return Err(malformed(name, ValueFault::Empty));
    }
    Ok(value)
}

/// Fetches a header whose signature follows a prefix.
fn prefixed<'h>(
    name: &str,
    prefix: &[u8],
    fault: ValueFault,
    header: &impl Fn(&str) -> Option<&'h [u8]>,
) -> Result<&'h [u8], Error> {
    let value = signature_header(name, header)?;
    value.strip_prefix(prefix).ok_or_else(|| malformed(name, fault))
}

/// Cuts a header into its items. Those of unknown versions count as well.
fn items<'h>(
    value: &'h [u8],
    separator: u8,
    name: &str,
    limit: usize,
) -> Result<impl Iterator<Item = &'h [u8]>, Error> {
    if value.split(|byte| *byte == separator).count() > limit {
        return Err(malformed(name, ValueFault::TooManySignatures(MAX_SIGNATURES)));
    }
    Ok(value.split(move |byte| *byte == separator))
}

fn malformed(name: &str, fault: ValueFault) -> Error {
    Error::MalformedHeader { name: name.to_owned(), fault }
}

/// Lengths first: 64 bytes are 88 characters of base64, and nothing else is.
fn decode_signature(text: &[u8]) -> Option<[u8; 64]> {
    if text.len() != 88 {
        return None;
    }
    BASE64.decode(text).ok()?.try_into().ok()
}
