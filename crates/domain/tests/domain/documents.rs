//! Policies as documents: what is written reads back, and what is wrong is named.

use domain::policy::{
    Jitter, Preset, ReadError, preset, preset_names, read_json, read_toml, read_value, write_value,
};
use proptest::prelude::*;

#[test]
fn every_preset_reads_back_as_it_is_written() {
    for name in preset_names() {
        let preset = preset(name).unwrap();
        let written = write_value(preset);
        assert_eq!(&read_json(&written.to_string()).unwrap(), preset, "{written}");
        assert_eq!(&read_value(written).unwrap(), preset);
    }
}

#[test]
fn a_document_says_only_what_differs() {
    let own = read_toml("[policy]\nmax_attempts = 3\n").unwrap();
    let redial = preset("redial").unwrap();
    assert_eq!(own.policy.limits.max_attempts().unwrap().get(), 3);
    assert_eq!(own.policy.backoff, redial.policy.backoff);
    assert_eq!(own.endpoint, redial.endpoint);
    assert_eq!(own.policy.name, "custom");

    let own =
        read_toml("name = \"mine\"\nextends = \"recuro\"\n[policy.timeouts]\nwhole = \"12s\"\n");
    let own = own.unwrap();
    assert_eq!(own.policy.name, "mine");
    assert_eq!(own.policy.timeouts.whole().as_secs(), 12);
    assert_eq!(own.policy.timeouts.connect().as_secs(), 5);
    assert_eq!(own.policy.backoff.jitter(), Jitter::Full);
    assert_eq!(own.endpoint.breaker, preset("recuro").unwrap().endpoint.breaker);
}

