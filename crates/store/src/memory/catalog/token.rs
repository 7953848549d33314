//! API tokens.

use domain::time::Timestamp;

use crate::Error;
use crate::catalog::{Ends, Expiry, Name, Scope, Token};
use crate::memory::State;
use crate::memory::page;
use crate::page::{Direction, Listed, Page};

impl State {
    /// Keeps a token.
    ///
    /// # Errors
    /// If there is another one of that id, or its application is not there.
    pub fn create_token(&mut self, token: Token) -> Result<(), Error> {
        match (self.tokens.get(&token.id), &token.scope) {
            (Some(known), _) if *known == token => return Ok(()),
            (Some(_), _) => return Err(Error::Taken { what: "token", name: token.id }),
            (None, Scope::Application(id)) => drop(self.application(&Name::Id(*id))?),
            (None, Scope::Admin) => {}
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

    /// Ends tokens of an application, and tells how many were not revoked before.
    pub fn expire_tokens(&mut self, expiry: &Expiry) -> u32 {
        let Expiry { application, sessions, ends } = expiry;
        let mut ended = 0;
        for token in self.tokens.values_mut() {
            let own = token.scope == Scope::Application(*application);
            let meant = sessions.is_empty()
                || token.session.as_ref().is_some_and(|session| sessions.contains(session));
            if !own || !meant || token.revoked_at.is_some() {
                continue;
            }
            match *ends {
                Ends::Now(at) => token.revoked_at = Some(at),
                Ends::Later(at) => {
                    token.expires_at = Some(token.expires_at.map_or(at, |known| known.min(at)));
                }
            }
            ended += 1;
        }
        ended
    }

    /// Lists tokens by id, ascending.
    #[must_use]
    pub fn tokens(&self, page: &Page<String>) -> Listed<Token, String> {
        let rows = self.tokens.iter().map(|(id, row)| (id.clone(), row));
        let list = (Direction::Ascending, Token::bytes as fn(&_) -> _);
        page::page(rows, list, page, |_, row| Some(row.clone()))
    }
}
