//! Looking at an endpoint: what it needs next, and when.
//!
//! Whatever changes something about an endpoint has it looked at. The look queues a turn, a load or
//! a burial, or sets the timer; it never starts an attempt itself, because turns are taken among
//! all endpoints.

use std::sync::Arc;
use std::time::Duration;

use domain::breaker::WhileOpen;
use domain::delivery::Cause;
use domain::endpoint::State;
use domain::time::Timestamp;
use store::keys::{ApplicationKey, EndpointKey};
use store::queue::PendingDelivery;

use crate::dispatch::loading::AGAIN_AFTER;
use crate::endpoints::endpoint::{Allowance, At, ByHand, Disabling, Queued, Readiness, Wanted};
use crate::endpoints::horizon::is_fifo;
use crate::engine::{Act, Engine};
use crate::planted::{self, Bug};
use crate::protocol::moment::Moment;
use crate::roster::Member;

/// How often held deliveries are looked at for expiry, at most.
const CHECK_EVERY: Duration = Duration::from_secs(60);

/// How long an endpoint with work may go without being looked at. A look reads a roster again that
/// has become old, and so finds a pause, a resume or a change whose request was lost.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(300);

/// So many loads in a row that brought nothing are followed at once by one that asks for more.
const ASK_FOR_MORE: u8 = 8;

/// What a roster says about an endpoint.
pub(crate) enum Standing {
    /// Nothing yet; it is being read.
    Unknown,
    /// It is deleted, or its application is.
    Gone,
    /// Its deliveries become dead letters.
    Disabled,
    /// A person holds it.
    Paused,
    /// Its deliveries are sent.
    Active(Arc<Member>),
}

impl Engine {
    pub(crate) fn look_at_all(&mut self, act: &mut Act<'_>) {
        let all: Vec<At> = self.endpoints.keys().collect();
        all.into_iter().for_each(|at| self.look(at, act));
    }

    pub(crate) fn look_at_application(&mut self, application: ApplicationKey, act: &mut Act<'_>) {
        let range = (application, EndpointKey(i64::MIN))..=(application, EndpointKey(i64::MAX));
        let all: Vec<At> = self.endpoints.range(range).collect();
        all.into_iter().for_each(|at| self.look(at, act));
    }

    /// Looks at one endpoint.
    pub(crate) fn look(&mut self, at: At, act: &mut Act<'_>) {
        self.count(at);
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        let idle = endpoint.is_idle() && endpoint.asked == ByHand::Nothing;
        let partition = endpoint.partition;
        let wake = if idle || !self.works_for(partition) {
            Timestamp::FAR_FUTURE
        } else {
            let wake = match self.standing(at, act) {
                Standing::Unknown => Timestamp::FAR_FUTURE,
                Standing::Gone => return self.let_go(at),
                Standing::Disabled => self.clear(at, act),
                Standing::Paused => {
                    let due = self.number_due(at, act);
                    self.hold(at, Timestamp::FAR_FUTURE, act).min(due)
                }
                Standing::Active(member) => {
                    let due = self.number_due(at, act);
                    self.attend(at, &member, act).min(due)
                }
            };
            self.soon_enough(at, wake, act)
        };
        // What was unloaded meanwhile makes room for others now, and not at the next look.
        self.count(at);
        if let Some(endpoint) = self.endpoints.get_mut(&at) {
            self.timers.set(at, endpoint, wake);
        }
    }

    /// Counts what an endpoint holds in memory.
    fn count(&mut self, at: At) {
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        let (bytes, rows) = (endpoint.window.bytes(), endpoint.window.known());
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        self.payload_bytes = self.payload_bytes.saturating_sub(endpoint.counted) + bytes;
        self.rows = self.rows.saturating_sub(endpoint.counted_rows).saturating_add(rows);
        (endpoint.counted, endpoint.counted_rows) = (bytes, rows);
    }

