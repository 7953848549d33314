//! The store in memory: what the others must do, in the plainest form that can be written down.
//!
//! [`State`] is a value. It has no clock, no lock and no I/O, it can be cloned, and the same calls
//! always lead to the same answers: the simulator and the model tests hold it directly. [`Memory`]
//! puts it behind the three traits.
//!
//! # Layout
//! Each path is here as it is in the stores in a file and in PostgreSQL, as far as there is
//! something to say.
//! - `rows`: what a state is made of
//! - `queue`, `upkeep`: a batch, item by item; what the engine reads, and who owns what
//! - `catalog`, `ledger`: what people set up and look at; `page`: its lists
//! - `check`: what must hold between any two calls
//! - `locked`: the three traits, over a state behind a lock

mod catalog;
mod check;
mod ledger;
mod locked;
mod page;
mod queue;
mod rows;
mod upkeep;

pub use locked::{Clock, Memory};
pub use rows::State;

use crate::queue::{Batch, Committed};

impl State {
    /// Commits a batch: accepts, then settles, then upkeep, each in its order.
    pub fn commit(&mut self, batch: Batch) -> Committed {
        Committed {
            accepts: batch.accepts.into_iter().map(|accept| self.accept(accept)).collect(),
            settles: batch.settles.into_iter().map(|settle| self.settle(settle)).collect(),
            upkeep: batch.upkeep.into_iter().map(|step| self.keep_up(step)).collect(),
        }
    }
}
