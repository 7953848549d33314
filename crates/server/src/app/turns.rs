//! Turns at the store: how many of its readers, or of its connections, one application's requests may hold.
//!
//! A request waits for its turn before it enters the store. The requests of customers' tokens together, and those
//! of operators together, hold a part of the readers each, and one application holds half of such a part; a request
//! of an operator counts for the application that its path names. What is left is the node's own, for rosters
//! and for what it loads. So a customer that asks for lists over a thousand connections delays others by one
//! read.
//!
//! To look up a token or an application takes one row, and the store has a way of its own for it. Callers with
//! the same token wait for one look. A token that was never seen here may be made up: such are looked up one
//! at a time, and networks take turns.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::ids::ApplicationId;
use engine::commit::Crowded;
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex as Line;

use super::tokens::Reach;
use super::{App, Caller, Error, Settings};
use crate::network::Network;
use crate::turns::{Bounds, Turn, Turns};

/// How many applications, and tokens that are known, are looked up at a time.
const LOOKS: usize = 4;

/// For whom a turn counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whose {
    /// An application, whose token asks.
    Application(ApplicationId),
    /// What an operator's path or a token names, as a hash. Names with the same hash wait for each other.
    Named(u64),
    /// A network from which a token comes that was never seen here.
    Network(Option<Network>),
}

impl Whose {
    fn named(text: &str) -> Self {
        let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        Self::Named(hash.first_chunk().map_or(0, |first| u64::from_be_bytes(*first)))
    }

    /// An application's token asks for it, whatever it names; an operator asks for what it names.
    fn of(caller: &Caller, named: &str) -> Self {
        match caller.reach {
            Reach::Application(own) => Self::Application(own),
            Reach::Everything => Self::named(named),
        }
    }
}

/// How many readers requests hold at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    /// In all.
    all: usize,
    /// Of one application.
    each: usize,
}

impl Part {
    fn of(readers: usize) -> Self {
        Self { all: readers.max(1), each: readers.div_ceil(2).max(1) }
    }
}

/// How the readers are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shares {
    customers: Part,
    operators: Part,
}

impl Shares {
    /// Leaves a quarter of the readers, and at least one, to the node. Customers and operators have half of the
    /// rest each.
    fn of(readers: usize) -> Self {
        let rest = readers.saturating_sub((readers / 4).max(1));
        Self { customers: Part::of(rest.div_ceil(2)), operators: Part::of(rest / 2) }
    }
}

/// A turn to look something up.
pub(super) type LookTurn = Turn<Whose>;

/// Who has a turn at the store, and who waits for one.
pub(super) struct StoreTurns {
    customers: Arc<Turns<Whose>>,
    operators: Arc<Turns<Whose>>,
    looks: Arc<Turns<Whose>>,
    unseen: Arc<Turns<Whose>>,
    health: Looks,
    wait: Duration,
}

impl StoreTurns {
    pub(super) fn new(settings: &Settings) -> Self {
        let Shares { customers, operators } = Shares::of(settings.readers);
        let waiting = settings.waiting_requests;
        let turns = |Part { all, each }| Turns::new(Bounds { each, all, waiting });
        Self {
            customers: turns(customers),
            operators: turns(operators),
            looks: turns(Part { all: LOOKS, each: 1 }),
            unseen: turns(Part { all: 1, each: 1 }),
            health: Looks::default(),
            wait: settings.read_wait,
        }
    }

    /// Waits for a turn that counts for an application.
    async fn take(&self, turns: &Arc<Turns<Whose>>, whose: Whose) -> Result<Turn<Whose>, Error> {
        turns.take_within(whose, self.wait).await.map_err(|full| match full {
            Crowded::Share => Error::TooManyReads,
            Crowded::Lane => Error::Busy,
        })
    }

    /// Waits for a turn that counts for nobody whose token was found good.
    async fn take_before_access(
        &self,
        turns: &Arc<Turns<Whose>>,
        whose: Whose,
    ) -> Result<LookTurn, Error> {
        turns.take_within(whose, self.wait).await.map_err(|_| Error::Busy)
    }

    /// Waits for the turn to look up an application that a message names.
    pub(super) async fn look(&self, caller: &Caller, named: &str) -> Result<LookTurn, Error> {
        self.take(&self.looks, Whose::of(caller, named)).await
    }

    /// Waits for the turn to look up a token that is known here, by its public part.
    pub(super) async fn look_again(&self, token: &str) -> Result<LookTurn, Error> {
        self.take_before_access(&self.looks, Whose::named(token)).await
    }

    /// Waits for the turn to look up a token that was never seen here.
    pub(super) async fn look_first(&self, origin: Option<Network>) -> Result<LookTurn, Error> {
        self.take_before_access(&self.unseen, Whose::Network(origin)).await
    }
}

