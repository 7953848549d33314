//! Scenes: an engine over the store in memory, with the test as its shell.

mod attempts;
mod burying;
mod chance;
mod leases;
mod limits;
mod replays;
mod requests;
pub(crate) mod scene;
mod windows;
