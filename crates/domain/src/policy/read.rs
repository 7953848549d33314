//! From a document to a preset: TOML or JSON in, a checked policy with endpoint defaults out.
//!
//! A document says what differs; the rest comes from the preset it `extends`, which is `redial`
//! unless it names another. Tables that only make sense as a whole (a schedule, a jitter, a
//! classification, Retry-After, a breaker) are replaced as a whole.

use std::num::NonZeroU32;

use serde_json::{Map, Value};

use super::classification::Listed;
use super::fields::{Fields, unknown_word};
use super::{
    Backoff, BodyLimit, Class, Classification, EndpointDefaults, HopHeaders, Jitter, Limits, Part,
    Patience, Pattern, Policy, Preset, Problem, Profile, ReadError, Redirects, ResponseKept,
    Schedule, Statuses, Timeouts, presets,
};
use crate::breaker;
use crate::health;
use crate::rate::Rate;

/// The preset whose values stand where a document is silent.
pub(super) const ROOT: &str = "redial";
/// The most attempts in flight to one endpoint: as many as a node starts in all.
const MOST_IN_FLIGHT: u32 = 1_024;
/// The most bytes or characters of a response that are kept.
const MOST_KEPT: u32 = 16_384;
/// Tables whose keys can be set one by one.
const MERGED: [&str; 5] = ["policy", "endpoint", "timeouts", "disable", "response_kept"];

/// Reads a TOML document.
///
/// # Errors
/// Says what is wrong, at which line or in which field, and what is allowed there.
pub fn read_toml(text: &str) -> Result<Preset, ReadError> {
    let value: Value =
        toml::from_str(text).map_err(|error| ReadError::Syntax(error.to_string()))?;
    read_value(value)
}

/// Reads a JSON document.
///
/// # Errors
/// Says what is wrong, at which line or in which field, and what is allowed there.
pub fn read_json(text: &str) -> Result<Preset, ReadError> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| ReadError::Syntax(error.to_string()))?;
    read_value(value)
}

/// Reads a policy as endpoints and applications save it: the name of a preset, or a document.
///
/// # Errors
/// Says which field is wrong, or which preset may have been meant.
pub fn read_saved(saved: &Value) -> Result<Preset, ReadError> {
    match saved.as_str().map(presets::preset) {
        Some(Ok(preset)) => Ok(preset.clone()),
        Some(Err(unknown)) => Err(ReadError::Syntax(unknown.to_string())),
        None => read_value(saved.clone()),
    }
}

/// Reads a document that is already a tree of values.
///
/// # Errors
/// Says which field is wrong and what is allowed there.
pub fn read_value(value: Value) -> Result<Preset, ReadError> {
    let whole = complete(value)?;
    let keys = ["name", "summary", "extends", "policy", "endpoint"];
    let document = Fields::of(&whole, "", &keys)?;
    Ok(Preset {
        summary: document.text("summary")?.to_owned(),
        policy: policy(&document)?,
        endpoint: endpoint(&document)?,
    })
}

/// Fills in from the extended preset what a document leaves out.
pub(super) fn complete(value: Value) -> Result<Value, Problem> {
    let Value::Object(mut own) = value else {
        return Err(Problem::new("document", "must be a table with a `policy` in it"));
    };
    let base = match own.remove("extends") {
        None => ROOT.to_owned(),
        Some(Value::String(base)) => base,
        Some(_) => return Err(Problem::new("extends", "must be the name of a preset in quotes")),
    };
    let mut whole = presets::document(&base).ok_or_else(|| {
        let names: Vec<&str> = presets::preset_names().collect();
        Problem::new("extends", unknown_word(&base, &names))
    })?;
    // A preset's name and summary are its own.
    whole.insert("name".to_owned(), Value::String("custom".to_owned()));
    whole.insert("summary".to_owned(), Value::String(format!("like {base}, with changes")));
    merge(&mut whole, own);
    Ok(Value::Object(whole))
}

fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(table)), Value::Object(own)) if MERGED.contains(&key.as_str()) => {
                merge(table, own);
            }
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