#[test]
fn a_document_may_take_the_name_of_the_default() {
    let own = read_json(r#"{"name": "redial", "policy": {"max_attempts": 5}}"#).unwrap();
    assert_eq!(own.policy.name, "redial");
    assert_eq!(own.policy.limits.max_attempts().unwrap().get(), 5);
}

#[test]
fn null_means_the_same_as_the_word_for_nothing() {
    let words = r#"{"policy": {"give_up_after": "never"}, "endpoint": {"breaker": "off"}}"#;
    let nulls = r#"{"policy": {"give_up_after": null}, "endpoint": {"breaker": null}}"#;
    assert_eq!(read_json(words).unwrap(), read_json(nulls).unwrap());
    assert_eq!(read_json(nulls).unwrap().policy.limits.give_up_after(), None);
}

fn error(text: &str) -> String {
    read_toml(text).unwrap_err().to_string()
}

/// Document, field that the error names, words that it contains.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("[policy]\nmax_attempts = 0", "policy.max_attempts", "use 1 or more"),
    ("[policy]\nmax_attempts = -1", "policy.max_attempts", "a whole number or \"unlimited\""),
    ("[policy]\nmax_attempts = \"many\"", "policy.max_attempts", "a whole number or \"unlimited\""),
    ("[policy]\nmax_attempts = 99999999999", "policy.max_attempts", "too large"),
    ("[policy]\nmax_atempts = 3", "policy.max_atempts", "did you mean `max_attempts`?"),
    ("[polcy]\nmax_attempts = 3", "polcy", "did you mean `policy`?"),
    ("[policy]\nzzz = 3", "policy.zzz", "is not a key here; allowed are max_attempts"),
    ("policy = 3", "policy", "must be a table with the keys max_attempts"),
    (
        "[policy]\nmax_attempts = \"unlimited\"\ngive_up_after = \"never\"",
        "policy.give_up_after",
        "limit one of them",
    ),
    ("[policy]\ngive_up_after = \"0s\"", "policy.give_up_after", "at least 1s"),
    ("[policy]\ngive_up_after = \"3 fortnights\"", "policy.give_up_after", "use ms, s, m, h or d"),
    ("[policy]\ngive_up_after = \"30\"", "policy.give_up_after", "did you mean `30s`?"),
    ("[policy]\ngive_up_after = 30", "policy.give_up_after", "a span of time in quotes"),
    (
        "[policy]\nschedule = { kind = \"exponential\", base = \"1h\", factor = 2, cap = \"1m\" }",
        "policy.schedule.cap",
        "below the base of 1h; raise it to 1h or more",
    ),
    (
        "[policy]\nschedule = { kind = \"exponental\", base = \"1h\", factor = 2, cap = \"1m\" }",
        "policy.schedule.kind",
        "did you mean `exponential`? Allowed are exponential, fixed",
    ),
    (
        "[policy]\nschedule = { kind = \"fixed\", waits = [] }",
        "policy.schedule.waits",
        "at least one",
    ),
    ("[policy]\nschedule = { kind = \"fixed\" }", "policy.schedule.waits", "list of spans"),
    (
        "[policy]\nschedule = { kind = \"fixed\", waits = [\"5s\"], base = \"1s\" }",
        "policy.schedule.base",
        "is not a key here",
    ),
    (
        "[policy]\nschedule = { kind = \"fixed\", waits = [5] }",
        "policy.schedule.waits",
        "list of spans",
    ),
    (
        "[policy]\nschedule = { kind = \"exponential\", base = \"1h\", factor = 0.5, cap = \"none\" }",
        "policy.schedule.factor",
        "between 1 and 100",
    ),
    ("[policy]\njitter = { kind = \"around\", share = 20 }", "policy.jitter.share", "at most 1"),
    ("[policy]\njitter = { kind = \"around\" }", "policy.jitter.share", "is missing"),
    (
        "[policy]\njitter = { kind = \"full\", share = 0.2 }",
        "policy.jitter.share",
        "not a key here",
    ),
    (
        "[policy]\njitter = { kind = \"gaussian\" }",
        "policy.jitter.kind",
        "allowed are none, full, equal, around, up_to, decorrelated",
    ),
    ("[policy]\njitter = { kind = 3 }", "policy.jitter.kind", "a text in quotes"),
    ("[policy]\nlongest_drawn = \"1s\"", "policy.longest_drawn", "below the first wait of 5s"),
    ("[policy]\nredirects = 21", "policy.redirects", "at most 20 hops"),
    ("[policy.timeouts]\nwhole = \"4s\"", "policy.timeouts.connect", "at most the whole of 4s"),
    ("[policy.timeouts]\nwhole = \"6m\"", "policy.timeouts.whole", "at most 5m"),
    (
        "[policy]\nretry_after = { honour = \"replacing\", on = \"any\", cap = \"none\" }",
        "policy.retry_after.cap",
        "needs one",
    ),
    (
        "[policy]\nretry_after = { honour = \"longer\", on = [\"often\"], cap = \"none\" }",
        "policy.retry_after.on",
        "write statuses such as 429 or 5xx",
    ),
    (
        "[policy]\nretry_after = { honour = \"longer\", on = [], cap = \"none\" }",
        "policy.retry_after.on",
        "any",
    ),
    (
        "[policy]\nretry_after = { honour = \"ignored\", on = \"any\" }",
        "policy.retry_after.on",
        "not a key",
    ),
    ("[policy.classification]\nsuccess = [\"2xx\"]", "policy.classification.retry", "is missing"),
    ("[endpoint]\nin_flight = 0", "endpoint.in_flight", "between 1 and 1024"),
    ("[endpoint]\nin_flight = 1025", "endpoint.in_flight", "between 1 and 1024"),
    ("[endpoint]\nrate = 0", "endpoint.rate", "between 1 and 1000000"),
    ("[endpoint]\nsignatures = []", "endpoint.signatures", "at least one way"),
    ("[endpoint]\nsignatures = [\"svyx\"]", "endpoint.signatures", "did you mean `svix`?"),
    ("[endpoint]\nsignatures = [\"svix\", \"svix\"]", "endpoint.signatures", "lists `svix` twice"),
    ("[endpoint]\nbreaker = \"on\"", "endpoint.breaker", "must be a table with the keys threshold"),
    (
        "[endpoint]\nbreaker = { threshold = 0, cooldown = \"5m\", growth = 2, longest_cooldown = \"1h\", while_open = \"hold\" }",
        "endpoint.breaker.threshold",
        "use 1 or more",
    ),
    (
        "[endpoint.disable]\npermanent_streak = 0",
        "endpoint.disable.permanent_streak",
        "use 1 or more",
    ),
    ("[endpoint]\nsignatures = [\"event-id\"]", "endpoint.signatures", "at least one way"),
    (
        "[endpoint.response_kept]\nbody_limit = \"16385 bytes\"",
        "endpoint.response_kept.body_limit",
        "at most \"16384 bytes\"",
    ),
    (
        "[policy]\nschedule = { kind = \"fixed\", waits = [\"5s\", \"0s\"] }",
        "policy.schedule.waits",
        "at least 100ms",
    ),
    ("[policy]\nmax_attempts = 10001", "policy.max_attempts", "use 10000 or fewer"),
    (
        "[endpoint.response_kept]\nbody_limit = \"1 page\"",
        "endpoint.response_kept.body_limit",
        "16384 bytes",
    ),
    (
        "[endpoint.response_kept]\nparts = [\"bdy\"]",
        "endpoint.response_kept.parts",
        "did you mean `body`?",
    ),
    ("extends = \"strype\"", "extends", "did you mean `stripe`?"),
    ("extends = 3", "extends", "name of a preset"),
];

