//! Whole lives of deliveries, over rules that are tested one by one elsewhere.

use std::time::Duration;

use domain::delivery::{Cause, Delivery, Pending};
use domain::dice::Dice;
use domain::judge;
use domain::outcome::Outcome;
use domain::policy::{Policy, Warning, preset, preset_names, read_toml};
use domain::time::Timestamp;
use domain::verdict::NextState;
use proptest::prelude::*;

const START: Timestamp = Timestamp::from_seconds(1_700_000_000);

fn policy(name: &str) -> &'static Policy {
    &preset(name).unwrap().policy
}

#[test]
fn decorrelated_waits_grow_from_their_predecessors_and_stay_under_the_cap() {
    let own = "[policy]\nmax_attempts = 30\ngive_up_after = \"never\"\n\
               schedule = { kind = \"exponential\", base = \"10s\", factor = 2, cap = \"10m\" }\n\
               jitter = { kind = \"decorrelated\" }\n";
    let policy = read_toml(own).unwrap().policy;
    for seed in 0..2_000_u64 {
        let mut pending = Pending::fresh(&policy.limits, START);
        for n in 1..30_u64 {
            let before = pending.budget.last_wait.max(Duration::from_secs(10));
            let bits = (seed * 31 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let verdict =
                judge(&policy, &pending, Outcome::TimedOut, pending.due, Dice::thrown(bits));
            let NextState::Pending { due } = verdict.next else { panic!("{verdict:?}") };
            let wait = due.since(pending.due);
            let highest = (before * 3).min(Duration::from_secs(600));
            assert!(
                wait >= Duration::from_secs(10) && wait <= highest,
                "{wait:?} after {before:?}"
            );
            pending = Pending { due, budget: verdict.budget };
        }
    }
}

#[test]
fn a_replayed_delivery_gets_all_its_attempts_again() {
    let policy = policy("twilio");
    let fail = |pending: Pending| {
        let verdict = judge(policy, &pending, Outcome::answered(500), pending.due, Dice::thrown(0));
        Delivery::Pending(pending).settle(verdict.next, verdict.budget).unwrap()
    };
    let mut delivery = Delivery::Pending(Pending::accept(&policy.limits, START, None));
    let mut lives = Vec::new();
    for life in 0..3_u32 {
        let mut attempts = 0;
        while let Delivery::Pending(pending) = delivery {
            delivery = fail(pending);
            attempts += 1;
        }
        assert_eq!(delivery, Delivery::Dead(Cause::Exhausted));
        lives.push(attempts);
        let later = START.after(Duration::from_secs(86_400) * (life + 1));
        delivery = delivery.replay(Pending::fresh(&policy.limits, later)).unwrap();
    }
    assert_eq!(lives, [2, 2, 2]);
}

#[test]
fn unwise_policies_are_warned_about() {
    let warnings = |name: &str| policy(name).warnings();
    assert_eq!(warnings("redial"), []);
    assert_eq!(
        warnings("twilio"),
        [Warning::ShortSpan(Duration::from_secs(15)), Warning::NoJitter]
    );
    assert!(warnings("slack").contains(&Warning::ShortTimeout(Duration::from_secs(5))));
    let long = read_toml(
        "[policy]\nmax_attempts = 40\ngive_up_after = \"never\"\n\
         schedule = { kind = \"fixed\", waits = [\"24h\"] }\n",
    );
    let warnings = long.unwrap().policy.warnings();
    assert_eq!(warnings, [Warning::LongSpan(Duration::from_secs(39 * 86_400))]);
    for warning in policy("slack").warnings().iter().chain(&warnings) {
        assert!(!warning.to_string().is_empty());
    }
}

#[test]
fn long_schedules_are_measured_to_their_end() {
    let span = |limits: &str, wait: &str| {
        let text = format!(
            "[policy]\n{limits}\nschedule = {{ kind = \"fixed\", waits = [\"{wait}\"] }}\n"
        );
        read_toml(&text).unwrap().policy.span()
    };
    let many = "max_attempts = 10000\ngive_up_after = \"never\"";
    assert_eq!(span(many, "10m"), Duration::from_secs(9_999 * 600));
    let unlimited = "max_attempts = \"unlimited\"\ngive_up_after = \"96h\"";
    assert_eq!(span(unlimited, "1s"), Duration::from_secs(96 * 3_600));
    assert_eq!(span(unlimited, "1h"), Duration::from_secs(96 * 3_600));
}

#[test]
fn decorrelated_turns_show_the_middle_of_their_range() {
    let own = "[policy]\nmax_attempts = 3\ngive_up_after = \"never\"\n\
               schedule = { kind = \"exponential\", base = \"10s\", factor = 2, cap = \"10m\" }\n\
               jitter = { kind = \"decorrelated\" }\n";
    let turns = read_toml(own).unwrap().policy.timetable().turns;
    let waits: Vec<_> = turns
        .iter()
        .map(|it| (it.shortest.as_secs(), it.nominal.as_secs(), it.longest.as_secs()))
        .collect();
    assert_eq!(waits, [(0, 0, 0), (10, 20, 30), (10, 50, 90)]);
}

#[test]
fn the_edges_of_a_warning_are_wise() {
    let own = |whole: &str, wait: &str| {
        let text = format!(
            "[policy]\nmax_attempts = 2\ngive_up_after = \"never\"\ntimeouts = {{ whole = \"{whole}\" }}\n\
             schedule = {{ kind = \"fixed\", waits = [\"{wait}\"] }}\n"
        );
        read_toml(&text).unwrap().policy.warnings()
    };
    assert_eq!(own("10s", "2h"), []);
    assert_eq!(own("10s", "30d"), []);
    assert_eq!(own("9s", "2h").len(), 1);
    assert_eq!(own("10s", "119m").len(), 1);
    assert_eq!(own("10s", "31d").len(), 1);
}

#[test]
fn waits_that_leave_no_time_for_the_attempts_themselves_are_unwise() {
    let own = |attempts: u32, end: &str| {
        let text = format!(
            "[policy]\nmax_attempts = {attempts}\ngive_up_after = \"{end}\"\n\
             schedule = {{ kind = \"fixed\", waits = [\"1h\"] }}\ntimeouts = {{ whole = \"10s\" }}\n"
        );
        read_toml(&text).unwrap().policy.warnings()
    };
    let missing = |seconds| vec![Warning::TightEnd(Duration::from_secs(seconds))];
    assert_eq!(own(4, "3h"), missing(30));
    assert_eq!(own(4, "10829s"), missing(1));
    assert_eq!(own(4, "10830s"), []);
    // The give-up time is what ends these.
    assert_eq!(own(5, "3h"), []);
    for name in preset_names() {
        let warnings = policy(name).warnings();
        assert!(!warnings.iter().any(|it| matches!(it, Warning::TightEnd(_))), "{name}");
    }
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        4 => (100_u16..600).prop_map(Outcome::answered),
        1 => Just(Outcome::TimedOut),
        1 => Just(Outcome::TlsFailed),
        1 => Just(Outcome::Interrupted),
    ]
}

proptest! {
    #[test]
    fn recorded_attempts_never_exceed_the_policy(
        which in 0_usize..17,
        outcomes in prop::collection::vec((outcomes(), any::<u64>(), 0_u64..100_000), 1..60),
    ) {
        let policy = policy(preset_names().nth(which).unwrap());
        let most = policy.limits.max_attempts().unwrap().get();
        let mut delivery = Delivery::Pending(Pending::accept(&policy.limits, START, None));
        let (mut now, mut counted) = (START, 0_u32);
        for (outcome, bits, late) in outcomes {
            let Delivery::Pending(pending) = delivery else { break };
            now = now.max(pending.due).after(Duration::from_millis(late));
            let verdict = judge(policy, &pending, outcome, now, Dice::thrown(bits));
            if outcome != Outcome::Interrupted {
                counted += 1;
                if let NextState::Pending { due } = verdict.next {
                    prop_assert!(due >= now, "a retry lies in the past");
                    prop_assert!(verdict.budget.expires_at.is_none_or(|end| due <= end));
                }
            }
            prop_assert_eq!(verdict.budget.attempts, counted);
            delivery = delivery.settle(verdict.next, verdict.budget).unwrap();
        }
        prop_assert!(counted <= most);
    }
}
