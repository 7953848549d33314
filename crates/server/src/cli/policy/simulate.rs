//! `redial policy simulate`: what a policy does to a receiver that goes down and comes back.
//!
//! # Layout
//! - here: what can be asked, and within which limits
//! - `text`, `json`: the answer, for people and for programs

mod json;
mod text;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use clap::builder::PossibleValuesParser;
use domain::span::{self, BadSpan};

use super::source;
use crate::cli::{Failure, Streams};
use crate::lab::scenario::{Answer, Outage, Scenario};
use crate::lab::{self, svg, variant};
use crate::words::{grouped, printable};

/// The most events of one simulation.
const MOST_EVENTS: u32 = 10_000_000;
/// The longest time that events or an outage can take.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

// A value that begins with a hyphen is let through to our own parsers: theirs is the better message.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A built-in policy, or a .toml or .json file with one of yours
    #[arg(value_name = "NAME|FILE")]
    policy: String,
    /// How many events there are, up to 10,000,000
    #[arg(long, value_name = "N", value_parser = events, allow_hyphen_values = true)]
    events: u32,
    /// The time over which they come, evenly spaced, such as 24h; up to 365d
    #[arg(long, value_name = "DURATION", value_parser = some_time, allow_hyphen_values = true)]
    over: Duration,
    /// How long the receiver is down, such as 6h; up to 365d, and 0s is never
    #[arg(long, value_name = "DURATION", value_parser = any_time, allow_hyphen_values = true)]
    outage: Duration,
    /// When it goes down [default: after a tenth of --over, or at once if it stays down for all of it]
    #[arg(long, value_name = "DURATION", value_parser = any_time, allow_hyphen_values = true)]
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
    #[arg(
        long,
        value_name = "S",
        default_value_t = 1,
        value_parser = seed,
        allow_hyphen_values = true
    )]
    seed: u64,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
    /// Draw attempts over time into this file; `-` is standard output, and the table moves to
    /// standard error
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let picture = arguments.picture()?;
    let preset = source::load(&arguments.policy)?;
    let experiment = lab::simulate(&preset, arguments.scenario())
        .map_err(|error| Failure::Other(error.into()))?;
    if let Picture::File(path) = picture {
        std::fs::write(path, svg::draw(&preset.policy.name, &experiment))
            .with_context(|| format!("cannot write the picture to `{}`", path.display()))
            .map_err(Failure::Other)?;
    }
    let notes = variant::notes(&preset);
    match picture {
        Picture::Stdout => {
            write!(streams.out, "{}", svg::draw(&preset.policy.name, &experiment))?;
            text::write(streams.err, &preset, &experiment, &notes)?;
        }
        Picture::None | Picture::File(_) if arguments.json => {
            writeln!(streams.out, "{:#}", json::written(&preset, &experiment, &notes))?;
        }
        Picture::None | Picture::File(_) => {
            text::write(streams.out, &preset, &experiment, &notes)?;
        }
    }
    if let Picture::File(path) = picture {
        streams.out.flush()?;
        writeln!(streams.err, "drawn to {}", printable(&path.display().to_string()))?;
    }
    Ok(())
}

/// Where the picture goes.
#[derive(Debug, Clone, Copy)]
enum Picture<'a> {
    None,
    File(&'a Path),
    Stdout,
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

    fn picture(&self) -> Result<Picture<'_>, Failure> {
        match self.svg.as_deref() {
            None => Ok(Picture::None),
            Some(path) if path != Path::new("-") => Ok(Picture::File(path)),
            Some(_) if self.json => Err(Failure::Usage(
                "--json and `--svg -` both write to standard output; give the picture a file"
                    .to_owned(),
            )),
            Some(_) => Ok(Picture::Stdout),
        }
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

fn seed(text: &str) -> Result<u64, String> {
    let told = || format!("it must be a whole number from 0 to {}, such as 7", u64::MAX);
    text.parse().map_err(|_| told())
}

fn any_time(text: &str) -> Result<Duration, String> {
    let too_long = || format!("it is longer than a year; use {} or less", span::format(LONGEST));
    match span::parse(text) {
        Ok(span) if span <= LONGEST => Ok(span),
        // The lab allows less than a span can be, so its own limit is the one to tell.
        Ok(_) | Err(BadSpan::TooLong(_)) => Err(too_long()),
        Err(error) => Err(error.to_string()),
    }
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
    fn a_seed_is_any_whole_number_that_fits() {
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        for text in ["-1", "1.5", "18446744073709551616", ""] {
            assert!(seed(text).unwrap_err().starts_with("it must be a whole number"), "{text}");
        }
    }

    #[test]
    fn times_are_limited_to_a_year() {
        assert_eq!(some_time("365d"), Ok(LONGEST));
        for text in ["366d", "3651d", "99999999999999d"] {
            assert!(some_time(text).unwrap_err().ends_with("use 365d or less"), "{text}");
        }
        assert!(some_time("0s").is_err());
        assert_eq!(any_time("0s"), Ok(Duration::ZERO));
    }
}
