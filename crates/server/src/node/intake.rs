//! Taking messages in: fan out, commit, answer when durable.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::names::{Channel, EventTypeName};
use domain::partition::Partition;
use domain::policy::Policy;
use domain::time::Timestamp;
use engine::roster::{Facts, Roster};
use engine::{Event, Unanswered};
use futures_util::FutureExt as _;
use store::keys::{ApplicationKey, EndpointKey};
use store::queue::{Accept, Accepted, NewMessage, Once, Request, Upkeep};

use super::{Intake, World, effects};
use crate::committer::Rejected;
use crate::dice;

/// The pause between two reads of what keeps changing.
const BETWEEN_READS: Duration = Duration::from_millis(20);

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

    /// Hears that an application's endpoints changed here.
    pub fn changed(&self, application: ApplicationKey) {
        self.world.rosters.forget(application);
        if self.world.rosters.changes.begins(application) {
            tokio::spawn(read_changes(Arc::clone(&self.world), application));
        }
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

    /// Hears that policies of event types changed here.
    pub fn event_types_changed(&self) {
        self.world.event_types.notify_one();
    }

    /// Hears that a replay task was started here.
    pub fn replay_started(&self) {
        self.world.replays.notify_one();
    }

    /// Returns the time of the rows, for `received_at` and all that the catalog writes.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.world.timeline.rows()
    }
}

/// Reads an application's endpoints for the engine until nothing has changed since.
async fn read_changes(world: Arc<World>, application: ApplicationKey) {
    loop {
        let read = AssertUnwindSafe(effects::roster(&world, application)).catch_unwind().await;
        let answer = read.unwrap_or(Err(Unanswered));
        world.inbox.post(Event::RosterSeen { application, answer });
        if !world.rosters.changes.is_again(application) {
            return;
        }
        tokio::time::sleep(BETWEEN_READS).await;
    }
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
