//! What is refused: exit code 2, nothing on standard output, and a text that helps.

use crate::binary::redial;

/// Runs the binary, which must refuse, and returns what it says.
fn refusal(arguments: &[&str]) -> String {
    let finished = redial(arguments);
    assert_eq!((finished.code, finished.out.as_str()), (Some(2), ""), "{arguments:?}");
    assert!(finished.err.starts_with("error: "), "{}", finished.err);
    finished.err
}

/// Writes a policy file and returns what showing it, and simulating it, says.
fn file_refusal(name: &str, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let simulated = refusal(&simulate(path, "10", "1h", "1h"));
    assert_eq!(refusal(&["policy", "show", path]), simulated);
    simulated
}

fn simulate<'a>(policy: &'a str, events: &'a str, over: &'a str, outage: &'a str) -> [&'a str; 9] {
    ["policy", "simulate", policy, "--events", events, "--over", over, "--outage", outage]
}

#[test]
fn an_unknown_policy_suggests_the_nearest() {
    let text = refusal(&["policy", "show", "redail"]);
    assert_eq!(text, "error: there is no policy named `redail`; did you mean `redial`?\n");
    assert_eq!(refusal(&simulate("redail", "10", "1h", "1h")), text);
    assert!(refusal(&["policy", "show", "kafka"]).contains("; there are redial, formspring, "));
}

#[test]
fn a_bad_duration_says_how_to_write_one() {
    let cases = [
        ("30", "did you mean `30s`?"),
        ("5parsecs", "`parsecs` is not a unit; use ms, s, m, h or d"),
        ("soon", "write for example 30s or 1h30m"),
        ("366d", "use 365d or less"),
        ("99999999999999d", "use 365d or less"),
        ("-5m", "`-5m` does not begin with a whole number"),
    ];
    for (span, hint) in cases {
        assert!(refusal(&simulate("redial", "10", span, "1h")).contains(hint), "{span}");
        let text = refusal(&simulate("redial", "10", "1h", span));
        assert!(text.contains(hint) && text.contains("--outage"), "{span}");
    }
    assert!(refusal(&simulate("redial", "10", "0s", "1h")).contains("use 1s or more"));
    let mut late = simulate("redial", "10", "1h", "1h").to_vec();
    late.extend(["--outage-starts", "1y"]);
    assert!(refusal(&late).contains("use ms, s, m, h or d"));
}

#[test]
fn the_number_of_events_has_limits() {
    assert!(refusal(&simulate("redial", "0", "1h", "1h")).contains("use 1 or more"));
    for events in ["10000001", "many", "1e6", "-1"] {
        let text = refusal(&simulate("redial", events, "1h", "1h"));
        assert!(text.contains("a whole number from 1 to 10,000,000"), "{text}");
    }
}

#[test]
fn a_cap_below_the_base_is_a_contradiction() {
    let text =
        "[policy]\nschedule = { kind = \"exponential\", base = \"1m\", factor = 2, cap = \"30s\" }";
    let refused = file_refusal("mine.toml", text);
    let told = "`policy.schedule.cap` is 30s, below the base of 1m; raise it to 1m or more\n";
    assert!(refused.ends_with(told), "{refused}");
}

#[test]
fn zero_attempts_are_refused() {
    let told = file_refusal("mine.json", "{\"policy\": {\"max_attempts\": 0}}");
    assert!(told.contains("`policy.max_attempts` is 0"), "{told}");
    assert!(told.contains("use 1 or more"), "{told}");
}

#[test]
fn one_of_the_limits_must_stay() {
    let text = "{\"policy\": {\"max_attempts\": null, \"give_up_after\": null}}";
    assert!(file_refusal("mine.json", text).contains("limit one of them"));
}

#[test]
fn an_unknown_key_suggests_the_nearest() {
    let told = file_refusal("mine.toml", "[policy]\nmax_atempts = 3");
    assert!(told.contains("`policy.max_atempts` is not a key here"), "{told}");
    assert!(told.contains("did you mean `max_attempts`?"), "{told}");
    let told = file_refusal("mine.toml", "extends = \"stirpe\"");
    assert!(told.contains("did you mean `stripe`?"), "{told}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let told = refusal(&["policy", "show", "nowhere/svix.toml"]);
    assert!(told.starts_with("error: cannot read the policy file `nowhere/svix.toml`: "), "{told}");
    assert!(told.ends_with("did you mean the policy `svix`?\n"), "{told}");
    assert!(file_refusal("mine.toml", "[policy\n").contains("line 1"));
    assert!(file_refusal("mine.json", "{").contains("line 1"));
    assert!(file_refusal("MINE.TOML", "[policy\n").contains("line 1"));
    assert!(file_refusal("mine.yaml", "").contains("neither a .toml nor a .json"));
    assert!(file_refusal("mine.toml", &"#".repeat(1_048_577)).contains("larger than 1 MiB"));
}

#[test]
fn an_empty_file_says_what_to_write() {
    for text in ["", "\n# later\n"] {
        let told = file_refusal("mine.toml", text);
        let hint =
            "is empty; write what differs from `redial`, for example `policy.max_attempts = 5`\n";
        assert!(told.ends_with(hint), "{told}");
    }
    assert!(file_refusal("mine.json", "{}").contains("is empty; "));
}

#[test]
fn what_a_file_says_cannot_command_the_terminal() {
    let told = file_refusal("mine.json", "{\"policy\": {\"a\\u001b[2J\\u009b\\u202e\": 1}}");
    assert!(told.contains("`policy.a\\u{1b}[2J\\u{9b}\\u{202e}` is not a key here"), "{told}");
    let told = file_refusal("mine.toml", &format!("{} = 1", "k".repeat(10_000)));
    assert!(told.lines().all(|line| line.chars().count() <= 400), "{told}");
    assert!(told.contains('…'), "{told}");
}

#[test]
fn a_seed_is_a_whole_number() {
    let mut arguments = simulate("redial", "10", "1h", "1h").to_vec();
    arguments.extend(["--seed", "-1"]);
    assert!(refusal(&arguments).contains("it must be a whole number from 0 to"));
}

#[test]
fn standard_output_holds_one_thing_only() {
    let mut arguments = simulate("redial", "10", "1h", "1h").to_vec();
    arguments.extend(["--json", "--svg", "-"]);
    assert!(refusal(&arguments).ends_with("; give the picture a file\n"));
}

#[test]
fn an_unknown_answer_lists_the_known_ones() {
    let mut arguments = simulate("redial", "10", "1h", "1h").to_vec();
    arguments.extend(["--outage-answer", "404"]);
    assert!(refusal(&arguments).contains("503, timeout, refused"));
}

#[test]
fn a_picture_that_cannot_be_written_is_a_failure_of_another_kind() {
    let mut arguments = simulate("redial", "10", "1h", "1h").to_vec();
    arguments.extend(["--svg", "nowhere/at/all.svg"]);
    let finished = redial(&arguments);
    assert_eq!((finished.code, finished.out.as_str()), (Some(1), ""));
    assert!(finished.err.starts_with("error: cannot write the picture to `nowhere/at/all.svg`: "));
}
