//! The hot path: accepting, settling, loading, leases.

mod accept;
mod lease;
mod load;
pub(super) mod settle;
