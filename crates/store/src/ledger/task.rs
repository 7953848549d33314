//! Replay tasks: durable, so that they go on after a restart or a take-over.

use domain::ids::TaskId;
use domain::time::Timestamp;

use crate::keys::{ApplicationKey, Cursor, EndpointKey, MessageKey};
use crate::page::json_bytes;

/// A replay that runs in the background.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Whose deliveries it replays.
    pub application: ApplicationKey,
    /// Of which endpoint, if of one only.
    pub endpoint: Option<EndpointKey>,
    /// What kind of replay it is.
    pub kind: TaskKind,
    /// Which deliveries it means, as a document.
    pub selection: serde_json::Value,
    /// The last message it may touch: what comes later is not meant.
    pub upper: MessageKey,
    /// How far it has got.
    pub cursor: Option<Cursor>,
    /// How many deliveries it has replayed, or made.
    pub replayed: u64,
    /// How many it passed over: their endpoint is disabled, or there was nothing to make a delivery
    /// of because the payload is gone, or its time was over.
    pub skipped: u64,
    /// Where it stands.
    pub state: TaskState,
    /// Who started it.
    pub by: String,
    /// When it was started.
    pub created_at: Timestamp,
    /// When it last moved.
    pub updated_at: Timestamp,
}

impl Task {
    /// Returns how many bytes it has that somebody chose.
    pub(crate) fn bytes(&self) -> usize {
        self.by.len() + json_bytes(&self.selection)
    }
}

/// A task that is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningTask {
    /// Its id.
    pub id: TaskId,
    /// Whose deliveries it replays.
    pub application: ApplicationKey,
}

/// A task that is not in the store yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Its id.
    pub id: TaskId,
    /// Whose deliveries it replays.
    pub application: ApplicationKey,
    /// Of which endpoint, if of one only.
    pub endpoint: Option<EndpointKey>,
    /// What kind of replay it is.
    pub kind: TaskKind,
    /// Which deliveries it means, as a document.
    pub selection: serde_json::Value,
    /// Who started it.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// The kinds of replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// What failed and was not delivered since.
    Recover,
    /// What was never attempted on the endpoint, whether it was there then or not.
    ReplayMissing,
    /// Whatever the selection says, delivered ones included.
    BulkReplay,
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// It has more to do.
    Running,
    /// It has walked to the end.
    Finished,
}
