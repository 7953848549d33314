//! Carrying out what the engine says, each question a task that ends with its answer as an event.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::delivery::Cause;
use domain::endpoint::{Reason, State};
use engine::roster::{Member, Roster};
use engine::{Announcement, Effect, Event, Number, Unanswered};
use futures_util::FutureExt as _;
use store::catalog::EndpointEdit;
use store::keys::{ApplicationKey, EndpointKey, Node as Name};
use store::queue::{Settle, Upkeep};

use super::{World, changes};

/// The wait before something that must be done is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// What goes to the committer together.
#[derive(Default)]
pub(super) struct Written {
    settles: Vec<(Number, Settle)>,
    upkeep: Vec<(Number, Upkeep)>,
}

impl Written {
    /// Hands it all in under one lock; returns how many settles there were.
    pub(super) fn hand_in(self, world: &World) -> usize {
        let settles = self.settles.len();
        if !self.settles.is_empty() || !self.upkeep.is_empty() {
            world.committer.take_in(self.settles, self.upkeep);
        }
        settles
    }
}

/// Carries out an effect that does not concern the core itself.
pub(super) fn carry_out(world: &Arc<World>, node: &Name, effect: Effect, written: &mut Written) {
    match effect {
        Effect::Settle { attempt, settle } => {
            world.sums.settling(attempt, &settle);
            written.settles.push((attempt, *settle));
        }
        Effect::Upkeep { step, upkeep } => written.upkeep.push((step, upkeep)),
        Effect::Announce(announcement) => announce(world, announcement),
        Effect::Renew => {
            let (asked_at, node) = (world.timeline.moment().elapsed, node.clone());
            let event = move |answer| Event::Renewed { asked_at, answer };
            ask(world, event(Err(Unanswered)), async move |world| {
                event(answered("renew", world.queue.renew(node).await))
            });
        }
        Effect::Take { most } => {
            let node = node.clone();
            ask(world, Event::Taken(Err(Unanswered)), async move |world| {
                Event::Taken(answered("take", world.queue.take(node, most).await))
            });
        }
        Effect::Release(leases) => {
            let node = node.clone();
            ask(world, Event::Released(Err(Unanswered)), async move |world| {
                Event::Released(answered("release", world.queue.release(node, leases).await))
            });
        }
        Effect::Walk(partitions) => {
            ask(world, Event::Walked(Err(Unanswered)), async move |world| {
                Event::Walked(answered("walk", world.queue.waiting(partitions).await))
            });
        }
        Effect::ReadRequests(partitions) => {
            ask(world, Event::Requests(Err(Unanswered)), async move |world| {
                Event::Requests(answered("requests", world.queue.requests(partitions).await))
            });
        }
        Effect::Load { load, what } => {
            let event = move |answer| Event::Loaded { load, answer };
            ask(world, event(Err(Unanswered)), async move |world| {
                event(answered("load", world.queue.load(what).await))
            });
        }
        Effect::ReadRoster(application) => {
            let event = move |answer| Event::Roster { application, answer };
            ask(world, event(Err(Unanswered)), async move |world| {
                event(roster(&world, application).await)
            });
        }
        Effect::ReadChanges { since } => {
            ask(world, Event::Changes(Err(Unanswered)), async move |world| {
                Event::Changes(answered("changes", changes::read(&world, since).await))
            });
        }
        Effect::Confirm { heard } => {
            let (world, node) = (Arc::clone(world), node.clone());
            tokio::spawn(async move {
                // A caller who waits for it is told that the change is pending.
                let _confirmed = answered("confirm", world.queue.confirm(node, heard).await);
            });
        }
        Effect::Disable { application, endpoint, reason, tried } => {
            ask(world, Event::Disabled { endpoint }, async move |world| {
                disable(&world, (application, endpoint), reason, tried).await
            });
        }
        // The core does these itself.
        Effect::Send(_) | Effect::Abort(_) | Effect::WakeAt(_) | Effect::Stopped => {}
    }
}

