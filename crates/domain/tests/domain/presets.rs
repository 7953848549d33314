//! Each preset has the numbers of the design it is named after, written out here by hand, and
//! stays inside its jitter for ten thousand seeds.

use std::time::Duration;

use domain::delivery::{Delivery, Pending};
use domain::dice::Dice;
use domain::judge;
use domain::outcome::Outcome;
use domain::policy::{BodyLimit, Jitter, Part, Patience, Policy, Preset, preset, preset_names};
use domain::time::Timestamp;

/// name, waits in seconds, attempts, give-up time in hours, whole timeout in seconds
type Row = (&'static str, &'static [u64], Option<u32>, Option<f64>, u64);

const TABLE: [Row; 17] = [
    (
        "redial",
        &[5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400],
        Some(10),
        Some(96.0),
        20,
    ),
    ("formspring", &[30, 90, 270, 810, 2_430, 7_290, 21_600], Some(8), Some(24.0), 60),
    ("webhook-actions", &[30, 60, 120, 240], Some(5), None, 20),
    (
        "backoff-chapter",
        &[
            60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600, 3_600, 3_600, 3_600, 3_600, 3_600,
            3_600,
        ],
        Some(16),
        Some(72.0),
        20,
    ),
    ("recuro", &[30, 60, 120, 240, 480, 960, 1_920, 3_840], Some(9), None, 30),
    ("recuro-schedule", &[10, 30, 120, 600, 1_800, 7_200, 28_800, 86_400], Some(9), None, 30),
    ("delivery-guarantee", &[60, 120, 240, 480, 960, 1_920, 3_840], Some(8), None, 10),
    (
        "stripe",
        &[
            60, 120, 240, 480, 960, 1_920, 3_840, 7_680, 15_360, 30_720, 36_000, 36_000, 36_000,
            36_000, 36_000,
        ],
        Some(16),
        Some(72.0),
        30,
    ),
    ("github", &[4_800, 4_800, 4_800], Some(4), Some(4.0), 10),
    (
        "shopify",
        &[
            30, 60, 120, 240, 480, 960, 1_920, 3_840, 7_680, 14_400, 14_400, 14_400, 14_400,
            14_400, 14_400, 14_400, 14_400, 14_400, 14_400,
        ],
        Some(20),
        Some(48.0),
        5,
    ),
    ("twilio", &[15], Some(2), Some(1.0 / 60.0), 15),
    (
        "sendgrid",
        &[
            60, 120, 240, 480, 960, 1_920, 3_840, 7_680, 14_400, 14_400, 14_400, 14_400, 14_400,
            14_400, 14_400, 14_400, 14_400, 14_400, 14_400, 14_400, 14_400, 14_400, 14_400, 14_400,
        ],
        Some(25),
        Some(72.0),
        10,
    ),
    ("slack", &[240, 480, 960], Some(4), Some(0.5), 5),
    (
        "paypal",
        &[
            60, 120, 240, 480, 960, 1_920, 3_840, 7_680, 15_360, 28_800, 28_800, 28_800, 28_800,
            28_800, 28_800, 28_800, 28_800, 28_800, 28_800,
        ],
        Some(20),
        Some(96.0),
        20,
    ),
    ("discord", &[60, 120, 240, 480, 840], Some(6), Some(0.5), 10),
    ("svix", &[5, 300, 1_800, 7_200, 18_000, 36_000, 36_000], Some(8), None, 15),
    (
        "standard-webhooks",
        &[5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400],
        Some(10),
        None,
        20,
    ),
];

/// The range of each wait as shares of the nominal one, and the limit on what was drawn.
fn jitter_range(name: &str) -> (f64, f64, f64) {
    match name {
        "redial" | "svix" => (0.8, 1.2, f64::INFINITY),
        "standard-webhooks" => (0.9, 1.1, f64::INFINITY),
        "formspring" => (0.5, 1.5, f64::INFINITY),
        "webhook-actions" => (1.0, 1.2, f64::INFINITY),
        "backoff-chapter" | "recuro-schedule" => (0.5, 1.0, f64::INFINITY),
        "recuro" => (0.0, 1.0, f64::INFINITY),
        "delivery-guarantee" => (0.0, 1.0, 3_600.0),
        _ => (1.0, 1.0, f64::INFINITY),
    }
}

fn named(name: &str) -> &'static Preset {
    preset(name).unwrap()
}

/// A generator for tests: seeds must give different throws, nothing more.
fn throw(seed: u64) -> Dice {
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Dice::thrown(mixed ^ (mixed >> 31))
}

#[test]
fn every_preset_has_a_row_and_every_row_a_preset() {
    let rows: Vec<&str> = TABLE.iter().map(|row| row.0).collect();
    assert_eq!(rows, preset_names().collect::<Vec<_>>());
}