/// The turn that a request has at the store. All who act for the request share it.
#[derive(Clone, Default)]
pub struct HeldTurn(Option<Arc<Mutex<Option<Turn<Whose>>>>>);

impl HeldTurn {
    /// Gives it back before the request ends: what follows waits for something else than the store.
    pub fn give_back(&self) {
        if let Some(held) = &self.0 {
            let turn = held.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(turn);
        }
    }
}

impl fmt::Debug for HeldTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldTurn(…)")
    }
}

impl App {
    /// Waits for a request's turn at the store. It lasts until all its clones are dropped, or it is given back.
    ///
    /// # Errors
    /// If it does not come within a while, or too many wait.
    pub async fn turn(&self, caller: &Caller, named: &str) -> Result<HeldTurn, Error> {
        let turns = match caller.reach {
            Reach::Application(_) => &self.turns.customers,
            Reach::Everything => &self.turns.operators,
        };
        let turn = self.turns.take(turns, Whose::of(caller, named)).await?;
        Ok(HeldTurn(Some(Arc::new(Mutex::new(Some(turn))))))
    }

    /// As [`App::turn`], for a part of a request that may have one already. A second one could wait for the first.
    pub(super) async fn turn_if_none(
        &self,
        caller: &Caller,
        named: &str,
    ) -> Result<HeldTurn, Error> {
        match &caller.turn.0 {
            Some(_) => Ok(caller.turn.clone()),
            None => self.turn(caller, named).await,
        }
    }

    /// Tells whether the store answers, by looking for a row that is never there. Who asks at the same time shares
    /// a look.
    pub(super) async fn is_store_well(&self) -> bool {
        let look = async || {
            let catalog = Arc::clone(&self.catalog);
            let looked = whole(async move { catalog.token(String::new()).await }).await;
            matches!(looked, Ok(_) | Err(store::Error::Missing(_)))
        };
        self.turns.health.share(look).await
    }
}

/// Has the store do something to its end, also if the caller hangs up. To break it off would close a connection
/// to PostgreSQL, and give its turn to another request while the database still works on it.
pub(super) async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, store::Error>> + Send + 'static,
) -> Result<T, store::Error> {
    tokio::spawn(work).await.unwrap_or_else(|broken| {
        let text = "a look into the store broke off".to_owned();
        Err(store::Error::Unavailable { text, source: Some(Box::new(broken)) })
    })
}

/// One look at a time at something that many ask about.
#[derive(Default)]
struct Looks {
    begun: AtomicU64,
    /// The number of the last one, and what it saw.
    last: Line<(u64, bool)>,
}

impl Looks {
    /// Returns what a look saw that began after this was asked.
    async fn share(&self, look: impl AsyncFnOnce() -> bool) -> bool {
        let asked = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if last.0 <= asked {
            let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            *last = (number, look().await);
        }
        last.1
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::sync::Notify;

    use super::*;

    #[test]
    fn customers_and_operators_leave_readers_to_the_node_and_one_application_to_others() {
        let part = |all, each| Part { all, each };
        let table = [
            (3, part(1, 1), part(1, 1)),
            (4, part(2, 1), part(1, 1)),
            (5, part(2, 1), part(2, 1)),
            (8, part(3, 2), part(3, 2)),
            (20, part(8, 4), part(7, 4)),
        ];
        for (readers, customers, operators) in table {
            assert_eq!(Shares::of(readers), Shares { customers, operators }, "{readers}");
            assert!(customers.all + operators.all < readers);
        }
        let least = Shares { customers: part(1, 1), operators: part(1, 1) };
        assert_eq!(Shares::of(1), least, "requests are answered in any case");
    }

    #[test]
    fn who_asks_during_a_look_shares_the_next_one() {
        let (looks, gate, begun) = (Looks::default(), Notify::new(), AtomicU64::new(0));
        let look = async || {
            begun.fetch_add(1, Ordering::SeqCst);
            gate.notified().await;
            true
        };
        let mut first = Box::pin(looks.share(look));
        assert!(first.as_mut().now_or_never().is_none());
        let mut others: Vec<_> = (0..5).map(|_| Box::pin(looks.share(look))).collect();
        assert!(others.iter_mut().all(|other| other.as_mut().now_or_never().is_none()));
        gate.notify_one();
        assert_eq!(first.now_or_never(), Some(true));
        assert!(others.iter_mut().all(|other| other.as_mut().now_or_never().is_none()));
        gate.notify_one();
        assert!(others.into_iter().all(|other| other.now_or_never() == Some(true)));
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }
}
