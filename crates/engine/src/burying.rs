//! Burying without an attempt: in chunks, through the upkeep lane, one announcement for each.

use std::time::Duration;

use domain::breaker::WhileOpen;
use domain::delivery::Cause;
use domain::time::Timestamp;
use store::keys::{Lease, MessageKey};
use store::queue::{Bury, Done, Loaded, PendingDelivery, Upkeep};

use crate::announcement::Announcement;
use crate::effect::Effect;
use crate::endpoint::At;
use crate::engine::{Act, Engine};
use crate::event::Number;
use crate::looking::Standing;

/// Held deliveries are looked at for expiry no sooner than this after the last time.
const SOONEST_CHECK: Duration = Duration::from_secs(60);
/// And no later.
const LATEST_CHECK: Duration = Duration::from_secs(3_600);

/// A step of upkeep that has not been answered.
#[derive(Debug)]
pub(crate) enum Step {
    /// Deliveries of one endpoint are buried.
    Bury { lease: Lease, at: At, cause: Cause, messages: Vec<MessageKey> },
    /// Requests are removed.
    Consume { lease: Lease, requests: Vec<i64> },
    /// A running state is written.
    Run { lease: Lease },
}

impl Engine {
    /// Hands a step of upkeep to the committer.
    pub(crate) fn keep_up(&mut self, step: Step, upkeep: Upkeep, act: &mut Act<'_>) {
        let lease = match &step {
            Step::Bury { lease, .. } | Step::Consume { lease, .. } | Step::Run { lease } => *lease,
        };
        self.occupy(lease);
        let number = self.number();
        self.steps.insert(number, step);
        act.effects.push(Effect::Upkeep { step: number, upkeep });
    }

    pub(crate) fn upkept(&mut self, number: Number, answer: Done, act: &mut Act<'_>) {
        let Some(step) = self.steps.remove(&number) else { return };
        match step {
            Step::Bury { lease, at, cause, messages } => {
                self.vacate(lease);
                match answer {
                    Done::Fenced => self.fenced(lease, act),
                    // They stay known: what the database does not let go is not sent either.
                    Done::Refused(_) => self.buried(lease, at, &[], act),
                    Done::Changed(count) => {
                        let (application, endpoint) = at;
                        if count > 0 {
                            let buried =
                                Announcement::Buried { application, endpoint, cause, count };
                            act.announce(buried);
                        }
                        self.buried(lease, at, &messages, act);
                    }
                }
            }
            Step::Consume { lease, requests } => {
                self.vacate(lease);
                self.requests.consumed(&requests, act.now.elapsed);
                match answer {
                    Done::Changed(_) => self.requests.go_on(),
                    Done::Fenced => self.fenced(lease, act),
                    Done::Refused(_) => {}
                }
            }
            Step::Run { lease } => {
                self.vacate(lease);
                if answer == Done::Fenced {
                    self.fenced(lease, act);
                }
            }
        }
    }

    fn buried(&mut self, lease: Lease, at: At, messages: &[MessageKey], act: &mut Act<'_>) {
        // The endpoint may have been lost and remembered since.
        if self.leases.lease(lease.partition) != Some(lease) {
            return;
        }
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        endpoint.burying = endpoint.burying.saturating_sub(1);
        messages.iter().for_each(|message| endpoint.window.settled(*message));
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
        self.bury(at, cause, messages, act);
    }

    pub(crate) fn bury_expired(&mut self, at: At, act: &mut Act<'_>) {
        let (now, most) = (act.now.rows, self.settings.bury_chunk);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        // The window is lent out while the endpoint is asked about each row.
        let blank = crate::window::Window::new(None, Duration::ZERO);
        let mut window = std::mem::replace(&mut endpoint.window, blank);
        let messages = window.take_where(most, |row| endpoint.has_expired(row, now));
        endpoint.window = window;
        self.bury(at, Cause::Expired, messages, act);
    }

    /// Buries deliveries whose payload was expunged: nobody can ever send them, and those behind
    /// them must not wait.
    pub(crate) fn bury_gone(&mut self, at: At, messages: &[MessageKey], act: &mut Act<'_>) {
        let most = usize::try_from(self.settings.bury_chunk).unwrap_or(usize::MAX);
        for some in messages.chunks(most.max(1)) {
            self.bury(at, Cause::Permanent, some.to_vec(), act);
        }
    }

    /// Buries deliveries that are out.
    pub(crate) fn bury(
        &mut self,
        at: At,
        cause: Cause,
        messages: Vec<MessageKey>,
        act: &mut Act<'_>,
    ) {
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        if messages.is_empty() {
            return;
        }
        let Some(lease) = self.leases.lease(endpoint.partition) else { return };
        endpoint.burying += 1;
        let (application, endpoint) = at;
        let (step, now) = (messages.clone(), act.now.rows);
        let bury = Bury { lease, application, endpoint, messages, cause, at: now };
        let step = Step::Bury { lease, at, cause, messages: step };
        self.keep_up(step, Upkeep::Bury(bury), act);
    }

    /// Takes in a look at deliveries that may have to be buried: because their endpoint is
    /// disabled, because its open breaker turns them away, or because they waited for too long.
    pub(crate) fn check(&mut self, at: At, answer: &Loaded, act: &mut Act<'_>) {
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
        let blank = crate::window::Window::new(None, Duration::ZERO);
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
        let again = if messages.is_empty() { next_check(answer, now.rows) } else { now.rows };
        endpoint.check_at = again;
        if let Some(cause) = cause {
            self.bury(at, cause, messages, act);
        }
    }
}

/// Returns when one of these deliveries runs out of time, within bounds.
fn next_check(answer: &Loaded, now: Timestamp) -> Timestamp {
    let ends = answer.deliveries.iter().filter_map(|row| row.pending.budget.expires_at);
    let first = ends.min().map_or(Timestamp::FAR_FUTURE, |end| end.after(Duration::from_micros(1)));
    first.clamp(now.after(SOONEST_CHECK), now.after(LATEST_CHECK))
}