    /// Returns when to look again at the latest: what a person did to an endpoint that nothing else
    /// would wake may have gone unheard.
    fn soon_enough(&self, at: At, wake: Timestamp, act: &Act<'_>) -> Timestamp {
        let now = act.now.rows;
        let latest = now.after(LOOK_AT_LEAST_EVERY);
        let set = self.endpoints.get(&at).map(|endpoint| endpoint.wake);
        let set = set.filter(|set| *set > now && *set <= latest);
        if wake <= latest { wake } else { set.unwrap_or(latest) }
    }

    /// Returns where an endpoint stands, having its roster read if that is needed to tell.
    pub(crate) fn standing(&mut self, at: At, act: &mut Act<'_>) -> Standing {
        let now = act.now.elapsed;
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return Standing::Unknown };
        let taken_at = self.leases.get(endpoint.partition).map_or(now, |held| held.since);
        let entry = self.rosters.using(at.0, now);
        let asked_at = entry.asked_at;
        let fresh = asked_at.is_some_and(|asked_at| asked_at >= endpoint.created());
        match endpoint.disabling {
            Disabling::No => {}
            Disabling::Done if fresh => endpoint.disabling = Disabling::No,
            // A roster read now may be from before; and its answer would lead to the next question.
            Disabling::Asked => return Standing::Unknown,
            Disabling::Done => {
                self.rosters.want(at.0);
                return Standing::Unknown;
            }
        }
        let trusted = self.settings.changes_trusted;
        let is_late = |asked: Duration| now >= asked.saturating_add(trusted);
        if entry.is_outdated() || entry.is_overtaken().is_some_and(is_late) {
            self.rosters.want(at.0);
            return Standing::Unknown;
        }
        let member = entry.roster.as_ref().and_then(|roster| roster.member(at.1)).cloned();
        let Some(member) = member else {
            // A delivery may be younger than the roster, and so may its endpoint.
            if fresh {
                return Standing::Gone;
            }
            self.rosters.want(at.0);
            return Standing::Unknown;
        };
        let age = now.saturating_sub(asked_at.unwrap_or_default());
        if !endpoint.begun {
            // The owner before may have changed the running state until the take-over.
            let old = asked_at.is_none_or(|asked_at| asked_at < taken_at);
            if old && !planted::has(Bug::TrustOldRoster) {
                self.rosters.want(at.0);
                return Standing::Unknown;
            }
            endpoint.running = member.view.running;
            if planted::has(Bug::ForgetPause) {
                endpoint.running.paused_until = None;
            }
            endpoint.running.breaker = endpoint.running.breaker.taken_over(act.now.rows);
            endpoint.begun = true;
            self.begin_by_hand(at, act);
        }
        let old = age >= self.settings.roster_age;
        if old {
            self.rosters.want(at.0);
        }
        match member.view.endpoint.state {
            State::Active => Standing::Active(member),
            // It may have been resumed or enabled since: nothing is buried on an old roster's word.
            State::Paused | State::Disabled(_) if old => Standing::Unknown,
            State::Paused if planted::has(Bug::BuryPaused) => Standing::Disabled,
            State::Paused => Standing::Paused,
            State::Disabled(_) => Standing::Disabled,
            State::Deleted => Standing::Gone,
        }
    }

    pub(crate) fn allowance(&self, at: At, member: &Member) -> Allowance {
        Allowance {
            cap: member.in_flight(),
            has_breaker: member.defaults.breaker.is_some(),
            strays: if self.strays.is_empty() { 0 } else { *self.strays.get(&at).unwrap_or(&0) },
            rate: member.rate(),
        }
    }

    /// Lets an endpoint go that is gone: the store's upkeep buries what is left of it.
    fn let_go(&mut self, at: At) {
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        if endpoint.is_busy() {
            endpoint.window.unload();
            self.timers.set(at, endpoint, Timestamp::FAR_FUTURE);
        } else {
            self.forget(at);
        }
    }

    /// Looks at an endpoint whose deliveries are to be sent; returns when to look again.
    fn attend(&mut self, at: At, member: &Member, act: &mut Act<'_>) -> Timestamp {
        let now = act.now.rows;
        let allowance = self.allowance(at, member);
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return Timestamp::FAR_FUTURE };
        endpoint.miss_probe(now);
        if let Some(until) = endpoint.held_by(allowance.has_breaker, now) {
            let open = endpoint.wants_probe_only(allowance.has_breaker);
            let breaker = member.defaults.breaker.as_ref();
            return match breaker.map(domain::breaker::Settings::while_open) {
                Some(WhileOpen::Bury) if open => self.turn_away(at, until, act),
                Some(WhileOpen::Bury | WhileOpen::Hold) | None => self.hold(at, until, act),
            };
        }
        if endpoint.held {
            // The end may have been noticed late, and it may have come sooner than announced.
            endpoint.held = false;
            endpoint.held_until = endpoint.held_until.min(now);
            endpoint.check_at = Timestamp::FAR_FUTURE;
        }
        // What could not be sent now need not be known now.
        if endpoint.has_room(allowance) {
            endpoint.settle_doubt(now);
        }
        let expired = endpoint.window.head().is_some_and(|head| endpoint.has_expired(head, now));
        if expired && endpoint.burying == 0 {
            self.bury_expired(at, act);
        }
        // What is to be buried must not get a turn: it would be looked at again and again.
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return Timestamp::FAR_FUTURE };
        if endpoint.window.head().is_some_and(|head| endpoint.has_expired(head, now)) {
            return self.want_rows(at, allowance, act.now);
        }
        self.queue_turn(at, allowance, act).min(self.want_rows(at, allowance, act.now))
    }

    /// Gives an endpoint a turn if its head may be sent; returns when it may otherwise.
    fn queue_turn(&mut self, at: At, allowance: Allowance, act: &Act<'_>) -> Timestamp {
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return Timestamp::FAR_FUTURE };
        match endpoint.readiness(allowance, act.now) {
            Readiness::Ready => {
                let lively = endpoint.is_lively(act.now.elapsed, self.settings.hanging_after);
                let queue = match endpoint.queued {
                    Queued::No => true,
                    Queued::Parked => lively,
                    Queued::Ready => false,
                };
                if queue {
                    endpoint.queued = Queued::Ready;
                    self.turns.push(at);
                }
                Timestamp::FAR_FUTURE
            }
            Readiness::Until(moment) => moment,
            Readiness::Later | Readiness::Empty => Timestamp::FAR_FUTURE,
        }
    }

    /// Has the next deliveries loaded if it is time; returns when it is otherwise.
    fn want_rows(&mut self, at: At, allowance: Allowance, now: Moment) -> Timestamp {
        let half = self.settings.window.min(self.settings.load_rows) / 2;
        let half = usize::try_from(half).unwrap_or(usize::MAX);
        let full = self.is_full();
        let reserve = self.reserve(at, now.elapsed);
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return Timestamp::FAR_FUTURE };
        let Some(horizon) = endpoint.window.horizon() else { return Timestamp::FAR_FUTURE };
        // What waits in memory for its time is no reason to leave in the store what is due before it.
        let is_next =
            |head: &PendingDelivery| is_fifo(head) || head.pending.due <= now.rows.max(horizon.at);
        let head = endpoint.window.head().is_some_and(is_next);
        if endpoint.window.is_loading() || (head && endpoint.window.waiting() > half) {
            return Timestamp::FAR_FUTURE;
        }
        // Over the limit only those load that have nothing else to send, or that answer and would
        // otherwise pay for those that do not; and a breaker that is not closed needs nothing but
        // its probe.
        let full = full && endpoint.window.waiting() >= reserve.div_ceil(2);
        let sparing = full || endpoint.wants_probe_only(allowance.has_breaker);
        if sparing && (head || endpoint.in_flight > 0) {
            return Timestamp::FAR_FUTURE;
        }
        let mut moment = horizon.at.max(endpoint.rest_until);
        // A load that brought nothing is not repeated at once, unless there is nothing else to send
        // and asking for more may help.
        if endpoint.stuck && (head || endpoint.fruitless > ASK_FOR_MORE) {
            let again = endpoint.window.answered().saturating_add(AGAIN_AFTER);
            moment = moment.max(now.rows.after(again.saturating_sub(now.elapsed)));
        }
        if moment > now.rows {
            return moment;
        }
        self.want(at, Wanted::Rows);
        Timestamp::FAR_FUTURE
    }

    /// Looks at an endpoint that breaker or pause hold; returns when to look again.
    fn hold(&mut self, at: At, until: Timestamp, act: &Act<'_>) -> Timestamp {
        let now = act.now.rows;
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return until };
        endpoint.note_hold(until, now);
        if until > now.after(self.settings.kept_within) {
            endpoint.window.unload();
        }
        if endpoint.check_at == Timestamp::FAR_FUTURE {
            endpoint.check_at = now.after(CHECK_EVERY);
        }
        let (check_at, rest) = (endpoint.check_at, endpoint.rest_until);
        let possible = endpoint.burying == 0 && !endpoint.window.is_loading();
        let something = !endpoint.window.is_idle();
        if check_at > now {
            return until.min(check_at);
        }
        if possible && something && rest > now {
            return until.min(rest);
        }
        if possible && something {
            self.want(at, Wanted::Check);
        }
        until
    }

    /// Looks at an endpoint whose open breaker turns deliveries away.
    fn turn_away(&mut self, at: At, until: Timestamp, act: &mut Act<'_>) -> Timestamp {
        let now = act.now.rows;
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return until };
        endpoint.note_hold(until, now);
        if endpoint.burying > 0 || endpoint.window.is_loading() {
            return until;
        }
        if endpoint.window.head().is_some_and(|head| head.pending.due <= now) {
            self.bury_waiting(at, Cause::BreakerOpen, act, |row| row.pending.due <= now);
            return until;
        }
        let head = endpoint.window.head().map(|head| head.pending.due);
        let hidden = endpoint.window.horizon().map(|horizon| horizon.at);
        let hidden = hidden.map(|at| at.max(endpoint.rest_until));
        if hidden.is_some_and(|hidden| hidden <= now) {
            self.want(at, Wanted::Check);
            return until;
        }
        [head, hidden].into_iter().flatten().fold(until, Timestamp::min)
    }

    /// Looks at a disabled endpoint: everything that is pending becomes a dead letter.
    fn clear(&mut self, at: At, act: &mut Act<'_>) -> Timestamp {
        let now = act.now.rows;
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return Timestamp::FAR_FUTURE };
        if endpoint.burying > 0 || endpoint.window.is_loading() {
            return Timestamp::FAR_FUTURE;
        }
        endpoint.settle_doubt(now);
        if endpoint.window.waiting() > 0 {
            self.bury_waiting(at, Cause::EndpointDisabled, act, |_| true);
        } else if endpoint.window.horizon().is_some() {
            if endpoint.rest_until > now {
                return endpoint.rest_until;
            }
            self.want(at, Wanted::Check);
        } else if endpoint.scheduled < Timestamp::FAR_FUTURE && !endpoint.numbering {
            if endpoint.rest_until > now {
                return endpoint.rest_until;
            }
            self.want(at, Wanted::Scheduled);
        }
        Timestamp::FAR_FUTURE
    }

    fn want(&mut self, at: At, wanted: Wanted) {
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        if endpoint.wanted == Wanted::Nothing {
            self.load_queue.push(at);
        }
        endpoint.wanted = wanted;
    }
}
