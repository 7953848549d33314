//! The classifier over every status from 100 to 599 and every outcome of the network, under every
//! preset. The expectation is written as one function per source, in the source's own order.

use domain::outcome::{Outcome, Unreachable};
use domain::policy::{Class, preset, preset_names};

use Class::{Ambiguous, Disable, Permanent, Retry, Success};

fn expected(name: &str, status: u16) -> Class {
    if (200..300).contains(&status) {
        return Success;
    }
    match name {
        "formspring" => match status {
            500..600 => Retry,
            _ => Permanent,
        },
        "webhook-actions" => match status {
            500..600 | 429 => Retry,
            300..500 => Permanent,
            _ => Ambiguous,
        },
        "backoff-chapter" => match status {
            404 => Ambiguous,
            400 | 401 | 403 | 410 | 422 => Permanent,
            _ => Retry,
        },
        "recuro" | "recuro-schedule" => match status {
            500..600 | 408 | 429 => Retry,
            300..500 => Permanent,
            _ => Ambiguous,
        },
        "delivery-guarantee" => Retry,
        // `redial`, and everybody who says nothing else.
        _ => match status {
            408 | 425 | 429 | 500..600 => Retry,
            410 => Disable,
            300..400 => Permanent,
            400 | 401 | 403 | 405 | 406 | 411..=417 | 422 | 426 | 431 | 451 => Permanent,
            _ => Ambiguous,
        },
    }
}

#[test]
fn every_status_under_every_preset_has_the_published_class() {
    for name in preset_names() {
        let classification = &preset(name).unwrap().policy.classification;
        for status in 100..600 {
            let class = classification.class_of(Outcome::answered(status));
            assert_eq!(class, expected(name, status), "{name}, {status}");
            let entry = classification.entry_of(Outcome::answered(status));
            let explained = entry.map_or(classification.otherwise(), |(class, _)| class);
            assert_eq!(explained, class, "{name}, {status}");
        }
        assert_eq!(classification.ambiguous_limit(), 5, "{name}");
    }
}

#[test]
fn every_failure_of_the_network_is_retried_under_every_preset() {
    let failures = [
        Outcome::TimedOut,
        Outcome::Unreachable(Unreachable::Dns),
        Outcome::Unreachable(Unreachable::Refused),
        Outcome::Unreachable(Unreachable::Reset),
        Outcome::Unreachable(Unreachable::Other),
        Outcome::TlsFailed,
        Outcome::BrokenAnswer,
    ];
    for name in preset_names() {
        let classification = &preset(name).unwrap().policy.classification;
        for outcome in failures {
            assert_eq!(classification.class_of(outcome), Retry, "{name}, {outcome:?}");
        }
        assert_eq!(classification.class_of(Outcome::Blocked), Permanent, "{name}");
    }
}
