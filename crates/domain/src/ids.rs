//! Public ids: a prefix that names the noun, then 27 base62 characters.
//!
//! The 20 bytes behind them are a KSUID: four bytes of seconds since a late epoch, ten bits of
//! milliseconds, 118 bits of chance. So ids sort by the time they were made, to the millisecond, as
//! bytes and as text; lists page by id, and time filters become id ranges. The first five bytes
//! agree with the millisecond KSUIDs that other senders use.
//!
//! Making an id needs the wall clock and randomness; both are arguments.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::str::FromStr;

use crate::time::Timestamp;

/// KSUID seconds count from 2014-05-13T16:53:20Z.
const KSUID_EPOCH_SECONDS: i64 = 1_400_000_000;
const BYTES: usize = 20;
const CHARS: usize = 27;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A noun that has public ids.
pub trait Noun {
    /// The prefix of its ids, underscore included.
    const PREFIX: &'static str;
}

/// The id of one `N`.
pub struct Id<N> {
    bytes: [u8; BYTES],
    noun: PhantomData<fn() -> N>,
}

/// Names the nouns behind the id types.
pub mod noun {
    use super::Noun;

    /// A customer of the sender.
    pub enum Application {}
    /// A URL with its secrets, filters and limits.
    pub enum Endpoint {}
    /// What the sender hands over once.
    pub enum Message {}
    /// One message for one endpoint.
    pub enum Delivery {}
    /// One HTTP request of a delivery.
    pub enum Attempt {}
    /// A replay that runs in the background.
    pub enum Task {}

    impl Noun for Application {
        const PREFIX: &'static str = "app_";
    }
    impl Noun for Endpoint {
        const PREFIX: &'static str = "ep_";
    }
    impl Noun for Message {
        const PREFIX: &'static str = "msg_";
    }
    impl Noun for Delivery {
        const PREFIX: &'static str = "dlv_";
    }
    impl Noun for Attempt {
        const PREFIX: &'static str = "atmpt_";
    }
    impl Noun for Task {
        const PREFIX: &'static str = "qtask_";
    }
}

/// `app_…`
pub type ApplicationId = Id<noun::Application>;
/// `ep_…`
pub type EndpointId = Id<noun::Endpoint>;
/// `msg_…`
pub type MessageId = Id<noun::Message>;
/// `dlv_…`
pub type DeliveryId = Id<noun::Delivery>;
/// `atmpt_…`
pub type AttemptId = Id<noun::Attempt>;
/// `qtask_…`
pub type TaskId = Id<noun::Task>;

/// Why a text is not an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadId {
    /// Another noun's id, or none at all.
    #[error("does not begin with `{0}`")]
    Prefix(&'static str),
    /// Too short or too long.
    #[error("has {0} characters after its prefix instead of 27")]
    Length(usize),
    /// Something other than letters and digits, or a number no id can hold.
    #[error("is not 27 base62 characters after its prefix")]
    Digits,
}

impl<N: Noun> Id<N> {
    /// Makes an id for a moment of the wall clock, from 16 random bytes.
    ///
    /// Moments outside of what a KSUID can hold (2014 to 2150) are moved to its nearest end.
    #[must_use]
    pub fn new(wall: Timestamp, random: [u8; 16]) -> Self {
        let mut bytes = Self::first_at(wall).bytes;
        // Two bits of the sixth byte belong to the milliseconds, the other six to chance.
        bytes[5] |= random[0] & 0b0011_1111;
        bytes[6..].copy_from_slice(&random[1..15]);
        Self::from_bytes(bytes)
    }

    /// Returns the smallest id that could have been made at this moment: where a time range begins.
    #[must_use]
    pub fn first_at(wall: Timestamp) -> Self {
        let millis = wall.as_millis().saturating_sub(KSUID_EPOCH_SECONDS * 1_000);
        let millis = millis.clamp(0, i64::from(u32::MAX) * 1_000 + 999);
        let seconds = u32::try_from(millis / 1_000).unwrap_or(u32::MAX);
        let fraction = u16::try_from(millis % 1_000).unwrap_or(999);
        let [high, low] = (fraction << 6).to_be_bytes();
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        bytes[4] = high;
        bytes[5] = low;
        Self::from_bytes(bytes)
    }

    /// Returns the millisecond at which this id was made.
    #[must_use]
    pub fn made_at(&self) -> Timestamp {
        let [a, b, c, d, high, low, ..] = self.bytes;
        let seconds = i64::from(u32::from_be_bytes([a, b, c, d])) + KSUID_EPOCH_SECONDS;
        let millis = i64::from(u16::from_be_bytes([high, low]) >> 6).min(999);
        Timestamp::from_micros(seconds * 1_000_000 + millis * 1_000)
    }

