//! The hot path: accepting, settling, loading, leases.

mod accept;
mod lease;
mod load;
mod settle;
