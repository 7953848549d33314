use std::time::Duration;

use domain::policy::{Preset, preset, preset_names, read_toml};

use super::super::scenario::{Answer, Outage};
use super::super::variant::variants;
use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// So many events in so many hours; down from the first event on.
fn scenario(events: u32, hours: u32, outage: Duration) -> Scenario {
    let outage = Outage { starts: Duration::ZERO, lasts: outage, answer: Answer::Unavailable };
    Scenario { events, over: hours * HOUR, outage, seed: 1 }
}

/// Runs a preset as it is.
fn observe(preset: &Preset, scenario: &Scenario) -> Tally {
    let [as_is, ..] = variants(preset);
    run(scenario, &as_is).unwrap()
}

fn dead(tally: &Tally, wanted: Cause) -> u64 {
    tally.dead_by_cause().filter(|(cause, _)| *cause == wanted).map(|(_, events)| events).sum()
}

#[test]
fn every_event_is_delivered_or_dead_under_every_preset() {
    for name in preset_names() {
        for answer in Answer::ALL {
            let mut scenario = scenario(2_000, 12, 5 * HOUR);
            scenario.outage.answer = answer;
            for variant in variants(preset(name).unwrap()) {
                let tally = run(&scenario, &variant).unwrap();
                let settled = tally.delivered + tally.dead();
                assert_eq!(settled, 2_000, "{name}, {}, {}", variant.name, answer.word());
            }
        }
    }
}

#[test]
fn an_open_breaker_lets_one_probe_through_per_cooldown() {
    let tally = observe(preset("redial").unwrap(), &scenario(10_000, 10, 6 * HOUR));
    // Five failures trip it; probes follow after 5, 15, 35 and 75 minutes, then hourly.
    assert_eq!(tally.attempts_during_outage, 5 + 8);
    assert_eq!(tally.delivered, 10_000);
}

#[test]
fn a_breaker_that_buries_makes_dead_letters_while_it_is_open() {
    let tally = observe(preset("recuro").unwrap(), &scenario(10_000, 10, HOUR));
    assert!(dead(&tally, Cause::BreakerOpen) > 900);
    assert_eq!(tally.dead(), dead(&tally, Cause::BreakerOpen));
}

#[test]
fn what_the_breaker_held_for_too_long_expires() {
    let short = read_toml("[policy]\ngive_up_after = \"2h\"").unwrap();
    let tally = observe(&short, &scenario(6_000, 6, 6 * HOUR));
    let expired = dead(&tally, Cause::Expired);
    // Accepted in the first four hours, and due two hours or more before the recovery.
    assert!((4_000..=5_000).contains(&expired), "{expired}");
    assert_eq!(tally.delivered, 6_000 - expired);
}

#[test]
fn what_only_waited_for_a_slot_does_not_expire() {
    let text = "[policy]\ngive_up_after = \"1s\"\n[endpoint]\nin_flight = 1";
    let mut never_down = scenario(200_000, 1, HOUR);
    never_down.outage.starts = 1_000 * HOUR;
    // One at a time makes twenty a second; almost three times as many come.
    let tally = observe(&read_toml(text).unwrap(), &never_down);
    assert_eq!((tally.delivered, tally.dead()), (200_000, 0));
}

#[test]
fn days_without_a_success_disable_the_endpoint_and_bury_the_rest() {
    let tally = observe(preset("redial").unwrap(), &scenario(1_000, 240, 240 * HOUR));
    let (at, reason) = tally.disabled.unwrap();
    assert_eq!(reason, Reason::WithoutSuccess);
    let after = at.since(START);
    assert!(after >= 120 * HOUR && after <= 122 * HOUR, "{after:?}");
    assert_eq!(tally.delivered, 0);
    assert!(dead(&tally, Cause::EndpointDisabled) >= 500);
}

#[test]
fn the_cap_on_attempts_in_flight_bounds_the_peak() {
    let burst = scenario(20_000, 1, HOUR);
    let tally = observe(preset("redial").unwrap(), &burst);
    // Ten at a time, twenty times a second.
    assert_eq!(tally.peak_per_second_after_recovery, 200);
    let narrow = read_toml("[endpoint]\nin_flight = 3").unwrap();
    assert_eq!(observe(&narrow, &burst).peak_per_second_after_recovery, 60);
}

#[test]
fn the_rate_limit_bounds_the_peak() {
    let slow = read_toml("[endpoint]\nrate = 7").unwrap();
    let tally = observe(&slow, &scenario(20_000, 1, HOUR));
    assert!((7..=8).contains(&tally.peak_per_second_after_recovery));
}

#[test]
fn attempts_are_limited_by_the_policy() {
    let formspring = preset("formspring").unwrap();
    let tally = observe(formspring, &scenario(100, 1, 100 * HOUR));
    assert_eq!(tally.attempts, 800);
    assert_eq!(dead(&tally, Cause::Exhausted), 100);
}

#[test]
fn an_answer_that_means_never_buries_at_once_and_a_streak_of_them_disables() {
    let text = "[policy.classification]\nsuccess = [\"2xx\"]\nretry = [\"network\"]\nambiguous = []\n\
                permanent = [\"5xx\"]\ndisable = []\notherwise = \"retry\"\nambiguous_limit = 5";
    let tally = observe(&read_toml(text).unwrap(), &scenario(1_000, 1, HOUR));
    assert_eq!(dead(&tally, Cause::Permanent), 101);
    assert_eq!(tally.disabled.unwrap().1, Reason::PermanentStreak);
    assert_eq!(dead(&tally, Cause::EndpointDisabled), 899);
}

#[test]
fn without_an_outage_nothing_is_wasted_and_the_peak_is_that_of_the_whole_run() {
    let tally = observe(preset("redial").unwrap(), &scenario(7_200, 1, Duration::ZERO));
    assert_eq!((tally.delivered, tally.attempts, tally.attempts_during_outage), (7_200, 7_200, 0));
    assert_eq!(tally.peak_per_second_after_recovery, 2);
    assert_eq!(tally.backlog_delivered_after_recovery, None);
}

#[test]
fn the_seed_alone_makes_the_difference() {
    let preset = preset("formspring").unwrap();
    let one = scenario(500, 1, HOUR);
    let two = Scenario { seed: 2, ..one };
    assert_eq!(observe(preset, &one), observe(preset, &one));
    assert_ne!(observe(preset, &one), observe(preset, &two));
}

#[test]
fn a_run_without_end_is_stopped() {
    let [as_is, ..] = variants(preset("formspring").unwrap());
    let scenario = scenario(100, 1, 100 * HOUR);
    let told = run_within(799, &scenario, &as_is).unwrap_err().to_string();
    assert!(told.starts_with("stopped after 50 million attempts (as it is); try fewer --events"));
    assert!(told.ends_with("longer waits"), "{told}");
    assert!(run_within(800, &scenario, &as_is).is_ok());
}
