//! `redial bench store`: a store beside a bare loop.

use tempfile::TempDir;
use testkit::database::of_tests;

use crate::binary::{redial, redial_json};

#[test]
fn the_store_is_measured_beside_a_bare_loop() {
    let directory = TempDir::new().unwrap();
    let place = directory.path().join("bench");
    let place = place.to_str().unwrap();
    let small = ["--lifecycles", "300", "--pairs", "1", "--json"];
    let report = redial_json(&[&["bench", "store", "--directory", place], &small[..]].concat());
    has_all(&report);
}

#[test]
fn postgres_is_measured_by_the_same_command_in_databases_that_vanish() {
    let server = of_tests();
    let small = ["--lifecycles", "300", "--pairs", "1", "--json"];
    let report = redial_json(&[&["bench", "store", "--database", &server], &small[..]].concat());
    has_all(&report);
    let both = ["bench", "store", "--database", &server, "--directory", "somewhere"];
    assert_eq!(redial(&both).code, Some(2));
    assert_eq!(redial(&["bench", "store"]).code, Some(2));
}

fn has_all(report: &serde_json::Value) {
    for key in ["ratio", "store_per_s", "bare_per_s", "items_per_batch"] {
        assert!(report[key].as_f64().is_some_and(|value| value > 0.0), "{key}: {report}");
    }
    assert_eq!(report["pairs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_directory_with_something_in_it_is_refused() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("precious"), "x").unwrap();
    let run = redial(&["bench", "store", "--directory", directory.path().to_str().unwrap()]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("is not empty; name another"), "{}", run.err);
}
