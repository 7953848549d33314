use super::*;
use crate::policy::preset;

const NOW: Timestamp = Timestamp::from_seconds(1_700_000_000);

fn limits() -> Limits {
    Limits::new(Some(3), Some(Duration::from_secs(3_600))).unwrap()
}

fn pending() -> Delivery {
    Delivery::Pending(Pending::accept(&limits(), NOW, None))
}

fn settled(state: Delivery, next: NextState) -> Result<Delivery, InvalidTransition> {
    let Delivery::Pending(Pending { budget, .. }) = pending() else { unreachable!() };
    state.settle(next, Budget { attempts: 1, ..budget })
}

#[test]
fn a_delivery_is_due_at_once_and_its_time_runs_from_there() {
    let Delivery::Pending(fresh) = pending() else { panic!("not pending") };
    assert_eq!(fresh.due, NOW);
    assert_eq!(fresh.budget.attempts, 0);
    assert_eq!(fresh.budget.expires_at, Some(NOW.after(Duration::from_secs(3_600))));
}

#[test]
fn a_named_moment_starts_the_clock_unless_it_has_passed() {
    let later = NOW.after(Duration::from_secs(60));
    let accept = |at| {
        let fresh = Pending::accept(&limits(), NOW, Some(at));
        (fresh.due, fresh.budget.expires_at.unwrap())
    };
    assert_eq!(accept(later), (later, later.after(Duration::from_secs(3_600))));
    let earlier = NOW.before(Duration::from_secs(60));
    assert_eq!(accept(earlier), (NOW, NOW.after(Duration::from_secs(3_600))));
}

#[test]
fn a_policy_without_a_give_up_time_never_expires() {
    let limits = preset("svix").unwrap().policy.limits;
    let fresh = Pending::accept(&limits, NOW, None);
    assert_eq!(fresh.budget.expires_at, None);
    assert!(!expires(&fresh, SinceDue::Held, Timestamp::FAR_FUTURE));
}

#[test]
fn every_transition_in_every_state_does_what_the_table_says() {
    let later = NOW.after(Duration::from_secs(9));
    let states =
        [pending(), Delivery::Delivered, Delivery::Dead(Cause::Exhausted), Delivery::Cancelled];
    for state in states {
        let is_pending = matches!(state, Delivery::Pending(_));
        let done = settled(state, NextState::Delivered);
        assert_eq!(done.ok(), is_pending.then_some(Delivery::Delivered), "{state:?}");
        let buried = state.bury(Cause::Poison);
        assert_eq!(buried.ok(), is_pending.then_some(Delivery::Dead(Cause::Poison)), "{state:?}");
        assert_eq!(state.cancel().ok(), is_pending.then_some(Delivery::Cancelled), "{state:?}");
        assert_eq!(state.retry_now(NOW).is_ok(), is_pending, "{state:?}");
        let replayed = state.replay(Pending::fresh(&limits(), later)).ok();
        let fresh = Delivery::Pending(Pending::fresh(&limits(), later));
        assert_eq!(replayed, (!is_pending).then_some(fresh), "{state:?}");
    }
}

#[test]
fn a_verdict_moves_a_pending_delivery_where_it_says() {
    let due = NOW.after(Duration::from_secs(5));
    let retried = settled(pending(), NextState::Pending { due }).unwrap();
    let Delivery::Pending(retried) = retried else { panic!("not pending") };
    assert_eq!((retried.due, retried.budget.attempts), (due, 1));
    let buried = settled(pending(), NextState::Dead(Cause::Permanent));
    assert_eq!(buried, Ok(Delivery::Dead(Cause::Permanent)));
}

#[test]
fn a_refused_transition_names_the_verb_and_the_state() {
    let error = Delivery::Delivered.cancel().unwrap_err();
    assert_eq!(error.to_string(), "cannot cancel a delivery that is delivered");
    let error = pending().replay(Pending::fresh(&limits(), NOW)).unwrap_err();
    assert_eq!(error.to_string(), "cannot replay a delivery that is pending");
}

#[test]
fn retrying_now_never_puts_a_delivery_off() {
    let due = NOW.after(Duration::from_secs(500));
    let waiting = settled(pending(), NextState::Pending { due }).unwrap();
    let Delivery::Pending(hurried) = waiting.retry_now(NOW).unwrap() else { panic!() };
    assert_eq!((hurried.due, hurried.budget.attempts), (NOW, 1));
    let Delivery::Pending(same) = pending().retry_now(due).unwrap() else { panic!() };
    assert_eq!(same.due, NOW);
}

#[test]
fn only_what_was_tried_or_held_expires() {
    let Delivery::Pending(waiting) = pending() else { panic!() };
    let end = waiting.budget.expires_at.unwrap();
    let late = end.after(Duration::from_micros(1));
    let table = [
        (SinceDue::Untouched, late, false),
        (SinceDue::Tried, end, false),
        (SinceDue::Tried, late, true),
        (SinceDue::Held, end, false),
        (SinceDue::Held, late, true),
    ];
    for (since_due, now, expected) in table {
        assert_eq!(expires(&waiting, since_due, now), expected, "{since_due:?}");
    }
}

#[test]
fn the_third_panic_makes_a_delivery_poison() {
    assert_eq!([1, 2, 3, 4].map(is_poison), [false, false, true, true]);
}

#[test]
fn words_are_stable_and_read_back() {
    let words = Cause::ALL.map(Cause::word);
    assert_eq!(
        words,
        [
            "permanent",
            "exhausted",
            "expired",
            "endpoint_disabled",
            "endpoint_deleted",
            "blocked",
            "breaker_open",
            "poison"
        ]
    );
    for cause in Cause::ALL {
        assert_eq!(Cause::from_word(cause.word()), Some(cause));
    }
    assert_eq!(Cause::from_word("bored"), None);
    let states =
        [pending(), Delivery::Delivered, Delivery::Dead(Cause::Poison), Delivery::Cancelled];
    assert_eq!(states.map(Delivery::word), ["pending", "delivered", "dead", "cancelled"]);
}
