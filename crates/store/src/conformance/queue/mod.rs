//! What becomes of a message until it is settled, and who owns what: the cases, by theme.

pub mod accepting;
pub mod fencing;
pub mod leases;
pub mod loading;
pub mod probing;
pub mod scheduled;
pub mod settling;
