//! What memory keeps about one endpoint that has work: at most 400 bytes while nothing is loaded.

use std::num::NonZeroU32;
use std::time::Duration;

use domain::breaker::{self, Admission, Breaker, Role};
use domain::concurrency::Concurrency;
use domain::delivery::{SinceDue, expires};
use domain::hold;
use domain::partition::Partition;
use domain::rate::{Limiter, Rate};
use domain::time::Timestamp;
use domain::verdict::Signal;
use store::keys::{ApplicationKey, EndpointKey};
use store::queue::{PendingDelivery, Running};

use crate::dispatch::attempts::Counted;
use crate::dispatch::turns::Aside;
use crate::endpoints::horizon::{Horizon, is_fifo};
use crate::endpoints::window::Window;
use crate::planted::{self, Bug};
use crate::protocol::moment::Moment;

/// An endpoint, with its application first: so those of one application are side by side.
pub(crate) type At = (ApplicationKey, EndpointKey);

/// Where an endpoint stands in the turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queued {
    /// Nowhere.
    No,
    /// It waits for its turn.
    Ready,
    /// It could start if fewer attempts were trusted or doubtful.
    Parked,
}

/// When something last happened, if ever: in whole microseconds, which takes half the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Last(u64);

impl Last {
    /// Remembers a moment.
    pub(crate) fn at(moment: Duration) -> Self {
        Self(u64::try_from(moment.as_micros()).unwrap_or(u64::MAX).max(1))
    }

    /// Returns the moment.
    pub(crate) fn moment(self) -> Option<Duration> {
        (self.0 > 0).then(|| Duration::from_micros(self.0))
    }
}

/// How far disabling an endpoint has come. Nothing is started until the roster tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disabling {
    /// Nobody wants to.
    No,
    /// It was asked for.
    Asked,
    /// It is done; a roster asked for since then says what became of it.
    Done,
}

/// What a person changes about the running state. The later ones include the earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ByHand {
    /// Nothing.
    Nothing,
    /// A pause by Retry-After ends.
    EndPause,
    /// The breaker is closed, too.
    ResetBreaker,
}

/// What an endpoint waits for in the queue of loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing.
    Nothing,
    /// Deliveries to send.
    Rows,
    /// A look at deliveries that may have to be buried.
    Check,
    /// A look at those that are scheduled, because their endpoint is disabled.
    Scheduled,
}

/// An endpoint with work.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) partition: Partition,
    pub(crate) window: Window,
    /// Breaker, health and pause; as persisted once `begun`.
    pub(crate) running: Running,
    pub(crate) concurrency: Concurrency,
    pub(crate) limiter: Limiter,
    pub(crate) in_flight: u32,
    pub(crate) settling: u32,
    /// Whether the running state has been read since the partition was taken over.
    pub(crate) begun: bool,
    /// Whether the running state differs from what was last written.
    pub(crate) changed: bool,
    pub(crate) disabling: Disabling,
    /// Whether a probe is in flight.
    pub(crate) probing: bool,
    /// What a person asked for, until its state is known and all settles are answered.
    pub(crate) asked: ByHand,
    /// Whether the running state is being written outside of a settle. Until that is answered nothing
    /// starts.
    pub(crate) writing: bool,
    /// When the first of its scheduled deliveries is due, as far as that is known; in the far future if
    /// there are none.
    pub(crate) scheduled: Timestamp,
    /// Whether some of them are being numbered.
    pub(crate) numbering: bool,
    /// Steps of upkeep that bury some of its deliveries.
    pub(crate) burying: u16,
    /// Whether breaker or pause held it when it was last looked at.
    pub(crate) held: bool,
    pub(crate) queued: Queued,
    pub(crate) wanted: Wanted,
    /// How often loads made no progress in a row.
    pub(crate) fruitless: u8,
    /// How often in a row nothing came because rows cannot be read; each time more are asked for.
    pub(crate) unreadable: u8,
    /// How often in a row payloads were left out; each time more bytes are asked for.
    pub(crate) left_out: u8,
    /// Whether the last load brought nothing although something is due.
    pub(crate) stuck: bool,
    /// Whether others may have written rows behind those that memory knows. A load tells, as soon as
    /// there is nothing else to send.
    pub(crate) doubt: bool,
    /// When memory began to know it, or to doubt what the roster says.
    pub(crate) created: Last,
    /// When its last attempt ended.
    pub(crate) ended: Last,
    /// When an attempt last ended that was answered, or ended soon.
    pub(crate) answered: Last,
    /// Whether those that are set aside include it, be it that it has a turn since.
    pub(crate) parked: Aside<bool>,
    /// What was due before this moment has been held by breaker or pause.
    pub(crate) held_until: Timestamp,
    /// When held deliveries are looked at for expiry.
    pub(crate) check_at: Timestamp,
    /// Nothing is loaded or started before: the store did not answer, or our own code failed.
    pub(crate) rest_until: Timestamp,
    /// When the timer goes off.
    pub(crate) wake: Timestamp,
    /// The payload bytes that the engine's sum holds for it.
    pub(crate) counted: u64,
    /// The rows that are counted for it.
    pub(crate) counted_rows: u32,
}

