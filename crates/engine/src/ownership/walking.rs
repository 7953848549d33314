//! The safety net: walks over the store that find what memory has wrong or does not know.
//!
//! What a walk says may be outdated when it is answered; a false alarm costs a load, nothing else.
//! So that busy endpoints do not raise one every time, the turns that leave memory while a walk
//! runs are remembered until it has answered.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::partition::Partition;
use domain::rate::Limiter;
use domain::time::Timestamp;
use store::keys::EndpointKey;
use store::queue::{PendingDelivery, Waiting};

use crate::endpoints::endpoint::{At, Endpoint};
use crate::endpoints::horizon::{Horizon, is_fifo};
use crate::endpoints::window::Window;
use crate::engine::{Act, Engine};
use crate::planted::{self, Bug};
use crate::protocol::effect::Effect;
use crate::protocol::event::Unanswered;

/// How long after a walk that was not answered the next one begins.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// The most turns that are remembered while a walk runs.
const LEFT: usize = 65_536;
/// How long an endpoint without work is remembered: its slow start and its limits go on.
const IDLE_KEPT: Duration = Duration::from_secs(60);
/// How long after a load's answer hand-overs from before it are told apart.
const LATE: Duration = Duration::from_secs(5);

/// When to walk, and the walk that runs.
#[derive(Debug, Default)]
pub(crate) struct Walks {
    running: Option<Walk>,
    woken: BTreeSet<Partition>,
    next: Duration,
    paused_until: Duration,
}

#[derive(Debug)]
struct Walk {
    asked_at: Duration,
    partitions: Vec<Partition>,
    /// Those in which somebody wrote something that memory was not told of.
    woken: BTreeSet<Partition>,
    left: BTreeSet<(EndpointKey, i64)>,
}

impl Walks {
    /// Has these walked as soon as possible.
    pub(crate) fn wake(&mut self, partitions: Vec<Partition>) {
        self.woken.extend(partitions);
    }

    /// Returns when the next walk begins, unless one runs.
    pub(crate) fn next(&self) -> Option<Duration> {
        let next = if self.woken.is_empty() { self.next } else { Duration::ZERO };
        self.running.is_none().then_some(next.max(self.paused_until))
    }

    /// Remembers a delivery that leaves memory: a walk that runs may have seen it.
    pub(crate) fn leaves(&mut self, delivery: &PendingDelivery) {
        let Some(walk) = self.running.as_mut().filter(|walk| walk.left.len() < LEFT) else {
            return;
        };
        let turn = if is_fifo(delivery) { i64::MIN } else { delivery.turn };
        walk.left.insert((delivery.key.endpoint, turn));
    }
}

impl Engine {
    pub(crate) fn walk_when_due(&mut self, act: &mut Act<'_>) {
        let now = act.now.elapsed;
        if self.walks.next().is_none_or(|next| now < next) {
            return;
        }
        let mut partitions = self.leases.staying();
        let woken = std::mem::take(&mut self.walks.woken);
        if now < self.walks.next {
            partitions.retain(|partition| woken.contains(partition));
        } else {
            self.walks.next = now.saturating_add(self.settings.walk_every);
            self.sweep(now);
        }
        if partitions.is_empty() {
            return;
        }
        act.effects.push(Effect::Walk(partitions.clone()));
        self.walks.running = Some(Walk { asked_at: now, partitions, woken, left: BTreeSet::new() });
    }

    pub(crate) fn walked(&mut self, answer: Result<Vec<Waiting>, Unanswered>, act: &mut Act<'_>) {
        let Some(walk) = self.walks.running.take() else { return };
        let Ok(found) = answer else {
            self.walks.paused_until = act.now.elapsed.saturating_add(AGAIN_AFTER);
            self.walks.woken.extend(walk.partitions);
            return;
        };
        for partition in &walk.partitions {
            let held = self.leases.get_mut(*partition);
            if let Some(held) = held.filter(|held| held.since <= walk.asked_at) {
                held.surveyed = true;
            }
        }
        for waiting in found {
            if self.leases.get(waiting.partition).is_some() {
                self.compare(&waiting, &walk, act);
            }
        }
    }

    fn compare(&mut self, waiting: &Waiting, walk: &Walk, act: &mut Act<'_>) {
        let at = (waiting.application, waiting.endpoint);
        let mut differs = !self.endpoints.contains(&at);
        if differs {
            let horizon = waiting.due.map(Horizon::unknown);
            self.remember(at, waiting.partition, horizon, act);
        } else if let Some(due) = waiting.due {
            differs = self.compare_first(at, (waiting.partition, due), walk, act.now.rows);
        }
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        let known = endpoint.scheduled;
        endpoint.expect(waiting.scheduled.filter(|_| !planted::has(Bug::ForgetScheduled)));
        if differs || endpoint.scheduled != known {
            self.look(at, act);
        }
    }

    /// Compares what memory knows with when the delivery is due whose turn is first; tells whether that
    /// says something new.
    fn compare_first(
        &mut self,
        at: At,
        (partition, due): (Partition, Timestamp),
        walk: &Walk,
        now: Timestamp,
    ) -> bool {
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return false };
        let has_left = |turn| walk.left.contains(&(at.1, turn));
        if !endpoint.window.explains(due) && !has_left(due.as_micros()) && !has_left(i64::MIN) {
            endpoint.window.lower(Horizon::unknown(due));
        } else if !walk.woken.contains(&partition) {
            return false;
        } else if due > now {
            // Only the first row is explained; another may be due soon after it.
            endpoint.window.look_behind(due);
        } else {
            // Another may be due by now. What is known to be due goes first.
            endpoint.doubt = true;
        }
        true
    }

    /// Begins to remember an endpoint; without a horizon the store holds nothing for it.
    pub(crate) fn remember(
        &mut self,
        at: At,
        partition: Partition,
        horizon: Option<Horizon>,
        act: &mut Act<'_>,
    ) {
        let held = self.leases.get(partition).map(|held| (held.answered, held.since));
        let (answered, since) = held.unwrap_or((act.now.elapsed, act.now.elapsed));
        let window = Window::new(horizon, answered);
        let mut endpoint = Endpoint::new(partition, window, act.now);
        endpoint.limiter = Limiter::taken_over(Timestamp::EPOCH.after(since));
        self.endpoints.insert(at, endpoint);
    }

    /// Forgets endpoints that have had nothing to do for a while, and rosters nobody needs.
    fn sweep(&mut self, now: Duration) {
        let mut idle: Vec<At> = Vec::new();
        let all: Vec<At> = self.endpoints.keys().collect();
        for at in all {
            let Some(endpoint) = self.endpoints.get_mut(&at) else { continue };
            if now >= endpoint.window.answered().saturating_add(LATE) {
                endpoint.window.forget_what_came();
            }
            let last = endpoint.ended.moment().unwrap_or(endpoint.created());
            if endpoint.is_idle() && now >= last.saturating_add(IDLE_KEPT) {
                idle.push(at);
            }
        }
        for at in idle {
            // A roster from before its last attempts would bring an old breaker back.
            let running = self.endpoints.get(&at).filter(|one| one.begun).map(|one| one.running);
            let member = self.rosters.get(at.0).and_then(|roster| roster.member(at.1));
            if running.is_some() && member.map(|member| member.view.running) != running {
                self.rosters.outdate(at.0);
            }
            self.forget(at);
        }
        let endpoints = &self.endpoints;
        self.rosters.prune(self.settings.roster_memory, |application| {
            let from = (application, EndpointKey(i64::MIN));
            endpoints.range(from..).next().is_some_and(|at| at.0 == application)
        });
    }
}
