//! What the lab finds, and that it finds the same again.

use serde_json::Value;

use crate::binary::{redial, redial_json};

fn simulate(policy: &str, events: &str, over: &str, outage: &str, more: &[&str]) -> Value {
    let base =
        ["policy", "simulate", policy, "--events", events, "--over", over, "--outage", outage];
    let mut arguments = base.to_vec();
    arguments.push("--json");
    arguments.extend(more);
    redial_json(&arguments)
}

fn variant<'a>(found: &'a Value, name: &str) -> &'a Value {
    found["variants"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap()
}

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} in {of:#}"))
}

#[test]
fn the_top_level_is_the_policy_as_it_is_and_each_variant_has_the_same_keys() {
    let found = simulate("redial", "1000", "6h", "1h", &[]);
    let keys = [
        "events",
        "delivered",
        "dead",
        "dead_by_cause",
        "attempts",
        "attempts_during_outage",
        "peak_per_second_after_recovery",
        "last_delivered_after_recovery_s",
    ];
    let as_is = variant(&found, "as_is");
    for key in keys {
        assert!(!found[key].is_null(), "{key}");
        assert_eq!(found[key], as_is[key], "{key}");
        assert!(found["variants"].as_array().unwrap().iter().all(|it| !it[key].is_null()), "{key}");
    }
    assert_eq!(number(&found, "seed"), 1);
    assert_eq!(number(&found["outage"], "starts_s"), 2_160);
}

