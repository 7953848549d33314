//! Endpoints and their secrets.

use std::collections::BTreeSet;

use domain::endpoint::State as EndpointState;
use domain::ids::EndpointId;
use domain::partition::Partition;
use domain::time::Timestamp;

use crate::catalog::{
    Admission, Changed, Endpoint, EndpointEdit, Name, NewEndpoint, Size, Touches, admit_all, edit,
};
use crate::keys::{ApplicationKey, EndpointKey, MessageKey};
use crate::memory::State;
use crate::memory::page;
use crate::memory::rows::EndpointRow;
use crate::page::{Direction, Listed, Page};
use crate::queue::Running;
use crate::{Error, limits};

impl State {
    /// Creates an endpoint with its first secret.
    ///
    /// # Errors
    /// If its application is not there, or its uid is taken.
    pub fn create_endpoint(&mut self, new: NewEndpoint) -> Result<Endpoint, Error> {
        self.create_endpoint_if(new, &admit_all())
    }

    /// Creates an endpoint with its first secret, if its application may become as large.
    ///
    /// # Errors
    /// As [`State::create_endpoint`], and if it may not.
    pub fn create_endpoint_if(
        &mut self,
        new: NewEndpoint,
        admission: &Admission,
    ) -> Result<Endpoint, Error> {
        if self.living(new.application).is_none() {
            return Err(Error::Missing("application"));
        }
        if let Ok(known) = self.endpoint(new.application, &Name::Id(new.id)) {
            return Ok(known);
        }
        self.free_endpoint_uid(new.application, None, new.uid.as_deref())?;
        self.size(new.application).replace((Size::default(), Size::of_new(&new)), admission)?;
        let key = EndpointKey(self.next_row());
        let endpoint = Endpoint {
            key,
            application: new.application,
            id: new.id,
            uid: new.uid,
            partition: Partition::of(&new.id),
            state: new.state,
            order: new.order,
            settings: new.settings,
            confidential: new.confidential,
            created_at: new.at,
            updated_at: new.at,
        };
        let (secrets, running) = (vec![new.secret], Running::default());
        let row = EndpointRow { endpoint: endpoint.clone(), secrets, running };
        self.endpoints.insert(key, row);
        self.changed(new.application, Touches::FanOut, new.at);
        Ok(endpoint)
    }

    /// Finds an endpoint that is not deleted.
    ///
    /// # Errors
    /// If there is none of that name in the application.
    pub fn endpoint(
        &self,
        application: ApplicationKey,
        name: &Name<EndpointId>,
    ) -> Result<Endpoint, Error> {
        let named = |endpoint: &&Endpoint| match name {
            Name::Id(id) => endpoint.id == *id,
            Name::Uid(uid) => endpoint.uid.as_ref() == Some(uid),
        };
        self.endpoints_of(application).find(named).cloned().ok_or(Error::Missing("endpoint"))
    }

    /// Changes an endpoint by a function of its row as it is.
    ///
    /// # Errors
    /// If it is not there, its uid is taken, its order changes while something is pending, too many
    /// of its secrets sign, or the function declines.
    pub fn change_endpoint(
        &mut self,
        (application, key): (ApplicationKey, EndpointKey),
        change: &EndpointEdit,
        at: Timestamp,
    ) -> Result<Changed<Endpoint>, Error> {
        let row = self.living_endpoint(application, key)?;
        let before = row.endpoint.clone();
        let changed = edit::endpoint(&before, change, at)?;
        let new = change.secret.as_ref().filter(|new| row.replaces(new));
        let (after, touches) = match (changed, new) {
            (Some(changed), _) => changed,
            (None, Some(_)) => (edit::rotated(&before, at), Touches::Rest),
            (None, None) => return Ok(Changed::nothing(before)),
        };
        if new.is_some_and(|new| row.is_full(new.secret.created_at)) {
            return Err(limits::too_many_secrets());
        }
        self.free_endpoint_uid(application, Some(key), after.uid.as_deref())?;
        if before.order != after.order && self.has_pending(key) {
            return Err(limits::reordered());
        }
        let sizes = (Size::of(&before), Size::of(&after));
        if sizes.0 != sizes.1 {
            self.size(application).replace(sizes, &change.admission)?;
        }
        let row = self.living_endpoint_mut(application, key)?;
        row.endpoint = after.clone();
        if let Some(new) = new {
            row.push(new);
        }
        self.changed(application, touches, at);
        Ok(Changed { before, after })
    }

