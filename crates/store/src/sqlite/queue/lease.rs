//! Who owns which partition. Only epochs are written: nodes and owners end with the process.
//!
//! A renewal does not wait for the writer, which a slow disk may hold up for longer than a lease is
//! trusted. So all this is behind a lock, and nobody holds it while the file is read or written.
//! What a transaction takes is nobody's until it is committed: it is not yet renewed for whoever
//! takes it, and no more for whoever had it. So nobody comes back to life while being robbed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::partition::{PARTITIONS, Partition};
use domain::time::Timestamp;
use rusqlite::{Connection, params};

use crate::keys::{Epoch, Lease, Node};
use crate::queue::{Confirmed, Renewal};
use crate::sqlite::Clock;
use crate::sqlite::io::writer::Writing;
use crate::{Error, limits};

/// The nodes and what they own.
#[derive(Debug)]
pub(crate) struct Owners(Mutex<Book>);

/// What is behind the lock.
#[derive(Debug)]
struct Book {
    partitions: Partitions,
    /// As they were before the current transaction.
    before: Partitions,
    /// When each node last renewed its lease, if ever. A partition's owner is a place in this list.
    nodes: Vec<(Node, Option<Timestamp>)>,
    /// Up to which moment each node has confirmed changes of the catalog.
    heard: Vec<(Node, Timestamp)>,
}

/// Who owns what, and the epochs.
#[derive(Debug, Clone, Copy)]
struct Partitions {
    owners: [Option<usize>; PARTITIONS as usize],
    epochs: [i64; PARTITIONS as usize],
}

/// Takes partitions, in the current transaction.
pub(crate) fn take(writing: &mut Writing<'_>, node: &Node, most: u8) -> Result<Vec<Lease>, Error> {
    let leases = writing.memo.owners.take(node, most, writing.now);
    for lease in &leases {
        raise_epoch(writing.connection, *lease)?;
    }
    Ok(leases)
}

impl Owners {
    /// Begins with what the file says. No partition has an owner: whoever had one is gone.
    pub(crate) fn read(connection: &Connection) -> Result<Self, Error> {
        let owners = [None; PARTITIONS as usize];
        let partitions = Partitions { owners, epochs: epochs(connection)? };
        let (nodes, heard) = (Vec::new(), Vec::new());
        let book = Book { partitions, before: partitions, nodes, heard };
        Ok(Self(Mutex::new(book)))
    }

    /// Takes the file's word again after it was in doubt.
    pub(crate) fn refresh(&self, connection: &Connection) -> Result<(), Error> {
        let epochs = epochs(connection)?;
        let mut book = self.book();
        (book.partitions.epochs, book.before.epochs) = (epochs, epochs);
        Ok(())
    }

    /// Keeps what the transaction took.
    pub(crate) fn committed(&self) {
        let mut book = self.book();
        book.before = book.partitions;
    }

    /// Takes back what the transaction took.
    pub(crate) fn rolled_back(&self) {
        let mut book = self.book();
        book.partitions = book.before;
    }

    /// Tells whether nobody has taken the partition since the lease was given.
    pub(crate) fn is_current(&self, lease: Lease) -> bool {
        self.book().is_current(lease)
    }

    /// Registers a node, or renews its lease on everything it owns.
    pub(crate) fn renew(&self, node: &Node, clock: &Clock) -> Renewal {
        let mut book = self.book();
        // Told behind the lock, so that of two renewals under way the later one counts.
        let now = clock();
        let place = book.place_of(node);
        book.nodes[place].1 = Some(now);
        let alive = |(_, renewed): &&(Node, Option<Timestamp>)| is_alive(*renewed, now);
        let others = book.nodes.iter().filter(alive).filter(|(other, _)| other != node);
        let others: Vec<Timestamp> = others.filter_map(|(_, renewed)| *renewed).collect();
        let owned = Partition::all().filter_map(|partition| book.lease_on(partition, place));
        let owners = book.partitions.owners.iter();
        let free = owners.filter(|owner| is_free(&book.nodes, **owner, now)).count();
        Renewal::of(now, owned.collect(), &others, u8::try_from(free).unwrap_or(u8::MAX))
    }

