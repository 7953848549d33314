use std::time::Duration;

use super::*;
use crate::delivery::Budget;
use crate::endpoint::Reason;

const NOW: Timestamp = Timestamp::from_seconds(1_700_000_000);
const COOLDOWN: Duration = Duration::from_secs(300);
/// When the deliveries here are given up, in seconds from now.
const GIVEN_UP: i64 = 3_600;

const ACTIVE: Facts = Facts {
    state: State::Active,
    breaker: Breaker::Closed { failures: 4 },
    while_open: Some(WhileOpen::Hold),
    paused_until: None,
    is_preceded: false,
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(NOW.as_seconds() + seconds)
}

fn due(seconds: i64) -> Pending {
    let expires_at = Some(at(GIVEN_UP));
    let budget = Budget { attempts: 1, ambiguous: 0, last_wait: Duration::ZERO, expires_at };
    Pending { due: at(seconds), budget }
}

fn open(seconds: i64) -> Facts {
    Facts { breaker: Breaker::Open { until: at(seconds), cooldown: COOLDOWN }, ..ACTIVE }
}

fn paused(seconds: i64) -> Facts {
    Facts { paused_until: Some(at(seconds)), ..ACTIVE }
}

#[test]
fn what_holds_longest_is_named_with_its_end() {
    let preceded = Facts { is_preceded: true, ..ACTIVE };
    let half_open = Facts { breaker: Breaker::HalfOpen { cooldown: COOLDOWN }, ..ACTIVE };
    let both = |breaker, pause| Facts { paused_until: Some(at(pause)), ..open(breaker) };
    let burying = |facts| Facts { while_open: Some(WhileOpen::Bury), ..facts };
    let without_breaker = Facts { while_open: None, ..open(60) };
    let in_state = |state| Facts { state, is_preceded: true, ..both(60, 90) };
    // due in, endpoint, held by, next attempt in
    let table = [
        (-5, ACTIVE, Hold::Queued, Some(0)),
        (0, ACTIVE, Hold::Queued, Some(0)),
        (5, ACTIVE, Hold::Schedule, Some(5)),
        (-5, open(60), Hold::Breaker, Some(60)),
        (5, open(60), Hold::Breaker, Some(60)),
        (90, open(60), Hold::Schedule, Some(90)),
        (-5, without_breaker, Hold::Queued, Some(0)),
        // The cooldown is over: one of the due deliveries is the probe.
        (-5, open(-1), Hold::Breaker, Some(0)),
        (5, open(-1), Hold::Schedule, Some(5)),
        (-5, half_open, Hold::Breaker, None),
        (5, half_open, Hold::Schedule, Some(5)),
        (-5, paused(60), Hold::RetryAfter, Some(60)),
        (90, paused(60), Hold::Schedule, Some(90)),
        (-5, paused(-1), Hold::Queued, Some(0)),
        (-5, both(60, 90), Hold::RetryAfter, Some(90)),
        (-5, both(90, 60), Hold::Breaker, Some(90)),
        // It is given up before.
        (-5, open(GIVEN_UP), Hold::Breaker, Some(GIVEN_UP)),
        (-5, open(GIVEN_UP + 1), Hold::Breaker, None),
        (-5, paused(GIVEN_UP + 1), Hold::RetryAfter, None),
        // It becomes a dead letter when it is due.
        (5, burying(open(60)), Hold::Breaker, None),
        (5, burying(both(60, 90)), Hold::Breaker, None),
        (90, burying(open(60)), Hold::Schedule, Some(90)),
        (5, burying(paused(60)), Hold::RetryAfter, Some(60)),
        (-5, preceded, Hold::Fifo, None),
        (5, preceded, Hold::Schedule, Some(5)),
        (-5, in_state(State::Paused), Hold::Paused, None),
        (5, in_state(State::Paused), Hold::Paused, None),
        (5, in_state(State::Disabled(Reason::Gone)), Hold::Disabled, None),
        (-5, in_state(State::Deleted), Hold::Deleted, None),
    ];
    for (seconds, facts, held_by, next) in table {
        let expected = Wait { held_by, next_attempt: next.map(at) };
        assert_eq!(wait(&due(seconds), &facts, NOW), expected, "due in {seconds} s, {facts:?}");
    }
}

#[test]
fn the_next_attempt_is_never_in_the_past() {
    for seconds in [-100_000, -1, 0, 1] {
        for facts in [ACTIVE, open(-100_000), open(1), paused(-100_000), paused(1)] {
            let next = wait(&due(seconds), &facts, NOW).next_attempt;
            assert!(next.is_none_or(|next| next >= NOW), "{seconds} {facts:?}");
        }
    }
}

#[test]
fn words_are_stable() {
    let waits = [Hold::Schedule, Hold::Queued, Hold::Fifo, Hold::Breaker].map(Hold::word);
    assert_eq!(waits, ["schedule", "queued", "fifo", "breaker"]);
    let rests = [Hold::RetryAfter, Hold::Paused, Hold::Disabled, Hold::Deleted].map(Hold::word);
    assert_eq!(rests, ["retry_after", "paused", "disabled", "deleted"]);
}
