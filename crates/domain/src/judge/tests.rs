use super::*;
use crate::outcome::Unreachable;
use crate::policy::preset;
use crate::retry_after::RetryAfter;

const NOW: Timestamp = Timestamp::from_seconds(1_700_000_000);
const LOW: Dice = Dice::thrown(0);

fn policy(name: &str) -> &'static Policy {
    &preset(name).unwrap().policy
}

/// A delivery whose `attempts` attempts were all retried, `ambiguous` of them ambiguous.
fn tried(policy: &Policy, attempts: u32, ambiguous: u32) -> Pending {
    let fresh = Pending::fresh(&policy.limits, NOW);
    Pending { budget: Budget { attempts, ambiguous, ..fresh.budget }, ..fresh }
}

fn decide(name: &str, attempts: u32, outcome: Outcome) -> Verdict {
    let policy = policy(name);
    judge(policy, &tried(policy, attempts, 0), outcome, NOW, LOW)
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn asking(status: u16, seconds: u64) -> Outcome {
    Outcome::Answered { status, retry_after: Some(RetryAfter::Seconds(seconds)) }
}

fn wait(verdict: &Verdict) -> Option<Duration> {
    match verdict.next {
        NextState::Pending { due } => Some(due.since(NOW)),
        NextState::Delivered | NextState::Dead(_) => None,
    }
}

#[test]
fn a_success_is_delivered_and_counts() {
    let verdict = decide("redial", 3, Outcome::answered(204));
    assert_eq!(verdict.next, NextState::Delivered);
    assert_eq!(verdict.budget.attempts, 4);
    assert_eq!(verdict.endpoint.signal, Signal::Success);
    assert_eq!(verdict.endpoint.pressure, Pressure::Grow);
    assert_eq!(verdict.notice, None);
}

#[test]
fn an_interrupted_attempt_does_not_count() {
    let policy = policy("redial");
    let delivery = tried(policy, 9, 4);
    let verdict = judge(policy, &delivery, Outcome::Interrupted, NOW.after(seconds(9)), LOW);
    assert_eq!(verdict.next, NextState::Pending { due: delivery.due });
    assert_eq!(verdict.budget, delivery.budget);
    assert_eq!(verdict.endpoint, EndpointEffect::none());
}

#[test]
fn a_blocked_attempt_is_buried_under_every_policy() {
    for name in crate::policy::preset_names() {
        let verdict = decide(name, 0, Outcome::Blocked);
        assert_eq!(verdict.next, NextState::Dead(Cause::Blocked), "{name}");
        assert_eq!(verdict.endpoint, EndpointEffect::none(), "{name}");
        assert_eq!(verdict.budget.attempts, 1);
    }
}

#[test]
fn the_last_attempt_exhausts() {
    assert!(wait(&decide("redial", 8, Outcome::TimedOut)).is_some());
    let verdict = decide("redial", 9, Outcome::TimedOut);
    assert_eq!(verdict.next, NextState::Dead(Cause::Exhausted));
    assert_eq!(verdict.notice, Some(Notice::Exhausted));
    assert_eq!(verdict.budget.attempts, 10);
}

#[test]
fn a_due_time_beyond_the_give_up_time_buries_at_once() {
    let policy = policy("github");
    let mut delivery = tried(policy, 1, 0);
    let due = NOW.after(seconds(4_800));
    delivery.budget.expires_at = Some(due);
    let at_the_end = judge(policy, &delivery, Outcome::answered(500), NOW, LOW);
    assert_eq!(at_the_end.next, NextState::Pending { due });
    delivery.budget.expires_at = Some(due.before(Duration::from_micros(1)));
    let too_late = judge(policy, &delivery, Outcome::answered(500), NOW, LOW);
    assert_eq!(too_late.next, NextState::Dead(Cause::Expired));
    assert_eq!(too_late.notice, Some(Notice::Expired));
}

#[test]
fn unlimited_attempts_end_at_the_give_up_time_however_long_each_takes() {
    let own = "[policy]\nmax_attempts = \"unlimited\"\ngive_up_after = \"1h\"\n\
               schedule = { kind = \"fixed\", waits = [\"1s\"] }\njitter = { kind = \"none\" }\n\
               timeouts = { whole = \"20s\" }\n";
    let policy = crate::policy::read_toml(own).unwrap().policy;
    let mut pending = Pending::fresh(&policy.limits, NOW);
    for _ in 0..=3_600 / 21 {
        let ended = pending.due.after(policy.timeouts.whole());
        let verdict = judge(&policy, &pending, Outcome::TimedOut, ended, LOW);
        match verdict.next {
            NextState::Pending { due } => pending = Pending { due, budget: verdict.budget },
            NextState::Delivered => panic!("{verdict:?}"),
            NextState::Dead(cause) => {
                assert_eq!(cause, Cause::Expired);
                assert!(pending.due <= NOW.after(seconds(3_600)));
                return;
            }
        }
    }
    panic!("it is still pending: {pending:?}");
}

#[test]
fn the_fifth_ambiguous_answer_buries() {
    let policy = policy("redial");
    let fourth = judge(policy, &tried(policy, 3, 3), Outcome::answered(404), NOW, LOW);
    assert!(wait(&fourth).is_some());
    assert_eq!(fourth.budget.ambiguous, 4);
    let fifth = judge(policy, &tried(policy, 6, 4), Outcome::answered(404), NOW, LOW);
    assert_eq!(fifth.next, NextState::Dead(Cause::Permanent));
    assert_eq!(fifth.notice, Some(Notice::Ambiguous));
    assert_eq!(fifth.endpoint.signal, Signal::Failure);
    let other = judge(policy, &tried(policy, 6, 4), Outcome::answered(500), NOW, LOW);
    assert!(wait(&other).is_some());
    assert_eq!(other.budget.ambiguous, 4);
}

#[test]
fn gone_disables_where_the_policy_says_so_and_is_told_everywhere() {
    let redial = decide("redial", 0, Outcome::answered(410));
    assert_eq!(redial.next, NextState::Dead(Cause::Permanent));
    assert_eq!(redial.endpoint.disable, Some(Reason::Gone));
    assert_eq!(redial.notice, Some(Notice::Gone));
    let chapter = decide("backoff-chapter", 0, Outcome::answered(410));
    assert_eq!(chapter.next, NextState::Dead(Cause::Permanent));
    assert_eq!(chapter.endpoint.disable, None);
    assert_eq!(chapter.notice, Some(Notice::Gone));
    let lists = "[policy.classification]\nsuccess = [\"2xx\"]\nretry = []\nambiguous = []\n\
                 permanent = []\ndisable = [\"401\"]\notherwise = \"retry\"\nambiguous_limit = 5\n";
    let own = crate::policy::read_toml(lists).unwrap().policy;
    let verdict = judge(&own, &tried(&own, 0, 0), Outcome::answered(401), NOW, LOW);
    assert_eq!(verdict.endpoint.disable, Some(Reason::Gone));
    assert_eq!(verdict.notice, Some(Notice::Gone));
    let other = decide("redial", 0, Outcome::answered(400));
    assert_eq!((other.endpoint.disable, other.notice), (None, None));
    assert_eq!(other.endpoint.signal, Signal::Permanent);
}

#[test]
fn a_redirect_that_could_not_be_followed_is_permanent_and_others_are_what_the_policy_says() {
    let following = |lists: &str| {
        let own = format!("extends = \"delivery-guarantee\"\n[policy]\nredirects = 3\n{lists}");
        crate::policy::read_toml(&own).unwrap().policy
    };
    let decided = |policy: &Policy, status| {
        judge(policy, &tried(policy, 0, 0), Outcome::answered(status), NOW, LOW)
    };
    // By its lists all of these would be retried.
    let own = following("");
    for status in [301, 302, 303, 307, 308] {
        let verdict = decided(&own, status);
        assert_eq!(verdict.next, NextState::Dead(Cause::Permanent), "{status}");
        assert_eq!(verdict.endpoint.signal, Signal::Permanent, "{status}");
        let retried = decide("delivery-guarantee", 0, Outcome::answered(status));
        assert!(wait(&retried).is_some(), "{status}");
    }
    for status in [300, 304, 305, 306, 399] {
        assert!(wait(&decided(&own, status)).is_some(), "{status}");
    }
    let recuro = decide("recuro", 0, Outcome::answered(307));
    assert_eq!(recuro.next, NextState::Dead(Cause::Permanent));
}

#[test]
fn what_was_final_is_explained_by_its_rule() {
    let told = |name: &str, tried_before: (u32, u32), outcome| {
        let policy = policy(name);
        let (attempts, ambiguous) = tried_before;
        let verdict = judge(policy, &tried(policy, attempts, ambiguous), outcome, NOW, LOW);
        explain(policy, outcome, &verdict)
    };
    let table = [
        (
            "redial",
            302,
            "302: the policy `redial` does not follow redirects; update the endpoint's URL",
        ),
        (
            "recuro",
            302,
            "302: the policy `recuro` counts a redirect that it cannot follow as permanent; update \
             the endpoint's URL",
        ),
        (
            "redial",
            401,
            "401: the policy `redial` lists `401` as permanent; see whether the endpoint's \
             credentials and secret are what its receiver expects",
        ),
        (
            "redial",
            413,
            "413: the policy `redial` lists `411-417` as permanent; replay the delivery once its \
             receiver takes it",
        ),
        (
            "redial",
            304,
            "304: the policy `redial` lists `3xx` as permanent; replay the delivery once its \
             receiver takes it",
        ),
        (
            "redial",
            410,
            "410: the policy `redial` lists `410` as disable; the endpoint is disabled until \
             somebody enables it",
        ),
        (
            "formspring",
            429,
            "429: the policy `formspring` lists `4xx` as permanent; replay the delivery once its \
             receiver takes it",
        ),
    ];
    for (name, status, text) in table {
        let said = told(name, (0, 0), Outcome::answered(status));
        assert_eq!(said.as_deref(), Some(text));
    }
    let ambiguous = "404: the policy `redial` gives up at ambiguous answer number 5; see whether the \
                     endpoint's URL is right";
    assert_eq!(told("redial", (6, 4), Outcome::answered(404)).as_deref(), Some(ambiguous));
    // Retried, delivered, used up and blocked say enough.
    let silent = [
        (0, Outcome::answered(503)),
        (0, Outcome::answered(200)),
        (9, Outcome::answered(503)),
        (0, Outcome::Blocked),
        (0, Outcome::Interrupted),
    ];
    for (attempts, outcome) in silent {
        assert_eq!(told("redial", (attempts, 0), outcome), None, "{outcome:?}");
    }
}

#[test]
fn what_no_list_names_and_what_is_no_answer_are_explained_too_and_a_long_name_is_cut() {
    let lists = "[policy.classification]\nsuccess = [\"2xx\"]\nretry = [\"network\"]\nambiguous = []\n\
                 permanent = [\"tls\"]\ndisable = []\notherwise = \"permanent\"\nambiguous_limit = 5\n";
    let name = "n".repeat(1_000);
    let own = crate::policy::read_toml(&format!("name = \"{name}\"\n{lists}")).unwrap().policy;
    let table = [
        (Outcome::TlsFailed, "` lists `tls` as permanent; "),
        (Outcome::answered(418), "` counts whatever it does not list as permanent; "),
    ];
    for (outcome, rule) in table {
        let verdict = judge(&own, &tried(&own, 0, 0), outcome, NOW, LOW);
        let told = explain(&own, outcome, &verdict).unwrap();
        assert!(told.contains(rule) && told.len() < 250, "{told}");
    }
}

#[test]
fn the_longer_of_retry_after_and_backoff_is_waited() {
    // The least wait before the first retry of `redial` is 4 s.
    assert_eq!(wait(&decide("redial", 0, asking(503, 3))), Some(seconds(4)));
    assert_eq!(wait(&decide("redial", 0, asking(503, 90))), Some(seconds(90)));
    assert_eq!(wait(&decide("redial", 0, asking(404, 90))), Some(seconds(90)));
    assert_eq!(wait(&decide("backoff-chapter", 0, asking(503, 3_600))), Some(seconds(3_600)));
    assert_eq!(wait(&decide("backoff-chapter", 0, asking(500, 3_600))), Some(seconds(30)));
    assert_eq!(wait(&decide("webhook-actions", 0, asking(429, 3_600))), Some(seconds(30)));
}

#[test]
fn a_replacing_retry_after_may_shorten_and_is_capped() {
    assert_eq!(wait(&decide("recuro", 7, asking(429, 5))), Some(seconds(5)));
    assert_eq!(wait(&decide("recuro", 0, asking(429, 86_400))), Some(seconds(3_840)));
    assert_eq!(wait(&decide("recuro", 0, asking(503, 60))), Some(Duration::ZERO));
    assert_eq!(wait(&decide("recuro", 7, asking(429, 0))), Some(Duration::ZERO));
}

#[test]
fn a_date_counts_from_now_and_the_past_is_ignored() {
    let at = |moment| Outcome::Answered { status: 429, retry_after: Some(RetryAfter::At(moment)) };
    assert_eq!(wait(&decide("redial", 0, at(NOW.after(seconds(77))))), Some(seconds(77)));
    assert_eq!(wait(&decide("redial", 0, at(NOW.before(seconds(77))))), Some(seconds(4)));
}

#[test]
fn an_honoured_retry_after_pauses_the_endpoint() {
    let until = |verdict: Verdict| verdict.endpoint.pause_until;
    assert_eq!(until(decide("redial", 0, asking(429, 60))), Some(NOW.after(seconds(60))));
    // Also when the delivery itself has no attempt left.
    assert_eq!(until(decide("redial", 9, asking(429, 60))), Some(NOW.after(seconds(60))));
    assert_eq!(until(decide("redial", 0, asking(200, 60))), None);
    assert_eq!(until(decide("redial", 0, asking(400, 60))), None);
    assert_eq!(until(decide("formspring", 0, asking(503, 60))), None);
}

#[test]
fn what_is_asked_for_beyond_the_cap_counts_as_the_cap_and_the_verdict_says_so() {
    let day = seconds(86_400);
    let far = RetryAfter::parse("Fri, 31 Dec 9999 23:59:59 GMT").unwrap();
    let wishes = [
        RetryAfter::Seconds(86_401),
        RetryAfter::Seconds(99_999_999),
        // An epoch time, as some receivers mistake it for a span.
        RetryAfter::Seconds(1_794_000_000),
        RetryAfter::Seconds(u64::MAX),
        far,
    ];
    for wish in wishes {
        let outcome = Outcome::Answered { status: 429, retry_after: Some(wish) };
        let verdict = decide("redial", 0, outcome);
        assert_eq!(wait(&verdict), Some(day), "{wish:?}");
        assert_eq!(verdict.endpoint.pause_until, Some(NOW.after(day)), "{wish:?}");
        assert_eq!(verdict.retry_after_kept, Some(day), "{wish:?}");
    }
    let replacing = decide("recuro", 0, asking(429, 99_999_999));
    assert_eq!(replacing.retry_after_kept, Some(seconds(3_840)));
    assert_eq!(replacing.endpoint.pause_until, Some(NOW.after(seconds(3_840))));
    for kept_whole in [asking(429, 86_400), asking(429, 0), asking(200, 99_999_999)] {
        assert_eq!(decide("redial", 0, kept_whole).retry_after_kept, None, "{kept_whole:?}");
    }
    assert_eq!(decide("formspring", 0, asking(503, 99_999_999)).retry_after_kept, None);
}

#[test]
fn answers_that_ask_for_less_halve_the_concurrency() {
    let pressure = |outcome| decide("redial", 0, outcome).endpoint.pressure;
    for status in [429, 502, 503, 504] {
        assert_eq!(pressure(Outcome::answered(status)), Pressure::Halve, "{status}");
    }
    assert_eq!(pressure(Outcome::TimedOut), Pressure::Halve);
    for status in [400, 404, 408, 500, 501, 505] {
        assert_eq!(pressure(Outcome::answered(status)), Pressure::Keep, "{status}");
    }
    let others = [
        Outcome::Unreachable(Unreachable::Refused),
        Outcome::TlsFailed,
        Outcome::BrokenAnswer,
        Outcome::Blocked,
        Outcome::Interrupted,
    ];
    for outcome in others {
        assert_eq!(pressure(outcome), Pressure::Keep, "{outcome:?}");
    }
    // Also under a policy to which 429 is final.
    let verdict = decide("formspring", 0, Outcome::answered(429));
    assert_eq!(verdict.endpoint.pressure, Pressure::Halve);
}

#[test]
fn the_drawn_wait_is_remembered_for_the_next() {
    let verdict = decide("redial", 0, Outcome::TimedOut);
    assert_eq!(verdict.budget.last_wait, seconds(4));
    assert_eq!(decide("redial", 0, Outcome::answered(200)).budget.last_wait, Duration::ZERO);
}