    /// Deletes an endpoint; pruning buries what is pending for it.
    ///
    /// # Errors
    /// If it is not there.
    pub fn delete_endpoint(
        &mut self,
        application: ApplicationKey,
        key: EndpointKey,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.change_endpoint((application, key), &EndpointEdit::deletion(), at).map(drop)
    }

    /// Lists an application's endpoints by id, descending.
    #[must_use]
    pub fn endpoints(
        &self,
        application: ApplicationKey,
        page: &Page<EndpointId>,
    ) -> Listed<Endpoint, EndpointId> {
        let mut rows: Vec<_> = self.endpoints_of(application).map(|row| (row.id, row)).collect();
        rows.sort_by_key(|(id, _)| *id);
        let keep = |_: &EndpointId, row: &Endpoint| Some(row.clone());
        let list = (Direction::Descending, Endpoint::bytes as fn(&_) -> _);
        page::page(rows.into_iter(), list, page, keep)
    }

    /// Returns the ids of endpoints by their rows, deleted ones included.
    #[must_use]
    pub fn endpoint_ids(
        &self,
        application: ApplicationKey,
        keys: &[EndpointKey],
    ) -> Vec<(EndpointKey, EndpointId)> {
        let found = self.endpoints_by_key(application, keys);
        found.into_iter().map(|endpoint| (endpoint.key, endpoint.id)).collect()
    }

    /// Returns endpoints by their rows, deleted ones included.
    #[must_use]
    pub fn endpoints_by_key(
        &self,
        application: ApplicationKey,
        keys: &[EndpointKey],
    ) -> Vec<Endpoint> {
        let keys = BTreeSet::from_iter(keys);
        let living = self.applications.get(&application).is_some_and(|row| !row.deleted);
        let rows = keys.into_iter().filter_map(|key| self.endpoints.get(key));
        let theirs = rows.filter(|row| living && row.endpoint.application == application);
        theirs.map(|row| row.endpoint.clone()).collect()
    }

    /// Finds an endpoint's row, deleted or not.
    ///
    /// # Errors
    /// If it is not there.
    pub fn endpoint_key(
        &self,
        application: ApplicationKey,
        id: EndpointId,
    ) -> Result<EndpointKey, Error> {
        let living = self.applications.get(&application).is_some_and(|row| !row.deleted);
        let mut rows = self.endpoints.values().map(|row| &row.endpoint).filter(|_| living);
        let found = rows.find(|one| one.application == application && one.id == id);
        found.map(|endpoint| endpoint.key).ok_or(Error::Missing("endpoint"))
    }

    fn endpoints_of(&self, application: ApplicationKey) -> impl Iterator<Item = &Endpoint> {
        let living = self.applications.get(&application).is_some_and(|row| !row.deleted);
        self.endpoints.values().map(|row| &row.endpoint).filter(move |endpoint| {
            living
                && endpoint.application == application
                && endpoint.state != EndpointState::Deleted
        })
    }

    /// Returns how much an application's endpoints are.
    fn size(&self, application: ApplicationKey) -> Size {
        self.endpoints_of(application).map(Size::of).fold(Size::default(), Size::and)
    }

    pub(super) fn living_endpoint(
        &self,
        application: ApplicationKey,
        key: EndpointKey,
    ) -> Result<&EndpointRow, Error> {
        let living = self.endpoints_of(application).any(|endpoint| endpoint.key == key);
        let row = self.endpoints.get(&key).filter(|_| living);
        row.ok_or(Error::Missing("endpoint"))
    }

    pub(super) fn living_endpoint_mut(
        &mut self,
        application: ApplicationKey,
        key: EndpointKey,
    ) -> Result<&mut EndpointRow, Error> {
        self.living_endpoint(application, key)?;
        self.endpoints.get_mut(&key).ok_or(Error::Missing("endpoint"))
    }

    fn free_endpoint_uid(
        &self,
        application: ApplicationKey,
        own: Option<EndpointKey>,
        uid: Option<&str>,
    ) -> Result<(), Error> {
        let Some(uid) = uid else {
            return Ok(());
        };
        let mut others = self.endpoints_of(application).filter(|row| Some(row.key) != own);
        if others.any(|row| row.uid.as_deref() == Some(uid)) {
            return Err(Error::Taken { what: "uid", name: uid.to_owned() });
        }
        Ok(())
    }

    fn has_pending(&self, endpoint: EndpointKey) -> bool {
        let first = (endpoint, i64::MIN, MessageKey(i64::MIN));
        self.pending.range(first..).next().is_some_and(|(found, ..)| *found == endpoint)
    }
}