fn policy(document: &Fields<'_>) -> Result<Policy, Problem> {
    let keys = [
        "max_attempts",
        "give_up_after",
        "schedule",
        "jitter",
        "longest_drawn",
        "classification",
        "retry_after",
        "redirects",
        "redirect_headers",
        "timeouts",
    ];
    let fields = document.table("policy", &keys)?;
    let limits = Limits::new(
        fields.optional_count("max_attempts", "unlimited")?,
        fields.optional_span("give_up_after", "never")?,
    );
    let hop_headers = HopHeaders::ALL.map(|it| (it.word(), it));
    let hop_headers = fields.choice("redirect_headers", &hop_headers)?;
    let redirects = Redirects::new(fields.whole("redirects")?, hop_headers);
    Ok(Policy {
        name: document.text("name")?.to_owned(),
        backoff: backoff(&fields)?,
        limits: limits.map_err(|problem| fields.within(problem))?,
        classification: classification(&fields)?,
        patience: patience(&fields)?,
        redirects: redirects.map_err(|problem| fields.within(problem))?,
        timeouts: timeouts(&fields)?,
    })
}

fn backoff(policy: &Fields<'_>) -> Result<Backoff, Problem> {
    let longest = policy.optional_span("longest_drawn", "none")?;
    Backoff::new(schedule(policy)?, jitter(policy)?, longest)
        .map_err(|problem| policy.within(problem))
}

fn schedule(policy: &Fields<'_>) -> Result<Schedule, Problem> {
    let any = ["kind", "base", "factor", "cap", "waits"];
    let exponential = policy
        .table("schedule", &any)?
        .choice("kind", &[("exponential", true), ("fixed", false)])?;
    if exponential {
        let fields = policy.table("schedule", &["kind", "base", "factor", "cap"])?;
        let (base, factor) = (fields.span("base")?, fields.number("factor")?);
        return Schedule::exponential(base, factor, fields.optional_span("cap", "none")?)
            .map_err(|problem| fields.within(problem));
    }
    let fields = policy.table("schedule", &["kind", "waits"])?;
    let waits = fields.spans("waits")?;
    Schedule::fixed(waits).map_err(|problem| fields.within(problem))
}

fn jitter(policy: &Fields<'_>) -> Result<Jitter, Problem> {
    let words = Jitter::WORDS.map(|word| (word, word));
    let kind = policy.table("jitter", &["kind", "share"])?.choice("kind", &words)?;
    let with_share = |make: fn(f64) -> Result<Jitter, Problem>| {
        let fields = policy.table("jitter", &["kind", "share"])?;
        make(fields.number("share")?).map_err(|problem| fields.within(problem))
    };
    let alone = |jitter| policy.table("jitter", &["kind"]).map(|_| jitter);
    match kind {
        "around" => with_share(Jitter::around),
        "up_to" => with_share(Jitter::up_to),
        "full" => alone(Jitter::Full),
        "equal" => alone(Jitter::Equal),
        "decorrelated" => alone(Jitter::Decorrelated),
        _ => alone(Jitter::None),
    }
}

fn timeouts(policy: &Fields<'_>) -> Result<Timeouts, Problem> {
    let fields = policy.table("timeouts", &["connect", "read", "whole"])?;
    let read = fields.optional_span("read", "none")?;
    Timeouts::new(fields.span("connect")?, read, fields.span("whole")?)
        .map_err(|problem| fields.within(problem))
}

fn patience(policy: &Fields<'_>) -> Result<Patience, Problem> {
    let fields = policy.table("retry_after", &["honour", "on", "cap"])?;
    let words = ["ignored", "longer", "replacing"].map(|word| (word, word));
    let honour = fields.choice("honour", &words)?;
    if honour == "ignored" {
        return policy.table("retry_after", &["honour"]).map(|_| Patience::Ignored);
    }
    let on = if fields.is_absent("on", "any")? { None } else { Some(statuses(&fields)?) };
    let cap = fields.optional_span("cap", "none")?;
    let made =
        if honour == "longer" { Patience::longer(on, cap) } else { Patience::replacing(on, cap) };
    made.map_err(|problem| fields.within(problem))
}

fn statuses(fields: &Fields<'_>) -> Result<Statuses, Problem> {
    let patterns = fields.texts("on")?.into_iter().map(|text| {
        Pattern::parse(text).ok_or_else(|| {
            fields.problem("on", format!("lists `{text}`; write statuses such as 429 or 5xx"))
        })
    });
    let patterns = patterns.collect::<Result<_, _>>()?;
    Statuses::new(patterns).map_err(|problem| fields.within(problem))
}

