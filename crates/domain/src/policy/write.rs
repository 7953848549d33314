//! From a preset back to a document. What is written reads back as the same preset.

use std::time::Duration;

use serde_json::{Map, Number, Value, json};

use super::patience::Honoured;
use super::{BodyLimit, Class, EndpointDefaults, Jitter, Patience, Policy, Preset, Schedule};
use crate::breaker;
use crate::span;

/// Writes a document as a tree of values.
#[must_use]
pub fn write_value(preset: &Preset) -> Value {
    json!({
        "name": preset.policy.name,
        "summary": preset.summary,
        "policy": policy(&preset.policy),
        "endpoint": endpoint(&preset.endpoint),
    })
}

fn policy(policy: &Policy) -> Value {
    let limits = &policy.limits;
    json!({
        "max_attempts": limits.max_attempts().map_or(json!("unlimited"), |most| json!(most)),
        "give_up_after": span_or(limits.give_up_after(), "never"),
        "longest_drawn": span_or(policy.backoff.longest_drawn(), "none"),
        "redirects": policy.redirects.most_hops(),
        "redirect_headers": policy.redirects.headers().word(),
        "schedule": schedule(policy.backoff.schedule()),
        "jitter": jitter(policy.backoff.jitter()),
        "timeouts": {
            "connect": span::format(policy.timeouts.connect()),
            "read": span_or(policy.timeouts.read(), "none"),
            "whole": span::format(policy.timeouts.whole()),
        },
        "retry_after": patience(&policy.patience),
        "classification": classification(policy),
    })
}

fn schedule(schedule: &Schedule) -> Value {
    match schedule {
        Schedule::Exponential(exponential) => {
            let (base, factor, cap) = exponential.parts();
            json!({
                "kind": "exponential",
                "base": span::format(base),
                "factor": number(factor),
                "cap": span_or(cap, "none"),
            })
        }
        Schedule::Fixed(fixed) => {
            let waits: Vec<String> = fixed.waits().iter().map(|wait| span::format(*wait)).collect();
            json!({ "kind": "fixed", "waits": waits })
        }
    }
}

fn jitter(jitter: Jitter) -> Value {
    match jitter {
        Jitter::None | Jitter::Full | Jitter::Equal | Jitter::Decorrelated => {
            json!({ "kind": jitter.word() })
        }
        Jitter::Around(share) | Jitter::UpTo(share) => {
            json!({ "kind": jitter.word(), "share": number(share.get()) })
        }
    }
}

fn patience(patience: &Patience) -> Value {
    let (word, Honoured { on, cap }) = match patience {
        Patience::Ignored => return json!({ "honour": "ignored" }),
        Patience::Longer(rule) => ("longer", rule),
        Patience::Replacing(rule) => ("replacing", rule),
    };
    let on = match on {
        None => json!("any"),
        Some(on) => {
            let texts: Vec<String> = on.patterns().iter().map(ToString::to_string).collect();
            json!(texts)
        }
    };
    json!({ "honour": word, "on": on, "cap": span::format(*cap) })
}

fn classification(policy: &Policy) -> Value {
    let classification = &policy.classification;
    let mut table = Map::new();
    for class in Class::ALL {
        let entries = classification.lists().iter().filter(|(listed, _)| *listed == class);
        let texts: Vec<String> =
            entries.flat_map(|(_, list)| list).map(ToString::to_string).collect();
        table.insert(class.word().to_owned(), json!(texts));
    }
    table.insert("otherwise".to_owned(), json!(classification.otherwise().word()));
    table.insert("ambiguous_limit".to_owned(), json!(classification.ambiguous_limit()));
    Value::Object(table)
}

fn endpoint(endpoint: &EndpointDefaults) -> Value {
    let signatures: Vec<&str> = endpoint.signatures.iter().map(|profile| profile.word()).collect();
    let parts: Vec<&str> = endpoint.response_kept.parts.iter().map(|part| part.word()).collect();
    let streak = endpoint.health.permanent_streak();
    json!({
        "in_flight": endpoint.in_flight,
        "rate": endpoint.rate.get(),
        "signatures": signatures,
        "breaker": endpoint.breaker.as_ref().map_or(json!("off"), breaker),
        "disable": {
            "permanent_streak": streak.map_or(json!("never"), |most| json!(most)),
            "without_success": span_or(endpoint.health.without_success(), "never"),
        },
        "response_kept": {
            "parts": parts,
            "body_limit": match endpoint.response_kept.body_limit {
                BodyLimit::Bytes(most) => format!("{most} bytes"),
                BodyLimit::Characters(most) => format!("{most} characters"),
            },
        },
    })
}

fn breaker(settings: &breaker::Settings) -> Value {
    let numbers = settings.numbers();
    json!({
        "threshold": numbers.threshold,
        "cooldown": span::format(numbers.cooldown),
        "growth": number(numbers.growth),
        "longest_cooldown": span::format(numbers.longest_cooldown),
        "while_open": settings.while_open().word(),
    })
}

fn span_or(span: Option<Duration>, none: &str) -> String {
    span.map_or_else(|| none.to_owned(), span::format)
}

/// Writes 2 as `2`, not as `2.0`: that is how people wrote it.
fn number(value: f64) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "factors and shares are whole, positive and small where this cast is used"
    )]
    let whole = value as u64;
    #[expect(clippy::cast_precision_loss, reason = "it is compared, and written only if equal")]
    let exact = whole as f64 == value;
    if exact { json!(whole) } else { Number::from_f64(value).map_or(Value::Null, Value::Number) }
}
