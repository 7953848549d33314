//! Who owns which partition. Only epochs are written: nodes and owners end with the process.

use domain::partition::Partition;
use domain::time::Timestamp;
use rusqlite::{Connection, params};

use super::memo::Memo;
use super::writer::Writing;
use crate::keys::{Epoch, Lease, Node};
use crate::queue::Renewal;
use crate::{Error, limits};

pub(super) fn renew(memo: &mut Memo, node: &Node, now: Timestamp) -> Renewal {
    let place = place_of(memo, node);
    memo.nodes[place].1 = Some(now);
    let alive = |(_, renewed): &&(Node, Option<Timestamp>)| is_alive(*renewed, now);
    let others = memo.nodes.iter().filter(alive).filter(|(other, _)| other != node);
    let others: Vec<Timestamp> = others.filter_map(|(_, renewed)| *renewed).collect();
    let owned = Partition::all().filter_map(|partition| {
        let number = usize::from(partition.number());
        let epoch = Epoch(memo.partitions.epochs[number]);
        (memo.partitions.owners[number] == Some(place)).then_some(Lease { partition, epoch })
    });
    let free = memo.partitions.owners.iter().filter(|owner| is_free(&memo.nodes, **owner, now));
    let free = u8::try_from(free.count()).unwrap_or(u8::MAX);
    Renewal::of(now, owned.collect(), &others, free)
}

pub(super) fn take(writing: &mut Writing<'_>, node: &Node, most: u8) -> Result<Vec<Lease>, Error> {
    let now = writing.now;
    let place = place_of(writing.memo, node);
    let Memo { partitions, nodes, .. } = &mut *writing.memo;
    nodes[place].1 = nodes[place].1.max(Some(now));
    let mut leases = Vec::new();
    for partition in Partition::all() {
        let number = usize::from(partition.number());
        let is_free = is_free(nodes, partitions.owners[number], now);
        if is_free && leases.len() < usize::from(most) {
            let epoch = partitions.epochs[number] + 1;
            raise_epoch(writing.connection, partition, epoch)?;
            partitions.epochs[number] = epoch;
            partitions.owners[number] = Some(place);
            leases.push(Lease { partition, epoch: Epoch(epoch) });
        }
    }
    Ok(leases)
}

pub(super) fn release(memo: &mut Memo, node: &Node, leases: &[Lease]) {
    let place = memo.nodes.iter().position(|(known, _)| known == node);
    for lease in leases {
        let current = memo.is_current(*lease);
        let owner = &mut memo.partitions.owners[usize::from(lease.partition.number())];
        if current && place.is_some() && *owner == place {
            *owner = None;
        }
    }
    // Its place stays: owners are known by it.
    if let Some(place) = place.filter(|place| !memo.partitions.owners.contains(&Some(*place))) {
        memo.nodes[place].1 = None;
    }
}

/// Returns a node's place in the list of nodes. One that has not renewed yet gets one, too.
fn place_of(memo: &mut Memo, node: &Node) -> usize {
    let place = memo.nodes.iter().position(|(known, _)| known == node);
    place.unwrap_or_else(|| {
        memo.nodes.push((node.clone(), None));
        memo.nodes.len() - 1
    })
}

fn is_free(nodes: &[(Node, Option<Timestamp>)], owner: Option<usize>, now: Timestamp) -> bool {
    let owner = owner.and_then(|owner| nodes.get(owner));
    owner.is_none_or(|(_, renewed)| !is_alive(*renewed, now))
}

fn is_alive(renewed: Option<Timestamp>, now: Timestamp) -> bool {
    renewed.is_some_and(|renewed| now.since(renewed) < limits::LEASE)
}

/// Needs the primary key of `partitions`.
fn raise_epoch(connection: &Connection, partition: Partition, epoch: i64) -> Result<(), Error> {
    let sql = "INSERT INTO partitions (number, epoch) VALUES (?1, ?2)
        ON CONFLICT (number) DO UPDATE SET epoch = excluded.epoch";
    connection.prepare_cached(sql)?.execute(params![partition.number(), epoch])?;
    Ok(())
}
