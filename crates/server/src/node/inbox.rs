//! What waits for the core.
//!
//! Answers need no limit here: there are as many of them as questions, and the engine limits those.
//! Hand-overs are limited; one that finds no room is dropped, and the core is told which partitions
//! to look at. That costs a load, never a delivery.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::partition::Partition;
use domain::time::Timestamp;
use engine::{Event, Number};
use store::keys::DeliveryKey;
use store::queue::{Accept, Accepted, Call, Done, FirstState, PendingDelivery, Settled};
use tokio::sync::Notify;

use super::sums::Sums;
use super::timeline::Timeline;
use crate::committer::Listener;

/// The events that wait, oldest first.
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    wake: Notify,
    most_handed_over: usize,
    /// The partitions that this node owns, as bits.
    owned: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    events: Vec<Event>,
    handed_over: usize,
    /// Partitions whose hand-over found no room, as bits.
    missed: u64,
    /// What was last said about stopping. It holds for every core.
    stop: Option<Event>,
    life: Life,
}

/// Which of the cores that live one after the other asked something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Life(u32);

impl Inbox {
    /// Makes an empty one that holds so many handed-over deliveries at the most.
    pub(crate) fn new(most_handed_over: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            wake: Notify::new(),
            most_handed_over,
            owned: AtomicU64::new(0),
        }
    }

    /// Adds an event; a node that sends nothing has nobody to tell.
    pub(crate) fn post(&self, event: Event) {
        if self.most_handed_over == 0 {
            return;
        }
        self.lock().events.push(event);
        self.wake.notify_one();
    }

    /// Returns which core lives.
    pub(super) fn life(&self) -> Life {
        self.lock().life
    }

    /// Adds the answer to a question, unless the core that asked it is no more: it says nothing about
    /// what the next one owns, and that one waits for answers of its own.
    pub(super) fn answer(&self, life: Life, event: Event) {
        let mut waiting = self.lock();
        if waiting.life == life {
            waiting.events.push(event);
            drop(waiting);
            self.wake.notify_one();
        }
    }

    /// Adds several events.
    pub(crate) fn post_all(&self, events: impl IntoIterator<Item = Event>) {
        if self.most_handed_over == 0 {
            return;
        }
        self.lock().events.extend(events);
        self.wake.notify_one();
    }

    /// Adds an event about stopping, which a core that begins anew gets once more.
    pub(crate) fn stop(&self, event: Event) {
        self.lock().stop = Some(event.clone());
        self.post(event);
    }

    /// Drops what waits for a core that is no more: it is not for the next one, but for a stop.
    pub(crate) fn begin_anew(&self) {
        let mut waiting = self.lock();
        let (stop, life) = (waiting.stop.clone(), Life(waiting.life.0 + 1));
        let events = stop.iter().cloned().collect();
        *waiting = Waiting { events, stop, life, ..Waiting::default() };
        drop(waiting);
        self.wake.notify_one();
    }

    /// Returns when something may be waiting.
    pub(crate) async fn wait(&self) {
        self.wake.notified().await;
    }

    /// Moves everything that waits into an empty list.
    pub(crate) fn take(&self, into: &mut Vec<Event>) {
        let mut waiting = self.lock();
        std::mem::swap(&mut waiting.events, into);
        waiting.handed_over = 0;
        let missed = std::mem::take(&mut waiting.missed);
        drop(waiting);
        if missed != 0 {
            into.push(Event::Woken(Call::Work(listed(missed))));
        }
    }

    /// Remembers which partitions this node owns.
    pub(crate) fn own(&self, partitions: impl Iterator<Item = Partition>) {
        let bits = partitions.fold(0, |bits, partition| bits | bit(partition));
        self.owned.store(bits, Ordering::Relaxed);
    }

    /// Tells whether this node owns a partition.
    pub(crate) fn owns(&self, partition: Partition) -> bool {
        self.owned.load(Ordering::Relaxed) & bit(partition) != 0
    }

    fn hand_over(&self, issued_at: std::time::Duration, deliveries: Vec<PendingDelivery>) {
        if deliveries.is_empty() {
            return;
        }
        let mut waiting = self.lock();
        if waiting.handed_over + deliveries.len() > self.most_handed_over {
            for delivery in &deliveries {
                waiting.missed |= bit(delivery.partition);
            }
        } else {
            waiting.handed_over += deliveries.len();
            waiting.events.push(Event::HandedOver { issued_at, deliveries });
        }
        drop(waiting);
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bit(partition: Partition) -> u64 {
    1 << partition.number()
}

fn listed(bits: u64) -> Vec<Partition> {
    Partition::all().filter(|partition| bits & bit(*partition) != 0).collect()
}

/// Turns what was committed into events.
pub(super) struct Ears {
    pub(super) inbox: Arc<Inbox>,
    pub(super) timeline: Arc<Timeline>,
    pub(super) sums: Arc<Sums>,
}

impl Listener for Ears {
    fn accepted(&self, issued_at: Timestamp, accepts: Vec<Accept>, answers: &[Accepted]) {
        self.sums.accepted(&accepts, answers);
        if self.inbox.most_handed_over == 0 {
            return;
        }
        let mut deliveries = Vec::new();
        for (accept, answer) in accepts.into_iter().zip(answers) {
            if let Accepted::New { message, turns } = answer {
                let owns = |partition| self.inbox.owns(partition);
                hand_over(accept, *message, turns, owns, &mut deliveries);
            }
        }
        self.inbox.hand_over(self.timeline.elapsed_at(issued_at), deliveries);
    }

    fn answered(&self, settles: Vec<(Number, Settled)>, upkeep: Vec<(Number, Done)>) {
        let settled =
            settles.into_iter().map(|(attempt, answer)| Event::Settled { attempt, answer });
        let upkept = upkeep.into_iter().map(|(step, answer)| Event::Upkept { step, answer });
        self.inbox.post_all(settled.chain(upkept));
    }
}

/// Makes what the engine takes over of an accepted message; the payload is shared, not copied.
fn hand_over(
    accept: Accept,
    row: store::keys::MessageKey,
    turns: &[i64],
    owns: impl Fn(Partition) -> bool,
    into: &mut Vec<PendingDelivery>,
) {
    let Accept { application, message, deliveries, .. } = accept;
    for (delivery, turn) in deliveries.iter().zip(turns) {
        let pending = match delivery.state {
            FirstState::Pending(pending) if owns(delivery.partition) => pending,
            FirstState::Pending(_) | FirstState::Dead(_) => continue,
        };
        into.push(PendingDelivery {
            key: DeliveryKey { application, endpoint: delivery.endpoint, message: row },
            partition: delivery.partition,
            turn: *turn,
            pending,
            recorded: 0,
            ended_before: None,
            last_attempt_at: None,
            message: message.id,
            event_type: message.event_type.clone(),
            received_at: message.received_at,
            policy: message.policy.clone(),
            content_type: message.content_type.clone(),
            payload: Some(message.payload.clone()),
            expunged: false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_begins_anew_gets_nothing_of_the_one_before_but_a_stop() {
        let (inbox, mut events) = (Inbox::new(10), Vec::new());
        inbox.post(Event::Asked);
        inbox.begin_anew();
        inbox.take(&mut events);
        assert_eq!(events, []);
        inbox.stop(Event::Stop);
        inbox.post(Event::Asked);
        inbox.take(&mut events);
        assert_eq!(events, [Event::Stop, Event::Asked]);
        for stop in [Event::Stop, Event::StopNow] {
            inbox.stop(stop.clone());
            inbox.begin_anew();
            events.clear();
            inbox.take(&mut events);
            assert_eq!(events, [stop]);
        }
    }

    #[test]
    fn an_answer_to_a_core_that_is_no_more_is_not_for_the_next_one() {
        let (inbox, mut events) = (Inbox::new(10), Vec::new());
        let before = inbox.life();
        inbox.begin_anew();
        inbox.answer(before, Event::Taken(Ok(Vec::new())));
        inbox.take(&mut events);
        assert_eq!(events, []);
        inbox.answer(inbox.life(), Event::Asked);
        inbox.take(&mut events);
        assert_eq!(events, [Event::Asked]);
    }
}
