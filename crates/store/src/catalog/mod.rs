//! What people set up: applications, endpoints, secrets, event types, tokens.
//!
//! A row changes in one way: by a function of the row as it is, inside the transaction that writes it
//! (see `edit`). So two changes at the same moment are both there afterwards.
//!
//! Every write that could change a fan-out raises its application's revision in the same
//! transaction. A message accepted with an older revision is refused and fanned out again: so an
//! endpoint that existed before a message was received gets it, whichever node accepted it.
//!
//! Every write that could change a fan-out or an attempt raises its application's version and notes
//! the moment, also in the same transaction. A node that sends asks for [`Catalog::changes`] and reads
//! again what it knows in an older version.

mod application;
pub(crate) mod edit;
mod endpoint;
mod event_type;
mod renamed;
mod size;
pub(crate) mod token;

use domain::ids::{ApplicationId, EndpointId};
use domain::time::Timestamp;

pub use application::{Application, ApplicationSettings, Change, Changes, NewApplication, Touches};
pub use edit::{Changed, Check, Edit, EndpointEdit, NewSecret, Refusal};
pub use endpoint::{
    Confidential, Credentials, Endpoint, EndpointSettings, EndpointView, FanOut, NewEndpoint,
    Secret,
};
pub use event_type::{EventType, EventTypeSettings, Schemas};
pub use renamed::{Renamed, Whose};
pub use size::{Admission, Growth, Size, admit_all};
pub use token::{Ends, Expiry, Granted, Scope, Token};

use crate::Answer;
use crate::keys::{ApplicationKey, EndpointKey};
use crate::page::{Listed, Page};
use crate::queue::Running;

/// How a thing is named by a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name<Id> {
    /// By its id.
    Id(Id),
    /// By the uid its owner gave it.
    Uid(String),
}

