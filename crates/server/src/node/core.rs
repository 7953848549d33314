//! The task that owns the engine: it hands it what happened, and carries out what it says.
//!
//! An engine that panics is dropped with everything it knows. Its attempts are interrupted, which
//! costs nothing; what it had judged is written under its lease; then that is given back, and the
//! next engine takes it under a new epoch, reads everything anew, and counts from other numbers.
//!
//! A delivery whose end makes engines panic again and again is buried, and so is one that does when
//! it comes: nobody would send anything any more. If it came with others, nobody knows which it was, so
//! the next engine is careful for a while: deliveries come one by one.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use domain::delivery::is_poison;
use domain::partition::Partition;
use engine::{Effect, Engine, Event, Suspect};
use store::keys::{Epoch, Lease, Node as Name};
use store::queue::Loaded;

use super::World;
use super::attempts::Attempts;
use super::effects::{self, Written};
use super::suspects::{self, Suspects};
use crate::dice;

/// The wait before a core is started again after a panic.
const AFTER_A_PANIC: Duration = Duration::from_millis(500);
/// How long a core is careful after one that panicked for reasons that nobody knows. Meanwhile each load
/// brings a single delivery, which is slow and goes on.
const CAREFUL_FOR: Duration = Duration::from_secs(30);
/// How long the store may take for what a core had judged before it panicked. Leases last longer.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);

/// Runs engines one after the other until one has stopped: usually the first one.
pub(super) async fn run(world: Arc<World>, settings: engine::Settings) {
    let mut settings = settings;
    let original = settings.node.0.clone();
    let mut suspects = Suspects::default();
    let mut careful = false;
    for life in 1_u32.. {
        let mut core = Core::new(&world, settings.clone(), life);
        if careful {
            core.be_careful();
        }
        if core.live().await {
            return;
        }
        tracing::error!("the engine panicked; it starts again and reads everything anew");
        careful = core.careful_until.is_some() || core.at_work.is_none();
        let poison = core.poison(&mut suspects);
        let settling = core.settling;
        drop(core);
        if let Some((suspect, lease)) = poison {
            suspects::bury(&world, suspect, lease);
        }
        let buried = settled(&world, settling, poison.is_some()).await;
        if let Some((suspect, _)) = poison.filter(|_| buried) {
            suspects.forget(suspect.delivery);
            suspects::announce_burial(&world, suspect.delivery);
        }
        give_up(&world, &settings.node).await;
        settings.node = Name(format!("{original}-{life}"));
        tokio::time::sleep(AFTER_A_PANIC).await;
    }
}

/// Waits until the store has answered so many settles, and a burial if there is one; tells whether it
/// was done. Once the next core has taken the partitions, they would be refused, and what has arrived
/// would be sent again. If it takes too long, they are: a panic is a crash, and nothing is lost by it.
async fn settled(world: &World, mut settling: usize, mut burying: bool) -> bool {
    let mut buried = false;
    let answered = async {
        while settling > 0 || burying {
            world.inbox.wait().await;
            let mut events = Vec::new();
            world.inbox.take(&mut events);
            settling = settling.saturating_sub(settles_in(&events));
            if let Some(done) = suspects::burial_in(&events) {
                (burying, buried) = (false, done);
            }
        }
    };
    if tokio::time::timeout(SETTLED_WITHIN, answered).await.is_err() {
        tracing::warn!("what the engine had judged may be sent again: the store does not answer");
    }
    buried
}

fn settles_in(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Settled { .. })).count()
}

/// Gives back what a core that panicked still owns, so that the next one takes it under a new epoch.
/// What it asked and is answered later is dropped; attempts and settles that end later say nothing to
/// the next one, because numbers are not used twice.
async fn give_up(world: &World, node: &Name) {
    world.inbox.own(std::iter::empty());
    world.inbox.begin_anew();
    if let Ok(renewal) = world.queue.renew(node.clone()).await {
        let released = world.queue.release(node.clone(), renewal.owned).await;
        if let Err(error) = released {
            // Their lease ends by itself.
            tracing::warn!(%error, "partitions could not be given back");
        }
    }
}