#[test]
fn a_mistake_is_named_by_its_field_and_by_what_is_allowed() {
    for (document, field, words) in MISTAKES {
        let error = error(document);
        assert!(error.contains(&format!("`{field}`")), "{document}\n=> {error}");
        assert!(error.contains(words), "{document}\n=> {error}");
    }
}

#[test]
fn a_class_listed_twice_and_an_unknown_entry_are_refused() {
    let with = |permanent: &str| {
        let lists = format!(
            "[policy.classification]\nsuccess = [\"2xx\"]\nretry = [\"404\"]\nambiguous = []\n\
             permanent = [{permanent}]\ndisable = []\notherwise = \"retry\"\nambiguous_limit = 5\n"
        );
        error(&lists)
    };
    assert!(
        with("\"404\"").contains("`policy.classification.permanent` lists `404`, which `retry`")
    );
    assert!(with("\"teapot\"").contains("allowed are statuses (404, 411-417, 5xx), network"));
}

#[test]
fn broken_syntax_is_reported_with_its_line() {
    let error = read_toml("[policy]\nmax_attempts = = 3\n").unwrap_err();
    assert!(matches!(&error, ReadError::Syntax(text) if text.contains("line 2")), "{error}");
    let error = read_json("{\"policy\": {,}}").unwrap_err();
    assert!(matches!(&error, ReadError::Syntax(text) if text.contains("line 1")), "{error}");
    assert!(read_json("[]").unwrap_err().to_string().contains("must be a table"));
}

fn spans() -> impl Strategy<Value = String> {
    (1_u64..1_000_000).prop_map(|seconds| format!("{seconds}s"))
}

fn documents() -> impl Strategy<Value = String> {
    let schedule = prop_oneof![
        prop::collection::vec(spans(), 1..20)
            .prop_map(|waits| format!("{{ kind = \"fixed\", waits = {waits:?} }}")),
        (1_u32..500, 10_u32..100, 500_u32..100_000).prop_map(|(base, factor, cap)| format!(
            "{{ kind = \"exponential\", base = \"{base}s\", factor = {}, cap = \"{cap}s\" }}",
            f64::from(factor) / 10.0
        )),
    ];
    let jitter = prop_oneof![
        prop::sample::select(vec!["none", "full", "equal", "decorrelated"])
            .prop_map(|kind| format!("{{ kind = \"{kind}\" }}")),
        (prop::sample::select(vec!["around", "up_to"]), 1_u32..=1_000).prop_map(|(kind, share)| {
            format!("{{ kind = \"{kind}\", share = {} }}", f64::from(share) / 1_000.0)
        }),
    ];
    (schedule, jitter, 1_u32..50, spans(), 0_u8..=20).prop_map(
        |(schedule, jitter, attempts, give_up, hops)| {
            format!(
                "name = \"some\"\nsummary = \"made up\"\n[policy]\nmax_attempts = {attempts}\n\
                 give_up_after = \"{give_up}\"\nredirects = {hops}\nschedule = {schedule}\n\
                 jitter = {jitter}\n"
            )
        },
    )
}

proptest! {
    #[test]
    fn any_policy_is_written_back_unchanged(document in documents()) {
        let read: Preset = read_toml(&document).unwrap();
        prop_assert_eq!(read_value(write_value(&read)).unwrap(), read);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}") {
        let _ = read_toml(&text);
        let _ = read_json(&text);
    }
}
