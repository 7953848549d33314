//! Burying without an attempt: in chunks, through the upkeep lane, one announcement for each.

use std::time::Duration;

use domain::breaker::WhileOpen;
use domain::delivery::Cause;
use domain::time::Timestamp;
use store::keys::{Lease, MessageKey};
use store::queue::{Bury, Done, Ending, Loaded, PendingDelivery, Running, Upkeep};

use crate::endpoints::endpoint::{At, ByHand};
use crate::endpoints::horizon::Horizon;
use crate::endpoints::looking::Standing;
use crate::endpoints::window::Window;
use crate::engine::{Act, Engine};
use crate::protocol::announcement::Announcement;
use crate::protocol::effect::Effect;
use crate::protocol::event::Number;

/// Held deliveries are looked at for expiry no sooner than this after the last time.
const SOONEST_CHECK: Duration = Duration::from_secs(60);
/// And no later.
const LATEST_CHECK: Duration = Duration::from_secs(3_600);

/// A step of upkeep that has not been answered.
#[derive(Debug)]
pub(crate) enum Step {
    /// Deliveries of one endpoint are buried, or cancelled.
    Bury { lease: Lease, at: At, ending: Ending, messages: Vec<MessageKey> },
    /// Requests are removed.
    Consume { lease: Lease, requests: Vec<i64> },
    /// Scheduled deliveries are numbered; behind what waited in memory then.
    Number { lease: Lease, at: At, behind: Option<i64> },
    /// A running state is written. Nothing is started meanwhile: what a settle brings could be written
    /// before it, and be lost.
    Run { lease: Lease, at: At, running: Running },
}

impl Engine {
    /// Hands a step of upkeep to the committer.
    pub(crate) fn keep_up(&mut self, step: Step, upkeep: Upkeep, act: &mut Act<'_>) {
        let lease = match &step {
            Step::Bury { lease, .. }
            | Step::Consume { lease, .. }
            | Step::Number { lease, .. }
            | Step::Run { lease, .. } => *lease,
        };
        self.occupy(lease);
        let number = self.number();
        self.steps.insert(number, step);
        act.effects.push(Effect::Upkeep { step: number, upkeep });
    }

    pub(crate) fn upkept(&mut self, number: Number, answer: Done, act: &mut Act<'_>) {
        let Some(step) = self.steps.remove(&number) else { return };
        match step {
            Step::Bury { lease, at, ending, messages } => {
                self.vacate(lease);
                match answer {
                    Done::Fenced => self.fenced(lease, act),
                    // They stay known: what the database does not let go is not sent either.
                    Done::Refused(_) => self.buried((lease, at), &[], false, act),
                    Done::Changed(count) => {
                        let (application, endpoint) = at;
                        if let (Ending::Dead(cause), 1..) = (ending, count) {
                            let buried =
                                Announcement::Buried { application, endpoint, cause, count };
                            act.announce(buried);
                        }
                        let left_alone = usize::try_from(count) != Ok(messages.len());
                        self.buried((lease, at), &messages, left_alone, act);
                    }
                    Done::Numbered { .. } => self.buried((lease, at), &messages, true, act),
                }
            }
            Step::Consume { lease, requests } => {
                self.vacate(lease);
                self.requests.consumed(&requests, act.now.elapsed);
                match answer {
                    Done::Changed(_) => self.requests.go_on(),
                    Done::Fenced => self.fenced(lease, act),
                    Done::Numbered { .. } | Done::Refused(_) => {}
                }
            }
            Step::Number { lease, at, behind } => self.numbered((lease, at), behind, answer, act),
            Step::Run { lease, at, running } => {
                self.vacate(lease);
                match answer {
                    Done::Fenced => self.fenced(lease, act),
                    Done::Changed(_) | Done::Numbered { .. } | Done::Refused(_) => {
                        self.ran(lease, at, running, act);
                    }
                }
            }
        }
    }

    /// Takes in the answer to a step. What was left alone is settled, or pending anew: replayed since.
    fn buried(
        &mut self,
        (lease, at): (Lease, At),
        messages: &[MessageKey],
        left_alone: bool,
        act: &mut Act<'_>,
    ) {
        // The endpoint may have been lost and remembered since.
        if self.leases.lease(lease.partition) != Some(lease) {
            return;
        }
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        endpoint.burying = endpoint.burying.saturating_sub(1);
        messages.iter().for_each(|message| endpoint.window.settled(*message));
        if left_alone {
            endpoint.window.lower(Horizon::unknown(act.now.rows));
        }
        self.look(at, act);
    }

    /// Takes in that a running state is written, or cannot be: either way it goes on.
    fn ran(&mut self, lease: Lease, at: At, written: Running, act: &mut Act<'_>) {
        if self.leases.lease(lease.partition) != Some(lease) {
            return;
        }
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        endpoint.writing = false;
        // An attempt that was in flight may have changed it meanwhile, and nobody knows whether its
        // settle was written before this.
        if endpoint.running != written {
            self.write_running(at, act);
        } else if endpoint.asked == ByHand::Nothing {
            self.finish_reset(at, act);
        }
        self.look(at, act);
    }

