//! Event types.

use domain::time::Timestamp;

use crate::Error;
use crate::catalog::{Changed, Check, Edit, EventType, Schemas, edit};
use crate::memory::State;
use crate::memory::page;
use crate::page::{Direction, Listed, Page};

impl State {
    /// Creates an event type.
    ///
    /// # Errors
    /// If the name is taken.
    pub fn create_event_type(&mut self, event_type: EventType) -> Result<(), Error> {
        if self.event_types.contains_key(&event_type.name) {
            return Err(Error::Taken { what: "event type", name: event_type.name });
        }
        self.event_types.insert(event_type.name.clone(), event_type);
        self.event_type_changes += 1;
        Ok(())
    }

    /// Changes an event type by a function of its row as it is.
    ///
    /// # Errors
    /// If there is none of that name, or the function declines.
    pub fn change_event_type(
        &mut self,
        name: &str,
        change: &Edit<EventType>,
        at: Timestamp,
    ) -> Result<Changed<EventType>, Error> {
        let row = self.event_types.get_mut(name).ok_or(Error::Missing("event type"))?;
        let before = row.clone();
        let Some(after) = edit::event_type(&before, change, at)? else {
            return Ok(Changed::nothing(before));
        };
        row.clone_from(&after);
        self.event_type_changes += 1;
        Ok(Changed { before, after })
    }

    /// Finds an event type.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn event_type(&self, name: &str) -> Result<EventType, Error> {
        self.event_types.get(name).cloned().ok_or(Error::Missing("event type"))
    }

    /// Removes an event type, if a check of its row allows it.
    ///
    /// # Errors
    /// If there is none of that name, or the check declines.
    pub fn remove_event_type(&mut self, name: &str, check: &Check<EventType>) -> Result<(), Error> {
        let row = self.event_types.get(name).ok_or(Error::Missing("event type"))?;
        check(row).map_err(Error::Declined)?;
        self.event_types.remove(name);
        self.event_type_changes += 1;
        Ok(())
    }

    /// Lists event types by name, ascending.
    #[must_use]
    pub fn event_types(&self, schemas: Schemas, page: &Page<String>) -> Listed<EventType, String> {
        let rows = self.event_types.iter().map(|(name, row)| (name.clone(), row));
        let list = (Direction::Ascending, EventType::bytes as fn(&_) -> _);
        page::page(rows, list, page, |_, row| Some(row.clone().with(schemas)))
    }
}
