//! What a token for one application may do beside reading, and how far it may raise an endpoint's limits.
//!
//! Such a token is often in the hands of the application's own customers. So each right is granted on
//! purpose: by the operator's setting, by the request that made the token, or by both together.

use std::fmt;

use crate::nearest::nearest;
use crate::policy::EndpointDefaults;

/// Something that a token for one application may do beside reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Create, change, pause and delete endpoints.
    Endpoints,
    /// Set an endpoint's policy, and limits beyond those that would hold without it.
    Policies,
    /// See signing secrets.
    ViewSecrets,
    /// Set and rotate signing secrets, and see them.
    Secrets,
    /// Send again what was accepted before, call it off, and send examples.
    Replay,
    /// Send messages.
    Send,
    /// Remove dead letters, payloads and what attempts sent and got back, for good.
    Purge,
}

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights(u8);

/// What a token was granted when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grant {
    /// What the operator's setting says.
    #[default]
    Usual,
    /// These rights, as far as the operator's setting has them.
    Within(Rights),
    /// These rights, whatever the setting says.
    Exactly(Rights),
}

/// What a portal's token is made for, in the words of the SDKs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Reading, which every token may.
    ViewBase,
    /// See signing secrets.
    ViewEndpointSecret,
    /// Rotate and see signing secrets.
    ManageEndpointSecret,
    /// Change transformations, which there are none of.
    ManageTransformations,
    /// Replay, and send examples.
    CreateAttempts,
    /// Change everything about endpoints, secrets included.
    ManageEndpoint,
}

/// Why a word names no right or capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWord {
    word: String,
    known: Vec<&'static str>,
}

/// How far a token without [`Right::Policies`] may raise an endpoint's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceiling {
    /// Attempts per second.
    pub rate: u32,
    /// Attempts in flight.
    pub in_flight: u32,
}

impl Right {
    /// All rights.
    pub const ALL: [Self; 7] = [
        Self::Endpoints,
        Self::Policies,
        Self::ViewSecrets,
        Self::Secrets,
        Self::Replay,
        Self::Send,
        Self::Purge,
    ];

    /// Returns the word for it in settings and requests.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoints",
            Self::Policies => "policies",
            Self::ViewSecrets => "view-secrets",
            Self::Secrets => "secrets",
            Self::Replay => "replay",
            Self::Send => "send",
            Self::Purge => "purge",
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::Endpoints => 1,
            Self::Policies => 1 << 1,
            Self::ViewSecrets => 1 << 2,
            Self::Secrets => 1 << 3 | Self::ViewSecrets.bits(),
            Self::Replay => 1 << 4,
            Self::Send => 1 << 5,
            Self::Purge => 1 << 6,
        }
    }
}

impl std::str::FromStr for Right {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let found = Self::ALL.into_iter().find(|right| right.word() == word);
        found.ok_or_else(|| UnknownWord::new(word, &Self::ALL.map(Self::word)))
    }
}

impl Rights {
    /// Reading alone.
    pub const NONE: Self = Self(0);
    /// Everything.
    pub const ALL: Self = Self(0b0111_1111);

    /// Tells whether a right is among them.
    #[must_use]
    pub const fn has(self, right: Right) -> bool {
        self.0 & right.bits() == right.bits()
    }

    /// Lists them.
    pub fn each(self) -> impl Iterator<Item = Right> {
        Right::ALL.into_iter().filter(move |right| self.has(*right))
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        Self(rights.into_iter().fold(0, |bits, right| bits | right.bits()))
    }
}

impl Grant {
    /// Returns the rights of a token that was granted this, under the operator's setting of today.
    #[must_use]
    pub const fn rights(self, setting: Rights) -> Rights {
        match self {
            Self::Usual => setting,
            Self::Within(rights) => Rights(rights.0 & setting.0),
            Self::Exactly(rights) => rights,
        }
    }
}

impl Capability {
    const ALL: [Self; 6] = [
        Self::ViewBase,
        Self::ViewEndpointSecret,
        Self::ManageEndpointSecret,
        Self::ManageTransformations,
        Self::CreateAttempts,
        Self::ManageEndpoint,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::ViewBase => "ViewBase",
            Self::ViewEndpointSecret => "ViewEndpointSecret",
            Self::ManageEndpointSecret => "ManageEndpointSecret",
            Self::ManageTransformations => "ManageTransformations",
            Self::CreateAttempts => "CreateAttempts",
            Self::ManageEndpoint => "ManageEndpoint",
        }
    }

    /// Returns the rights that it stands for.
    #[must_use]
    pub const fn rights(self) -> &'static [Right] {
        match self {
            Self::ViewBase | Self::ManageTransformations => &[],
            Self::ViewEndpointSecret => &[Right::ViewSecrets],
            Self::ManageEndpointSecret => &[Right::Secrets],
            Self::CreateAttempts => &[Right::Replay],
            Self::ManageEndpoint => &[Right::Endpoints, Right::Policies, Right::Secrets],
        }
    }
}