/// Disables an endpoint. A few at a time: thousands may fail together, each is a transaction, and
/// everybody else writes to the same store. The engine reads the roster anew when it hears of it, once
/// for all that were disabled meanwhile.
async fn disable(
    world: &World,
    (application, endpoint): (ApplicationKey, EndpointKey),
    reason: Reason,
    tried: Arc<Member>,
) -> Event {
    let _turn = world.disabling.acquire().await;
    loop {
        let at = world.timeline.rows();
        let disabling = EndpointEdit::disabling(reason, tried.view.endpoint.clone());
        match world.catalog.change_endpoint(application, endpoint, disabling, at).await {
            Err(error) if error.is_retryable() => tokio::time::sleep(AGAIN_AFTER).await,
            Ok(changed) if !matches!(changed.after.state, State::Disabled(_)) => {
                tracing::info!(
                    endpoint.row = endpoint.0,
                    "an endpoint was changed during the attempt that would have disabled it; it stays \
                     as it is"
                );
                break;
            }
            // One that is gone needs no disabling.
            Ok(_) | Err(store::Error::Missing(_)) => break,
            Err(error) => {
                // The roster says that it is active still, so the engine sends to it and asks anew
                // when it goes on failing.
                tracing::error!(
                    %error,
                    endpoint.row = endpoint.0,
                    "an endpoint was to be disabled and is not; it is sent to as before"
                );
                break;
            }
        }
    }
    // The answer is for the core that asked. One that began meanwhile may have read the roster before.
    changes::call(world);
    Event::Disabled { endpoint }
}

/// Reads a roster anew, and tells the engine.
pub(super) async fn roster(
    world: &World,
    application: ApplicationKey,
) -> Result<Option<Arc<Roster>>, Unanswered> {
    match world.rosters.read_now(application).await {
        Ok(roster) => Ok(Some(roster)),
        Err(store::Error::Missing(_)) => Ok(None),
        Err(error) => {
            tracing::warn!(%error, "an application's endpoints could not be read");
            Err(Unanswered)
        }
    }
}

/// Asks in a task of its own. A question that makes us panic is answered otherwise: the engine would
/// wait for it for ever, and ask nothing of the kind again.
fn ask<Asking>(world: &Arc<World>, otherwise: Event, asking: impl FnOnce(Arc<World>) -> Asking)
where
    Asking: Future<Output = Event> + Send + 'static,
{
    let inbox = Arc::clone(&world.inbox);
    let life = inbox.life();
    let asking = AssertUnwindSafe(asking(Arc::clone(world))).catch_unwind();
    tokio::spawn(async move { inbox.answer(life, asking.await.unwrap_or(otherwise)) });
}

fn answered<T>(verb: &'static str, answer: Result<T, store::Error>) -> Result<T, Unanswered> {
    answer.map_err(|error| {
        tracing::warn!(%error, verb, "the store did not answer");
        Unanswered
    })
}

/// Logs it, and tells whoever listens.
pub(super) fn announce(world: &World, announcement: Announcement) {
    match &announcement {
        Announcement::Disabled { endpoint, reason, .. } => {
            tracing::warn!(
                endpoint.row = endpoint.0,
                reason = reason.word(),
                "an endpoint is disabled"
            );
        }
        Announcement::Tripped { endpoint, .. } => {
            tracing::warn!(endpoint.row = endpoint.0, "a breaker tripped");
        }
        Announcement::Panicked { delivery, times } => {
            let (endpoint, message) = (delivery.endpoint.0, delivery.message.0);
            tracing::error!(endpoint, message, times, "a delivery made the sender panic");
        }
        Announcement::Took(partitions) => {
            tracing::info!(partitions = partitions.len(), "partitions taken");
        }
        Announcement::Lost(partitions) => {
            tracing::info!(partitions = partitions.len(), "partitions lost or given back");
        }
        Announcement::Warned { endpoint, level, .. } => {
            tracing::info!(
                endpoint.row = endpoint.0,
                percent = level.percent(),
                "an endpoint fails"
            );
        }
        Announcement::Probing { endpoint, .. } => {
            tracing::info!(endpoint.row = endpoint.0, "a breaker lets a probe through");
        }
        Announcement::Reopened { endpoint, .. } => {
            tracing::info!(endpoint.row = endpoint.0, "a breaker is open again after its probe");
        }
        Announcement::Closed { endpoint, .. } => {
            tracing::info!(endpoint.row = endpoint.0, "a breaker closed");
        }
        Announcement::Buried { endpoint, cause: Cause::Poison, count, .. } => {
            tracing::error!(
                endpoint.row = endpoint.0,
                count,
                "buried as poison: our own code fails at it, which says nothing about the receiver"
            );
        }
        Announcement::Noticed { .. } | Announcement::Buried { .. } => {}
    }
    // Nobody may be listening.
    let _heard = world.announcements.send(announcement);
}
