//! Applications.

use domain::endpoint::State as EndpointState;
use domain::ids::ApplicationId;
use domain::time::Timestamp;

use super::State;
use super::rows::ApplicationRow;
use super::walk::{self, Direction};
use crate::Error;
use crate::catalog::{
    Application, ApplicationSettings, EndpointView, FanOut, Name, NewApplication,
};
use crate::keys::ApplicationKey;
use crate::page::{Listed, Page};

impl State {
    /// Creates an application.
    ///
    /// # Errors
    /// If its uid is taken.
    pub fn create_application(&mut self, new: NewApplication) -> Result<Application, Error> {
        if let Ok(known) = self.application(&Name::Id(new.id)) {
            return Ok(known);
        }
        self.free_uid(None, new.uid.as_deref())?;
        let key = ApplicationKey(self.next_row());
        let application = Application {
            key,
            id: new.id,
            uid: new.uid,
            revision: 1,
            settings: new.settings,
            created_at: new.at,
            updated_at: new.at,
        };
        let row = ApplicationRow { application: application.clone(), deleted: false };
        self.applications.insert(key, row);
        Ok(application)
    }

    /// Finds an application that is not deleted.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn application(&self, name: &Name<ApplicationId>) -> Result<Application, Error> {
        let named = |application: &&Application| match name {
            Name::Id(id) => application.id == *id,
            Name::Uid(uid) => application.uid.as_ref() == Some(uid),
        };
        self.living_applications().find(named).cloned().ok_or(Error::Missing("application"))
    }

    /// Replaces an application's uid and settings.
    ///
    /// # Errors
    /// If it is not there, or the uid is taken.
    pub fn update_application(
        &mut self,
        key: ApplicationKey,
        uid: Option<String>,
        settings: ApplicationSettings,
        at: Timestamp,
    ) -> Result<Application, Error> {
        self.living(key).ok_or(Error::Missing("application"))?;
        self.free_uid(Some(key), uid.as_deref())?;
        let application = self.living(key).ok_or(Error::Missing("application"))?;
        application.uid = uid;
        application.settings = settings;
        application.updated_at = at;
        application.revision += 1;
        Ok(application.clone())
    }

    /// Deletes an application and revokes its tokens; pruning removes all that is its.
    ///
    /// # Errors
    /// If it is not there.
    pub fn delete_application(&mut self, key: ApplicationKey, at: Timestamp) -> Result<(), Error> {
        let application = self.living(key).ok_or(Error::Missing("application"))?;
        application.revision += 1;
        application.updated_at = at;
        let id = application.id;
        self.expire_tokens(id, at);
        if let Some(row) = self.applications.get_mut(&key) {
            row.deleted = true;
        }
        Ok(())
    }

    /// Lists applications by id, ascending.
    #[must_use]
    pub fn applications(&self, page: &Page<ApplicationId>) -> Listed<Application, ApplicationId> {
        let mut rows: Vec<_> = self.living_applications().map(|row| (row.id, row)).collect();
        rows.sort_by_key(|(id, _)| *id);
        let keep = |_: &ApplicationId, row: &Application| Some(row.clone());
        walk::page(rows.into_iter(), Direction::Ascending, page, keep)
    }

    /// Returns all that fanning a message out and sending it needs.
    ///
    /// # Errors
    /// If there is no such application.
    pub fn fan_out(&self, key: ApplicationKey, at: Timestamp) -> Result<FanOut, Error> {
        let application = self.living_applications().find(|row| row.key == key);
        let application = application.ok_or(Error::Missing("application"))?;
        let theirs = self.endpoints.values().filter(|row| {
            row.endpoint.application == key && row.endpoint.state != EndpointState::Deleted
        });
        let view = theirs.map(|row| EndpointView {
            endpoint: row.endpoint.clone(),
            secrets: row.live_secrets(at),
            running: row.running,
        });
        Ok(FanOut {
            application: application.id,
            revision: application.revision,
            policy: application.settings.policy.clone(),
            rate: application.settings.rate,
            endpoints: view.collect(),
        })
    }

    /// Raises an application's revision: what was fanned out before does not count any more.
    pub(super) fn raise_revision(&mut self, key: ApplicationKey) {
        if let Some(application) = self.living(key) {
            application.revision += 1;
        }
    }

    fn living_applications(&self) -> impl Iterator<Item = &Application> {
        self.applications.values().filter(|row| !row.deleted).map(|row| &row.application)
    }

    fn free_uid(&self, own: Option<ApplicationKey>, uid: Option<&str>) -> Result<(), Error> {
        let Some(uid) = uid else {
            return Ok(());
        };
        let mut others = self.living_applications().filter(|row| Some(row.key) != own);
        if others.any(|row| row.uid.as_deref() == Some(uid)) {
            return Err(Error::Taken { what: "uid", name: uid.to_owned() });
        }
        Ok(())
    }
}