    /// Buries waiting deliveries that are wanted, as many as fit one step.
    pub(crate) fn bury_waiting(
        &mut self,
        at: At,
        cause: Cause,
        act: &mut Act<'_>,
        wanted: impl Fn(&PendingDelivery) -> bool,
    ) {
        let most = usize::try_from(self.settings.bury_chunk).unwrap_or(usize::MAX);
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        let messages = endpoint.window.take_where(most, wanted);
        self.bury(at, Ending::Dead(cause), messages, act);
    }

    pub(crate) fn bury_expired(&mut self, at: At, act: &mut Act<'_>) {
        let (now, most) = (act.now.rows, self.settings.bury_chunk);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        // The window is lent out while the endpoint is asked about each row.
        let blank = Window::new(None, Duration::ZERO);
        let mut window = std::mem::replace(&mut endpoint.window, blank);
        let messages = window.take_where(most, |row| endpoint.has_expired(row, now));
        endpoint.window = window;
        self.bury(at, Ending::Dead(Cause::Expired), messages, act);
    }

    /// Cancels deliveries whose payload is gone, though whoever expunged it should have: an earlier
    /// version did not. They can never be sent, and those behind them must not wait.
    pub(crate) fn cancel_gone(&mut self, at: At, messages: &[MessageKey], act: &mut Act<'_>) {
        let most = usize::try_from(self.settings.bury_chunk).unwrap_or(usize::MAX);
        for some in messages.chunks(most.max(1)) {
            self.bury(at, Ending::Cancelled, some.to_vec(), act);
        }
    }

    /// Ends deliveries that are out.
    pub(crate) fn bury(
        &mut self,
        at: At,
        ending: Ending,
        messages: Vec<MessageKey>,
        act: &mut Act<'_>,
    ) {
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        if messages.is_empty() {
            return;
        }
        let Some(lease) = self.leases.lease(endpoint.partition) else { return };
        endpoint.burying += 1;
        let deliveries = endpoint.window.doomed(&messages);
        let ((application, endpoint), now) = (at, act.now.rows);
        let bury = Bury { lease, application, endpoint, deliveries, ending, at: now };
        let step = Step::Bury { lease, at, ending, messages };
        self.keep_up(step, Upkeep::Bury(bury), act);
    }

    /// Takes in a look at deliveries that may have to be buried: because their endpoint is
    /// disabled, because its open breaker turns them away, or because they waited for too long.
    /// Those of a disabled endpoint that are scheduled are looked at by themselves.
    pub(crate) fn check(&mut self, at: At, answer: &Loaded, scheduled: bool, act: &mut Act<'_>) {
        let now = act.now;
        let standing = self.standing(at, act);
        let most = usize::try_from(self.settings.bury_chunk).unwrap_or(usize::MAX);
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        let cause = match &standing {
            Standing::Disabled => Some(Cause::EndpointDisabled),
            Standing::Unknown | Standing::Gone => None,
            Standing::Paused => Some(Cause::Expired),
            Standing::Active(member) => {
                let breaker = member.defaults.breaker.as_ref();
                let open = endpoint.wants_probe_only(breaker.is_some());
                let held = endpoint.held_by(breaker.is_some(), now.rows).is_some();
                match breaker.map(domain::breaker::Settings::while_open) {
                    Some(WhileOpen::Bury) if open && held => Some(Cause::BreakerOpen),
                    Some(WhileOpen::Bury | WhileOpen::Hold) | None => {
                        held.then_some(Cause::Expired)
                    }
                }
            }
        };
        let blank = Window::new(None, Duration::ZERO);
        let mut window = std::mem::replace(&mut endpoint.window, blank);
        let wanted = |row: &PendingDelivery| match cause {
            Some(Cause::EndpointDisabled) => true,
            Some(Cause::BreakerOpen) => row.pending.due <= now.rows,
            Some(Cause::Expired) => endpoint.has_expired(row, now.rows),
            Some(
                Cause::Permanent
                | Cause::Exhausted
                | Cause::EndpointDeleted
                | Cause::Blocked
                | Cause::Poison,
            )
            | None => false,
        };
        let messages = window.checked(answer, now.elapsed, wanted, most);
        endpoint.window = window;
        if scheduled {
            endpoint.expect(still_scheduled(&endpoint.window, answer));
        } else {
            let again = if messages.is_empty() { next_check(answer, now.rows) } else { now.rows };
            endpoint.check_at = again;
        }
        if let Some(cause) = cause {
            self.bury(at, Ending::Dead(cause), messages, act);
        }
    }
}

/// Returns when the first scheduled delivery is due that is not on its way to be buried, as far as a
/// look at them can tell.
fn still_scheduled(window: &Window, answer: &Loaded) -> Option<Timestamp> {
    let mut left = answer.deliveries.iter().filter(|row| !window.is_out(row.key.message));
    let first = left.next().map(|row| row.pending.due);
    let last = answer.deliveries.last().map_or(Timestamp::EPOCH, |row| row.pending.due);
    first.or((!answer.complete).then_some(last))
}

/// Returns when one of these deliveries runs out of time, within bounds.
fn next_check(answer: &Loaded, now: Timestamp) -> Timestamp {
    let ends = answer.deliveries.iter().filter_map(|row| row.pending.budget.expires_at);
    let first = ends.min().map_or(Timestamp::FAR_FUTURE, |end| end.after(Duration::from_micros(1)));
    first.clamp(now.after(SOONEST_CHECK), now.after(LATEST_CHECK))
}
