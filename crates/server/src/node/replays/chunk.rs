//! Writing what a chunk found.
//!
//! A chunk that the database refuses is written in halves, until the row that it does not take is
//! alone. That one is passed over: a task that waited for it would wait for ever. Until the last
//! part is written, the task stays where the chunk began.

use domain::partition::Partition;
use engine::Event;
use store::keys::{Cursor, DeliveryKey, Lease};
use store::ledger::Task;
use store::queue::{Call, Chosen, Done, Missing, Replay, Upkeep};

use super::super::World;
use super::walk::{Walked, pass_over};

/// Writes a chunk; tells whether it was fenced, or how many deliveries it changed.
///
/// # Errors
/// If the store fails, or refuses also what names no delivery.
pub(super) async fn write(
    world: &World,
    lease: Lease,
    task: &Task,
    walked: Walked,
) -> Result<Done, store::Error> {
    let Walked { chosen, missing, passed_over, begins, reached } = walked;
    let part = Part { chosen, missing, passed_over };
    let partitions: Vec<_> = part.partitions().collect();
    let mut writing = Writing { world, lease, task, cursor: task.cursor };
    let whole = writing.put(&part, reached).await;
    let done = match whole {
        Ok(Done::Refused(text)) => match writing.put(&Part::default(), Some(begins)).await {
            // It is not about a row.
            Ok(Done::Refused(_)) => Err(store::Error::Refused(text)),
            Ok(Done::Changed(_)) => writing.put_in_parts(part, begins, reached).await,
            otherwise => otherwise,
        },
        otherwise => otherwise,
    };
    // What is pending again is found by looking; the sooner the better. A chunk that seems to have
    // failed, or to be fenced, may have been done before its answer got lost.
    if !partitions.is_empty() {
        world.inbox.post(Event::Woken(Call::Work(partitions)));
    }
    done
}

/// A task that is being written to.
struct Writing<'a> {
    world: &'a World,
    lease: Lease,
    task: &'a Task,
    /// How far the task has got.
    cursor: Option<Cursor>,
}

impl Writing<'_> {
    async fn put(&mut self, part: &Part, next: Option<Cursor>) -> Result<Done, store::Error> {
        let chunk = Replay {
            lease: self.lease,
            task: self.task.id,
            cursor: self.cursor,
            next_cursor: next,
            deliveries: part.chosen.clone(),
            missing: part.missing.clone(),
            passed_over: part.passed_over,
            at: self.world.timeline.rows(),
        };
        let done =
            self.world.committer.upkeep(Upkeep::Replay(chunk)).await.map_err(|error| {
                store::Error::Unavailable { text: error.to_string(), source: None }
            })?;
        match done {
            Done::Changed(_) => self.cursor = next,
            Done::Numbered { .. } | Done::Fenced | Done::Refused(_) => {}
        }
        Ok(done)
    }

    /// Halves what is refused until each row is written or passed over.
    async fn put_in_parts(
        &mut self,
        whole: Part,
        begins: Cursor,
        reached: Option<Cursor>,
    ) -> Result<Done, store::Error> {
        let (mut waiting, mut changed) = (vec![whole], 0);
        while let Some(part) = waiting.pop() {
            let next = if waiting.is_empty() { reached } else { Some(begins) };
            match self.put(&part, next).await? {
                Done::Changed(rows) | Done::Numbered { count: rows, .. } => changed += rows,
                Done::Fenced => return Ok(Done::Fenced),
                Done::Refused(text) => {
                    let Some(row) = part.first() else { return Err(store::Error::Refused(text)) };
                    if let Some((first, second)) = part.halves() {
                        waiting.extend([second, first]);
                        continue;
                    }
                    let DeliveryKey { endpoint, message, .. } = row;
                    pass_over(&format!("delivery of message {} to {}", message.0, endpoint.0));
                    if waiting.is_empty() {
                        // The task moves on all the same.
                        let passed_over = part.passed_over;
                        waiting.push(Part { passed_over, ..Part::default() });
                    }
                }
            }
        }
        Ok(Done::Changed(changed))
    }
}

/// What is written at once.
#[derive(Debug, Clone, Default)]
struct Part {
    chosen: Vec<Chosen>,
    missing: Option<Missing>,
    /// Counted with the last part of a chunk only.
    passed_over: u32,
}

impl Part {
    fn partitions(&self) -> impl Iterator<Item = Partition> {
        let made = self.missing.iter().flat_map(|missing| &missing.deliveries);
        self.chosen.iter().map(|it| it.partition).chain(made.map(|it| it.1))
    }

    fn first(&self) -> Option<DeliveryKey> {
        let mut made = self.missing.iter().flat_map(|missing| &missing.deliveries);
        self.chosen.first().map(|it| it.key).or_else(|| made.next().map(|it| it.0))
    }

    /// Divides it, unless it is a single row; each half has its rows in their order.
    fn halves(&self) -> Option<(Self, Self)> {
        let middle = self.partitions().count() / 2;
        if middle == 0 {
            return None;
        }
        let (mut first, mut second) = (self.clone(), self.clone());
        first.passed_over = 0;
        let chosen = middle.min(first.chosen.len());
        second.chosen = first.chosen.split_off(chosen);
        if let (Some(first), Some(second)) = (&mut first.missing, &mut second.missing) {
            second.deliveries = first.deliveries.split_off(middle - chosen);
        }
        Some((first, second))
    }
}