    /// Gives partitions back; not while a transaction takes some.
    pub(super) fn release(&self, node: &Node, leases: &[Lease]) {
        let mut book = self.book();
        let place = book.nodes.iter().position(|(known, _)| known == node);
        for lease in leases {
            let current = book.is_current(*lease);
            let owner = &mut book.partitions.owners[usize::from(lease.partition.number())];
            if current && place.is_some() && *owner == place {
                *owner = None;
            }
        }
        book.before = book.partitions;
        // Its place stays: owners are known by it.
        if let Some(place) = place.filter(|place| !book.partitions.owners.contains(&Some(*place))) {
            book.nodes[place].1 = None;
        }
    }

    /// Notes up to which moment a node has confirmed changes of the catalog.
    pub(crate) fn confirm(&self, node: &Node, heard: Timestamp) {
        let mut book = self.book();
        match book.heard.iter_mut().find(|(known, _)| known == node) {
            Some((_, known)) => *known = heard.max(*known),
            None => book.heard.push((node.clone(), heard)),
        }
    }

    /// Returns up to which moment every living node has confirmed changes of the catalog.
    pub(crate) fn confirmed(&self, now: Timestamp) -> Confirmed {
        let book = self.book();
        let alive = book.nodes.iter().filter(|(_, renewed)| is_alive(*renewed, now));
        let heard = |node: &Node| book.heard.iter().find(|(known, _)| known == node);
        Confirmed::of(alive.map(|(node, _)| heard(node).map(|(_, heard)| *heard)))
    }

    fn take(&self, node: &Node, most: u8, now: Timestamp) -> Vec<Lease> {
        let mut book = self.book();
        let place = book.place_of(node);
        let Book { partitions, nodes, .. } = &mut *book;
        nodes[place].1 = nodes[place].1.max(Some(now));
        let mut leases = Vec::new();
        for partition in Partition::all() {
            let number = usize::from(partition.number());
            let is_free = is_free(nodes, partitions.owners[number], now);
            if is_free && leases.len() < usize::from(most) {
                let epoch = partitions.epochs[number] + 1;
                partitions.epochs[number] = epoch;
                partitions.owners[number] = Some(place);
                leases.push(Lease { partition, epoch: Epoch(epoch) });
            }
        }
        leases
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// Returns a node's place in the list of nodes. One that has not renewed yet gets one, too.
    fn place_of(&mut self, node: &Node) -> usize {
        let place = self.nodes.iter().position(|(known, _)| known == node);
        place.unwrap_or_else(|| {
            self.nodes.push((node.clone(), None));
            self.nodes.len() - 1
        })
    }

    /// Returns a node's lease on a partition, if it has one that no transaction is about to change.
    fn lease_on(&self, partition: Partition, place: usize) -> Option<Lease> {
        let number = usize::from(partition.number());
        let of = |partitions: &Partitions| (partitions.owners[number], partitions.epochs[number]);
        let (owner, epoch) = of(&self.partitions);
        let is_kept = of(&self.before) == (owner, epoch);
        (is_kept && owner == Some(place)).then_some(Lease { partition, epoch: Epoch(epoch) })
    }

    fn is_current(&self, lease: Lease) -> bool {
        self.partitions.epochs[usize::from(lease.partition.number())] == lease.epoch.0
    }
}

fn is_free(nodes: &[(Node, Option<Timestamp>)], owner: Option<usize>, now: Timestamp) -> bool {
    let owner = owner.and_then(|owner| nodes.get(owner));
    owner.is_none_or(|(_, renewed)| !is_alive(*renewed, now))
}

fn is_alive(renewed: Option<Timestamp>, now: Timestamp) -> bool {
    renewed.is_some_and(|renewed| now.since(renewed) < limits::LEASE)
}

/// Needs the primary key of `partitions`.
fn raise_epoch(connection: &Connection, lease: Lease) -> Result<(), Error> {
    let sql = "INSERT INTO partitions (number, epoch) VALUES (?1, ?2)
        ON CONFLICT (number) DO UPDATE SET epoch = excluded.epoch";
    let Lease { partition, epoch } = lease;
    connection.prepare_cached(sql)?.execute(params![partition.number(), epoch.0])?;
    Ok(())
}

/// Needs the primary key of `partitions`.
fn epochs(connection: &Connection) -> Result<[i64; PARTITIONS as usize], Error> {
    let mut statement = connection.prepare_cached("SELECT number, epoch FROM partitions")?;
    let mut rows = statement.query([])?;
    let mut epochs = [0; PARTITIONS as usize];
    while let Some(row) = rows.next()? {
        let number: usize = row.get(0)?;
        if let Some(epoch) = epochs.get_mut(number) {
            *epoch = row.get(1)?;
        }
    }
    Ok(epochs)
}
