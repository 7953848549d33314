//! What the writer remembers, because nobody else writes: revisions, the sequence, the owners.
//!
//! Nothing here is more than the file says. What a transaction that failed had put here is taken
//! back with it, and what cannot be taken back is forgotten and read again.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::lease::Owners;
use crate::Error;
use crate::keys::{ApplicationKey, EndpointKey, Lease};

/// How many numbers of the sequence are set aside with one write. After a restart it goes on
/// behind them, so that none is ever given twice.
const SET_ASIDE: i64 = 65_536;
/// The most applications to remember; when there are more, it begins anew.
const MOST_APPLICATIONS: usize = 65_536;

/// What the writer remembers.
#[derive(Debug)]
pub(super) struct Memo {
    applications: BTreeMap<ApplicationKey, Known>,
    sequence: Sequence,
    /// As it was before the current transaction.
    sequence_before: Sequence,
    /// Shared with whoever renews a lease.
    pub(super) owners: Arc<Owners>,
}

/// What accepting needs to know of an application that is not deleted.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) revision: i64,
    /// Its endpoints, tombstones included.
    pub(super) endpoints: BTreeSet<EndpointKey>,
}

/// The numbers of messages and of the turns of FIFO endpoints.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    last: i64,
    /// What the file says: no number above it has been given.
    set_aside: i64,
}

impl Memo {
    /// Begins with what the file says.
    pub(super) fn read(connection: &Connection) -> Result<Self, Error> {
        let set_aside = set_aside(connection)?;
        let sequence = Sequence { last: set_aside, set_aside };
        Ok(Self {
            applications: BTreeMap::new(),
            sequence,
            sequence_before: sequence,
            owners: Arc::new(Owners::read(connection)?),
        })
    }

    /// Takes the file's word again after it was in doubt.
    pub(super) fn refresh(&mut self, connection: &Connection) -> Result<(), Error> {
        self.applications.clear();
        self.sequence.set_aside = set_aside(connection)?;
        self.owners.refresh(connection)
    }

    pub(super) fn begin(&mut self) {
        self.sequence_before = self.sequence;
    }

    pub(super) fn committed(&mut self) {
        self.begin();
        self.owners.committed();
        if self.applications.len() > MOST_APPLICATIONS {
            self.applications.clear();
        }
    }

    pub(super) fn rolled_back(&mut self) {
        self.applications.clear();
        // Numbers that were given are not given again: their transaction may yet turn out to
        // have been committed.
        self.sequence.set_aside = self.sequence_before.set_aside;
        self.owners.rolled_back();
    }

    /// Returns up to where numbers are set aside.
    pub(super) fn set_aside(&self) -> i64 {
        self.sequence.set_aside
    }

    /// Takes back what a part of the transaction had set aside and noted; numbers that were given
    /// are not given again.
    pub(super) fn take_back_to(&mut self, set_aside: i64) {
        self.applications.clear();
        self.sequence.set_aside = set_aside;
    }

    /// Returns what is known of an application, unless it is deleted or was never there.
    pub(super) fn application(
        &mut self,
        connection: &Connection,
        key: ApplicationKey,
    ) -> Result<Option<&Known>, Error> {
        let known = match self.applications.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let Some(revision) = revision(connection, key)? else {
                    return Ok(None);
                };
                let endpoints = endpoints(connection, key)?;
                place.insert(Known { revision, endpoints })
            }
        };
        Ok(Some(known))
    }

    /// Forgets an application that is being changed.
    pub(super) fn forget(&mut self, key: ApplicationKey) {
        self.applications.remove(&key);
    }

    /// Returns the last number that was given.
    pub(super) fn last_in_sequence(&self) -> i64 {
        self.sequence.last
    }

    /// Gives a message its number, or a delivery of a FIFO endpoint its turn.
    pub(super) fn next_in_sequence(&mut self, connection: &Connection) -> Result<i64, Error> {
        if self.sequence.last >= self.sequence.set_aside {
            self.sequence.set_aside = self.sequence.last + SET_ASIDE;
            set_numbers_aside(connection, self.sequence.set_aside)?;
        }
        self.sequence.last += 1;
        Ok(self.sequence.last)
    }

    /// Takes back the number that was just given, and that nothing was written with.
    pub(super) fn take_back(&mut self, number: i64) {
        if self.sequence.last == number {
            self.sequence.last -= 1;
        }
    }

    /// Tells whether nobody has taken the partition since the lease was given.
    pub(super) fn is_current(&self, lease: Lease) -> bool {
        self.owners.is_current(lease)
    }
}

/// Needs the primary key of `meta`.
fn set_aside(connection: &Connection) -> Result<i64, Error> {
    let sql = "SELECT value FROM meta WHERE name = 'sequence'";
    Ok(connection.query_row(sql, [], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Needs the primary key of `meta`.
fn set_numbers_aside(connection: &Connection, number: i64) -> Result<(), Error> {
    let sql = "INSERT INTO meta (name, value) VALUES ('sequence', ?1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute([number])?;
    Ok(())
}

/// Needs the primary key of `applications`.
fn revision(connection: &Connection, key: ApplicationKey) -> Result<Option<i64>, Error> {
    let sql = "SELECT revision FROM applications WHERE key = ?1 AND deleted_at IS NULL";
    Ok(connection.prepare_cached(sql)?.query_row(params![key.0], |row| row.get(0)).optional()?)
}

/// Needs the index `endpoints_id`.
fn endpoints(
    connection: &Connection,
    application: ApplicationKey,
) -> Result<BTreeSet<EndpointKey>, Error> {
    let mut statement =
        connection.prepare_cached("SELECT key FROM endpoints WHERE application = ?1")?;
    let rows = statement.query_map(params![application.0], |row| row.get(0).map(EndpointKey))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
