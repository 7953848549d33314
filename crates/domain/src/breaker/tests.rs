use super::*;

const NOW: Timestamp = Timestamp::from_seconds(1_700_000_000);
const MINUTES_5: Duration = Duration::from_secs(300);

fn settings(growth: f64) -> Settings {
    let numbers = Numbers {
        threshold: 3,
        cooldown: MINUTES_5,
        growth,
        longest_cooldown: Duration::from_secs(900),
    };
    Settings::new(numbers, WhileOpen::Hold).unwrap()
}

fn ordinary(breaker: Breaker, signal: Signal) -> Breaker {
    breaker.after(&settings(2.0), Role::Ordinary, signal, NOW)
}

fn tripped() -> Breaker {
    (0..3).fold(Breaker::default(), |breaker, _| ordinary(breaker, Signal::Failure))
}

fn probed(breaker: Breaker, signal: Signal, now: Timestamp) -> Breaker {
    breaker.probe(now).after(&settings(2.0), Role::Probe, signal, now)
}

#[test]
fn failures_in_a_row_trip_it_at_the_threshold() {
    let once = ordinary(Breaker::default(), Signal::Failure);
    assert_eq!(once, Breaker::Closed { failures: 1 });
    assert_eq!(ordinary(once, Signal::Failure), Breaker::Closed { failures: 2 });
    assert_eq!(tripped(), Breaker::Open { until: NOW.after(MINUTES_5), cooldown: MINUTES_5 });
}

#[test]
fn a_success_resets_the_count_and_permanent_answers_leave_it_alone() {
    let two = Breaker::Closed { failures: 2 };
    assert_eq!(ordinary(two, Signal::Success), Breaker::Closed { failures: 0 });
    assert_eq!(ordinary(two, Signal::Permanent), two);
    assert_eq!(ordinary(two, Signal::Nothing), two);
}

#[test]
fn an_open_breaker_waits_then_lets_one_probe_through() {
    let until = NOW.after(MINUTES_5);
    let just_before = until.before(Duration::from_micros(1));
    assert_eq!(Breaker::default().admission(NOW), Admission::All);
    assert_eq!(tripped().admission(just_before), Admission::Wait(until));
    assert_eq!(tripped().probe(just_before), tripped());
    assert_eq!(tripped().admission(until), Admission::Probe);
    let half_open = tripped().probe(until);
    assert_eq!(half_open, Breaker::HalfOpen { cooldown: MINUTES_5 });
    assert_eq!(half_open.admission(until), Admission::WaitForProbe);
    assert_eq!(half_open.probe(until), half_open);
    assert_eq!(Breaker::default().probe(until), Breaker::default());
}

#[test]
fn the_probe_decides() {
    let until = NOW.after(MINUTES_5);
    assert_eq!(probed(tripped(), Signal::Success, until), Breaker::default());
    assert_eq!(probed(tripped(), Signal::Permanent, until), Breaker::default());
    let longer = MINUTES_5 * 2;
    let failed = Breaker::Open { until: until.after(longer), cooldown: longer };
    assert_eq!(probed(tripped(), Signal::Failure, until), failed);
    let again = Breaker::Open { until, cooldown: MINUTES_5 };
    assert_eq!(probed(tripped(), Signal::Nothing, until), again);
}

#[test]
fn the_cooldown_grows_up_to_its_limit_and_starts_anew_after_a_success() {
    let mut breaker = tripped();
    let mut cooldowns = Vec::new();
    for _ in 0..4 {
        let Breaker::Open { until, cooldown } = breaker else { panic!("{breaker:?}") };
        cooldowns.push(cooldown.as_secs());
        breaker = probed(breaker, Signal::Failure, until);
    }
    assert_eq!(cooldowns, [300, 600, 900, 900]);
    let closed = ordinary(breaker, Signal::Success);
    assert_eq!(closed, Breaker::default());
}

#[test]
fn without_growth_the_cooldown_stays() {
    let Breaker::Open { until, .. } = tripped() else { panic!() };
    let half_open = tripped().probe(until);
    let open = half_open.after(&settings(1.0), Role::Probe, Signal::Failure, until);
    assert_eq!(open, Breaker::Open { until: until.after(MINUTES_5), cooldown: MINUTES_5 });
}

#[test]
fn what_had_begun_before_the_trip_changes_nothing_unless_it_succeeds() {
    let half_open = Breaker::HalfOpen { cooldown: MINUTES_5 };
    for breaker in [tripped(), half_open] {
        for signal in [Signal::Failure, Signal::Permanent, Signal::Nothing] {
            assert_eq!(ordinary(breaker, signal), breaker, "{signal:?}");
        }
        assert_eq!(ordinary(breaker, Signal::Success), Breaker::default());
    }
}

#[test]
fn a_probe_that_died_with_its_owner_is_sent_again() {
    let taken_over = Breaker::HalfOpen { cooldown: MINUTES_5 }.taken_over(NOW);
    assert_eq!(taken_over, Breaker::Open { until: NOW, cooldown: MINUTES_5 });
    assert_eq!(taken_over.admission(NOW), Admission::Probe);
    assert_eq!(tripped().taken_over(NOW), tripped());
    let counting = Breaker::Closed { failures: 2 };
    assert_eq!(counting.taken_over(NOW), counting);
}

#[test]
fn a_breaker_that_is_switched_off_is_closed_by_whatever_the_receiver_says() {
    let half_open = Breaker::HalfOpen { cooldown: MINUTES_5 };
    for breaker in [Breaker::Closed { failures: 4 }, tripped(), half_open] {
        for signal in [Signal::Success, Signal::Failure, Signal::Permanent] {
            for role in [Role::Ordinary, Role::Probe] {
                assert_eq!(breaker.while_off(role, signal, NOW), Breaker::default());
            }
        }
        assert_eq!(breaker.while_off(Role::Ordinary, Signal::Nothing, NOW), breaker);
    }
    let interrupted = half_open.while_off(Role::Probe, Signal::Nothing, NOW);
    assert_eq!(interrupted.admission(NOW), Admission::Probe, "it may come back");
}

#[test]
fn a_person_can_close_it() {
    assert_eq!(tripped().reset(), Breaker::default());
    let words = [Breaker::default(), tripped(), Breaker::HalfOpen { cooldown: MINUTES_5 }];
    assert_eq!(words.map(Breaker::word), ["closed", "open", "half-open"]);
}

#[test]
fn numbers_that_make_no_breaker_are_refused() {
    let good = settings(2.0).numbers();
    let field = |numbers| Settings::new(numbers, WhileOpen::Bury).unwrap_err().field().to_owned();
    assert_eq!(field(Numbers { threshold: 0, ..good }), "threshold");
    assert_eq!(field(Numbers { cooldown: Duration::ZERO, ..good }), "cooldown");
    assert_eq!(field(Numbers { growth: 0.5, ..good }), "growth");
    assert_eq!(field(Numbers { growth: 10.5, ..good }), "growth");
    assert_eq!(
        field(Numbers { longest_cooldown: Duration::from_secs(299), ..good }),
        "longest_cooldown"
    );
    assert!(
        Settings::new(Numbers { longest_cooldown: MINUTES_5, ..good }, WhileOpen::Bury).is_ok()
    );
    assert_eq!(settings(2.0).while_open(), WhileOpen::Hold);
}
