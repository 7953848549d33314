//! API tokens: made once, shown once, kept as a hash.
//!
//! `rdl_<16 hex digits>_<43 characters><8 hex digits>`: the public part by which it is found, 256
//! random bits, and a checksum, so that scanners for leaked secrets recognise it and a mistyped one
//! costs no look-up.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::ids::ApplicationId;
use domain::names;
use domain::rights::{Grant, Rights};
use domain::time::Timestamp;
use sha2::{Digest as _, Sha256};
pub use store::catalog::Granted;
use store::catalog::{Scope, Token};

use super::fields::{Checks, LONGEST_NAME};
use super::idempotency::Promise;
use super::pages::{BEHIND_ALL, Slice, Wanted};
use super::{App, Caller, Error};
use crate::dice;

const PREFIX: &str = "rdl_";
const PUBLIC_CHARACTERS: usize = 16;
const CHECKSUM_CHARACTERS: usize = 8;
/// For how many seconds any other token may work, if not for ever: up to a hundred years.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=100 * 365 * 86_400;
/// The most feature flags of a token.
const MOST_FLAGS: usize = 100;

/// What a token reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Every application, and what is none's.
    Everything,
    /// One application.
    Application(ApplicationId),
}

impl From<Scope> for Reach {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Admin => Self::Everything,
            Scope::Application(id) => Self::Application(id),
        }
    }
}

/// A token as it is shown to people: without what makes it work.
#[derive(Debug, Clone)]
pub struct Described {
    /// Its public part.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// What it reaches.
    pub reach: Reach,
    /// Whether it may only read.
    pub read_only: bool,
    /// What it may do beside reading, as of now, if it is for one application.
    pub rights: Option<Rights>,
    /// Which event types it sees beside those that need no flag.
    pub feature_flags: BTreeSet<String>,
    /// What the sender calls the session that it was made for.
    pub session: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it stops working, if it does.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

/// How the configured admin token compares with that of the last start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminToken {
    /// It is the same, or there was none.
    AsBefore,
    /// It is another one.
    Replaced,
    /// There was one, and there is none now.
    Unset,
}

/// What a new token should be.
#[derive(Debug, Clone)]
pub struct Wish {
    /// A name for people.
    pub name: String,
    /// What it reaches.
    pub reach: Reach,
    /// Whether it may only read.
    pub read_only: bool,
    /// What else a token for one application is granted.
    pub granted: Granted,
    /// What the sender calls the session that it is made for.
    pub session: Option<String>,
    /// How long it works, if not for ever.
    pub lasts: Option<Duration>,
}

impl Described {
    fn of(token: Token, setting: Rights) -> Self {
        Self {
            rights: match token.scope {
                Scope::Admin => None,
                Scope::Application(_) => Some(rights(&token, setting)),
            },
            id: token.id,
            name: token.name,
            reach: token.scope.into(),
            read_only: token.read_only,
            feature_flags: token.granted.feature_flags,
            session: token.session,
            created_at: token.created_at,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
        }
    }
}

/// Returns what a token may do beside reading, under the operator's setting.
pub(super) fn rights(token: &Token, setting: Rights) -> Rights {
    match token.scope {
        Scope::Admin | Scope::Application(_) if token.read_only => Rights::NONE,
        Scope::Admin => Rights::ALL,
        Scope::Application(_) => token.granted.rights.rights(setting),
    }
}

impl Wish {
    fn check(&self) -> Result<(), Error> {
        let mut checks = Checks::default();
        checks.value("name", names::readable(&self.name));
        let fits = self.lasts.is_none_or(|lasts| SECONDS.contains(&lasts.as_secs()));
        let text =
            "must be at least 1 second and at most 100 years, in seconds; leave it out for ever";
        checks.holds("expiry", fits, text);
        let own = matches!(self.reach, Reach::Application(_));
        let usual = self.granted.rights == Grant::Usual;
        checks.holds("may", own || usual, "is for a token of one application; name its `appId`");
        let grants =
            matches!(self.granted.rights, Grant::Exactly(rights) if rights != Rights::NONE);
        checks.holds("may", !(grants && self.read_only), "makes no sense with `readOnly`");
        let flags = &self.granted.feature_flags;
        let text = "is for a token of one application, which does not see all event types";
        checks.holds("featureFlags", own || flags.is_empty(), text);
        let text = format!("may be at most {MOST_FLAGS}");
        checks.holds("featureFlags", flags.len() <= MOST_FLAGS, &text);
        for flag in flags {
            checks.length("featureFlags", flag, LONGEST_NAME);
        }
        if let Some(session) = &self.session {
            checks.value("sessionId", names::readable(session));
        }
        checks.finish()
    }
}

