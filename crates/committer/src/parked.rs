//! Callers whose message or request waits beside a full lane.
//!
//! [`engine::commit`] decides who enters when a batch has left room. A caller waits for a while; if it
//! gives up, because that time is over or its connection is gone, nothing of it stays behind.

use engine::commit::{Crowded, Full, Waiter, Which};
use store::keys::ApplicationKey;
use tokio::sync::oneshot;

use super::{Rejected, Reply, Shared, Ticket};

/// A caller that waits beside a lane. Dropping it takes its item out, unless that is in the lane by now.
pub(super) struct Parked<'a> {
    pub(super) shared: &'a Shared,
    pub(super) lane: Which,
    pub(super) waiter: Waiter<ApplicationKey>,
}

impl Parked<'_> {
    /// Waits for the answer: for a while until the item is in the lane, and then until it is on disk.
    pub(super) async fn answered<Answer>(
        self,
        mut answer: oneshot::Receiver<Result<Answer, Rejected>>,
    ) -> Result<Answer, Rejected> {
        let wait = self.shared.settings.limits.wait;
        let answered = match tokio::time::timeout(wait, &mut answer).await {
            Ok(answered) => answered,
            Err(_) => match self.give_up() {
                Some(crowded) => return Err(Rejected::Crowded(crowded)),
                None => answer.await,
            },
        };
        // The task drops a reply unanswered only if it was torn down with the runtime.
        answered.unwrap_or(Err(Rejected::Closed))
    }

    /// Takes the item out, and returns what kept it out of the lane.
    fn give_up(&self) -> Option<Crowded> {
        let mut state = self.shared.lock();
        match self.lane {
            Which::Accepts => state.lanes.give_up_accept(self.waiter).map(|full| full.what),
            Which::Upkeep => state.lanes.give_up_request(self.waiter).map(|full| full.what),
            Which::Settles => None,
        }
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Answers a caller that waited and was refused.
pub(super) fn tell<Item, Answer>(full: Full<Ticket<Item, Answer>>) {
    match full.item.reply {
        // A caller that stopped waiting need not know.
        Reply::Caller(caller) => drop(caller.send(Err(Rejected::Crowded(full.what)))),
        Reply::Core(_) => {}
    }
}
