//! Who calls, and what they may do.
//!
//! A token is an admin's or an application's. What is not an application's own is "no such thing"
//! to it, never "forbidden": otherwise it could find out which ids exist.

use domain::ids::ApplicationId;
use sha2::{Digest as _, Sha256};
use store::catalog::{Application, Name};
use subtle::ConstantTimeEq as _;

use super::condition::Condition;
use super::idempotency::Promise;
use super::tokens::{self, Reach};
use super::{App, Error, applications};

/// The longest bearer token that is looked at.
const LONGEST_TOKEN: usize = 512;

/// What stands for the public part of the token that commands on the server's machine use.
const LOCAL: &str = "of the server's machine";

/// Somebody whose token was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// What they reach.
    pub reach: Reach,
    /// Whether they may only read.
    pub read_only: bool,
    /// The public part of their token; none for the one that the operator configured.
    pub token: Option<String>,
    /// SHA-256 of their token.
    pub hash: [u8; 32],
    /// What was promised about the request they make, if it has an idempotency key.
    pub promise: Option<Promise>,
    /// Which version of a row the request they make means.
    pub condition: Condition,
}

/// An application that a caller was let into. Only [`App::enter`] makes one.
#[derive(Debug, Clone)]
pub struct Scope {
    caller: Caller,
    application: Application,
    /// The uid by which it was named, if not by its id.
    named: Option<String>,
}

impl Caller {
    /// Tells whether an application is theirs to reach.
    #[must_use]
    pub fn reaches(&self, application: ApplicationId) -> bool {
        match self.reach {
            Reach::Everything => true,
            Reach::Application(own) => own == application,
        }
    }

    /// Says who they are, for records.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.token {
            Some(id) => format!("token {id}"),
            None => "the configured admin token".to_owned(),
        }
    }
}

impl Scope {
    /// Returns who was let in.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the application.
    #[must_use]
    pub fn application(&self) -> &Application {
        &self.application
    }

    /// Returns what checks, in the transaction that changes or deletes the application, that it still has
    /// the name by which it was found: it may be another customer's by now.
    pub(super) fn is_still_named(&self) -> impl Fn(&Application) -> Result<(), Error> + use<> {
        let named = self.named.clone();
        move |row: &Application| match &named {
            Some(uid) if row.uid.as_ref() != Some(uid) => Err(Error::Missing("application")),
            Some(_) | None => Ok(()),
        }
    }
}

impl App {
    /// Checks a bearer token.
    ///
    /// # Errors
    /// If it is none of ours, expired or revoked, or the store does not answer.
    pub async fn authenticate(&self, token: &str) -> Result<Caller, Error> {
        if token.is_empty() || token.len() > LONGEST_TOKEN {
            return Err(Error::Unauthenticated);
        }
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let is = |own: &Option<[u8; 32]>| own.is_some_and(|own| bool::from(own.ct_eq(&hash)));
        let known = if is(&self.settings.admin_token) {
            Some(None)
        } else if is(&self.settings.local_token) {
            Some(Some(LOCAL.to_owned()))
        } else {
            None
        };
        if let Some(token) = known {
            let (reach, read_only) = (Reach::Everything, false);
            let (promise, condition) = (None, Condition::Always);
            return Ok(Caller { reach, read_only, token, hash, promise, condition });
        }
        let id = tokens::public_part(token).ok_or(Error::Unauthenticated)?;
        let now = self.clock.now();
        let kept = match self.remembered.token(id, now) {
            Some(kept) => kept,
            None => match self.catalog.token(id.to_owned()).await {
                Ok(kept) => self.remembered.keep_token(kept, now),
                Err(store::Error::Missing(_)) => return Err(Error::Unauthenticated),
                Err(other) => return Err(other.into()),
            },
        };
        let fits = bool::from(kept.hash.ct_eq(&hash));
        let over = kept.revoked_at.is_some() || kept.expires_at.is_some_and(|end| end <= now);
        if !fits || over {
            return Err(Error::Unauthenticated);
        }
        let reach = Reach::from(kept.scope);
        let token = Some(kept.id.clone());
        Ok(Caller {
            reach,
            read_only: kept.read_only,
            token,
            hash,
            promise: None,
            condition: Condition::Always,
        })
    }

    /// Counts a change that a caller is about to make to an application's configuration.
    ///
    /// # Errors
    /// If it is an application's token, and there were too many of them.
    pub fn pace(&self, caller: &Caller) -> Result<(), Error> {
        match caller.reach {
            Reach::Everything => Ok(()),
            Reach::Application(own) if self.pace.allows(own, self.clock.now()) => Ok(()),
            Reach::Application(_) => Err(Error::TooManyChanges),
        }
    }

    /// Lets a caller into an application, by its id or uid.
    ///
    /// # Errors
    /// If there is no such application, or it is somebody else's.
    pub async fn enter(&self, caller: &Caller, name: &str) -> Result<Scope, Error> {
        let name = applications::name(name)?;
        let application = self.catalog.application(name.clone()).await?;
        if !caller.reaches(application.id) {
            return Err(Error::Missing("application"));
        }
        let named = match name {
            Name::Id(_) => None,
            Name::Uid(uid) => Some(uid),
        };
        Ok(Scope { caller: caller.clone(), application, named })
    }
}
