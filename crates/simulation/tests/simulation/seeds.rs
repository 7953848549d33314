//! Seeds without any planted bug: nothing may be violated, and every rare path must be taken.

use simulation::counters::Counters;
use simulation::{Detail, run};

/// Runs seeds and returns what they counted.
fn content(seeds: impl IntoIterator<Item = u64>) -> Counters {
    let mut counters = Counters::default();
    for seed in seeds {
        let history = run(seed, None, Detail::Outline);
        assert!(history.violations.is_empty(), "seed {seed}: {:#?}", history.violations);
        counters.add(&history.counters);
    }
    counters
}

#[test]
fn a_few_hundred_histories_violate_nothing_and_take_every_rare_path() {
    let missed = content(10_000..10_300).missed();
    assert!(missed.is_empty(), "no history has {missed:?}");
}

#[test]
fn one_seed_gives_one_history() {
    for seed in [3, 7, 11, 18] {
        let (one, other) = (run(seed, None, Detail::Words), run(seed, None, Detail::Words));
        assert_eq!((one.hash, one.steps, one.lasted), (other.hash, other.steps, other.lasted));
    }
    assert_ne!(run(3, None, Detail::Outline).hash, run(4, None, Detail::Outline).hash);
}

#[test]
fn what_is_kept_of_a_history_does_not_change_it() {
    let (outline, text) = (run(5, None, Detail::Outline), run(5, None, Detail::Text));
    assert_eq!((outline.steps, outline.attempts), (text.steps, text.attempts));
    assert!(outline.lines.is_empty() && !text.lines.is_empty());
}

/// An engine that looked at the head of a window for ever while another chunk was being buried.
#[test]
fn what_is_to_be_buried_gets_no_turn() {
    content([2, 12, 20, 23]);
}

/// A rate that was counted on a clock that jumps.
#[test]
fn a_rate_holds_when_the_clock_is_corrected() {
    content([0, 15, 32, 53, 60]);
}

/// A resume whose request was lost went unheard for an hour.
#[test]
fn a_resume_is_heard_even_if_its_request_is_lost() {
    content([1_086, 3_043]);
}

/// A take-over that was answered to a process that had been frozen past its lease.
#[test]
fn a_lease_that_ran_out_on_its_way_is_not_believed_in() {
    content([1_335, 1_421, 20_277]);
}

/// A pause that ended while nobody could notice counted for what became due after it.
#[test]
fn a_hold_ends_when_it_ends_and_not_when_that_is_noticed() {
    content([1_988, 2_583, 3_064, 3_340]);
}

/// What was unloaded while a load ran came back as it had been before its last attempt.
#[test]
fn an_old_load_brings_nothing_back_that_was_unloaded() {
    content([1_058]);
}

/// A cancel that a new owner read after it had loaded what was replayed since.
#[test]
fn an_old_cancel_does_not_hide_what_was_replayed_since() {
    content([204_130]);
}

/// A settle that was answered after its delivery had been cancelled let it wait for its next attempt.
#[test]
fn what_was_cancelled_while_it_settled_is_not_sent_again() {
    content([102_632, 107_272, 107_347, 111_730, 116_967]);
}

/// An answer to a take that came while stopping gave back what was busy.
#[test]
fn stopping_gives_nothing_back_that_is_busy() {
    content([100_331, 102_278]);
}

/// A breaker that closed early, and a roster that was too old, held what they did not hold.
#[test]
fn what_was_not_held_does_not_expire_untried() {
    content([105_189, 118_471]);
}

/// A settle that took effect after its own repetition brought an old running state back.
#[test]
fn a_late_settle_brings_no_old_running_state_back() {
    content([114_749]);
}

/// A renewal that was answered late, after the lease had not been trusted, made a process forget what
/// was its own; when the next one named it again, it was given back while attempts were being settled.
#[test]
fn what_is_still_being_settled_is_not_given_back_because_it_was_forgotten() {
    content([218_993]);
}

/// An engine had forgotten an idle endpoint and begun anew at one, two, four; the watch went on from
/// three, where a cap that was raised since had held it.
#[test]
fn an_endpoint_that_was_forgotten_begins_anew_also_after_its_cap_was_raised() {
    content([500_505]);
}

/// Of two wishes to end the same pause, the second was consumed before the first was written.
#[test]
fn a_wish_to_end_a_pause_is_kept_until_the_end_is_written() {
    content([2_204]);
}
