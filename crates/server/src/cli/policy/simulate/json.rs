//! A simulation's result as JSON: the policy as it is at the top, then every variant.

use domain::policy::Preset;
use serde_json::{Map, Value, json};

use crate::cli::policy::{jitter_word, seconds};
use crate::lab::scenario::{START, Scenario};
use crate::lab::tally::Tally;
use crate::lab::{Experiment, Observed};

/// Writes the result of a simulation.
pub(super) fn written(preset: &Preset, experiment: &Experiment, notes: &[String]) -> Value {
    let Experiment { scenario, results } = experiment;
    let mut top = Map::new();
    top.insert("policy".to_owned(), json!(preset.policy.name));
    top.insert("events".to_owned(), json!(scenario.events));
    top.insert("over_s".to_owned(), seconds(scenario.over));
    let outage = scenario.outage;
    let outage = json!({
        "starts_s": seconds(outage.starts),
        "lasts_s": seconds(outage.lasts),
        "answer": outage.answer.word(),
    });
    top.insert("outage".to_owned(), outage);
    top.insert("seed".to_owned(), json!(scenario.seed));
    if let Some(first) = results.first() {
        top.extend(figures(&first.tally));
    }
    let variants = results.iter().map(|observed| variant_json(scenario, observed));
    top.insert("variants".to_owned(), variants.collect());
    top.insert("notes".to_owned(), json!(notes));
    Value::Object(top)
}

fn variant_json(scenario: &Scenario, observed: &Observed) -> Value {
    let Observed { variant, tally } = observed;
    let mut all = Map::new();
    all.insert("name".to_owned(), json!(variant.name));
    all.insert("jitter".to_owned(), json!(jitter_word(variant.policy.backoff.jitter())));
    all.insert("breaker".to_owned(), json!(variant.endpoint.breaker.is_some()));
    all.insert("events".to_owned(), json!(scenario.events));
    all.extend(figures(tally));
    Value::Object(all)
}

fn figures(tally: &Tally) -> Map<String, Value> {
    let causes =
        tally.dead_by_cause().map(|(cause, events)| (cause.word().to_owned(), json!(events)));
    let disabled = tally
        .disabled
        .map(|(at, reason)| json!({ "at_s": seconds(at.since(START)), "reason": reason.word() }));
    let pairs = [
        ("delivered", json!(tally.delivered)),
        ("dead", json!(tally.dead())),
        ("dead_by_cause", Value::Object(causes.collect())),
        ("attempts", json!(tally.attempts)),
        ("attempts_during_outage", json!(tally.attempts_during_outage)),
        ("peak_per_second_after_recovery", json!(tally.peak_per_second_after_recovery)),
        (
            "last_delivered_after_recovery_s",
            json!(tally.last_delivered_after_recovery.map(seconds)),
        ),
        (
            "backlog_delivered_after_recovery_s",
            json!(tally.backlog_delivered_after_recovery.map(seconds)),
        ),
        ("endpoint_disabled", json!(disabled)),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