impl std::str::FromStr for Capability {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let found = Self::ALL.into_iter().find(|capability| capability.word() == word);
        found.ok_or_else(|| UnknownWord::new(word, &Self::ALL.map(Self::word)))
    }
}

impl UnknownWord {
    fn new(word: &str, known: &[&'static str]) -> Self {
        Self { word: word.to_owned(), known: known.to_vec() }
    }
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "knows no `{}`; ", self.word)?;
        match nearest(&self.word, self.known.iter().copied()) {
            Some(meant) => write!(f, "did you mean `{meant}`?"),
            None => write!(f, "choose from {}", self.known.join(", ")),
        }
    }
}

impl std::error::Error for UnknownWord {}

impl Ceiling {
    /// Returns the limits that hold for an endpoint that sets none itself.
    #[must_use]
    pub fn of(defaults: &EndpointDefaults, application_rate: Option<u32>) -> Self {
        let rate = defaults.rate.get();
        Self {
            rate: application_rate.map_or(rate, |own| own.min(rate)),
            in_flight: defaults.in_flight.get(),
        }
    }

    /// Tells whether a change raises a limit beyond the most that it may be. What is beyond it already
    /// may stay, and become less.
    #[must_use]
    pub fn is_exceeded(most: u32, before: Option<u32>, after: Option<u32>) -> bool {
        after.is_some_and(|after| after > most.max(before.unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy;

    #[test]
    fn every_right_has_a_word_of_its_own_and_is_read_by_it() {
        assert_eq!(Rights::from_iter(Right::ALL), Rights::ALL);
        for right in Right::ALL {
            assert_eq!(right.word().parse(), Ok(right));
            assert!(Rights::ALL.has(right) && !Rights::NONE.has(right));
            let alone = Rights::from_iter([right]);
            let beside = alone.each().filter(|other| *other != right);
            let included: &[Right] =
                if right == Right::Secrets { &[Right::ViewSecrets] } else { &[] };
            assert_eq!(beside.collect::<Vec<_>>(), included, "{right:?}");
        }
        let text = "snd".parse::<Right>().unwrap_err().to_string();
        assert_eq!(text, "knows no `snd`; did you mean `send`?");
        let text = "everything".parse::<Right>().unwrap_err().to_string();
        assert!(text.ends_with("replay, send, purge"), "{text}");
    }

    #[test]
    fn a_grant_is_narrowed_by_the_setting_unless_it_is_exact() {
        let setting = Rights::from_iter([Right::Endpoints, Right::Secrets, Right::Replay]);
        let wide = Rights::from_iter([Right::ViewSecrets, Right::Replay, Right::Send]);
        let both = Rights::from_iter([Right::ViewSecrets, Right::Replay]);
        let table = [
            (Grant::Usual, setting),
            (Grant::Within(wide), both),
            (Grant::Within(Rights::ALL), setting),
            (Grant::Within(Rights::NONE), Rights::NONE),
            (Grant::Exactly(wide), wide),
        ];
        for (grant, rights) in table {
            assert_eq!(grant.rights(setting), rights, "{grant:?}");
            assert_eq!(Grant::Within(wide).rights(Rights::NONE), Rights::NONE);
        }
    }

    #[test]
    fn no_capability_stands_for_sending_or_removing() {
        for capability in Capability::ALL {
            assert_eq!(capability.word().parse(), Ok(capability));
            for right in capability.rights() {
                assert!(![Right::Send, Right::Purge].contains(right), "{capability:?}");
            }
        }
        let text = "viewBase".parse::<Capability>().unwrap_err().to_string();
        assert_eq!(text, "knows no `viewBase`; did you mean `ViewBase`?");
    }

    #[test]
    fn a_limit_is_raised_up_to_what_holds_without_it() {
        let defaults = &policy::preset("redial").unwrap().endpoint;
        assert_eq!(Ceiling::of(defaults, None), Ceiling { rate: 1_000, in_flight: 10 });
        assert_eq!(Ceiling::of(defaults, Some(5)).rate, 5);
        assert_eq!(Ceiling::of(defaults, Some(5_000)).rate, 1_000);
        let table = [
            (None, None, false),
            (None, Some(10), false),
            (None, Some(11), true),
            (Some(5), None, false),
            // An operator gave it more.
            (Some(50), Some(50), false),
            (Some(50), Some(20), false),
            (Some(50), Some(51), true),
        ];
        for (before, after, exceeded) in table {
            assert_eq!(Ceiling::is_exceeded(10, before, after), exceeded, "{before:?} {after:?}");
        }
    }
}
