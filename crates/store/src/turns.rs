//! Turns: one at a time for each application, and none waits for another application's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as Line, OwnedMutexGuard};

use crate::keys::ApplicationKey;

/// The lines that applications wait in. One that is empty is not kept.
#[derive(Debug, Default)]
pub struct Turns {
    lines: Mutex<BTreeMap<ApplicationKey, Arc<Line<()>>>>,
}

/// An application's turn, until it is dropped.
#[derive(Debug)]
pub struct Turn<'a> {
    turns: &'a Turns,
    application: ApplicationKey,
    /// Missing while it waits, and when it ends.
    held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits for an application's turn.
    pub async fn take(&self, application: ApplicationKey) -> Turn<'_> {
        let line = Arc::clone(self.lock().entry(application).or_default());
        // From here on, so that a line is also left by a caller who stops waiting.
        let mut turn = Turn { turns: self, application, held: None };
        turn.held = Some(line.lock_owned().await);
        turn
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ApplicationKey, Arc<Line<()>>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut lines = self.turns.lock();
        drop(self.held.take());
        // All who wait in it hold it too.
        if lines.get(&self.application).is_some_and(|line| Arc::strong_count(line) == 1) {
            lines.remove(&self.application);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const ONE: ApplicationKey = ApplicationKey(1);
    const OTHER: ApplicationKey = ApplicationKey(2);

    /// Asks once whether a future is ready.
    fn now<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn an_application_waits_for_its_own_turn_alone() {
        let turns = Turns::default();
        let first = now(pin!(turns.take(ONE))).unwrap();
        let other = now(pin!(turns.take(OTHER)));
        assert!(other.is_some());
        let mut second = Box::pin(turns.take(ONE));
        assert!(now(second.as_mut()).is_none());
        drop(first);
        assert!(now(second.as_mut()).is_some());
        drop((second, other));
        assert!(turns.lock().is_empty());
    }

    #[test]
    fn who_stops_waiting_leaves_nothing_behind() {
        let turns = Turns::default();
        let first = now(pin!(turns.take(ONE))).unwrap();
        assert!(now(pin!(turns.take(ONE))).is_none());
        drop(first);
        assert!(turns.lock().is_empty());
    }
}
