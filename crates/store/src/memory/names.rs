//! Event types and tokens.

use domain::ids::ApplicationId;
use domain::time::Timestamp;

use super::State;
use super::walk::{self, Direction};
use crate::Error;
use crate::catalog::edit;
use crate::catalog::{Changed, Check, Edit, EventType, Scope, Token};
use crate::page::{Listed, Page};

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
    pub fn event_types(&self, page: &Page<String>) -> Listed<EventType, String> {
        let rows = self.event_types.iter().map(|(name, row)| (name.clone(), row));
        walk::page(rows, Direction::Ascending, page, |_, row| Some(row.clone()))
    }

    /// Keeps a token.
    ///
    /// # Errors
    /// If there is another one of that id.
    pub fn create_token(&mut self, token: Token) -> Result<(), Error> {
        if self.tokens.get(&token.id).is_some_and(|known| *known != token) {
            return Err(Error::Taken { what: "token", name: token.id });
        }
        self.tokens.insert(token.id.clone(), token);
        Ok(())
    }

    /// Finds a token.
    ///
    /// # Errors
    /// If there is none of that id.
    pub fn token(&self, id: &str) -> Result<Token, Error> {
        self.tokens.get(id).cloned().ok_or(Error::Missing("token"))
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// If there is none of that id.
    pub fn revoke_token(&mut self, id: &str, at: Timestamp) -> Result<(), Error> {
        let token = self.tokens.get_mut(id).ok_or(Error::Missing("token"))?;
        token.revoked_at.get_or_insert(at);
        Ok(())
    }

    /// Revokes all tokens of an application, and tells how many were not revoked before.
    pub fn expire_tokens(&mut self, application: ApplicationId, at: Timestamp) -> u32 {
        let mut revoked = 0;
        for token in self.tokens.values_mut() {
            if token.scope == Scope::Application(application) && token.revoked_at.is_none() {
                token.revoked_at = Some(at);
                revoked += 1;
            }
        }
        revoked
    }

    /// Lists tokens by id, ascending.
    #[must_use]
    pub fn tokens(&self, page: &Page<String>) -> Listed<Token, String> {
        let rows = self.tokens.iter().map(|(id, row)| (id.clone(), row));
        walk::page(rows, Direction::Ascending, page, |_, row| Some(row.clone()))
    }
}