#[test]
fn waits_attempts_give_up_times_and_timeouts_are_the_published_ones() {
    for (name, waits, attempts, give_up_hours, timeout) in TABLE {
        let policy = &named(name).policy;
        let schedule = policy.backoff.schedule();
        let drawn: Vec<u64> = (1..).take(waits.len()).map(|n| schedule.wait(n).as_secs()).collect();
        assert_eq!(drawn, waits, "{name}");
        assert_eq!(waits.len() + 1, attempts.unwrap() as usize, "{name}");
        assert_eq!(policy.limits.max_attempts().map(|most| most.get()), attempts, "{name}");
        let give_up = policy.limits.give_up_after().map(|span| span.as_secs_f64() / 3_600.0);
        assert_eq!(give_up, give_up_hours, "{name}");
        assert_eq!(policy.timeouts.whole(), Duration::from_secs(timeout), "{name}");
    }
}

#[test]
fn ten_thousand_seeds_stay_inside_the_jitter_of_every_preset() {
    for (name, waits, ..) in TABLE {
        let policy = &named(name).policy;
        let (low, high, limit) = jitter_range(name);
        for seed in 0..10_000_u64 {
            for (n, wait) in (1..).zip(waits) {
                let dice = throw(seed * 64 + u64::from(n));
                let drawn = policy.backoff.draw(n, Duration::ZERO, dice).as_secs_f64();
                let nominal = *wait as f64;
                let (low, high) = (nominal * low, (nominal * high).min(limit));
                let slack = 1e-6;
                assert!(
                    drawn >= low - slack && drawn <= high + slack,
                    "{name}, retry {n}, seed {seed}: {drawn} is outside of [{low}, {high}]"
                );
            }
        }
    }
}

#[test]
fn the_whole_range_is_used() {
    for (name, waits, ..) in TABLE {
        let policy = &named(name).policy;
        let (low, high, _) = jitter_range(name);
        let nominal = waits[0] as f64;
        let shares = (0..10_000).map(|seed| {
            policy.backoff.draw(1, Duration::ZERO, throw(seed)).as_secs_f64() / nominal
        });
        let (least, most) =
            shares.fold((f64::MAX, 0.0_f64), |(a, b), share| (a.min(share), b.max(share)));
        let tolerance = (high - low) * 0.01 + 1e-9;
        assert!(least <= low + tolerance && most >= high - tolerance, "{name}: {least} to {most}");
    }
}

/// Fails a delivery until it is buried, each attempt at its due time, and returns the attempts.
fn run_to_the_end(policy: &Policy, seed: u64) -> (u32, Duration) {
    // A receiver that is slow to fail takes nothing from the give-up time.
    let latency = policy.timeouts.whole();
    let start = Timestamp::from_seconds(1_700_000_000);
    let mut pending = Pending::fresh(&policy.limits, start);
    loop {
        let now = pending.due.after(latency);
        let dice = throw(seed.wrapping_mul(1_000) + u64::from(pending.budget.attempts));
        let verdict = judge(policy, &pending, Outcome::answered(503), now, dice);
        match Delivery::Pending(pending).settle(verdict.next, verdict.budget).unwrap() {
            Delivery::Pending(next) => pending = next,
            Delivery::Dead(_) => {
                let attempting = latency * verdict.budget.attempts;
                return (verdict.budget.attempts, now.since(start).saturating_sub(attempting));
            }
            settled @ (Delivery::Delivered | Delivery::Cancelled) => panic!("{settled:?}"),
        }
    }
}

#[test]
fn a_receiver_that_stays_down_gets_every_attempt_of_the_policy() {
    for (name, waits, attempts, give_up, _) in TABLE {
        let policy = &named(name).policy;
        let nominal: u64 = waits.iter().sum();
        let (low, high, _) = jitter_range(name);
        let fits = give_up.is_none_or(|hours| nominal as f64 * high <= hours * 3_600.0);
        for seed in 0..100 {
            let (made, span) = run_to_the_end(policy, seed);
            if fits {
                assert_eq!(Some(made), attempts, "{name}");
                assert!(span.as_secs_f64() >= nominal as f64 * low - 1.0, "{name}");
            } else {
                assert!(Some(made) <= attempts, "{name}");
                assert!(span.as_secs_f64() <= give_up.unwrap() * 3_600.0, "{name}");
            }
        }
    }
}

#[test]
fn redial_lasts_sixty_to_ninety_one_hours() {
    let turns = named("redial").policy.timetable().turns;
    let shortest: Duration = turns.iter().map(|turn| turn.shortest).sum();
    let longest: Duration = turns.iter().map(|turn| turn.longest).sum();
    assert_eq!(shortest.as_secs() / 3_600, 60);
    assert_eq!(longest.as_secs() / 3_600, 90);
    for seed in 0..1_000 {
        let (attempts, span) = run_to_the_end(&named("redial").policy, seed);
        assert_eq!(attempts, 10);
        assert!((60..=91).contains(&(span.as_secs() / 3_600)), "{span:?}");
    }
}

