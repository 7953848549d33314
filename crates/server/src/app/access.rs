//! Who calls, and what they may do.
//!
//! A token is an admin's or an application's. What is not an application's own is "no such thing"
//! to it, never "forbidden": otherwise it could find out which ids exist.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::ids::ApplicationId;
use domain::rights::{Right, Rights};
use sha2::{Digest as _, Sha256};
use store::catalog::{Application, EventType, Name, Token};
use subtle::ConstantTimeEq as _;

use super::condition::Condition;
use super::idempotency::Promise;
use super::tokens::{self, Reach};
use super::turns::{HeldTurn, whole};
use super::{App, Error, applications};
use crate::network::Network;

/// The longest bearer token that is looked at.
const LONGEST_TOKEN: usize = 512;

/// What stands for the public part of the token that commands on the server's machine use.
const LOCAL: &str = "of the server's machine";

/// Somebody whose token was checked.
#[derive(Debug, Clone)]
pub struct Caller {
    /// What they reach.
    pub reach: Reach,
    /// Whether they may only read.
    pub read_only: bool,
    /// What they may do beside reading.
    pub rights: Rights,
    /// With which flags they see event types; none if they see all.
    pub feature_flags: Option<Arc<BTreeSet<String>>>,
    /// The public part of their token; none for the one that the operator configured.
    pub token: Option<String>,
    /// SHA-256 of their token.
    pub hash: [u8; 32],
    /// What was promised about the request they make, if it has an idempotency key.
    pub promise: Option<Promise>,
    /// Which version of a row the request they make means.
    pub condition: Condition,
    /// The turn at the store that the request has, if it needs one.
    pub turn: HeldTurn,
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
    fn new(
        (reach, read_only, rights): (Reach, bool, Rights),
        token: Option<String>,
        hash: [u8; 32],
    ) -> Self {
        let (promise, condition, turn) = (None, Condition::Always, HeldTurn::default());
        let feature_flags = None;
        Self { reach, read_only, rights, feature_flags, token, hash, promise, condition, turn }
    }

    /// Tells whether an application is theirs to reach.
    #[must_use]
    pub fn reaches(&self, application: ApplicationId) -> bool {
        match self.reach {
            Reach::Everything => true,
            Reach::Application(own) => own == application,
        }
    }

    /// Makes sure of a right.
    pub(crate) fn needs(&self, right: Right) -> Result<(), Error> {
        match () {
            () if self.rights.has(right) => Ok(()),
            () if self.read_only => Err(Error::Forbidden("this token may only read")),
            () => Err(Error::NotGranted(right)),
        }
    }

    /// Tells whether an event type is shown to them.
    pub(super) fn sees(&self, event_type: &EventType) -> bool {
        let Some(own) = &self.feature_flags else { return true };
        let mut flags = event_type.settings.flags().peekable();
        flags.peek().is_none() || flags.any(|flag| own.contains(flag))
    }

    /// Notes which application the request acts in, if it has an idempotency key.
    pub(super) fn act_in(&self, application: ApplicationId) -> Result<(), Error> {
        self.promise.as_ref().map_or(Ok(()), |promise| promise.act_in(application))
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
        self.authenticate_from(None, token).await
    }

    /// As [`App::authenticate`], for a token that comes from a network. Networks take turns with tokens that were
    /// never seen here.
    ///
    /// # Errors
    /// Also if too many of those wait.
    pub async fn authenticate_from(
        &self,
        origin: Option<Network>,
        token: &str,
    ) -> Result<Caller, Error> {
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
            return Ok(Caller::new((Reach::Everything, false, Rights::ALL), token, hash));
        }
        let id = tokens::public_part(token).ok_or(Error::Unauthenticated)?;
        let now = self.clock.now();
        let kept = match self.remembered.token(id, now) {
            Some(kept) => kept,
            None => self.look_up_token(origin, id).await?,
        };
        let fits = bool::from(kept.hash.ct_eq(&hash));
        let over = kept.revoked_at.is_some() || kept.expires_at.is_some_and(|end| end <= now);
        if !fits || over {
            return Err(Error::Unauthenticated);
        }
        let reach = Reach::from(kept.scope);
        let reach = (reach, kept.read_only, tokens::rights(&kept, self.settings.portal));
        let mut caller = Caller::new(reach, Some(kept.id.clone()), hash);
        caller.feature_flags = match caller.reach {
            Reach::Everything => None,
            Reach::Application(_) => Some(Arc::new(kept.granted.feature_flags.clone())),
        };
        Ok(caller)
    }

    /// Finds a token in the store, unless another caller has just done so.
    async fn look_up_token(&self, origin: Option<Network>, id: &str) -> Result<Arc<Token>, Error> {
        let turn = if self.remembered.knows_token(id) {
            self.turns.look_again(id).await?
        } else {
            self.turns.look_first(origin).await?
        };
        let now = self.clock.now();
        if let Some(kept) = self.remembered.token(id, now) {
            return Ok(kept);
        }
        let revocations = self.remembered.revocations();
        let (catalog, named) = (Arc::clone(&self.catalog), id.to_owned());
        let found = whole(async move {
            let _turn = turn;
            catalog.token(named).await
        });
        match found.await {
            Ok(found) => Ok(self.remembered.keep_token(found, now, revocations)),
            Err(store::Error::Missing(_)) => Err(Error::Unauthenticated),
            Err(other) => Err(other.into()),
        }
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
        caller.act_in(application.id)?;
        let named = match name {
            Name::Id(_) => None,
            Name::Uid(uid) => Some(uid),
        };
        Ok(Scope { caller: caller.clone(), application, named })
    }
}