fn classification(policy: &Fields<'_>) -> Result<Classification, Problem> {
    let words = Class::ALL.map(|class| (class.word(), class));
    let mut keys: Vec<&str> = Class::ALL.map(Class::word).to_vec();
    keys.extend(["otherwise", "ambiguous_limit"]);
    let fields = policy.table("classification", &keys)?;
    let mut lists = Vec::new();
    for class in Class::ALL {
        lists.push((class, listed(&fields, class)?));
    }
    let otherwise = fields.choice("otherwise", &words)?;
    Classification::new(lists, otherwise, fields.count("ambiguous_limit")?)
        .map_err(|problem| fields.within(problem))
}

fn listed(fields: &Fields<'_>, class: Class) -> Result<Vec<Listed>, Problem> {
    let key = class.word();
    let entries = fields.texts(key)?.into_iter().map(|text| {
        Listed::parse(text).ok_or_else(|| {
            let text = format!(
                "lists `{text}`; allowed are statuses (404, 411-417, 5xx), network, and of that \
                 timeout, dns, refused, reset, unreachable, tls, broken"
            );
            fields.problem(key, text)
        })
    });
    entries.collect()
}

fn endpoint(document: &Fields<'_>) -> Result<EndpointDefaults, Problem> {
    let keys = ["in_flight", "rate", "breaker", "disable", "signatures", "response_kept"];
    let fields = document.table("endpoint", &keys)?;
    let in_flight = fields.count("in_flight")?;
    let in_flight = NonZeroU32::new(in_flight).filter(|it| it.get() <= MOST_IN_FLIGHT);
    let in_flight = in_flight.ok_or_else(|| {
        fields.problem("in_flight", format!("must be between 1 and {MOST_IN_FLIGHT}"))
    })?;
    let signatures = fields.choices("signatures", &Profile::ALL.map(|it| (it.word(), it)))?;
    if signatures.iter().all(|profile| *profile == Profile::EventId) {
        let text = "is empty; an attempt must be signed in at least one way";
        return Err(fields.problem("signatures", text));
    }
    let rate = Rate::per_second(fields.whole("rate")?);
    Ok(EndpointDefaults {
        in_flight,
        rate: rate.map_err(|problem| fields.within(problem))?,
        breaker: breaker(&fields)?,
        health: health(&fields)?,
        signatures,
        response_kept: response_kept(&fields)?,
    })
}

fn breaker(endpoint: &Fields<'_>) -> Result<Option<breaker::Settings>, Problem> {
    if endpoint.is_absent("breaker", "off")? {
        return Ok(None);
    }
    let keys = ["threshold", "cooldown", "growth", "longest_cooldown", "while_open"];
    let fields = endpoint.table("breaker", &keys)?;
    let numbers = breaker::Numbers {
        threshold: fields.count("threshold")?,
        cooldown: fields.span("cooldown")?,
        growth: fields.number("growth")?,
        longest_cooldown: fields.span("longest_cooldown")?,
    };
    let while_open = [breaker::WhileOpen::Hold, breaker::WhileOpen::Bury];
    let while_open = fields.choice("while_open", &while_open.map(|it| (it.word(), it)))?;
    let settings = breaker::Settings::new(numbers, while_open);
    settings.map(Some).map_err(|problem| fields.within(problem))
}

fn health(endpoint: &Fields<'_>) -> Result<health::Rule, Problem> {
    let fields = endpoint.table("disable", &["permanent_streak", "without_success"])?;
    let streak = fields.optional_count("permanent_streak", "never")?;
    health::Rule::new(streak, fields.optional_span("without_success", "never")?)
        .map_err(|problem| fields.within(problem))
}

fn response_kept(endpoint: &Fields<'_>) -> Result<ResponseKept, Problem> {
    let fields = endpoint.table("response_kept", &["parts", "body_limit"])?;
    let parts = fields.choices("parts", &Part::ALL.map(|part| (part.word(), part)))?;
    let text = fields.text("body_limit")?;
    let limit = text.split_once(' ').and_then(|(count, unit)| {
        let count = count.parse().ok().filter(|count| *count <= MOST_KEPT)?;
        match unit {
            "bytes" => Some(BodyLimit::Bytes(count)),
            "characters" => Some(BodyLimit::Characters(count)),
            _ => None,
        }
    });
    let body_limit = limit.ok_or_else(|| {
        let text = format!(
            "is `{text}`; write for example \"1000 characters\", or at most \"{MOST_KEPT} bytes\""
        );
        fields.problem("body_limit", text)
    })?;
    Ok(ResponseKept { parts: parts.into_iter().collect(), body_limit })
}