/// An engine and what belongs to it.
struct Core {
    world: Arc<World>,
    node: Name,
    engine: Engine,
    attempts: Attempts,
    /// What is owned, for whoever writes under a lease besides the engine.
    owned: Owned,
    /// Settles that were handed in and have not been answered.
    settling: usize,
    wake_at: Option<Duration>,
    effects: Vec<Effect>,
    /// The delivery whose attempt begins or has ended, or that has come alone, while that is being
    /// handled.
    at_work: Option<Suspect>,
    /// How many deliveries a load may bring otherwise.
    load_rows: u32,
    /// Until when deliveries come one by one.
    careful_until: Option<Duration>,
}

/// Whether a core goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Goes,
    Stopped,
    Panicked,
}

impl Core {
    fn new(world: &Arc<World>, settings: engine::Settings, life: u32) -> Self {
        let mut seed = [0; 8];
        dice::entropy(&mut seed);
        world.sums.forget_attempts();
        Self {
            world: Arc::clone(world),
            node: settings.node.clone(),
            load_rows: settings.load_rows,
            careful_until: None,
            engine: Engine::new(settings).after_lives(life - 1),
            attempts: Attempts::new(u64::from_be_bytes(seed)),
            owned: Owned::default(),
            settling: 0,
            wake_at: None,
            effects: Vec::new(),
            at_work: None,
        }
    }

    /// Has deliveries come one by one for a while.
    fn be_careful(&mut self) {
        let now = self.world.timeline.moment().elapsed;
        self.careful_until = Some(now.saturating_add(CAREFUL_FOR));
        self.engine.load_at_most(1);
    }

    /// Ends that when its time is over.
    fn relax(&mut self) {
        let now = self.world.timeline.moment().elapsed;
        if self.careful_until.is_some_and(|until| until <= now) {
            self.careful_until = None;
            self.engine.load_at_most(self.load_rows);
        }
    }

    /// Counts what made the engine panic; returns what is to be buried for it, and under which lease.
    fn poison(&self, suspects: &mut Suspects) -> Option<(Suspect, Lease)> {
        let suspect = self.at_work?;
        let times = suspects.count(suspect.delivery);
        suspects::announce_panic(&self.world, suspect.delivery, times);
        let partition = suspect.partition;
        let epoch = *self.owned.leases.get(&partition)?;
        is_poison(times).then_some((suspect, Lease { partition, epoch }))
    }

    /// Lives until the engine has stopped, or panicked; tells whether it stopped.
    async fn live(&mut self) -> bool {
        let mut events = vec![Event::Policies(self.world.rosters.policies()), Event::TimePassed];
        loop {
            if self.careful_until.is_some() {
                self.relax();
                events = events.into_iter().flat_map(one_by_one).collect();
            }
            match self.work(&mut events) {
                Life::Goes => {}
                Life::Stopped => return true,
                Life::Panicked => return false,
            }
            let wait =
                self.wake_at.map(|at| at.saturating_sub(self.world.timeline.moment().elapsed));
            tokio::select! {
                biased;
                () = self.world.inbox.wait() => {}
                () = tokio::time::sleep(wait.unwrap_or(Duration::MAX)), if wait.is_some() => {
                    self.wake_at = None;
                    events.push(Event::TimePassed);
                }
            }
            let timer = events.pop();
            self.world.inbox.take(&mut events);
            events.extend(timer);
        }
    }

    /// Hands the engine what happened, and carries out what it says.
    fn work(&mut self, events: &mut Vec<Event>) -> Life {
        let mut written = Written::default();
        let mut life = Life::Goes;
        let mut events = events.drain(..);
        for event in events.by_ref() {
            let handled = catch_unwind(AssertUnwindSafe(|| self.handle(event, &mut written)));
            match handled {
                Ok(Life::Goes) => {}
                Ok(otherwise) => life = otherwise,
                Err(_) => {
                    life = Life::Panicked;
                    self.at_work = self.engine.starting().or(self.at_work);
                    break;
                }
            }
        }
        // Also after a panic: what earlier events led to has happened, and attempts that ended are
        // settled.
        self.settling += written.hand_in(&self.world);
        self.settling = self.settling.saturating_sub(settles_in(events.as_slice()));
        life
    }

