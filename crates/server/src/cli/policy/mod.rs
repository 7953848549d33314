//! `redial policy`: list the policies, look at one, try one out.
//!
//! None of these commands needs a server: a policy is data, and the lab is a pure computation.

mod list;
mod show;
mod simulate;

use std::time::Duration;

use clap::Subcommand;
use domain::policy::{Jitter, Preset};
use serde_json::{Number, Value, json};

use super::{Failure, Streams};
use crate::config::load_policy;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the built-in policies
    List(list::Arguments),
    /// Show a policy: its schedule, what it makes of each answer, its limits
    Show(show::Arguments),
    /// Run a policy on virtual time against a receiver that goes down and comes back
    Simulate(simulate::Arguments),
}

impl Command {
    pub(crate) fn run(&self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        match self {
            Self::List(arguments) => list::run(arguments, streams),
            Self::Show(arguments) => show::run(arguments, streams),
            Self::Simulate(arguments) => simulate::run(arguments, streams),
        }
    }
}

/// Finds a policy by name, or reads it from a file.
fn load(source: &str) -> Result<Preset, Failure> {
    load_policy(source).map_err(Failure::Usage)
}

/// Writes a span in seconds: as a whole number where it is one.
fn seconds(span: Duration) -> Value {
    if span.subsec_nanos() == 0 {
        return json!(span.as_secs());
    }
    Number::from_f64(span.as_secs_f64()).map_or(Value::Null, Value::Number)
}

/// Writes a kind of jitter as a short word: `full`, `around(0.2)`.
fn jitter_word(jitter: Jitter) -> String {
    match jitter {
        Jitter::None | Jitter::Full | Jitter::Equal | Jitter::Decorrelated => {
            jitter.word().to_owned()
        }
        Jitter::Around(share) | Jitter::UpTo(share) => {
            format!("{}({})", jitter.word(), share.get())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_are_written_as_whole_numbers() {
        assert_eq!(seconds(Duration::from_secs(300)).to_string(), "300");
        assert_eq!(seconds(Duration::from_millis(2_500)).to_string(), "2.5");
        assert_eq!(seconds(Duration::ZERO).to_string(), "0");
    }

    #[test]
    fn jitter_is_written_with_its_share() {
        assert_eq!(jitter_word(Jitter::Full), "full");
        assert_eq!(jitter_word(Jitter::up_to(0.2).unwrap()), "up_to(0.2)");
    }
}