#[test]
fn every_event_is_delivered_or_dead() {
    let cases = [("redial", "1d", "8h"), ("recuro", "1d", "8h"), ("slack", "2h", "3h")];
    for (policy, over, outage) in cases {
        let found = simulate(policy, "5000", over, outage, &["--outage-answer", "timeout"]);
        for it in found["variants"].as_array().unwrap() {
            assert_eq!(number(it, "delivered") + number(it, "dead"), 5_000, "{policy}: {it}");
            let causes = it["dead_by_cause"].as_object().unwrap();
            let sum: u64 = causes.values().map(|events| events.as_u64().unwrap()).sum();
            assert_eq!(sum, number(it, "dead"), "{policy}: {it}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let base = ["policy", "simulate", "svix", "--events", "3000", "--over", "1h", "--outage", "2h"];
    let run = |name: &str, seed: &str| {
        let picture = folder.path().join(name);
        let mut arguments = base.to_vec();
        arguments.extend(["--json", "--seed", seed, "--svg", picture.to_str().unwrap()]);
        let finished = redial(&arguments);
        assert_eq!(finished.code, Some(0), "{}", finished.err);
        (finished.out, std::fs::read_to_string(picture).unwrap())
    };
    assert_eq!(run("one.svg", "7"), run("two.svg", "7"));
    assert_ne!(run("one.svg", "7"), run("two.svg", "8"));
}

#[test]
fn jitter_lowers_the_peak_of_a_burst() {
    let found = simulate("formspring", "5000", "10s", "1h", &["--outage-answer", "refused"]);
    let with = number(&found, "peak_per_second_after_recovery");
    let without = number(variant(&found, "without_jitter"), "peak_per_second_after_recovery");
    assert!(with * 10 < without, "{with} and {without}");
}

#[test]
fn a_breaker_spares_the_receiver_during_the_outage() {
    let found = simulate("redial", "20000", "1d", "6h", &[]);
    let with = number(&found, "attempts_during_outage");
    let without = number(variant(&found, "without_breaker"), "attempts_during_outage");
    assert!(with < 20 && without > 10_000, "{with} and {without}");
}

#[test]
fn what_a_policy_lacks_is_lent_and_said() {
    let found = simulate("formspring", "100", "1h", "1h", &[]);
    assert_eq!(variant(&found, "with_breaker")["breaker"], true);
    assert!(found["notes"][0].as_str().unwrap().contains("has no breaker of its own"));
    let text = redial(&[
        "policy", "simulate", "stripe", "--events", "100", "--over", "1h", "--outage", "1h",
    ]);
    assert!(text.out.contains("stripe has no jitter of its own"));
}

#[test]
fn an_outage_of_days_disables_the_endpoint_and_says_so() {
    let found = simulate("redial", "1000", "30d", "10d", &[]);
    assert_eq!(found["endpoint_disabled"]["reason"], "without_success");
    assert!(number(&found["dead_by_cause"], "endpoint_disabled") > 500);
    let text = redial(&[
        "policy", "simulate", "redial", "--events", "1000", "--over", "30d", "--outage", "10d",
    ]);
    assert!(text.out.contains("as it is: endpoint disabled at "), "{}", text.out);
}

#[test]
fn the_outage_begins_when_it_is_told_to() {
    let found = simulate("redial", "1000", "10h", "1h", &["--outage-starts", "5h"]);
    assert_eq!(number(&found["outage"], "starts_s"), 18_000);
    let all = simulate("redial", "1000", "1h", "1h", &[]);
    assert_eq!(number(&all["outage"], "starts_s"), 0);
}

#[test]
fn without_an_outage_everything_arrives_at_once() {
    let found = simulate("redial", "1000", "10h", "0s", &[]);
    assert_eq!((number(&found, "delivered"), number(&found, "attempts")), (1_000, 1_000));
    assert_eq!(number(&found["outage"], "lasts_s"), 0);
    let text = redial(&[
        "policy", "simulate", "redial", "--events", "1", "--over", "1h", "--outage", "0s",
    ]);
    let told = "redial: 1 event over 1h; the receiver is never down; seed 1\n";
    assert!(text.out.starts_with(told), "{}", text.out);
}

#[test]
fn the_picture_can_go_to_standard_output() {
    let base =
        ["policy", "simulate", "redial", "--events", "100", "--over", "1h", "--outage", "1h"];
    let finished = redial(&[&base[..], &["--svg", "-"]].concat());
    assert_eq!(finished.code, Some(0));
    assert!(tags(&finished.out).contains(&"svg".to_owned()));
    assert!(finished.err.starts_with("redial: 100 events"), "{}", finished.err);
}

#[test]
fn a_files_name_cannot_command_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, "name = \"a\\u001b[2J\"\nsummary = \"b\\u202e\"").unwrap();
    let path = path.to_str().unwrap();
    let shown = redial(&["policy", "show", path]).out;
    assert!(shown.starts_with("a\\u{1b}[2J: b\\u{202e}\n"), "{shown}");
    let base = ["policy", "simulate", path, "--events", "9", "--over", "1h", "--outage", "1h"];
    for more in [&[][..], &["--json"], &["--svg", "-"]] {
        let finished = redial(&[&base[..], more].concat());
        let all = finished.out + &finished.err;
        assert!(all.contains("[2J") && !all.contains(['\u{1b}', '\u{202e}']), "{all}");
    }
}

#[test]
fn the_picture_is_well_formed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("picture.svg");
    let path = path.to_str().unwrap();
    simulate("recuro", "20000", "1d", "3h", &["--svg", path]);
    let drawn = std::fs::read_to_string(path).unwrap();
    let tags = tags(&drawn);
    assert_eq!(tags.first().map(String::as_str), Some("svg"));
    for needed in ["title", "desc", "style", "rect", "path", "text"] {
        assert!(tags.iter().any(|tag| tag == needed), "{needed}");
    }
}

/// Returns the names of all elements, after checking that each one is closed where it should be
/// and that no text holds a bare `<` or `&`.
fn tags(document: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut seen = Vec::new();
    let mut rest = document;
    while let Some(start) = rest.find('<') {
        check_text(&rest[..start]);
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes what is open");
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap();
        assert!(tag.matches('"').count().is_multiple_of(2), "quotes in <{tag}>");
        seen.push(name.to_owned());
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(rest.trim(), "");
    assert!(open.is_empty(), "{open:?} stay open");
    seen
}

fn check_text(text: &str) {
    for after in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "apos;"];
        assert!(known.iter().any(|entity| after.starts_with(entity)), "&{after}");
    }
}
