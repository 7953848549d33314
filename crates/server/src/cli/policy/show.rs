//! `redial policy show`: one policy as a person wants to read it, or as JSON.
//!
//! The table comes from the code that the server runs, so it cannot promise anything else.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;
use domain::breaker;
use domain::policy::{
    Class, Classification, EndpointDefaults, HopHeaders, Patience, Policy, Preset, Redirects,
    write_value,
};
use domain::span;
use serde_json::{Value, json};

use super::{jitter_word, seconds, source};
use crate::cli::table::{Side, Table};
use crate::cli::{Failure, Streams};
use crate::words::{counted, grouped};

/// The most rows of a schedule that are printed.
const MOST_ROWS: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A built-in policy, or a .toml or .json file with one of yours
    #[arg(value_name = "NAME|FILE")]
    policy: String,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let preset = source::load(&arguments.policy)?;
    if arguments.json {
        writeln!(streams.out, "{:#}", as_json(&preset))?;
        return Ok(());
    }
    let policy = &preset.policy;
    writeln!(streams.out, "{}: {}\n", preset.policy.name, preset.summary)?;
    writeln!(streams.out, "Schedule, jitter {}", policy.backoff.jitter())?;
    write!(streams.out, "{}", schedule(policy))?;
    if let Some(text) = beyond(policy) {
        writeln!(streams.out, "  {text}")?;
    }
    writeln!(streams.out, "\nAnswers")?;
    write!(streams.out, "{}", answers(&policy.classification))?;
    writeln!(streams.out, "\nLimits")?;
    write!(streams.out, "{}", limits(&preset))?;
    streams.out.flush()?;
    for warning in policy.warnings() {
        writeln!(streams.err, "warning: {warning}")?;
    }
    Ok(())
}

fn as_json(preset: &Preset) -> Value {
    let policy = &preset.policy;
    let warnings: Vec<String> = policy.warnings().iter().map(ToString::to_string).collect();
    let document = write_value(preset);
    json!({
        "name": preset.policy.name,
        "summary": preset.summary,
        "max_attempts": policy.limits.max_attempts(),
        "give_up_after_s": policy.limits.give_up_after().map(seconds),
        "waits_s": waits(policy).into_iter().map(seconds).collect::<Vec<_>>(),
        "jitter": jitter_word(policy.backoff.jitter()),
        "timeout_s": seconds(policy.timeouts.whole()),
        "span_s": seconds(policy.span()),
        "warnings": warnings,
        "policy": document["policy"],
        "endpoint": document["endpoint"],
    })
}

/// Returns the nominal wait before each retry that the attempts limit allows; without such a
/// limit, those that the give-up time allows.
fn waits(policy: &Policy) -> Vec<Duration> {
    match policy.limits.max_attempts() {
        None => policy.timetable().waits(),
        Some(most) => (1..most.get()).map(|retry| policy.backoff.schedule().wait(retry)).collect(),
    }
}

fn schedule(policy: &Policy) -> Table {
    let mut table = Table::new([
        ("attempt", Side::Right),
        ("wait", Side::Right),
        ("shortest", Side::Right),
        ("longest", Side::Right),
        ("after", Side::Right),
    ]);
    for turn in policy.timetable().turns.into_iter().take(MOST_ROWS) {
        let spans = [turn.nominal, turn.shortest, turn.longest, turn.cumulative];
        let [wait, shortest, longest, after] = spans.map(span::format);
        if turn.attempt == 1 {
            let none = || "–".to_owned();
            table.row(["1".to_owned(), none(), none(), none(), "at once".to_owned()]);
        } else {
            table.row([turn.attempt.to_string(), wait, shortest, longest, after]);
        }
    }
    table
}

/// Says how the table goes on, if it does.
fn beyond(policy: &Policy) -> Option<String> {
    let turns = policy.timetable().turns;
    let last = turns[..turns.len().min(MOST_ROWS)].last()?;
    let shown = last.attempt;
    let most = policy.limits.max_attempts().map(NonZeroU32::get);
    if most == Some(shown) {
        return None;
    }
    let next = last.cumulative.saturating_add(policy.backoff.schedule().wait(shown));
    match (policy.limits.give_up_after().filter(|end| next > *end), most) {
        (None, _) => Some("… and so on".to_owned()),
        (Some(_), None) => None,
        (Some(end), Some(most)) => {
            let end = span::format(end);
            Some(format!(
                "by these waits, attempt {} of {most} is past the give-up time of {end}",
                shown + 1
            ))
        }
    }
}

fn answers(classification: &Classification) -> Table {
    let mut table = Table::plain([Side::Left, Side::Left]);
    for class in Class::ALL {
        let lists = classification.lists().iter().filter(|(listed, _)| *listed == class);
        let mut entries: Vec<String> =
            lists.flat_map(|(_, list)| list).map(ToString::to_string).collect();
        if classification.otherwise() == class {
            entries.push("whatever is not listed".to_owned());
        }
        if entries.is_empty() {
            continue;
        }
        let mut text = entries.join(", ");
        if class == Class::Ambiguous {
            let limit = counted(classification.ambiguous_limit().into(), "such answer");
            text.push_str(&format!("; buried after {limit}"));
        }
        table.row([class.word().to_owned(), text]);
    }
    table
}

