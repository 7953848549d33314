//! By which rule of which policy an answer was final, in words for an endpoint's owner.

use crate::delivery::Cause;
use crate::outcome::Outcome;
use crate::policy::{Class, Policy, is_redirect};
use crate::verdict::{NextState, Notice, Verdict};

/// The most characters of a policy's name that are shown: an owner may have given it a long one.
const SHOWN_OF_NAME: usize = 64;

/// Says why an attempt was the last of its delivery, and what can be done, if it was for what the receiver
/// said. All other causes say enough by themselves.
#[must_use]
pub fn explain(policy: &Policy, outcome: Outcome, verdict: &Verdict) -> Option<String> {
    if verdict.next != NextState::Dead(Cause::Permanent) {
        return None;
    }
    let name: String = policy.name.chars().take(SHOWN_OF_NAME).collect();
    let status = outcome.status();
    let redirects = status.filter(|status| is_redirect(*status));
    let rule = if redirects.is_some_and(|status| policy.redirects.follows(status)) {
        "counts a redirect that it cannot follow as permanent; update the endpoint's URL".to_owned()
    } else if redirects.is_some() {
        "does not follow redirects; update the endpoint's URL".to_owned()
    } else if verdict.notice == Some(Notice::Ambiguous) {
        let limit = policy.classification.ambiguous_limit();
        format!(
            "gives up at ambiguous answer number {limit}; see whether the endpoint's URL is right"
        )
    } else {
        listed(policy, outcome)
    };
    let about = status.map_or(String::new(), |status| format!("{status}: "));
    Some(format!("{about}the policy `{name}` {rule}"))
}

fn listed(policy: &Policy, outcome: Outcome) -> String {
    let rule = match policy.classification.entry_of(outcome) {
        Some((class, entry)) => format!("lists `{entry}` as {}", class.word()),
        None => {
            format!(
                "counts whatever it does not list as {}",
                policy.classification.otherwise().word()
            )
        }
    };
    let cure = match (policy.class_of(outcome), outcome.status()) {
        (Class::Disable, _) => "the endpoint is disabled until somebody enables it",
        (_, Some(401 | 403)) => {
            "see whether the endpoint's credentials and secret are what its receiver expects"
        }
        (_, Some(_)) => "replay the delivery once its receiver takes it",
        (_, None) => "replay the delivery once its receiver can be reached",
    };
    format!("{rule}; {cure}")
}