/// What the API and the dashboard set up.
pub trait Catalog: Send + Sync {
    /// Creates an application. Its uid, if it has one, must not be taken.
    fn create_application(&self, new: NewApplication) -> Answer<'_, Application>;
    /// Finds an application that is not deleted.
    fn application(&self, name: Name<ApplicationId>) -> Answer<'_, Application>;
    /// Changes an application's uid and settings. A change that leaves them as they are writes
    /// nothing.
    fn change_application(
        &self,
        key: ApplicationKey,
        change: Edit<Application>,
        at: Timestamp,
    ) -> Answer<'_, Changed<Application>>;
    /// Deletes an application: a tombstone at once, its uid free, its tokens revoked; upkeep removes
    /// all that is its.
    fn delete_application(&self, key: ApplicationKey, at: Timestamp) -> Answer<'_, ()> {
        self.delete_application_if(key, Box::new(|_| Ok(())), at)
    }
    /// Deletes an application if a check of its row as it is allows it.
    fn delete_application_if(
        &self,
        key: ApplicationKey,
        check: Check<Application>,
        at: Timestamp,
    ) -> Answer<'_, ()>;
    /// Lists applications by id, ascending.
    fn applications(
        &self,
        page: Page<ApplicationId>,
    ) -> Answer<'_, Listed<Application, ApplicationId>>;

    /// Creates an endpoint with its first secret.
    fn create_endpoint(&self, new: NewEndpoint) -> Answer<'_, Endpoint> {
        self.create_endpoint_if(new, admit_all())
    }
    /// Creates an endpoint with its first secret, if its application may become as large.
    fn create_endpoint_if(&self, new: NewEndpoint, admission: Admission) -> Answer<'_, Endpoint>;
    /// Finds an endpoint of an application that is not deleted.
    fn endpoint(&self, application: ApplicationKey, name: Name<EndpointId>)
    -> Answer<'_, Endpoint>;
    /// Changes an endpoint's uid, state, order, settings and confidential part, and its secret if
    /// the change says so. A change that leaves all of them as they are writes nothing. Switching
    /// between FIFO and due order is refused while something is pending.
    fn change_endpoint(
        &self,
        application: ApplicationKey,
        key: EndpointKey,
        change: EndpointEdit,
        at: Timestamp,
    ) -> Answer<'_, Changed<Endpoint>>;
    /// Deletes an endpoint: a tombstone at once, its uid free, its pending deliveries buried by
    /// upkeep.
    fn delete_endpoint(
        &self,
        application: ApplicationKey,
        key: EndpointKey,
        at: Timestamp,
    ) -> Answer<'_, ()> {
        let deleted = self.change_endpoint(application, key, EndpointEdit::deletion(), at);
        Box::pin(async { deleted.await.map(drop) })
    }
    /// Lists an application's endpoints by id, descending.
    fn endpoints(
        &self,
        application: ApplicationKey,
        page: Page<EndpointId>,
    ) -> Answer<'_, Listed<Endpoint, EndpointId>>;
    /// Returns endpoints of an application by their rows, in that order. Deleted ones are among
    /// them as long as anything refers to them; what is not there is left out.
    fn endpoints_by_key(
        &self,
        application: ApplicationKey,
        keys: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<Endpoint>>;
    /// Returns the ids of endpoints of an application by their rows, deleted ones as in
    /// [`Catalog::endpoints_by_key`].
    fn endpoint_ids(
        &self,
        application: ApplicationKey,
        keys: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<(EndpointKey, EndpointId)>>;
    /// Finds the row of an endpoint by its id, also of a deleted one as long as anything refers to it.
    fn endpoint_key(&self, application: ApplicationKey, id: EndpointId) -> Answer<'_, EndpointKey>;
    /// Returns the running state of endpoints of an application as their owners last wrote it, by their
    /// rows. Those that are not there, or deleted, are left out.
    fn running(
        &self,
        application: ApplicationKey,
        keys: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<(EndpointKey, Running)>>;

    /// Returns the secrets that sign now, newest first.
    fn secrets(
        &self,
        application: ApplicationKey,
        key: EndpointKey,
        at: Timestamp,
    ) -> Answer<'_, Vec<Secret>>;
    /// Makes a new secret the current one, unless it is that already; those before it go on signing until
    /// `grace_ends`. Refused while [`crate::limits::OLD_SECRETS`] old ones are live.
    fn rotate_secret(
        &self,
        application: ApplicationKey,
        key: EndpointKey,
        secret: Secret,
        grace_ends: Timestamp,
    ) -> Answer<'_, ()> {
        let (at, edit) =
            (secret.created_at, EndpointEdit::rotation(NewSecret { secret, grace_ends }));
        let rotated = self.change_endpoint(application, key, edit, at);
        Box::pin(async { rotated.await.map(drop) })
    }

    /// Returns all that fanning a message out and sending it needs, as of one version.
    fn fan_out(&self, application: ApplicationKey, at: Timestamp) -> Answer<'_, FanOut>;
    /// Returns the applications that were changed since a moment of the store's clock, deleted ones
    /// among them: those behind `after`, and at most [`crate::limits::CHANGES`] of them. A change is
    /// noted before it is committed, so a caller who asks again and again asks for what has changed
    /// since [`crate::limits::CHANGING`] before the last answer; and so does one who names no moment.
    fn changes(&self, since: Option<Timestamp>, after: Option<Change>) -> Answer<'_, Changes>;

    /// Creates an event type. Its name must not be taken.
    fn create_event_type(&self, event_type: EventType) -> Answer<'_, ()>;
    /// Changes an event type's settings. A change that leaves them as they are writes nothing.
    fn change_event_type(
        &self,
        name: String,
        change: Edit<EventType>,
        at: Timestamp,
    ) -> Answer<'_, Changed<EventType>>;
    /// Finds an event type, archived or not.
    fn event_type(&self, name: String) -> Answer<'_, EventType>;
    /// Removes an event type for good, if a check of its row as it is allows it.
    fn remove_event_type(&self, name: String, check: Check<EventType>) -> Answer<'_, ()>;
    /// Lists event types by name, ascending.
    fn event_types(
        &self,
        schemas: Schemas,
        page: Page<String>,
    ) -> Answer<'_, Listed<EventType, String>>;

    /// Keeps a token, as a hash. One for an application that is not there is refused.
    fn create_token(&self, token: Token) -> Answer<'_, ()>;
    /// Finds a token by its public part. Revoked and expired ones are found, too.
    fn token(&self, id: String) -> Answer<'_, Token>;
    /// Revokes a token.
    fn revoke_token(&self, id: String, at: Timestamp) -> Answer<'_, ()>;
    /// Ends tokens of an application that are not revoked yet, and tells how many these were.
    fn expire_tokens(&self, expiry: Expiry) -> Answer<'_, u32>;
    /// Lists tokens by id, ascending.
    fn tokens(&self, page: Page<String>) -> Answer<'_, Listed<Token, String>>;

    /// Keeps the hash of the admin token that is configured, or that none is, and returns the one that was
    /// kept before. It is sealed: an operator may have chosen a token that can be guessed.
    fn keep_admin_token(&self, hash: Option<[u8; 32]>) -> Answer<'_, Option<[u8; 32]>>;

    /// Forgets the names that a migration has changed and that were told of, and returns the next of
    /// them, at most [`crate::limits::RENAMED`]. A store that was never migrated has none.
    fn renamed(&self, told: Vec<Renamed>) -> Answer<'_, Vec<Renamed>> {
        drop(told);
        Box::pin(async { Ok(Vec::new()) })
    }
}