/// Whether the head may be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It may.
    Ready,
    /// Not before this moment.
    Until(Timestamp),
    /// Not before something else has ended.
    Later,
    /// There is none.
    Empty,
}

/// What one endpoint is allowed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    /// The most attempts in flight.
    pub(crate) cap: NonZeroU32,
    /// Whether it has a breaker at all.
    pub(crate) has_breaker: bool,
    /// Attempts that still run from before the partition was lost and taken again.
    pub(crate) strays: u32,
    /// The most attempts per second.
    pub(crate) rate: Rate,
}

impl Endpoint {
    pub(crate) fn new(partition: Partition, window: Window, now: Moment) -> Self {
        Self {
            partition,
            window,
            running: Running::default(),
            concurrency: Concurrency::default(),
            limiter: Limiter::begin(now.steady()),
            in_flight: 0,
            settling: 0,
            begun: false,
            changed: false,
            disabling: Disabling::No,
            probing: false,
            asked: ByHand::Nothing,
            writing: false,
            scheduled: Timestamp::FAR_FUTURE,
            numbering: false,
            burying: 0,
            held: false,
            queued: Queued::No,
            wanted: Wanted::Nothing,
            fruitless: 0,
            unreadable: 0,
            left_out: 0,
            stuck: false,
            doubt: false,
            created: Last::at(now.elapsed),
            ended: Last::default(),
            answered: Last::default(),
            parked: Aside::default(),
            held_until: Timestamp::from_micros(i64::MIN),
            check_at: Timestamp::FAR_FUTURE,
            rest_until: Timestamp::from_micros(i64::MIN),
            wake: Timestamp::FAR_FUTURE,
            counted: 0,
            counted_rows: 0,
        }
    }

    /// Returns when memory began to know it, or to doubt what the roster says.
    pub(crate) fn created(&self) -> Duration {
        self.created.moment().unwrap_or_default()
    }

    /// Tells whether an attempt was answered within this time: whoever answers does not hang.
    pub(crate) fn is_lively(&self, now: Duration, within: Duration) -> bool {
        self.answered.moment().is_some_and(|answered| now < answered.saturating_add(within))
    }

    /// Returns how an attempt is counted that begins now.
    pub(crate) fn counted(&self, now: Duration, within: Duration) -> Counted {
        if self.is_lively(now, within) {
            Counted::Hopeful
        } else if self.in_flight == 0 && self.running.health.failing_since.is_none() {
            Counted::Trusted
        } else {
            Counted::Doubtful
        }
    }

    /// Tells whether a Retry-After holds it.
    pub(crate) fn is_paused(&self, now: Timestamp) -> bool {
        self.running.paused_until.is_some_and(|until| until > now)
    }

    /// Ends a pause by Retry-After, if there is one; returns whether there was. What is answered later
    /// may pause it again.
    pub(crate) fn end_pause(&mut self, now: Timestamp) -> bool {
        let paused = self.is_paused(now);
        if paused {
            self.running.paused_until = None;
            self.held_until = self.held_until.min(now);
            self.changed = true;
        }
        paused
    }

    /// Tells whether there is nothing to do and nothing on its way.
    pub(crate) fn is_idle(&self) -> bool {
        let quiet = self.in_flight == 0 && self.settling == 0 && self.burying == 0;
        let nothing_scheduled = self.scheduled == Timestamp::FAR_FUTURE && !self.numbering;
        quiet && nothing_scheduled && !self.doubt && !self.writing && self.window.is_idle()
    }

    /// Tells whether something would be lost if it were forgotten now.
    pub(crate) fn is_busy(&self) -> bool {
        let under_way = self.in_flight > 0 || self.settling > 0 || self.burying > 0;
        under_way || self.writing || self.numbering || self.window.is_loading()
    }

    /// Takes in that a scheduled delivery may be due at a moment.
    pub(crate) fn expect(&mut self, scheduled: Option<Timestamp>) {
        self.scheduled = scheduled.map_or(self.scheduled, |due| self.scheduled.min(due));
    }

    /// Returns the moment until which breaker or pause hold it, if they do.
    pub(crate) fn held_by(&self, has_breaker: bool, now: Timestamp) -> Option<Timestamp> {
        let breaker = if has_breaker { self.running.breaker } else { Breaker::default() };
        hold::ends(breaker, self.running.paused_until, now).map(|(_, until)| until)
    }