    /// Wraps bytes as they are stored.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; BYTES]) -> Self {
        Self { bytes, noun: PhantomData }
    }

    /// Returns the bytes as they are stored.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; BYTES] {
        &self.bytes
    }

    /// Writes the 27 characters after the prefix.
    fn characters(&self) -> [u8; CHARS] {
        // Long division of a 160-bit number in 32-bit limbs, by as many 62s at a time as fit into one.
        let mut limbs = [0_u32; BYTES / 4];
        for (limb, chunk) in limbs.iter_mut().zip(self.bytes.chunks_exact(4)) {
            *limb = u32::from_be_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        }
        let mut text = [b'0'; CHARS];
        for digits in text.rchunks_mut(DIGITS_AT_ONCE) {
            let mut remainder = 0_u64;
            for limb in &mut limbs {
                let dividend = (remainder << 32) | u64::from(*limb);
                *limb = u32::try_from(dividend / DIVISOR).unwrap_or(u32::MAX);
                remainder = dividend % DIVISOR;
            }
            for digit in digits.iter_mut().rev() {
                *digit = ALPHABET[usize::try_from(remainder % 62).unwrap_or(0)];
                remainder /= 62;
            }
        }
        text
    }
}

/// How many digits one division yields.
const DIGITS_AT_ONCE: usize = 5;
/// 62 to that power.
const DIVISOR: u64 = 62 * 62 * 62 * 62 * 62;

/// How many bytes of a delivery's id are its message's.
const SHARED_BYTES: usize = 14;

impl DeliveryId {
    /// Derives the id of the delivery of a message to the endpoint with this row number.
    ///
    /// It begins like the message's id, and ends in the row number, hidden by the message's own
    /// random bytes. So a delivery is found by its id without an index of its own, which would be
    /// one more write for each delivery.
    #[must_use]
    pub fn derive(message: &MessageId, endpoint_row: u64) -> Self {
        let mut bytes = message.bytes;
        for (byte, mask) in bytes[SHARED_BYTES..].iter_mut().zip(&endpoint_row.to_be_bytes()[2..]) {
            *byte ^= mask;
        }
        Self::from_bytes(bytes)
    }

    /// Returns the smallest and the largest message id that this delivery's message can have.
    #[must_use]
    pub fn message_range(&self) -> (MessageId, MessageId) {
        let (mut low, mut high) = (self.bytes, self.bytes);
        low[SHARED_BYTES..].fill(0);
        high[SHARED_BYTES..].fill(0xff);
        (MessageId::from_bytes(low), MessageId::from_bytes(high))
    }

    /// Returns the row number of the endpoint, given the message.
    #[must_use]
    pub fn endpoint_row(&self, message: &MessageId) -> u64 {
        let pairs = self.bytes[SHARED_BYTES..].iter().zip(&message.bytes[SHARED_BYTES..]);
        pairs.fold(0, |row, (own, theirs)| (row << 8) | u64::from(own ^ theirs))
    }
}

impl<N: Noun> FromStr for Id<N> {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let digits = text.strip_prefix(N::PREFIX).ok_or(BadId::Prefix(N::PREFIX))?;
        if digits.len() != CHARS {
            return Err(BadId::Length(digits.chars().count()));
        }
        let mut limbs = [0_u32; BYTES / 4];
        for digit in digits.bytes() {
            let mut carry = base62(digit).ok_or(BadId::Digits)?;
            for limb in limbs.iter_mut().rev() {
                let product = u64::from(*limb) * 62 + carry;
                *limb = u32::try_from(product & 0xffff_ffff).unwrap_or(u32::MAX);
                carry = product >> 32;
            }
            // 62^27 is a little more than 2^160: not every text of 27 digits is an id.
            if carry != 0 {
                return Err(BadId::Digits);
            }
        }
        let mut bytes = [0; BYTES];
        for (chunk, limb) in bytes.chunks_exact_mut(4).zip(limbs) {
            chunk.copy_from_slice(&limb.to_be_bytes());
        }
        Ok(Self::from_bytes(bytes))
    }
}

fn base62(digit: u8) -> Option<u64> {
    match digit {
        b'0'..=b'9' => Some(u64::from(digit - b'0')),
        b'A'..=b'Z' => Some(u64::from(digit - b'A') + 10),
        b'a'..=b'z' => Some(u64::from(digit - b'a') + 36),
        _ => None,
    }
}

impl<N: Noun> fmt::Display for Id<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(N::PREFIX)?;
        let characters = self.characters();
        f.write_str(std::str::from_utf8(&characters).map_err(|_| fmt::Error)?)
    }
}

impl<N: Noun> fmt::Debug for Id<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// Derives would ask the same traits of the noun, which is never a value.
impl<N> Clone for Id<N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N> Copy for Id<N> {}
impl<N> PartialEq for Id<N> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}
impl<N> Eq for Id<N> {}
impl<N> PartialOrd for Id<N> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<N> Ord for Id<N> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes.cmp(&other.bytes)
    }
}
impl<N> Hash for Id<N> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

#[cfg(test)]
mod tests;
