//! What happened, as a number and, if somebody wants to read it, as text. The same seed gives the
//! same number, or the simulation is not worth anything.

use std::fmt::Debug;
use std::time::Duration;

use engine::{Effect, Event};

use crate::node::NodeRef;

/// The trace of a history.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    detail: Detail,
    lines: Vec<String>,
}

/// How much of a history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Its number, from what kind of thing happened where and when.
    Outline,
    /// Its number, from every word of what happened.
    Words,
    /// Every word of it.
    Text,
}

impl Trace {
    /// Begins a trace.
    pub(crate) fn new(detail: Detail) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, detail, lines: Vec::new() }
    }

    /// Returns the number.
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the text.
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines
    }

    /// Takes in an event.
    pub(crate) fn event(&mut self, now: Duration, me: NodeRef, event: &Event) {
        self.outline(now, me, std::mem::discriminant(event));
        self.words(now, || format!("{}.{} ◀ {event:?}", me.slot, me.life));
    }

    /// Takes in an effect.
    pub(crate) fn effect(&mut self, now: Duration, me: NodeRef, effect: &Effect) {
        self.outline(now, me, std::mem::discriminant(effect));
        self.words(now, || format!("{}.{} ▶ {effect:?}", me.slot, me.life));
    }

    /// Takes in anything else.
    pub(crate) fn say(&mut self, now: Duration, text: impl FnOnce() -> String) {
        self.words(now, text);
    }

    fn outline(&mut self, now: Duration, me: NodeRef, kind: impl Debug + std::hash::Hash) {
        use std::hash::Hasher as _;
        let mut hasher = Fnv(self.hash);
        kind.hash(&mut hasher);
        hasher.write_u64(u64::try_from(now.as_micros()).unwrap_or(u64::MAX));
        hasher.write_u64(u64::from(me.life) << 8 | u64::try_from(me.slot).unwrap_or(0));
        self.hash = hasher.0;
    }

    fn words(&mut self, now: Duration, text: impl FnOnce() -> String) {
        if self.detail == Detail::Outline {
            return;
        }
        use std::hash::Hasher as _;
        let text = text();
        let mut hasher = Fnv(self.hash);
        hasher.write(text.as_bytes());
        self.hash = hasher.0;
        if self.detail == Detail::Text {
            self.lines.push(format!("{:>12.6} {text}", now.as_secs_f64()));
        }
    }
}

/// FNV-1a with 64 bits, by words where there are words.
struct Fnv(u64);

impl std::hash::Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }
}
