//! What a case gets: a store of its own, twice, and a way to let time pass.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use crate::{Answer, Catalog, Ledger, Queue};

/// Lets time pass for the leases of a store: by its clock, or by making the renewals look older.
pub type Pass = Box<dyn Fn(Duration) -> Answer<'static, ()> + Send + Sync>;

/// An empty store to be tested.
pub struct Harness {
    /// The store as one node has it.
    pub store: Handle,
    /// The same store as another node has it; where only one process can, the same handle again.
    pub other: Handle,
    /// Lets time pass.
    pub pass: Pass,
    /// Whatever has to live as long as the store: a directory, a server.
    pub guard: Box<dyn Any + Send + Sync>,
}

/// A store, seen through each of its traits.
#[derive(Clone)]
pub struct Handle {
    /// The hot path.
    pub queue: Arc<dyn Queue>,
    /// What people set up.
    pub catalog: Arc<dyn Catalog>,
    /// What people look at.
    pub ledger: Arc<dyn Ledger>,
}

impl Handle {
    /// Makes a handle of a store that has all three traits.
    pub fn new<Store: Queue + Catalog + Ledger + 'static>(store: Arc<Store>) -> Self {
        Self { queue: store.clone(), catalog: store.clone(), ledger: store }
    }
}

impl Harness {
    /// Makes a harness of a store that only one process can open.
    #[must_use]
    pub fn alone(store: Handle, pass: Pass) -> Self {
        Self { other: store.clone(), store, pass, guard: Box::new(()) }
    }
}