impl App {
    /// Makes a token. Its text is returned this once and kept nowhere.
    ///
    /// # Errors
    /// If its name or its time makes no sense, or the store does not answer.
    pub async fn create_token(
        &self,
        promise: Option<&Promise>,
        wish: Wish,
    ) -> Result<(String, Described), Error> {
        wish.check()?;
        let setting = self.settings.portal;
        let (id, text) = match promise {
            Some(promise) => make(promise.bytes("token id"), promise.bytes("token")),
            None => make(dice::unguessable(), dice::unguessable()),
        };
        if promise.is_some_and(Promise::again)
            && let Ok(made) = self.catalog.token(id.clone()).await
        {
            return Ok((text, Described::of(made, setting)));
        }
        let now = self.clock.now();
        let scope = match wish.reach {
            Reach::Everything => Scope::Admin,
            Reach::Application(id) => Scope::Application(id),
        };
        let token = Token {
            id,
            hash: Sha256::digest(text.as_bytes()).into(),
            name: wish.name,
            scope,
            read_only: wish.read_only,
            granted: wish.granted,
            session: wish.session,
            created_at: now,
            expires_at: wish.lasts.map(|span| now.after(span)),
            revoked_at: None,
        };
        self.catalog.create_token(token.clone()).await?;
        Ok((text, Described::of(token, setting)))
    }

    /// Compares the configured admin token with that of the last start, of whichever node, and keeps it for
    /// the next one.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn compare_admin_token(&self) -> Result<AdminToken, Error> {
        let now = self.settings.admin_token;
        let before = self.catalog.keep_admin_token(now).await?;
        Ok(match (before, now) {
            (Some(before), Some(now)) if before != now => AdminToken::Replaced,
            (Some(_), None) => AdminToken::Unset,
            (Some(_), Some(_)) | (None, _) => AdminToken::AsBefore,
        })
    }

    /// Makes the first admin token, if there never was one and none is configured.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn first_token(&self) -> Result<Option<String>, Error> {
        if self.settings.admin_token.is_some() {
            return Ok(None);
        }
        let page = store::page::Page { from: store::page::From::Start, limit: 1 };
        if !self.catalog.tokens(page).await?.entries.is_empty() {
            return Ok(None);
        }
        let wish = Wish {
            name: "first admin token".to_owned(),
            reach: Reach::Everything,
            read_only: false,
            granted: Granted::default(),
            session: None,
            lasts: None,
        };
        self.create_token(None, wish).await.map(|(text, _)| Some(text))
    }

    /// Revokes a token: at once here, within seconds elsewhere.
    ///
    /// # Errors
    /// If there is no such token.
    pub async fn revoke_token(&self, id: &str) -> Result<(), Error> {
        self.catalog.revoke_token(id.to_owned(), self.clock.now()).await?;
        self.remembered.forget_token(id);
        Ok(())
    }

    /// Lists tokens by their public parts.
    ///
    /// # Errors
    /// If the iterator is none of them.
    pub async fn tokens(&self, wanted: &Wanted) -> Result<Slice<Described>, Error> {
        let read = |text: &str| is_public_part(text).then(|| text.to_owned());
        let listed = self.catalog.tokens(wanted.by(read, BEHIND_ALL.to_owned())?).await?;
        let describe = |token| Described::of(token, self.settings.portal);
        Ok(wanted.slice(listed, |token| token.id.clone()).map(describe))
    }

    /// Revokes the token that is being used. Only an application's token can end itself: an
    /// operator who did so by mistake would lock the door from outside.
    ///
    /// # Errors
    /// If it is an admin's.
    pub async fn log_out(&self, caller: &Caller) -> Result<(), Error> {
        match (&caller.token, caller.reach) {
            (Some(id), Reach::Application(_)) => self.revoke_token(id).await,
            (Some(_) | None, _) => {
                Err(Error::Forbidden("only an application's token can log itself out"))
            }
        }
    }
}

/// Makes the public part and the whole of a token.
fn make(public: [u8; 32], secret: [u8; 32]) -> (String, String) {
    let id: String =
        public.iter().take(PUBLIC_CHARACTERS / 2).map(|byte| format!("{byte:02x}")).collect();
    let body = format!("{PREFIX}{id}_{}", BASE64_URL_SAFE_NO_PAD.encode(secret));
    let sum = checksum(body.as_bytes());
    (id, format!("{body}{sum:08x}"))
}

/// Tells whether a text can be the public part of a token.
fn is_public_part(text: &str) -> bool {
    text.len() == PUBLIC_CHARACTERS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the public part of a token, if it is one of ours and not mistyped.
pub(super) fn public_part(token: &str) -> Option<&str> {
    let rest = token.strip_prefix(PREFIX)?;
    let id = rest.get(..PUBLIC_CHARACTERS)?;
    let (body, sum) = token.split_at_checked(token.len().checked_sub(CHECKSUM_CHARACTERS)?)?;
    let fits = u32::from_str_radix(sum, 16).is_ok_and(|sum| sum == checksum(body.as_bytes()));
    (fits && rest[PUBLIC_CHARACTERS..].starts_with('_')).then_some(id)
}

/// CRC-32 as zip and PNG have it.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        let shift = |sum: u32, _| if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
        (0..8).fold(sum ^ u32::from(*byte), shift)
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_by_its_public_part_unless_it_is_mistyped() {
        let (id, text) = make(dice::unguessable(), dice::unguessable());
        assert_eq!(public_part(&text), Some(id.as_str()));
        let mut mistyped = text.into_bytes();
        mistyped[30] ^= 1;
        assert_eq!(public_part(&String::from_utf8(mistyped).unwrap()), None);
        for text in ["", "rdl_", "rdl_é", "rdl_0123456789abcdef_00000000", "Bearer x"] {
            assert_eq!(public_part(text), None, "{text}");
        }
    }

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
    }
}
