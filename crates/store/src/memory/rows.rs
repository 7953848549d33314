//! What a state is made of: one ordered map for each table, and the few indexes that answers need.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use domain::delivery::Delivery;
use domain::ids::{AttemptId, MessageId, TaskId};
use domain::partition::Partition;
use domain::time::Timestamp;

use crate::catalog::{Application, Endpoint, EventType, Secret, Token};
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, Epoch, Lease, MessageKey, Node};
use crate::ledger::{StoredAnswer, Task};
use crate::limits;
use crate::queue::{
    AttemptRecord, Chosen, Minute, NewMessage, Once, Order, Request, Rollup, Running, Subject,
};

/// A whole store as a value.
#[derive(Debug, Clone)]
pub struct State {
    /// The last number given to a message or to a turn of a FIFO endpoint.
    pub(super) sequence: i64,
    /// The last number given to any other row.
    pub(super) rows: i64,
    pub(super) dead_letters_kept: Duration,
    pub(super) applications: BTreeMap<ApplicationKey, ApplicationRow>,
    pub(super) endpoints: BTreeMap<EndpointKey, EndpointRow>,
    pub(super) event_types: BTreeMap<String, EventType>,
    pub(super) tokens: BTreeMap<String, Token>,
    pub(super) admin_token: Option<[u8; 32]>,
    pub(super) messages: BTreeMap<MessageKey, MessageRow>,
    pub(super) message_ids: BTreeMap<(ApplicationKey, MessageId), MessageKey>,
    pub(super) event_ids: BTreeMap<(ApplicationKey, String), MessageKey>,
    pub(super) idempotency: BTreeMap<(ApplicationKey, [u8; 32]), IdempotencyRow>,
    pub(super) deliveries: BTreeMap<(EndpointKey, MessageKey), DeliveryRow>,
    /// The pending deliveries, by turn. It follows from `deliveries`; `check` compares them.
    pub(super) pending: BTreeSet<(EndpointKey, i64, MessageKey)>,
    pub(super) attempts: BTreeMap<(EndpointKey, AttemptId), AttemptRow>,
    pub(super) tasks: BTreeMap<TaskId, Task>,
    pub(super) requests: BTreeMap<i64, Request>,
    pub(super) rollups: BTreeMap<(Subject, Minute), Rollup>,
    /// Those of old minutes, by the first minute of their hour.
    pub(super) hours: BTreeMap<(Subject, Minute), Rollup>,
    /// Steps that are recognised when they come again.
    pub(super) done_once: BTreeSet<Once>,
    pub(super) answers: BTreeMap<[u8; 32], (StoredAnswer, Timestamp)>,
    pub(super) nodes: BTreeMap<Node, Timestamp>,
    /// Up to which moment each node has confirmed changes of the catalog.
    pub(super) heard: BTreeMap<Node, Timestamp>,
    /// How often event types were changed.
    pub(super) event_type_changes: i64,
    pub(super) partitions: BTreeMap<Partition, PartitionRow>,
    /// Where the walk of pruning goes on.
    pub(super) pruned_up_to: MessageKey,
}

#[derive(Debug, Clone)]
pub(super) struct ApplicationRow {
    pub(super) application: Application,
    pub(super) deleted: bool,
    pub(super) changed_at: Timestamp,
}

#[derive(Debug, Clone)]
pub(super) struct EndpointRow {
    pub(super) endpoint: Endpoint,
    /// Oldest first; the last is the current one.
    pub(super) secrets: Vec<Secret>,
    pub(super) running: Running,
}

#[derive(Debug, Clone)]
pub(super) struct MessageRow {
    pub(super) application: ApplicationKey,
    /// As it was accepted, but without its payload.
    pub(super) message: NewMessage,
    pub(super) payload: Option<Bytes>,
    pub(super) idempotency: Option<[u8; 32]>,
    pub(super) fan_out: Vec<EndpointKey>,
    /// Endpoints whose delivery was removed before the message.
    pub(super) removed: Vec<EndpointKey>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct IdempotencyRow {
    pub(super) message: MessageId,
    pub(super) at: Timestamp,
}

#[derive(Debug, Clone)]
pub(super) struct DeliveryRow {
    pub(super) application: ApplicationKey,
    pub(super) partition: Partition,
    pub(super) order: Order,
    /// It means something only while the delivery is pending, and stays as it was afterwards.
    pub(super) turn: i64,
    pub(super) state: Delivery,
    /// A replay leaves it as it was.
    pub(super) settled_at: Option<Timestamp>,
    pub(super) recorded: u32,
    pub(super) last_attempt: Option<AttemptId>,
    pub(super) last_attempt_at: Option<Timestamp>,
    pub(super) last_status: Option<u16>,
}

impl DeliveryRow {
    /// Tells whether it is pending, and nothing was recorded and it has not ended since it was loaded.
    pub(super) fn is_as_loaded(&self, recorded: u32, ended_before: Option<Timestamp>) -> bool {
        let pending = matches!(self.state, Delivery::Pending(_));
        pending && (self.recorded, self.settled_at) == (recorded, ended_before)
    }

