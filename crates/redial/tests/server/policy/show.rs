//! Every preset against the tables it was made from, written out by hand.

use serde_json::{Value, json};

use crate::binary::{redial, redial_json};

const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;

struct Expected {
    name: &'static str,
    waits: Vec<u64>,
    attempts: u64,
    give_up_minutes: Option<u64>,
    jitter: &'static str,
    timeout: u64,
}

fn minutes(waits: &[u64]) -> Vec<u64> {
    waits.iter().map(|wait| wait * MINUTE).collect()
}

/// The waits of a list, and then so many times the same.
fn then(mut waits: Vec<u64>, times: usize, wait: u64) -> Vec<u64> {
    waits.extend(vec![wait; times]);
    waits
}

fn designs() -> Vec<Expected> {
    let redial = vec![5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
    let expect = |name, waits, attempts, give_up_minutes, (jitter, timeout)| Expected {
        name,
        waits,
        attempts,
        give_up_minutes,
        jitter,
        timeout,
    };
    vec![
        expect("redial", redial.clone(), 10, Some(96 * 60), ("around(0.2)", 20)),
        expect(
            "formspring",
            vec![30, 90, 270, 810, 2_430, 7_290, 21_600],
            8,
            Some(24 * 60),
            ("around(0.5)", 60),
        ),
        expect("webhook-actions", vec![30, 60, 120, 240], 5, None, ("up_to(0.2)", 20)),
        expect(
            "backoff-chapter",
            then(minutes(&[1, 2, 4, 8, 16, 32]), 9, HOUR),
            16,
            Some(72 * 60),
            ("equal", 20),
        ),
        expect("recuro", vec![30, 60, 120, 240, 480, 960, 1_920, 3_840], 9, None, ("full", 30)),
        expect(
            "recuro-schedule",
            vec![10, 30, 120, 600, 1_800, 7_200, 28_800, 86_400],
            9,
            None,
            ("equal", 30),
        ),
        expect(
            "delivery-guarantee",
            vec![60, 120, 240, 480, 960, 1_920, 3_840],
            8,
            None,
            ("full", 10),
        ),
        expect("standard-webhooks", redial, 10, None, ("around(0.1)", 20)),
        expect(
            "svix",
            vec![5, 300, 1_800, 7_200, 18_000, 36_000, 36_000],
            8,
            None,
            ("around(0.2)", 15),
        ),
    ]
}

fn senders() -> Vec<Expected> {
    let doubling = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
    let expect = |name, waits, attempts, give_up_minutes, timeout| Expected {
        name,
        waits,
        attempts,
        give_up_minutes: Some(give_up_minutes),
        jitter: "none",
        timeout,
    };
    let shopify = [30, 60, 120, 240, 480, 960, 1_920, 3_840, 7_680].to_vec();
    vec![
        expect("stripe", then(minutes(&doubling), 5, 10 * HOUR), 16, 72 * 60, 30),
        expect("github", vec![4_800; 3], 4, 4 * 60 + 10, 10),
        expect("shopify", then(shopify, 10, 4 * HOUR), 20, 48 * 60, 5),
        expect("twilio", vec![15], 2, 1, 15),
        expect("sendgrid", then(minutes(&doubling[..8]), 16, 4 * HOUR), 25, 72 * 60, 10),
        expect("slack", minutes(&[4, 8, 16]), 4, 30, 5),
        expect("paypal", then(minutes(&doubling[..9]), 10, 8 * HOUR), 20, 96 * 60, 20),
        expect("discord", minutes(&[1, 2, 4, 8, 14]), 6, 30, 10),
    ]
}

#[test]
fn every_preset_is_shown_with_the_numbers_of_its_source() {
    let all: Vec<Expected> = designs().into_iter().chain(senders()).collect();
    for expected in &all {
        let shown = redial_json(&["policy", "show", expected.name, "--json"]);
        let give_up = expected.give_up_minutes.map(|minutes| minutes * MINUTE);
        assert_eq!(shown["name"], expected.name);
        assert_eq!(shown["waits_s"], json!(expected.waits), "{}", expected.name);
        assert_eq!(shown["max_attempts"], json!(expected.attempts), "{}", expected.name);
        assert_eq!(shown["give_up_after_s"], json!(give_up), "{}", expected.name);
        assert_eq!(shown["jitter"], expected.jitter, "{}", expected.name);
        assert_eq!(shown["timeout_s"], json!(expected.timeout), "{}", expected.name);
        let retries = usize::try_from(expected.attempts).unwrap() - 1;
        assert_eq!(expected.waits.len(), retries, "{}", expected.name);
    }
    assert_eq!(all.len(), 17);
}

#[test]
fn the_list_names_every_preset_with_redial_first() {
    let Value::Array(listed) = redial_json(&["policy", "list", "--json"]) else { panic!() };
    let names: Vec<&str> = listed.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], "redial");
    let mut expected: Vec<&str> =
        designs().iter().chain(&senders()).map(|expected| expected.name).collect();
    let mut sorted = names.clone();
    expected.sort_unstable();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    let text = redial(&["policy", "list"]).out;
    assert!(names.iter().all(|name| text.contains(name)));
}

#[test]
fn a_policy_is_shown_as_a_table_with_what_it_makes_of_answers() {
    let shown = redial(&["policy", "show", "redial"]);
    assert_eq!((shown.code, shown.err.as_str()), (Some(0), ""));
    let row = "        5    2h     1h36m    2h24m   2h35m5s";
    for line in [row, "  disable    410", "  gives up after  96h", "  in flight       10"] {
        assert!(shown.out.lines().any(|shown| shown == line), "{line:?} in\n{}", shown.out);
    }
}

#[test]
fn unwise_policies_are_warned_about_beside_the_data() {
    let slack = redial(&["policy", "show", "slack"]);
    let warnings: Vec<&str> = slack.err.lines().collect();
    assert_eq!(warnings.len(), 3);
    assert!(warnings.iter().all(|line| line.starts_with("warning: ")));
    assert!(!slack.out.contains("warning"));
    let json = redial_json(&["policy", "show", "slack", "--json"]);
    assert_eq!(json["warnings"].as_array().unwrap().len(), 3);
    assert_eq!(redial_json(&["policy", "show", "redial", "--json"])["warnings"], json!([]));
}

#[test]
fn a_file_is_shown_like_a_preset() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let text = "name = \"mine\"\nextends = \"svix\"\n[policy]\nmax_attempts = \"unlimited\"\n\
                give_up_after = \"1h\"\nschedule = { kind = \"fixed\", waits = [\"1500ms\", \"20m\"] }";
    std::fs::write(&path, text).unwrap();
    let shown = redial_json(&["policy", "show", path.to_str().unwrap(), "--json"]);
    assert_eq!(shown["name"], "mine");
    assert_eq!(shown["max_attempts"], Value::Null);
    // Without an attempts limit, as many as fit into the hour.
    assert_eq!(shown["waits_s"], json!([1.5, 1_200, 1_200]));
    assert_eq!(shown["timeout_s"], json!(15));
    let path = folder.path().join("mine.json");
    std::fs::write(&path, "{\"policy\": {\"max_attempts\": 2}}").unwrap();
    let shown = redial_json(&["policy", "show", path.to_str().unwrap(), "--json"]);
    assert_eq!(shown["waits_s"], json!([5]));
}
