//! API tokens.

use domain::ids::ApplicationId;
use domain::time::Timestamp;

use crate::Error;
use crate::catalog::{Scope, Token};
use crate::memory::State;
use crate::memory::page;
use crate::page::{Direction, Listed, Page};

impl State {
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

    /// Keeps the hash of the configured admin token, and returns the one before.
    pub fn keep_admin_token(&mut self, hash: Option<[u8; 32]>) -> Option<[u8; 32]> {
        std::mem::replace(&mut self.admin_token, hash)
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
        page::page(rows, Direction::Ascending, page, |_, row| Some(row.clone()))
    }
}
