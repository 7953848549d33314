//! What the writer remembers, because nobody else writes: revisions, the sequence, the owners.
//!
//! Nothing here is more than the file says. What a transaction that failed had put here is taken
//! back with it, and what cannot be taken back is forgotten and read again.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use crate::Error;
use crate::keys::{ApplicationKey, EndpointKey, Lease};
use crate::sqlite::queue::lease::Owners;

/// How many numbers of the sequence are set aside with one write. After a restart it goes on
/// behind them, so that none is ever given twice.
const SET_ASIDE: i64 = 65_536;
/// The most applications to remember; when there are more, it begins anew.
const MOST_APPLICATIONS: usize = 65_536;
/// The most endpoints to remember; when there are more, it begins anew.
const MOST_ENDPOINTS: usize = 1_000_000;

/// What the writer remembers.
#[derive(Debug)]
pub(crate) struct Memo {
    applications: BTreeMap<ApplicationKey, Known>,
    /// The endpoints found to be an application's own, tombstones included. A row's number is never
    /// given again, so that a change of the application takes nothing away from them.
    endpoints: BTreeMap<ApplicationKey, BTreeSet<EndpointKey>>,
    /// How many `endpoints` there are.
    found: usize,
    /// The applications about which the current transaction noted something.
    touched: BTreeSet<ApplicationKey>,
    sequence: Sequence,
    /// As it was before the current transaction.
    sequence_before: Sequence,
    /// Shared with whoever renews a lease.
    pub(crate) owners: Arc<Owners>,
}

/// What accepting needs to know of an application that is not deleted.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) revision: i64,
    pub(crate) uid: Option<Arc<str>>,
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
    pub(crate) fn read(connection: &Connection) -> Result<Self, Error> {
        let set_aside = set_aside(connection)?;
        let sequence = Sequence { last: set_aside, set_aside };
        Ok(Self {
            applications: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            found: 0,
            touched: BTreeSet::new(),
            sequence,
            sequence_before: sequence,
            owners: Arc::new(Owners::read(connection)?),
        })
    }

    /// Takes the file's word again after it was in doubt.
    pub(crate) fn refresh(&mut self, connection: &Connection) -> Result<(), Error> {
        self.clear();
        self.sequence.set_aside = set_aside(connection)?;
        self.owners.refresh(connection)
    }

    pub(crate) fn begin(&mut self) {
        self.sequence_before = self.sequence;
        self.touched.clear();
    }

    pub(crate) fn committed(&mut self) {
        self.begin();
        self.owners.committed();
        if self.applications.len() > MOST_APPLICATIONS || self.found > MOST_ENDPOINTS {
            self.clear();
        }
    }

    pub(crate) fn rolled_back(&mut self) {
        self.forget_touched();
        // Numbers that were given are not given again: their transaction may yet turn out to
        // have been committed.
        self.sequence.set_aside = self.sequence_before.set_aside;
        self.owners.rolled_back();
    }

    /// Returns up to where numbers are set aside.
    pub(crate) fn set_aside(&self) -> i64 {
        self.sequence.set_aside
    }

    /// Takes back what a part of the transaction had set aside and noted; numbers that were given
    /// are not given again.
    pub(crate) fn take_back_to(&mut self, set_aside: i64) {
        self.forget_touched();
        self.sequence.set_aside = set_aside;
    }

    /// Returns what is known of an application, unless it is deleted or was never there.
    pub(crate) fn application(
        &mut self,
        connection: &Connection,
        key: ApplicationKey,
    ) -> Result<Option<&Known>, Error> {
        let known = match self.applications.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let Some(known) = read(connection, key)? else {
                    return Ok(None);
                };
                self.touched.insert(key);
                place.insert(known)
            }
        };
        Ok(Some(known))
    }

    /// Returns the first of some endpoints that is not an application's own. Each is looked for once,
    /// however often the application changes: to read all that a large application has would keep
    /// the writer from the others.
    pub(crate) fn unknown(
        &mut self,
        connection: &Connection,
        key: ApplicationKey,
        endpoints: &[EndpointKey],
    ) -> Result<Option<EndpointKey>, Error> {
        let found = self.endpoints.entry(key).or_default();
        for endpoint in endpoints {
            if found.contains(endpoint) {
                continue;
            }
            if !is_own(connection, key, *endpoint)? {
                return Ok(Some(*endpoint));
            }
            self.touched.insert(key);
            self.found += 1;
            found.insert(*endpoint);
        }
        Ok(None)
    }

    /// Forgets an application that is being changed.
    pub(crate) fn forget(&mut self, key: ApplicationKey) {
        self.applications.remove(&key);
    }

    /// Forgets an application whose endpoints are being removed.
    pub(crate) fn forget_endpoints(&mut self, key: ApplicationKey) {
        self.applications.remove(&key);
        self.found -= self.endpoints.remove(&key).map_or(0, |endpoints| endpoints.len());
    }

    /// Forgets what a transaction that failed had noted; what it had forgotten is read again.
    fn forget_touched(&mut self) {
        for key in std::mem::take(&mut self.touched) {
            self.forget_endpoints(key);
        }
    }

    fn clear(&mut self) {
        self.applications.clear();
        self.endpoints.clear();
        self.found = 0;
    }

    /// Returns the last number that was given.
    pub(crate) fn last_in_sequence(&self) -> i64 {
        self.sequence.last
    }

    /// Gives a message its number, or a delivery of a FIFO endpoint its turn.
    pub(crate) fn next_in_sequence(&mut self, connection: &Connection) -> Result<i64, Error> {
        if self.sequence.last >= self.sequence.set_aside {
            self.sequence.set_aside = self.sequence.last + SET_ASIDE;
            set_numbers_aside(connection, self.sequence.set_aside)?;
        }
        self.sequence.last += 1;
        Ok(self.sequence.last)
    }

    /// Takes back the number that was just given, and that nothing was written with.
    pub(crate) fn take_back(&mut self, number: i64) {
        if self.sequence.last == number {
            self.sequence.last -= 1;
        }
    }

    /// Tells whether nobody has taken the partition since the lease was given.
    pub(crate) fn is_current(&self, lease: Lease) -> bool {
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
fn read(connection: &Connection, key: ApplicationKey) -> Result<Option<Known>, Error> {
    let sql = "SELECT revision, uid FROM applications WHERE key = ?1 AND deleted_at IS NULL";
    let known = connection.prepare_cached(sql)?.query_row(params![key.0], |row| {
        let uid: Option<String> = row.get("uid")?;
        Ok(Known { revision: row.get("revision")?, uid: uid.map(Arc::from) })
    });
    Ok(known.optional()?)
}

/// Needs the primary key of `endpoints`.
fn is_own(
    connection: &Connection,
    application: ApplicationKey,
    endpoint: EndpointKey,
) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM endpoints WHERE key = ?1 AND application = ?2";
    Ok(connection.prepare_cached(sql)?.exists(params![endpoint.0, application.0])?)
}