    /// Tells whether it is settled, and as it was when it was chosen for a replay.
    pub(super) fn is_as_chosen(&self, chosen: &Chosen) -> bool {
        let settled = !matches!(self.state, Delivery::Pending(_));
        let same = self.state.word() == chosen.state.word();
        settled && same && self.settled_at == chosen.ended_at
    }
}

#[derive(Debug, Clone)]
pub(super) struct AttemptRow {
    pub(super) message: MessageKey,
    pub(super) number: u32,
    pub(super) previous: Option<AttemptId>,
    /// Whether the settle that brought it moved the delivery.
    pub(super) applied: bool,
    pub(super) next_due: Option<Timestamp>,
    pub(super) record: AttemptRecord,
}

#[derive(Debug, Clone)]
pub(super) struct PartitionRow {
    pub(super) owner: Option<Node>,
    pub(super) epoch: Epoch,
}

impl Default for State {
    fn default() -> Self {
        let partition = PartitionRow { owner: None, epoch: Epoch(0) };
        Self {
            sequence: 0,
            rows: 0,
            dead_letters_kept: limits::DEAD_LETTERS,
            applications: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            event_types: BTreeMap::new(),
            tokens: BTreeMap::new(),
            admin_token: None,
            messages: BTreeMap::new(),
            message_ids: BTreeMap::new(),
            event_ids: BTreeMap::new(),
            idempotency: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            pending: BTreeSet::new(),
            attempts: BTreeMap::new(),
            tasks: BTreeMap::new(),
            requests: BTreeMap::new(),
            rollups: BTreeMap::new(),
            hours: BTreeMap::new(),
            done_once: BTreeSet::new(),
            answers: BTreeMap::new(),
            nodes: BTreeMap::new(),
            heard: BTreeMap::new(),
            event_type_changes: 0,
            partitions: Partition::all().map(|number| (number, partition.clone())).collect(),
            pruned_up_to: MessageKey(0),
        }
    }
}

impl State {
    /// Keeps dead letters for another time than the usual one.
    #[must_use]
    pub fn keeping_dead_letters(mut self, kept: Duration) -> Self {
        self.dead_letters_kept = kept;
        self
    }

    /// Gives a message its number, or a delivery of a FIFO endpoint its turn.
    pub(super) fn next_in_sequence(&mut self) -> i64 {
        self.sequence += 1;
        self.sequence
    }

    /// Gives a row of another table its number.
    pub(super) fn next_row(&mut self) -> i64 {
        self.rows += 1;
        self.rows
    }

    /// Tells whether nobody has taken the partition since the lease was given.
    pub(super) fn is_current(&self, lease: Lease) -> bool {
        self.partitions.get(&lease.partition).is_some_and(|row| row.epoch == lease.epoch)
    }

    /// Finds an application that is not deleted.
    pub(super) fn living(&mut self, key: ApplicationKey) -> Option<&mut Application> {
        let row = self.applications.get_mut(&key)?;
        if row.deleted { None } else { Some(&mut row.application) }
    }

    /// Returns a delivery, if all three parts of its key fit together.
    pub(super) fn delivery_row(&self, key: DeliveryKey) -> Option<&DeliveryRow> {
        let row = self.deliveries.get(&(key.endpoint, key.message))?;
        (row.application == key.application).then_some(row)
    }

    /// Changes a delivery, and the index of pending ones with it.
    pub(super) fn change<T>(
        &mut self,
        key: DeliveryKey,
        change: impl FnOnce(&mut DeliveryRow) -> T,
    ) -> Option<T> {
        let row = self.deliveries.get_mut(&(key.endpoint, key.message))?;
        if row.application != key.application {
            return None;
        }
        if let Delivery::Pending(_) = row.state {
            self.pending.remove(&(key.endpoint, row.turn, key.message));
        }
        let answer = change(row);
        if let Delivery::Pending(_) = row.state {
            self.pending.insert((key.endpoint, row.turn, key.message));
        }
        Some(answer)
    }
}