fn limits(preset: &Preset) -> Table {
    let Preset { policy, endpoint, .. } = preset;
    let most = policy.limits.max_attempts();
    let mut table = Table::plain([Side::Left, Side::Left]);
    let mut row = |name: &str, text: String| table.row([name.to_owned(), text]);
    row("attempts", most.map_or("unlimited".to_owned(), |it| grouped(it.get().into())));
    row("gives up after", policy.limits.give_up_after().map_or("never".to_owned(), span::format));
    if let Some(longest) = policy.backoff.longest_drawn() {
        row("longest wait", format!("{} after the dice", span::format(longest)));
    }
    row("timeout", timeout(policy));
    row("Retry-After", patience(&policy.patience));
    row("redirects", redirects(policy.redirects));
    row("in flight", grouped(endpoint.in_flight.get().into()));
    row("rate", format!("{} per second", grouped(endpoint.rate.get().into())));
    row("breaker", endpoint.breaker.as_ref().map_or("off".to_owned(), breaker));
    row("disabled", disabled(endpoint));
    table
}

fn timeout(policy: &Policy) -> String {
    let timeouts = &policy.timeouts;
    let connect = span::format(timeouts.connect());
    let read =
        timeouts.read().map_or(String::new(), |it| format!(", {} to read", span::format(it)));
    format!("{} in all, of it {connect} to connect{read}", span::format(timeouts.whole()))
}

fn patience(patience: &Patience) -> String {
    let (word, rule) = match patience {
        Patience::Ignored => return "ignored".to_owned(),
        Patience::Longer(rule) => ("the longer of it and the wait", rule),
        Patience::Replacing(rule) => ("instead of the wait", rule),
    };
    let on = match &rule.on {
        None => "any failing answer".to_owned(),
        Some(on) => {
            let texts: Vec<String> = on.patterns().iter().map(ToString::to_string).collect();
            texts.join(", ")
        }
    };
    format!("{word}, on {on}, at most {}", span::format(rule.cap))
}

fn redirects(redirects: Redirects) -> String {
    let followed = match redirects.most_hops() {
        0 => return "not followed".to_owned(),
        1 => "followed once".to_owned(),
        most => format!("followed up to {most} times"),
    };
    let headers = match redirects.headers() {
        HopHeaders::SameOrigin => "signature and own headers to the same origin only",
        HopHeaders::Everywhere => "signature and own headers wherever they lead",
    };
    format!("{followed}; {headers}")
}

fn breaker(settings: &breaker::Settings) -> String {
    let breaker::Numbers { threshold, cooldown, growth, longest_cooldown } = settings.numbers();
    let cooldown_text = span::format(cooldown);
    let pause = if longest_cooldown > cooldown {
        format!("{cooldown_text}, times {growth} up to {}", span::format(longest_cooldown))
    } else {
        cooldown_text
    };
    let meanwhile = match settings.while_open() {
        breaker::WhileOpen::Hold => "deliveries wait",
        breaker::WhileOpen::Bury => "deliveries become dead letters",
    };
    let failures = counted(threshold.into(), "failure");
    format!("opens at {failures} in a row for {pause}; {meanwhile}")
}

fn disabled(endpoint: &EndpointDefaults) -> String {
    let streak = endpoint.health.permanent_streak();
    let streak = streak.map(|most| counted(u32::from(most).into(), "permanent failure"));
    let streak = streak.map(|failures| format!("after more than {failures} in a row"));
    let time = endpoint.health.without_success();
    let time = time.map(|most| format!("after {} without a success", span::format(most)));
    let reasons: Vec<String> = streak.into_iter().chain(time).collect();
    if reasons.is_empty() { "never".to_owned() } else { reasons.join(", or ") }
}

#[cfg(test)]
mod tests {
    use domain::policy::{preset, read_toml};

    use super::*;

    fn waits_and_rest(text: &str) -> (usize, Option<String>) {
        let policy = read_toml(text).unwrap().policy;
        (waits(&policy).len(), beyond(&policy))
    }

    #[test]
    fn waits_are_listed_up_to_the_attempts_limit_whatever_the_give_up_time() {
        let (listed, rest) = waits_and_rest("[policy]\ngive_up_after = \"1h\"");
        assert_eq!(listed, 9);
        let told = "by these waits, attempt 5 of 10 is past the give-up time of 1h";
        assert_eq!(rest.as_deref(), Some(told));
        let (listed, rest) = waits_and_rest("[policy]\nmax_attempts = \"unlimited\"");
        assert_eq!((listed, rest), (9, None));
    }

    #[test]
    fn a_list_without_end_is_cut() {
        let (listed, rest) =
            waits_and_rest("[policy]\nmax_attempts = 5000\ngive_up_after = \"never\"");
        assert_eq!(listed, 4_999);
        assert_eq!(rest.as_deref(), Some("… and so on"));
        assert_eq!(beyond(&preset("redial").unwrap().policy), None);
    }

    #[test]
    fn limits_are_told_in_words() {
        let recuro = preset("recuro").unwrap();
        let patience = patience(&recuro.policy.patience);
        assert_eq!(patience, "instead of the wait, on 429, at most 1h4m");
        let settings = recuro.endpoint.breaker.unwrap();
        let told = "opens at 5 failures in a row for 5m; deliveries become dead letters";
        assert_eq!(breaker(&settings), told);
        let redial = preset("redial").unwrap().endpoint.breaker.unwrap();
        let told = "opens at 5 failures in a row for 5m, times 2 up to 1h; deliveries wait";
        assert_eq!(breaker(&redial), told);
        let formspring = preset("formspring").unwrap();
        assert_eq!(timeout(&formspring.policy), "1m in all, of it 30s to connect, 30s to read");
        let told = "followed up to 5 times; signature and own headers to the same origin only";
        assert_eq!(redirects(recuro.policy.redirects), told);
        let everywhere = |hops| redirects(Redirects::new(hops, HopHeaders::Everywhere).unwrap());
        assert_eq!(everywhere(0), "not followed");
        assert_eq!(everywhere(1), "followed once; signature and own headers wherever they lead");
    }
}
