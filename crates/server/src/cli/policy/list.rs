//! `redial policy list`: every built-in policy on one line.

use clap::Args;
use domain::policy::{Preset, preset, preset_names};
use domain::span;
use serde_json::{Value, json};

use super::{jitter_word, seconds};
use crate::cli::table::{Side, Table};
use crate::cli::{Failure, Streams};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Write JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let presets: Vec<&Preset> = preset_names().filter_map(|name| preset(name).ok()).collect();
    if arguments.json {
        let all: Vec<Value> = presets.into_iter().map(as_json).collect();
        writeln!(streams.out, "{:#}", Value::Array(all))?;
        return Ok(());
    }
    let mut table = Table::new([
        ("policy", Side::Left),
        ("attempts", Side::Right),
        ("over", Side::Right),
        ("gives up", Side::Right),
        ("timeout", Side::Right),
        ("jitter", Side::Left),
        ("breaker", Side::Left),
    ]);
    for preset in presets {
        table.row(row(preset));
    }
    write!(streams.out, "{table}")?;
    Ok(())
}

fn row(preset: &Preset) -> [String; 7] {
    let policy = &preset.policy;
    let breaker = preset.endpoint.breaker;
    [
        preset.policy.name.clone(),
        policy.limits.max_attempts().map_or("unlimited".to_owned(), |most| most.to_string()),
        span::format(policy.timetable().span()),
        policy.limits.give_up_after().map_or("never".to_owned(), span::format),
        span::format(policy.timeouts.whole()),
        policy.backoff.jitter().to_string(),
        breaker.map_or("off", |settings| settings.while_open().word()).to_owned(),
    ]
}

fn as_json(preset: &Preset) -> Value {
    let limits = &preset.policy.limits;
    json!({
        "name": preset.policy.name,
        "summary": preset.summary,
        "max_attempts": limits.max_attempts(),
        "give_up_after_s": limits.give_up_after().map(seconds),
        "span_s": seconds(preset.policy.timetable().span()),
        "jitter": jitter_word(preset.policy.backoff.jitter()),
        "timeout_s": seconds(preset.policy.timeouts.whole()),
    })
}
