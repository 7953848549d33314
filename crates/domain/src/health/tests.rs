use super::*;

const NOW: Timestamp = Timestamp::from_seconds(1_700_000_000);
const DAY: Duration = Duration::from_secs(86_400);

fn rule() -> Rule {
    Rule::new(Some(100), Some(5 * DAY)).unwrap()
}

fn streak(count: u32) -> (Health, Vec<(u32, Finding)>) {
    let mut health = Health::default();
    let mut findings = Vec::new();
    for n in 1..=count {
        let (next, finding) = health.after(&rule(), Signal::Permanent, NOW);
        health = next;
        if finding != Finding::Unremarkable {
            findings.push((n, finding));
        }
    }
    (health, findings)
}

#[test]
fn more_than_a_hundred_permanent_failures_disable_and_warn_before() {
    let reason = Reason::PermanentStreak;
    let (_, findings) = streak(101);
    assert_eq!(
        findings,
        [
            (50, Finding::Warn(Level::Half, reason)),
            (70, Finding::Warn(Level::Most, reason)),
            (90, Finding::Warn(Level::Nearly, reason)),
            (101, Finding::Disable(reason)),
        ]
    );
}

#[test]
fn transient_failures_neither_count_nor_reset_the_streak() {
    let (health, _) = streak(49);
    let (health, finding) = health.after(&rule(), Signal::Failure, NOW);
    assert_eq!((health.permanent_streak, finding), (49, Finding::Unremarkable));
    let (health, finding) = health.after(&rule(), Signal::Permanent, NOW);
    assert_eq!(health.permanent_streak, 50);
    assert_eq!(finding, Finding::Warn(Level::Half, Reason::PermanentStreak));
}

#[test]
fn a_success_forgives_everything() {
    let (health, _) = streak(95);
    let (health, finding) = health.after(&rule(), Signal::Success, NOW);
    assert_eq!((health, finding), (Health::default(), Finding::Unremarkable));
}

#[test]
fn days_without_a_success_disable_and_warn_before() {
    let reason = Reason::WithoutSuccess;
    let (mut health, mut findings) = (Health::default(), Vec::new());
    for hour in 0..=120_u32 {
        let now = NOW.after(hour * Duration::from_secs(3_600));
        let (next, finding) = health.after(&rule(), Signal::Failure, now);
        health = next;
        if finding != Finding::Unremarkable {
            findings.push((hour, finding));
        }
    }
    assert_eq!(
        findings,
        [
            (60, Finding::Warn(Level::Half, reason)),
            (84, Finding::Warn(Level::Most, reason)),
            (108, Finding::Warn(Level::Nearly, reason)),
            (120, Finding::Disable(reason)),
        ]
    );
}

#[test]
fn nobody_is_disabled_without_a_warning_before() {
    let (health, _) = Health::default().after(&rule(), Signal::Permanent, NOW);
    let (health, finding) = health.after(&rule(), Signal::Failure, NOW.after(6 * DAY));
    assert_eq!(finding, Finding::Warn(Level::Nearly, Reason::WithoutSuccess));
    let (_, finding) = health.after(&rule(), Signal::Failure, NOW.after(6 * DAY));
    assert_eq!(finding, Finding::Disable(Reason::WithoutSuccess));
}

#[test]
fn time_counts_from_the_first_failure_not_from_the_last_success() {
    let (health, _) = Health::default().after(&rule(), Signal::Success, NOW);
    let week_later = NOW.after(7 * DAY);
    let (health, finding) = health.after(&rule(), Signal::Failure, week_later);
    assert_eq!(finding, Finding::Unremarkable);
    assert_eq!(health.failing_since, Some(week_later));
}

#[test]
fn an_attempt_that_says_nothing_changes_nothing() {
    let (health, _) = streak(10);
    let (same, finding) = health.after(&rule(), Signal::Nothing, NOW.after(100 * DAY));
    assert_eq!((same, finding), (health, Finding::Unremarkable));
}

#[test]
fn the_further_rule_names_the_warning() {
    let health = Health { permanent_streak: 74, failing_since: Some(NOW), warned: None };
    let (health, finding) = health.after(&rule(), Signal::Permanent, NOW.after(3 * DAY));
    assert_eq!(finding, Finding::Warn(Level::Most, Reason::PermanentStreak));
    let (_, finding) = health.after(&rule(), Signal::Permanent, NOW.after(5 * DAY).before(DAY / 4));
    assert_eq!(finding, Finding::Warn(Level::Nearly, Reason::WithoutSuccess));
}

#[test]
fn a_rule_that_is_left_out_never_speaks() {
    let never = Rule::new(None, None).unwrap();
    let health = Health { permanent_streak: 10_000, failing_since: Some(NOW), warned: None };
    let (_, finding) = health.after(&never, Signal::Permanent, NOW.after(1_000 * DAY));
    assert_eq!(finding, Finding::Unremarkable);
    assert_eq!(Rule::new(Some(0), None).unwrap_err().field(), "permanent_streak");
    assert_eq!(Rule::new(None, Some(Duration::ZERO)).unwrap_err().field(), "without_success");
    assert_eq!(rule().without_success(), Some(5 * DAY));
    assert_eq!([Level::Half, Level::Most, Level::Nearly].map(Level::percent), [50, 70, 90]);
}