    fn handle(&mut self, event: Event, written: &mut Written) -> Life {
        self.at_work = None;
        self.note(&event);
        let now = self.world.timeline.moment();
        self.engine.step(now, event, &mut self.effects);
        let mut life = Life::Goes;
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Stopped => life = Life::Stopped,
                Effect::WakeAt(at) => self.wake_at = Some(at),
                Effect::Send(sending) => {
                    let before = self.at_work.replace(Suspect::of(&sending.delivery));
                    self.attempts.begin(&self.world, sending);
                    self.at_work = before;
                }
                Effect::Abort(attempt) => self.attempts.abort(attempt),
                other @ (Effect::Renew
                | Effect::Take { .. }
                | Effect::Release(_)
                | Effect::Walk(_)
                | Effect::ReadRequests(_)
                | Effect::Load { .. }
                | Effect::ReadRoster(_)
                | Effect::ReadChanges { .. }
                | Effect::Confirm { .. }
                | Effect::Settle { .. }
                | Effect::Upkeep { .. }
                | Effect::Disable { .. }
                | Effect::Announce(_)) => {
                    effects::carry_out(&self.world, &self.node, other, written);
                }
            }
        }
        life
    }

    /// Sees what passes by.
    fn note(&mut self, event: &Event) {
        match event {
            Event::Ended { attempt, .. } => {
                self.at_work = self.attempts.ended(*attempt);
            }
            Event::Settled { attempt, answer } => {
                self.settling = self.settling.saturating_sub(1);
                self.world.sums.settled(*attempt, *answer);
            }
            Event::HandedOver { deliveries, .. }
            | Event::Loaded { answer: Ok(Loaded { deliveries, .. }), .. } => {
                self.at_work = Suspect::only(deliveries);
            }
            Event::Renewed { asked_at, answer: Ok(renewal) } => {
                self.world.timeline.correct(*asked_at, renewal.now);
                self.owned.renewed(*asked_at, &renewal.owned);
                self.share_leases();
            }
            // Before the engine confirms them: what they replace is not written any more then.
            Event::Changes(Ok(changes)) => self.world.versions.heard(changes),
            Event::Taken(Ok(leases)) => {
                self.owned.took(self.world.timeline.moment().elapsed, leases);
                self.share_leases();
            }
            Event::Renewed { answer: Err(_), .. }
            | Event::Taken(Err(_))
            | Event::TimePassed
            | Event::Policies(_)
            | Event::Released(_)
            | Event::Walked(_)
            | Event::Loaded { answer: Err(_), .. }
            | Event::Roster { .. }
            | Event::RosterSeen { .. }
            | Event::Changes(Err(_))
            | Event::Upkept { .. }
            | Event::Disabled { .. }
            | Event::Requests(_)
            | Event::Asked
            | Event::Woken(_)
            | Event::Stop
            | Event::StopNow => {}
        }
    }

    fn share_leases(&self) {
        self.world.inbox.own(self.owned.leases.keys().copied());
        self.world.leases.send_replace(self.owned.leases.clone());
    }
}

/// Takes a hand-over apart.
fn one_by_one(event: Event) -> Vec<Event> {
    let Event::HandedOver { issued_at, deliveries } = event else { return vec![event] };
    let alone = |one| Event::HandedOver { issued_at, deliveries: vec![one] };
    deliveries.into_iter().map(alone).collect()
}

/// What the store said is owned.
#[derive(Debug, Default)]
struct Owned {
    leases: BTreeMap<Partition, Epoch>,
    /// Since when it is known. A renewal that was asked for earlier may not know what was taken.
    since: Duration,
}

impl Owned {
    /// Takes in a renewal, unless it is older than what is known.
    fn renewed(&mut self, asked_at: Duration, owned: &[Lease]) {
        if asked_at >= self.since {
            self.leases.clear();
            self.took(asked_at, owned);
        }
    }

    /// Takes in what was taken.
    fn took(&mut self, now: Duration, leases: &[Lease]) {
        self.since = now;
        self.leases.extend(leases.iter().map(|lease| (lease.partition, lease.epoch)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_from_before_a_take_does_not_hide_what_was_taken() {
        let lease =
            |number| Lease { partition: Partition::from_number(number).unwrap(), epoch: Epoch(1) };
        let second = Duration::from_secs;
        let mut owned = Owned::default();
        let numbers = |owned: &Owned| -> Vec<u8> {
            owned.leases.keys().map(|partition| partition.number()).collect()
        };
        owned.renewed(second(1), &[lease(1)]);
        owned.took(second(3), &[lease(2)]);
        owned.renewed(second(2), &[lease(1)]);
        assert_eq!(numbers(&owned), [1, 2], "asked for before the take was answered");
        owned.renewed(second(5), &[lease(2)]);
        owned.renewed(second(4), &[lease(1), lease(2)]);
        assert_eq!(numbers(&owned), [2], "older than one that has answered");
    }
}
