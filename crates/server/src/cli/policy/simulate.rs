//! `redial policy simulate`: what a policy does to a receiver that goes down and comes back.
//!
//! # Layout
//! - here: what can be asked, and within which limits
//! - `text`, `json`: the answer, for people and for programs

mod json;
mod text;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use clap::builder::PossibleValuesParser;
use domain::span;

use super::source;
use crate::cli::{Failure, Streams};
use crate::lab::scenario::{Answer, Outage, Scenario};
use crate::lab::{self, svg, variant};
use crate::words::grouped;

/// The most events of one simulation.
const MOST_EVENTS: u32 = 10_000_000;
/// The longest time that events or an outage can take.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A built-in policy, or a .toml or .json file with one of yours
    #[arg(value_name = "NAME|FILE")]
    policy: String,
    /// How many events there are, up to 10,000,000
    #[arg(long, value_name = "N", value_parser = events)]
    events: u32,
    /// The time over which they come, evenly spaced, such as 24h; up to 365d
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    over: Duration,
    /// How long the receiver is down, such as 6h; up to 365d
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    outage: Duration,
    /// When it goes down [default: after a tenth of --over, or at once if it stays down for all of it]
    #[arg(long, value_name = "DURATION", value_parser = any_time)]
    outage_starts: Option<Duration>,
    /// What it answers while it is down
    #[arg(
        long,
        value_name = "ANSWER",
        default_value = Answer::Unavailable.word(),
        value_parser = PossibleValuesParser::new(Answer::ALL.map(Answer::word))
    )]
    outage_answer: String,
    /// The seed of the dice; the same seed gives the same result
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
    /// Draw attempts over time into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let preset = source::load(&arguments.policy)?;
    let experiment = lab::simulate(&preset, arguments.scenario())
        .map_err(|error| Failure::Other(error.into()))?;
    if let Some(path) = &arguments.svg {
        std::fs::write(path, svg::draw(&preset.name, &experiment))
            .with_context(|| format!("cannot write the picture to `{}`", path.display()))
            .map_err(Failure::Other)?;
    }
    let notes = variant::notes(&preset);
    if arguments.json {
        writeln!(streams.out, "{:#}", json::written(&preset, &experiment, &notes))?;
    } else {
        text::write(streams.out, &preset, &experiment, &notes)?;
    }
    if let Some(path) = &arguments.svg {
        streams.out.flush()?;
        writeln!(streams.err, "drawn to {}", path.display())?;
    }
    Ok(())
}

impl Arguments {
    fn scenario(&self) -> Scenario {
        let usual = Outage::usual_start(self.over, self.outage);
        let answer = Answer::ALL.into_iter().find(|answer| answer.word() == self.outage_answer);
        let outage = Outage {
            starts: self.outage_starts.unwrap_or(usual),
            lasts: self.outage,
            // The parser lets no other word through.
            answer: answer.unwrap_or(Answer::Unavailable),
        };
        Scenario { events: self.events, over: self.over, outage, seed: self.seed }
    }
}

fn events(text: &str) -> Result<u32, String> {
    let plain = text.replace(['_', ','], "");
    match plain.parse::<u32>() {
        Ok(0) => Err("nothing would happen; use 1 or more".to_owned()),
        Ok(events) if events <= MOST_EVENTS => Ok(events),
        _ => Err(format!(
            "it must be a whole number from 1 to {}, such as 10000",
            grouped(MOST_EVENTS.into())
        )),
    }
}

fn any_time(text: &str) -> Result<Duration, String> {
    let span = span::parse(text).map_err(|error| error.to_string())?;
    if span > LONGEST {
        return Err(format!("it is longer than a year; use {} or less", span::format(LONGEST)));
    }
    Ok(span)
}

fn some_time(text: &str) -> Result<Duration, String> {
    let span = any_time(text)?;
    if span.is_zero() {
        return Err("it is no time at all; use 1s or more".to_owned());
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_limited_and_may_be_grouped() {
        assert_eq!(events("1000000"), Ok(1_000_000));
        assert_eq!(events("1_000_000"), Ok(1_000_000));
        assert_eq!(events("10,000,000"), Ok(10_000_000));
        for text in ["0", "10000001", "-1", "many", "1.5", ""] {
            assert!(events(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_limited_to_a_year() {
        assert_eq!(some_time("365d"), Ok(LONGEST));
        assert!(some_time("366d").unwrap_err().ends_with("use 365d or less"));
        assert!(some_time("0s").is_err());
        assert_eq!(any_time("0s"), Ok(Duration::ZERO));
    }
}
