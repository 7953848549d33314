//! A policy as it is, and with its jitter, its breaker or both switched.
//!
//! What a policy has is taken away; what it lacks is lent by `redial`. So there are always four
//! variants, and each difference between two of them has one reason.

use domain::breaker;
use domain::policy::{Backoff, EndpointDefaults, Jitter, Policy, Preset, preset};

/// The preset that lends jitter and breaker to those that have none.
const LENDER: &str = "redial";

/// What one run is made with.
#[derive(Debug, Clone)]
pub(crate) struct Variant {
    /// What JSON calls it.
    pub(crate) name: &'static str,
    /// What people are shown.
    pub(crate) label: &'static str,
    /// The policy.
    pub(crate) policy: Policy,
    /// The endpoint's settings.
    pub(crate) endpoint: EndpointDefaults,
}

/// Returns the variants of a preset, the unchanged one first.
pub(crate) fn variants(preset: &Preset) -> [Variant; 4] {
    let (has_jitter, has_breaker) = (has_jitter(preset), has_breaker(preset));
    let jitter = if has_jitter { None } else { lent_jitter() };
    let breaker = if has_breaker { None } else { lent_breaker() };
    let make = |(name, label), switch_jitter: bool, switch_breaker: bool| {
        let mut variant = Variant {
            name,
            label,
            policy: preset.policy.clone(),
            endpoint: preset.endpoint.clone(),
        };
        if switch_jitter {
            variant.policy.backoff = with_jitter(&preset.policy.backoff, jitter);
        }
        if switch_breaker {
            variant.endpoint.breaker = breaker;
        }
        variant
    };
    [
        make(("as_is", "as it is"), false, false),
        make(jitter_switched(has_jitter), true, false),
        make(breaker_switched(has_breaker), false, true),
        make(both_switched(has_jitter, has_breaker), true, true),
    ]
}

/// Returns what has to be said about a comparison with something lent.
pub(crate) fn notes(preset: &Preset) -> Vec<String> {
    let mut notes = Vec::new();
    let name = &preset.policy.name;
    if let (false, Some(jitter)) = (has_jitter(preset), lent_jitter()) {
        notes.push(format!(
            "{name} has no jitter of its own; the variants with jitter have that of {LENDER}: {jitter}"
        ));
    }
    if !has_breaker(preset) {
        notes.push(format!(
            "{name} has no breaker of its own; the variants with a breaker have that of {LENDER}"
        ));
    }
    notes
}

fn has_jitter(preset: &Preset) -> bool {
    preset.policy.backoff.jitter() != Jitter::None
}

fn has_breaker(preset: &Preset) -> bool {
    preset.endpoint.breaker.is_some()
}

fn lent_jitter() -> Option<Jitter> {
    preset(LENDER).ok().map(|lender| lender.policy.backoff.jitter())
}

fn lent_breaker() -> Option<breaker::Settings> {
    preset(LENDER).ok().and_then(|lender| lender.endpoint.breaker)
}

/// Jitter cannot contradict a schedule, so there is nothing to fail here but what held before.
fn with_jitter(backoff: &Backoff, jitter: Option<Jitter>) -> Backoff {
    let jitter = jitter.unwrap_or(Jitter::None);
    Backoff::new(backoff.schedule().clone(), jitter, backoff.longest_drawn())
        .unwrap_or_else(|_| backoff.clone())
}

const fn jitter_switched(has: bool) -> (&'static str, &'static str) {
    if has { ("without_jitter", "without jitter") } else { ("with_jitter", "with jitter") }
}

const fn breaker_switched(has: bool) -> (&'static str, &'static str) {
    if has { ("without_breaker", "without breaker") } else { ("with_breaker", "with breaker") }
}

const fn both_switched(jitter: bool, breaker: bool) -> (&'static str, &'static str) {
    match (jitter, breaker) {
        (true, true) => ("without_both", "without both"),
        (false, false) => ("with_both", "with both"),
        (true, false) => ("with_breaker_without_jitter", "with breaker, no jitter"),
        (false, true) => ("with_jitter_without_breaker", "with jitter, no breaker"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switches(name: &str) -> Vec<(&'static str, bool, bool)> {
        let made = variants(preset(name).unwrap());
        made.iter()
            .map(|it| {
                let jitter = it.policy.backoff.jitter() != Jitter::None;
                (it.name, jitter, it.endpoint.breaker.is_some())
            })
            .collect()
    }

    #[test]
    fn what_a_policy_has_is_taken_away() {
        let expected = [
            ("as_is", true, true),
            ("without_jitter", false, true),
            ("without_breaker", true, false),
            ("without_both", false, false),
        ];
        assert_eq!(switches("redial"), expected);
        assert!(notes(preset("redial").unwrap()).is_empty());
    }

    #[test]
    fn what_a_policy_lacks_is_lent_and_said() {
        let expected = [
            ("as_is", true, false),
            ("without_jitter", false, false),
            ("with_breaker", true, true),
            ("with_breaker_without_jitter", false, true),
        ];
        assert_eq!(switches("formspring"), expected);
        assert_eq!(notes(preset("formspring").unwrap()).len(), 1);
        assert_eq!(switches("stripe")[1], ("with_jitter", true, true));
        assert!(notes(preset("stripe").unwrap())[0].ends_with("around 20 %"));
    }

    #[test]
    fn the_schedule_and_its_limit_stay() {
        let original = preset("delivery-guarantee").unwrap();
        for variant in variants(original) {
            let backoff = &variant.policy.backoff;
            assert_eq!(backoff.schedule(), original.policy.backoff.schedule());
            assert_eq!(backoff.longest_drawn(), original.policy.backoff.longest_drawn());
        }
    }
}
