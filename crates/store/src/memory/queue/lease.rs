//! Who owns which partition.

use domain::time::Timestamp;

use crate::keys::{Epoch, Lease, Node};
use crate::limits;
use crate::memory::State;
use crate::queue::{Confirmed, Renewal};

impl State {
    /// Registers a node, or renews its lease on everything it owns.
    pub fn renew(&mut self, node: Node, now: Timestamp) -> Renewal {
        let others = self.nodes.iter().filter(|(other, _)| **other != node);
        let others = others.filter(|(other, _)| self.is_alive(other, now));
        let others: Vec<Timestamp> = others.map(|(_, renewed)| *renewed).collect();
        let owned = self.partitions.iter().filter(|(_, row)| row.owner.as_ref() == Some(&node));
        let owned = owned.map(|(partition, row)| Lease { partition: *partition, epoch: row.epoch });
        let owned = owned.collect();
        self.nodes.insert(node, now);
        let free = self.partitions.values().filter(|row| self.is_free(row.owner.as_ref(), now));
        Renewal::of(now, owned, &others, u8::try_from(free.count()).unwrap_or(u8::MAX))
    }

    /// Takes up to `most` partitions that nobody owns, or whose owner has not renewed its lease, and
    /// renews the node's own.
    pub fn take(&mut self, node: &Node, most: u8, now: Timestamp) -> Vec<Lease> {
        let renewed = self.nodes.entry(node.clone()).or_insert(now);
        *renewed = now.max(*renewed);
        let free = self.partitions.iter();
        let free = free.filter(|(_, row)| self.is_free(row.owner.as_ref(), now));
        let free: Vec<_> = free.map(|(partition, _)| *partition).take(usize::from(most)).collect();
        let mut leases = Vec::with_capacity(free.len());
        for partition in free {
            if let Some(row) = self.partitions.get_mut(&partition) {
                row.epoch = Epoch(row.epoch.0 + 1);
                row.owner = Some(node.clone());
                leases.push(Lease { partition, epoch: row.epoch });
            }
        }
        leases
    }

    /// Gives partitions back. Ones that another node has taken in the meantime are left alone. A
    /// node that has none left does not count any more.
    pub fn release(&mut self, node: &Node, leases: &[Lease]) {
        for lease in leases {
            let row = self.partitions.get_mut(&lease.partition);
            let own =
                row.filter(|row| row.owner.as_ref() == Some(node) && row.epoch == lease.epoch);
            if let Some(row) = own {
                row.owner = None;
            }
        }
        if !self.partitions.values().any(|row| row.owner.as_ref() == Some(node)) {
            self.nodes.remove(node);
        }
    }

    /// Notes up to which moment a node has confirmed changes of the catalog.
    pub fn confirm(&mut self, node: Node, heard: Timestamp) {
        let known = self.heard.entry(node).or_insert(heard);
        *known = heard.max(*known);
    }

    /// Returns up to which moment every living node has confirmed changes of the catalog.
    #[must_use]
    pub fn confirmed(&self, now: Timestamp) -> Confirmed {
        let alive = self.nodes.keys().filter(|node| self.is_alive(node, now));
        Confirmed::of(alive.map(|node| self.heard.get(node).copied()))
    }

    fn is_free(&self, owner: Option<&Node>, now: Timestamp) -> bool {
        owner.is_none_or(|owner| !self.is_alive(owner, now))
    }

    fn is_alive(&self, node: &Node, now: Timestamp) -> bool {
        self.nodes.get(node).is_some_and(|renewed| now.since(*renewed) < limits::LEASE)
    }
}
