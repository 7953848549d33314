//! Scenes: an engine over the store in memory, with the test as its shell.

mod attempts;
mod burying;
mod chance;
mod changes;
mod crowds;
mod leases;
mod limits;
mod pauses;
mod replays;
mod requests;
pub(crate) mod scene;
mod scheduled;
mod windows;

use store::keys::Node;

use super::Engine;
use crate::protocol::settings::Settings;

#[test]
fn an_engine_gives_out_no_number_of_the_one_before_it() {
    let engine = |lives| Engine::new(Settings::of(Node("one".to_owned()))).after_lives(lives);
    let (mut first, mut second) = (engine(0), engine(1));
    let last = (0..1_000).map(|_| first.number()).max();
    assert!(last < Some(second.number()));
}
