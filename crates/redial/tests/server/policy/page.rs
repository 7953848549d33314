//! The page about the lab keeps its word: its commands run, its example is a policy, its picture is
//! what the command beside it draws.

use std::path::PathBuf;

use serde_json::json;

use crate::binary::{redial, redial_json};

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn page() -> String {
    std::fs::read_to_string(docs().join("policy-lab.md")).unwrap()
}

/// Returns the arguments of the page's command that draws this picture.
fn command_for(picture: &str) -> Vec<String> {
    let page = page();
    let line = page.lines().find(|line| line.starts_with("    redial") && line.ends_with(picture));
    line.unwrap().split_whitespace().skip(1).map(str::to_owned).collect()
}

#[test]
fn the_picture_is_what_its_command_draws() {
    let folder = tempfile::tempdir().unwrap();
    let drawn = folder.path().join("drawn.svg");
    let command = command_for("docs/pictures/outage-redial.svg");
    let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
    *arguments.last_mut().unwrap() = drawn.to_str().unwrap();
    assert_eq!(redial(&arguments).code, Some(0));
    let kept = std::fs::read_to_string(docs().join("pictures/outage-redial.svg")).unwrap();
    let same = std::fs::read_to_string(drawn).unwrap() == kept;
    assert!(same, "draw it anew: redial {}", command.join(" "));
}

#[test]
fn the_example_is_a_policy() {
    let page = page();
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("patient.toml");
    std::fs::write(&path, example).unwrap();
    let shown = redial_json(&["policy", "show", path.to_str().unwrap(), "--json"]);
    assert_eq!(shown["name"], "patient");
    assert_eq!(shown["give_up_after_s"], json!(259_200));
    assert_eq!(shown["endpoint"]["in_flight"], json!(4));
    assert_eq!(shown["warnings"], json!([]));
}

#[test]
fn every_key_of_a_policy_file_is_on_the_page() {
    let page = page();
    let shown = redial_json(&["policy", "show", "redial", "--json"]);
    for table in ["policy", "endpoint"] {
        for key in shown[table].as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{table}.{key}`")), "{table}.{key}");
        }
    }
}
