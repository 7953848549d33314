//! Random histories: two stores that are told the same answer the same, and look the same in the
//! end; and the reference never contradicts itself.
//!
//! Another implementation is compared in one test:
//!
//! ```text
//! fn sqlite_answers_like_the_reference() {
//!     check(8, memory::open, sqlite::open);
//! }
//! ```

mod commit;
mod operation;
mod run;
mod view;
mod world;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use store::conformance::{Harness, NOW};
use store::memory::State;

use self::operation::{Operation, operation};
use self::world::World;
use crate::memory;

/// The longest history.
const LONGEST: usize = 60;

#[test]
fn the_reference_answers_like_itself() {
    check(1, memory::open, memory::open);
}

#[test]
fn a_copy_of_a_state_goes_on_like_the_original() {
    let histories = (history(), history());
    run(1, histories, async |(before, after)| {
        let (memory, harness) = memory::open_with(State::default(), NOW);
        let mut original = World::begin(harness).await;
        for operation in &before {
            original.run(operation).await;
        }
        let now = NOW.after(original.notes.passed);
        let (_, harness) = memory::open_with(memory.state(), now);
        let copy = World { harness, notes: original.notes.clone() };
        agree(original, copy, &after).await;
    });
}

#[test]
fn the_reference_never_contradicts_itself() {
    run(1, history(), async |history| {
        let (memory, harness) = memory::open_with(State::default(), NOW);
        let mut world = World::begin(harness).await;
        for operation in &history {
            world.run(operation).await;
            let contradictions = memory.state().contradictions();
            assert!(contradictions.is_empty(), "after {operation:?}: {contradictions:#?}");
        }
    });
}

/// Runs random histories on two implementations and compares every answer. Where opening a store
/// takes long, only one in so many histories is run; `PROPTEST_CASES` says how many there are.
pub(crate) fn check(
    one_in: u32,
    left: impl AsyncFn() -> Harness,
    right: impl AsyncFn() -> Harness,
) {
    run(one_in, history(), async |history| {
        let (left, right) = (left().await, right().await);
        agree(World::begin(left).await, World::begin(right).await, &history).await;
    });
}

async fn agree(mut left: World, mut right: World, history: &[Operation]) {
    for (place, operation) in history.iter().enumerate() {
        let (one, other) = (left.run(operation).await, right.run(operation).await);
        assert_eq!(one, other, "at {place}: {operation:?}");
    }
    let (one, other) = (left.view().await, right.view().await);
    for (one, other) in one.lines().zip(other.lines()) {
        assert_eq!(one, other, "in the end");
    }
    assert_eq!(one, other, "in the end");
}

fn history() -> impl Strategy<Value = Vec<Operation>> {
    vec(operation(), 1..LONGEST)
}

/// Runs a test on random values, each in a runtime of its own.
fn run<S: Strategy>(one_in: u32, values: S, test: impl AsyncFn(S::Value)) {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    config.cases = config.cases.div_ceil(one_in);
    let outcome = TestRunner::new(config).run(&values, |value| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(test(value));
        Ok(())
    });
    outcome.unwrap();
}
