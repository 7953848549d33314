//! The policy lab: what a policy does to a receiver that goes down and comes back.
//!
//! It runs the rules that the server runs, on virtual time and with dice of a known seed. There is
//! no clock and no network here: days of traffic take seconds, and the same question gets the same
//! answer, byte for byte.
//!
//! # Layout
//! - [`scenario`]: how many events, over how long, and the outage; [`receiver`]: what it answers
//! - [`variant`]: the policy as it is, and with jitter or breaker switched
//! - [`run`]: one variant from the first event to the last; [`queue`]: what waits in it
//! - [`tally`], [`timeline`], [`histogram`]: what is counted; [`svg`]: the picture

pub(crate) mod histogram;
mod queue;
mod receiver;
mod run;
pub(crate) mod scenario;
pub(crate) mod svg;
pub(crate) mod tally;
pub(crate) mod timeline;
pub(crate) mod variant;

use domain::policy::Preset;

use scenario::Scenario;
use tally::Tally;
use variant::Variant;

pub(crate) use run::TooManyAttempts;

/// What a scenario did to each variant of a policy.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// What was asked.
    pub(crate) scenario: Scenario,
    /// The policy as it is comes first.
    pub(crate) results: Vec<Observed>,
}

/// One variant and what came of it.
#[derive(Debug)]
pub(crate) struct Observed {
    /// What was run.
    pub(crate) variant: Variant,
    /// What was counted.
    pub(crate) tally: Tally,
}

/// Runs a scenario under a policy and its variants. All of them get the same dice.
///
/// # Errors
/// If one of them makes more attempts than anybody wants to wait for.
pub(crate) fn simulate(preset: &Preset, scenario: Scenario) -> Result<Experiment, TooManyAttempts> {
    let observe = |variant: Variant| {
        let tally = run::run(&scenario, &variant)?;
        Ok(Observed { variant, tally })
    };
    let results = variant::variants(preset).into_iter().map(observe).collect::<Result<_, _>>()?;
    Ok(Experiment { scenario, results })
}
