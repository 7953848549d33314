//! Applications.

use domain::ids::ApplicationId;
use domain::time::Timestamp;

use crate::catalog::{
    Application, Change, Changed, Changes, Check, Edit, Expiry, Name, NewApplication, Touches, edit,
};
use crate::keys::ApplicationKey;
use crate::memory::State;
use crate::memory::page;
use crate::memory::rows::ApplicationRow;
use crate::page::{Direction, Listed, Page};
use crate::{Error, limits};

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
            version: 1,
            settings: new.settings,
            created_at: new.at,
            updated_at: new.at,
        };
        let row = ApplicationRow {
            application: application.clone(),
            deleted: false,
            changed_at: Timestamp::from_micros(0),
        };
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

    /// Changes an application by a function of its row as it is.
    ///
    /// # Errors
    /// If it is not there, the uid is taken, or the function declines.
    pub fn change_application(
        &mut self,
        key: ApplicationKey,
        change: &Edit<Application>,
        at: Timestamp,
    ) -> Result<Changed<Application>, Error> {
        let before = self.living(key).ok_or(Error::Missing("application"))?.clone();
        let Some((after, touches)) = edit::application(&before, change, at)? else {
            return Ok(Changed::nothing(before));
        };
        self.free_uid(Some(key), after.uid.as_deref())?;
        let application = self.living(key).ok_or(Error::Missing("application"))?;
        *application = after;
        self.changed(key, touches, at);
        let after = self.living(key).ok_or(Error::Missing("application"))?.clone();
        Ok(Changed { before, after })
    }

    /// Deletes an application as [`State::delete_application`] does, if a check of its row allows it.
    ///
    /// # Errors
    /// If it is not there, or the check declines.
    pub fn delete_application_if(
        &mut self,
        key: ApplicationKey,
        check: &Check<Application>,
        at: Timestamp,
    ) -> Result<(), Error> {
        let application = self.living(key).ok_or(Error::Missing("application"))?;
        check(application).map_err(Error::Declined)?;
        self.delete_application(key, at)
    }

    /// Deletes an application and revokes its tokens; pruning removes all that is its.
    ///
    /// # Errors
    /// If it is not there.
    pub fn delete_application(&mut self, key: ApplicationKey, at: Timestamp) -> Result<(), Error> {
        let application = self.living(key).ok_or(Error::Missing("application"))?;
        application.updated_at = at;
        let id = application.id;
        self.changed(key, Touches::FanOut, at);
        self.expire_tokens(&Expiry::of_all(id, at));
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
        let list = (Direction::Ascending, Application::bytes as fn(&_) -> _);
        page::page(rows.into_iter(), list, page, keep)
    }

    /// Returns what has changed since a moment.
    #[must_use]
    pub fn changes(
        &self,
        now: Timestamp,
        since: Option<Timestamp>,
        after: Option<Change>,
    ) -> Changes {
        let since = since.unwrap_or(now.before(limits::CHANGING));
        let change = |(key, row): (&ApplicationKey, &ApplicationRow)| Change {
            application: *key,
            version: row.application.version,
            at: row.changed_at,
        };
        let behind = |change: &Change| {
            let place = |change: &Change| (change.at, change.application);
            change.at >= since && after.as_ref().is_none_or(|last| place(change) > place(last))
        };
        let mut applications: Vec<_> =
            self.applications.iter().map(change).filter(behind).collect();
        applications.sort_unstable_by_key(|change| (change.at, change.application));
        applications.truncate(limits::CHANGES);
        Changes { now, event_types: self.event_type_changes, applications }
    }

    /// Notes that an application, or anything that is its, is changed.
    pub(in crate::memory) fn changed(
        &mut self,
        key: ApplicationKey,
        touches: Touches,
        at: Timestamp,
    ) {
        let Some(row) = self.applications.get_mut(&key) else { return };
        let (revision, others) = touches.raises();
        row.application.revision += revision;
        row.application.version += revision + others;
        row.changed_at = at;
    }

    pub(super) fn living_applications(&self) -> impl Iterator<Item = &Application> {
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