#[test]
fn the_timetable_adds_up() {
    let table = named("formspring").policy.timetable();
    let rows: Vec<_> = table
        .turns
        .iter()
        .map(|it| {
            (
                it.attempt,
                it.nominal.as_secs(),
                it.shortest.as_secs(),
                it.longest.as_secs(),
                it.cumulative.as_secs(),
            )
        })
        .collect();
    assert_eq!(rows[0], (1, 0, 0, 0, 0));
    assert_eq!(rows[1], (2, 30, 15, 45, 30));
    assert_eq!(rows[7], (8, 21_600, 10_800, 32_400, 32_520));
    // 9 h 2 m nominal.
    assert_eq!(table.span(), Duration::from_secs(9 * 3_600 + 2 * 60));
    // The give-up time ends the table where it comes before the attempts limit.
    let twilio = named("github").policy.timetable();
    assert_eq!(twilio.turns.len(), 4);
    let stripe = named("stripe").policy.timetable();
    assert!(stripe.span() <= Duration::from_secs(72 * 3_600));
}

#[test]
fn retry_after_is_read_as_each_source_says() {
    let longer = |name: &str| matches!(named(name).policy.patience, Patience::Longer(_));
    for name in ["formspring", "webhook-actions", "delivery-guarantee"] {
        assert_eq!(named(name).policy.patience, Patience::Ignored, "{name}");
    }
    for name in ["redial", "backoff-chapter", "stripe", "svix", "github"] {
        assert!(longer(name), "{name}");
        let asked = named(name).policy.patience.honoured(429, Duration::MAX);
        assert_eq!(asked, Some(Duration::from_secs(86_400)), "{name}");
    }
    for name in ["recuro", "recuro-schedule"] {
        let Patience::Replacing(rule) = &named(name).policy.patience else { panic!("{name}") };
        assert_eq!(rule.cap, Duration::from_secs(3_840));
        let on = rule.on.as_ref().unwrap();
        assert!(on.contains(429) && !on.contains(503));
    }
}

#[test]
fn endpoint_defaults_are_the_published_ones() {
    for name in preset_names() {
        let endpoint = &named(name).endpoint;
        assert_eq!(endpoint.in_flight.get(), 10, "{name}");
        assert_eq!(endpoint.rate.get(), 1_000, "{name}");
        assert_eq!(endpoint.health.permanent_streak().unwrap().get(), 100, "{name}");
        assert_eq!(
            endpoint.health.without_success(),
            Some(Duration::from_secs(5 * 86_400)),
            "{name}"
        );
        let breaker = endpoint.breaker.map(|it| {
            let n = it.numbers();
            (
                n.threshold,
                n.cooldown.as_secs(),
                n.growth,
                n.longest_cooldown.as_secs(),
                it.while_open().word(),
            )
        });
        let expected = match name {
            "formspring" | "webhook-actions" | "backoff-chapter" | "delivery-guarantee" => None,
            "recuro" | "recuro-schedule" => Some((5, 300, 1.0, 300, "bury")),
            _ => Some((5, 300, 2.0, 3_600, "hold")),
        };
        assert_eq!(breaker, expected, "{name}");
    }
}

#[test]
fn signatures_headers_and_kept_responses_are_the_published_ones() {
    use Part::{Body, Error, Headers, Latency, Status};
    for name in preset_names() {
        let endpoint = &named(name).endpoint;
        let profiles: &[&str] = match name {
            "formspring" => &["branded"],
            "webhook-actions" => &["standard-webhooks", "svix", "event-id"],
            "delivery-guarantee" => &["webhook-digest"],
            _ => &[],
        };
        let own = endpoint.signatures.iter().flat_map(|profiles| profiles.iter());
        let own: Vec<String> = own.map(ToString::to_string).collect();
        assert_eq!(own, profiles, "{name}");
        let parts: &[Part] = match name {
            "formspring" => &[Status, Latency],
            "webhook-actions" => &[Status, Latency, Body, Error],
            "backoff-chapter" => &[Status, Latency, Error],
            "delivery-guarantee" => &[Status, Body],
            _ => &[Status, Latency, Headers, Body, Error],
        };
        assert_eq!(endpoint.response_kept.parts, parts.iter().copied().collect(), "{name}");
    }
    let kept = named("delivery-guarantee").endpoint.response_kept.body_limit;
    assert_eq!(kept, BodyLimit::Characters(1_000));
}

#[test]
fn jitter_redirects_and_connect_timeouts_are_the_published_ones() {
    let around = |share| Jitter::around(share).unwrap();
    let up_to = Jitter::up_to(0.2).unwrap();
    for name in preset_names() {
        let policy = &named(name).policy;
        let jitter = match name {
            "redial" | "svix" => around(0.2),
            "standard-webhooks" => around(0.1),
            "formspring" => around(0.5),
            "webhook-actions" => up_to,
            "backoff-chapter" | "recuro-schedule" => Jitter::Equal,
            "recuro" | "delivery-guarantee" => Jitter::Full,
            _ => Jitter::None,
        };
        assert_eq!(policy.backoff.jitter(), jitter, "{name}");
        let hops = if name.starts_with("recuro") { 5 } else { 0 };
        assert_eq!(policy.redirects.most_hops(), hops, "{name}");
        let (connect, read) = if name == "formspring" { (30, Some(30)) } else { (5, None) };
        assert_eq!(policy.timeouts.connect(), Duration::from_secs(connect), "{name}");
        assert_eq!(policy.timeouts.read(), read.map(Duration::from_secs), "{name}");
    }
}
