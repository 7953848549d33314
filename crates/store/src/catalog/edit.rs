//! How a row of the catalog changes: by a function of the row as it is, inside the transaction that
//! writes it. Two changes at the same moment follow each other, and each touches only what it names.
//!
//! The function must be pure: a store calls it again when it repeats the transaction. It runs while
//! other writers wait, so it must neither wait nor compute for long.

use std::time::Duration;

use domain::endpoint::{Reason, State};
use domain::time::Timestamp;

use super::{
    Admission, Application, Confidential, Endpoint, EndpointSettings, EventType, Secret, Touches,
    admit_all,
};
use crate::Error;

/// Why a change declines to be made. The caller gets it back as [`Error::Declined`].
pub type Refusal = Box<dyn std::error::Error + Send + Sync>;

/// What becomes of a row.
pub type Edit<T> = Box<dyn Fn(&T) -> Result<T, Refusal> + Send + Sync>;

/// Whether a row may be deleted as it is.
pub type Check<T> = Box<dyn Fn(&T) -> Result<(), Refusal> + Send + Sync>;

/// How far updates of one row are apart at least, so that no two versions have the same time.
const TICK: Duration = Duration::from_micros(1);

/// What becomes of an endpoint, and of its secrets.
pub struct EndpointEdit {
    /// What becomes of its row. A row that becomes deleted loses its uid.
    pub row: Edit<Endpoint>,
    /// A secret that becomes the current one, unless it is that already.
    pub secret: Option<NewSecret>,
    /// Whether its application may become as large as this makes it. It is not asked when the size
    /// stays the same.
    pub admission: Admission,
}

/// A secret that replaces the current one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSecret {
    /// The secret.
    pub secret: Secret,
    /// Until when the secrets before it go on signing.
    pub grace_ends: Timestamp,
}

/// A row before and after a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed<T> {
    /// As it was.
    pub before: T,
    /// As it is now.
    pub after: T,
}

impl EndpointEdit {
    /// Changes an endpoint's row alone.
    pub fn of(
        row: impl Fn(&Endpoint) -> Result<Endpoint, Refusal> + Send + Sync + 'static,
    ) -> Self {
        Self { row: Box::new(row), secret: None, admission: admit_all() }
    }

    /// Replaces an endpoint's secret and leaves its row as it is.
    #[must_use]
    pub fn rotation(new: NewSecret) -> Self {
        Self { secret: Some(new), ..Self::of(|row| Ok(row.clone())) }
    }

    /// Disables an endpoint because of an attempt on a version of it, and leaves it as it is if that
    /// version had another URL, or a person has enabled the endpoint since.
    #[must_use]
    pub fn disabling(reason: Reason, tried: Endpoint) -> Self {
        Self::of(move |row| {
            let concerned = row.is_concerned(&tried);
            let state = if concerned { row.state.disable(reason)? } else { row.state };
            Ok(Endpoint { state, ..row.clone() })
        })
    }

    /// Deletes an endpoint.
    #[must_use]
    pub fn deletion() -> Self {
        Self::of(|row| Ok(Endpoint { state: row.state.delete(), ..row.clone() }))
    }
}

impl<T: Clone + PartialEq> Changed<T> {
    /// Nothing changed.
    pub(crate) fn nothing(row: T) -> Self {
        Self { before: row.clone(), after: row }
    }

    /// Tells whether nothing changed.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.before == self.after
    }
}

/// Returns what becomes of an application, or nothing if it stays as it is.
pub(crate) fn application(
    before: &Application,
    change: &Edit<Application>,
    at: Timestamp,
) -> Result<Option<(Application, Touches)>, Error> {
    let Application { uid, settings, .. } = change(before).map_err(Error::Declined)?;
    let mut after = Application { uid, settings, ..before.clone() };
    if after == *before {
        return Ok(None);
    }
    after.updated_at = next(before.updated_at, at);
    let fans_out = after.settings.policy != before.settings.policy;
    Ok(Some((after, touches(fans_out))))
}

/// Returns what becomes of an endpoint, or nothing if it stays as it is.
pub(crate) fn endpoint(
    before: &Endpoint,
    change: &EndpointEdit,
    at: Timestamp,
) -> Result<Option<(Endpoint, Touches)>, Error> {
    let wanted = (change.row)(before).map_err(Error::Declined)?;
    let Endpoint { uid, state, order, settings, confidential, .. } = wanted;
    let mut after = Endpoint { uid, state, order, settings, confidential, ..before.clone() };
    let enables =
        matches!((before.state, state), (State::Disabled(_), State::Active | State::Paused));
    after.settings.enabled = before.settings.enabled.saturating_add(u32::from(enables));
    if state == State::Deleted {
        bare(&mut after);
    }
    if after == *before {
        return Ok(None);
    }
    after.updated_at = next(before.updated_at, at);
    let fans_out = (before.state, before.order) != (after.state, after.order)
        || before.settings.event_types != after.settings.event_types
        || before.settings.channels != after.settings.channels
        || before.settings.policy != after.settings.policy;
    Ok(Some((after, touches(fans_out))))
}

/// Takes off a deleted endpoint what nothing needs any more. It counts towards no cap, so it must not keep
/// what its owner can fill: of its settings only the URL stays, which its deliveries and attempts show.
fn bare(endpoint: &mut Endpoint) {
    endpoint.uid = None;
    let origin = std::mem::take(&mut endpoint.settings.origin);
    endpoint.settings = EndpointSettings { origin, ..EndpointSettings::default() };
    let path_and_query = std::mem::take(&mut endpoint.confidential.path_and_query);
    endpoint.confidential = Confidential { path_and_query, ..Confidential::default() };
}

/// Returns an endpoint after one of its secrets was replaced: it is another version of it.
pub(crate) fn rotated(before: &Endpoint, at: Timestamp) -> Endpoint {
    Endpoint { updated_at: next(before.updated_at, at), ..before.clone() }
}

/// Returns what becomes of an event type, or nothing if it stays as it is.
pub(crate) fn event_type(
    before: &EventType,
    change: &Edit<EventType>,
    at: Timestamp,
) -> Result<Option<EventType>, Error> {
    let EventType { settings, .. } = change(before).map_err(Error::Declined)?;
    if settings == before.settings {
        return Ok(None);
    }
    let updated_at = next(before.updated_at, at);
    Ok(Some(EventType { settings, updated_at, ..before.clone() }))
}

const fn touches(fans_out: bool) -> Touches {
    if fans_out { Touches::FanOut } else { Touches::Rest }
}

/// Each version of a row has a later time than the one before it, also when two nodes disagree about
/// the time: this is what tells versions apart.
fn next(before: Timestamp, at: Timestamp) -> Timestamp {
    at.max(before.after(TICK))
}
