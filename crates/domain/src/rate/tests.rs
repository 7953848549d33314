use proptest::prelude::*;

use super::*;

pub(super) const NOW: Timestamp = Timestamp::from_seconds(1_700_000_000);

pub(super) fn rate(count: u64) -> Rate {
    Rate::per_second(count).unwrap()
}

/// Takes as fast as the limiter lets, waking exactly when it says, and returns the moments.
fn greedy(rate: Rate, mut limiter: Limiter, from: Timestamp, count: usize) -> Vec<Timestamp> {
    let mut now = from;
    let mut taken = Vec::new();
    while taken.len() < count {
        match limiter.take(rate, now) {
            Ok(next) => {
                taken.push(now);
                limiter = next;
            }
            Err(wake) => now = wake,
        }
    }
    taken
}

/// What is between two attempts at ten a second: a hundredth more than a tenth of a second.
const SPACING: Duration = Duration::from_millis(101);

pub(super) fn most_within(window: Duration, moments: &[Timestamp]) -> usize {
    (0..moments.len())
        .map(|i| moments[i..].iter().take_while(|later| later.since(moments[i]) < window).count())
        .max()
        .unwrap_or(0)
}

#[test]
fn a_new_limiter_has_no_credit() {
    let mut limiter = Limiter::begin(NOW).take(rate(10), NOW).unwrap();
    assert_eq!(limiter.take(rate(10), NOW), Err(NOW.after(SPACING)));
    limiter = limiter.take(rate(10), NOW.after(SPACING)).unwrap();
    assert_eq!(limiter.next(rate(10)), NOW.after(SPACING * 2));
}

#[test]
fn attempts_are_spaced_evenly_not_in_bursts() {
    let moments = greedy(rate(10), Limiter::begin(NOW), NOW, 30);
    for pair in moments.windows(2) {
        assert_eq!(pair[1].since(pair[0]), SPACING);
    }
}

#[test]
fn rates_without_a_whole_spacing_do_not_drift() {
    let moments = greedy(rate(3_000), Limiter::begin(NOW), NOW, 30_001);
    // One part in a hundred goes to what may be caught up on, another to what is on its way.
    let span = moments[30_000].since(NOW);
    assert!(span >= Duration::from_millis(10_200), "{span:?}");
    assert!(span <= Duration::from_millis(10_202), "{span:?}");
}

#[test]
fn a_slow_endpoint_saves_nothing_up_while_idle() {
    let limiter = Limiter::begin(NOW).take(rate(10), NOW).unwrap();
    let idle = NOW.after(Duration::from_secs(3_600));
    let moments = greedy(rate(10), limiter, idle, 20);
    assert_eq!(most_within(Duration::from_secs(1), &moments), 10);
}

#[test]
fn a_fast_endpoint_catches_up_on_a_late_timer_and_on_no_more() {
    let limiter = Limiter::begin(NOW).take(rate(1_000), NOW).unwrap();
    let late = NOW.after(Duration::from_secs(60));
    let mut at_once = 0;
    let mut limiter = limiter;
    while let Ok(next) = limiter.take(rate(1_000), late) {
        limiter = next;
        at_once += 1;
    }
    assert_eq!(at_once, 10);
}

#[test]
fn no_second_holds_more_than_the_rate_however_greedy_the_caller() {
    for count in [1, 3, 99, 100, 101, 600, 3_000, 7_919] {
        for idle in [Duration::ZERO, Duration::from_secs(3_600)] {
            let limiter = Limiter::begin(NOW).take(rate(count), NOW).unwrap();
            let wanted = usize::try_from(count * 3).unwrap();
            let moments = greedy(rate(count), limiter, NOW.after(idle), wanted);
            let most = most_within(Duration::from_secs(1), &moments) as u64;
            assert!(most <= count && most * 100 >= count * 98, "{count}: {most}");
        }
    }
}

#[test]
fn no_second_holds_more_than_the_rate_where_attempts_arrive() {
    for count in [1, 10, 30, 99, 100, 1_000] {
        let wanted = usize::try_from(count * 3).unwrap();
        let mut arrived = greedy(rate(count), Limiter::begin(NOW), NOW, wanted);
        for late in arrived.iter_mut().step_by(3) {
            *late = late.after(ON_THE_WAY);
        }
        arrived.sort_unstable();
        assert!(most_within(Duration::from_secs(1), &arrived) as u64 <= count, "{count}");
    }
}

#[test]
fn a_new_owner_goes_on_as_if_the_one_before_had_sent_until_the_last_moment() {
    for count in [1, 10, 99, 100, 1_000] {
        let (rate, wanted) = (rate(count), usize::try_from(count * 2).unwrap());
        let mut moments = greedy(rate, Limiter::begin(NOW), NOW, wanted);
        let last = *moments.last().unwrap();
        moments.extend(greedy(rate, Limiter::taken_over(last), last, wanted));
        assert!(most_within(Duration::from_secs(1), &moments) as u64 <= count, "{count}");
    }
    // Whoever has owned it for long lets the first one go at once.
    let owned = Limiter::taken_over(NOW);
    assert!(owned.take(rate(10), NOW).is_err());
    assert!(owned.take(rate(10), NOW.after(Duration::from_secs(9))).is_ok());
}

#[test]
fn rates_lie_between_one_and_a_million() {
    for count in [0, 1_000_001, u64::MAX] {
        assert_eq!(Rate::per_second(count).unwrap_err().field(), "rate");
    }
    assert_eq!(rate(1).get(), 1);
    assert_eq!(rate(1_000_000).get(), 1_000_000);
}

proptest! {
    #[test]
    fn no_window_holds_more_than_the_rate_and_its_catch_up(
        count in 1_u64..5_000,
        gaps in prop::collection::vec(0_u64..200_000, 1..200),
    ) {
        let rate = rate(count);
        let mut limiter = Limiter::begin(NOW);
        let (mut now, mut moments) = (NOW, Vec::new());
        for gap in gaps {
            now = now.after(Duration::from_micros(gap));
            while let Ok(next) = limiter.take(rate, now) {
                limiter = next;
                moments.push(now);
            }
        }
        prop_assert!(most_within(Duration::from_secs(1), &moments) as u64 <= count);
        prop_assert!(most_within(Duration::from_secs(3), &moments) as u64 <= count * 3);
    }
}
