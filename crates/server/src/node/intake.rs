//! Taking messages in: fan out, commit, answer when durable.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use domain::names::{Channel, EventTypeName};
use domain::partition::Partition;
use domain::policy::Policy;
use domain::time::Timestamp;
use engine::Event;
use engine::roster::{Facts, Roster};
use store::keys::{ApplicationKey, EndpointKey};
use store::ledger::Within;
use store::queue::{Accept, Accepted, Minute, NewMessage, Once, Request, Rollup, Upkeep};

use super::{Intake, World, changes};
use crate::committer::Rejected;
use crate::dice;

/// How long a caller waits until a change is in force everywhere, before it is told that it is not yet.
const IN_FORCE_WITHIN: Duration = Duration::from_secs(2);
/// The pause between two looks whether it is.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// A message to be taken in.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Whose it is.
    pub application: ApplicationKey,
    /// The uid by which it was named, if not by its id.
    pub named: Option<Arc<str>>,
    /// The message as it will be kept.
    pub message: NewMessage,
    /// Its event type, as filters read it.
    pub event_type: EventTypeName,
    /// Its channels, as filters read them.
    pub channels: BTreeSet<Channel>,
    /// The policy that was set on it.
    pub policy: Option<Arc<Policy>>,
    /// When it is to be delivered, if not at once.
    pub deliver_at: Option<Timestamp>,
    /// The hash of its idempotency key.
    pub idempotency: Option<[u8; 32]>,
    /// The only endpoint that gets it, whatever its filter says; all that fit if none is named.
    pub only: Option<EndpointKey>,
}

/// Why a message was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// It was not written.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The endpoints could not be read.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The application is gone.
    #[error("the application is gone")]
    ApplicationMissing,
    /// The database refused it; the text is for the operator.
    #[error("the store refused the message: {0}")]
    Refused(String),
}

impl Intake {
    /// Takes a message in: returns when it is on disk, or was before, or its application no longer
    /// bears the name it was called by.
    ///
    /// # Errors
    /// If it was not written; nothing of it is, then.
    pub async fn take_in(&self, draft: Draft) -> Result<Accepted, NotTaken> {
        let rosters = &self.world.rosters;
        let mut roster = rosters.current(draft.application).await.map_err(missing)?;
        // Until its caller goes away, or the time of the request is over: each time around, the
        // application has changed once more.
        loop {
            let policies = rosters.policies();
            let facts = Facts {
                event_type: &draft.event_type,
                channels: &draft.channels,
                policy: draft.policy.as_ref(),
                received_at: draft.message.received_at,
                deliver_at: draft.deliver_at,
            };
            let deliveries = match draft.only {
                None => roster.fan_out(&facts, &policies),
                Some(only) => roster.fan_out_to(only, &facts, &policies).into_iter().collect(),
            };
            let accept = Accept {
                application: draft.application,
                named: draft.named.clone(),
                revision: roster.revision,
                message: draft.message.clone(),
                idempotency: draft.idempotency,
                deliveries,
            };
            match self.world.committer.accept(accept).await? {
                Accepted::Stale(revision) => {
                    let read = rosters.at_least(draft.application, revision).await;
                    roster = read.map_err(missing)?;
                }
                Accepted::ApplicationMissing => {
                    rosters.forget(draft.application);
                    return Err(NotTaken::ApplicationMissing);
                }
                Accepted::Refused(text) => return Err(NotTaken::Refused(text)),
                accepted @ (Accepted::New { .. }
                | Accepted::NameMoved
                | Accepted::Repeated(_)
                | Accepted::EventIdTaken(_)) => return Ok(accepted),
            }
        }
    }

    /// Returns an application's endpoints as of a revision or a later one.
    ///
    /// # Errors
    /// If the application is gone or the store fails.
    pub async fn roster(
        &self,
        application: ApplicationKey,
        revision: i64,
    ) -> Result<Arc<Roster>, store::Error> {
        let rosters = &self.world.rosters;
        let known = rosters.current(application).await?;
        if known.revision >= revision {
            Ok(known)
        } else {
            rosters.at_least(application, revision).await
        }
    }

    /// Tells whether messages can be taken in.
    ///
    /// # Errors
    /// If they cannot; the text says why, for the operator.
    pub async fn is_ready(&self) -> Result<(), Arc<str>> {
        self.world.readiness.ask().await
    }

    /// Hears that something in the catalog was changed here.
    pub fn changed(&self) {
        changes::call(&self.world);
    }

    /// Waits until no node begins an attempt any more with what was replaced before this was asked;
    /// false if that is not known after [`IN_FORCE_WITHIN`].
    pub async fn is_in_force(&self) -> bool {
        let confirmed = async {
            let called_at = loop {
                match self.world.queue.call().await {
                    Ok(called_at) => break called_at,
                    Err(_) => tokio::time::sleep(BETWEEN_LOOKS).await,
                }
            };
            changes::call(&self.world);
            while !is_confirmed(&self.world, called_at).await {
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
        };
        tokio::time::timeout(IN_FORCE_WITHIN, confirmed).await.is_ok()
    }

    /// Leaves a request for whoever owns an endpoint's partition.
    ///
    /// # Errors
    /// If it was not written.
    pub async fn ask(&self, request: Request) -> Result<(), Rejected> {
        let (application, partition) = (request.application, request.partition);
        let once = Once { at: request.at, id: dice::for_id() };
        self.world.committer.ask(application, Upkeep::Ask { once, request }).await?;
        self.asked(partition);
        Ok(())
    }

    /// Hears that a request waits for whoever owns a partition.
    pub fn asked(&self, partition: Partition) {
        if self.world.inbox.owns(partition) {
            self.world.inbox.post(Event::Asked);
        }
    }

    /// Hears that a replay task was started here.
    pub fn replay_started(&self) {
        self.world.replays.notify_one();
    }

    /// Returns the sums of some minutes, all together, with what this node has not written yet.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn sums(
        &self,
        within: Within,
        minutes: Range<Minute>,
    ) -> Result<Rollup, store::Error> {
        self.world.sums.together(&self.world, within, minutes).await
    }

    /// Returns the time of the rows, for `received_at` and all that the catalog writes.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.world.timeline.rows()
    }
}

/// Tells whether every node sends by what was committed before a moment. A store that does not answer has
/// confirmed nothing.
async fn is_confirmed(world: &World, moment: Timestamp) -> bool {
    world.queue.confirmed().await.is_ok_and(|confirmed| confirmed.covers(moment))
}

fn missing(error: store::Error) -> NotTaken {
    match error {
        store::Error::Missing(_) => NotTaken::ApplicationMissing,
        error @ (store::Error::Unavailable { .. }
        | store::Error::Taken { .. }
        | store::Error::Refused(_)
        | store::Error::Declined(_)
        | store::Error::CannotOpen(_)
        | store::Error::Damaged { .. }) => NotTaken::Store(error),
    }
}