    /// Remembers that breaker or pause hold it, and until when as far as that is known.
    pub(crate) fn note_hold(&mut self, until: Timestamp, now: Timestamp) {
        self.held = true;
        let known = if until == Timestamp::FAR_FUTURE { now } else { until };
        self.held_until = self.held_until.max(known);
    }

    /// Tells whether the breaker lets nothing but a probe through.
    pub(crate) fn wants_probe_only(&self, has_breaker: bool) -> bool {
        has_breaker && !matches!(self.running.breaker, Breaker::Closed { .. })
    }

    /// Takes in what an attempt said about the receiver, with a breaker or without.
    pub(crate) fn heed(
        &mut self,
        settings: Option<&breaker::Settings>,
        role: Role,
        signal: Signal,
        now: Timestamp,
    ) {
        let breaker = self.running.breaker;
        self.running.breaker = match settings {
            Some(settings) => breaker.after(settings, role, signal, now),
            None if planted::has(Bug::KeepSwitchedOff) => breaker,
            None => breaker.while_off(role, signal, now),
        };
    }

    /// Lets another probe go if the one that a half-open breaker waits for is not in flight:
    /// whatever became of it, nothing else would ever send anything again.
    pub(crate) fn miss_probe(&mut self, now: Timestamp) {
        let lost = planted::has(Bug::LoseProbe) || planted::has(Bug::KeepSwitchedOff);
        if !self.probing && !lost {
            self.running.breaker = self.running.breaker.taken_over(now);
        }
    }

    /// Has the store looked at if memory is in doubt and nothing else is to be sent now.
    pub(crate) fn settle_doubt(&mut self, now: Timestamp) {
        let due = self.window.head().is_some_and(|head| head.pending.due <= now);
        if self.doubt && !due && !self.window.is_loading() {
            self.doubt = false;
            self.window.lower(Horizon::unknown(now));
        }
    }

    /// Tells whether its limit of attempts in flight allows one more.
    pub(crate) fn has_room(&self, allowance: Allowance) -> bool {
        let wide = planted::has(Bug::StartWide);
        let concurrency = self.concurrency.allowed(allowance.cap);
        let in_flight = self.in_flight.saturating_add(allowance.strays);
        in_flight < if wide { allowance.cap } else { concurrency }.get()
    }

    /// Tells whether the head may be sent; the caller has made sure that nothing holds it.
    pub(crate) fn readiness(&self, allowance: Allowance, moment: Moment) -> Readiness {
        let now = moment.rows;
        let Some(head) = self.window.head() else { return Readiness::Empty };
        if self.writing || self.asked != ByHand::Nothing {
            return Readiness::Later;
        }
        if head.pending.due > now {
            return Readiness::Until(head.pending.due.max(self.rest_until));
        }
        let in_flight = self.in_flight.saturating_add(allowance.strays);
        // In a sequence the next goes only after the settle of the one before.
        let settling = self.settling > 0 && !planted::has(Bug::SendFifoBeforeSettle);
        if is_fifo(head) && (in_flight > 0 || settling || self.burying > 0) {
            return Readiness::Later;
        }
        if !self.has_room(allowance) {
            return Readiness::Later;
        }
        let admission = self.running.breaker.admission(now);
        let waits = admission == Admission::WaitForProbe && !planted::has(Bug::TwoProbes);
        if allowance.has_breaker && waits {
            return Readiness::Later;
        }
        // The rate is counted on the clock that never jumps; timers are set on the other one.
        let next = self.limiter.next(allowance.rate).since(moment.steady());
        let next = now.after(next).max(self.rest_until);
        if next > now { Readiness::Until(next) } else { Readiness::Ready }
    }

    /// Tells whether a waiting delivery has run out of time.
    pub(crate) fn has_expired(&self, row: &PendingDelivery, now: Timestamp) -> bool {
        let due = row.pending.due;
        let since_due = if row.last_attempt_at.is_some_and(|last| last >= due) {
            SinceDue::Tried
        } else if due < self.held_until || planted::has(Bug::ExpireUntried) {
            SinceDue::Held
        } else {
            SinceDue::Untouched
        };
        due <= now && expires(&row.pending, since_due, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_without_loaded_deliveries_takes_less_than_400_bytes() {
        // Beside the record: its place in the map, half full at worst, and in the timers.
        let places = 2 * (size_of::<At>() + size_of::<u32>())
            + size_of::<usize>()
            + 2 * (size_of::<Timestamp>() + size_of::<At>());
        let whole = size_of::<Endpoint>() + places;
        assert!(whole <= 400, "{whole} bytes");
    }
}
