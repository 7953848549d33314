//! `redial bench`: the server as a process of its own, with customers and receivers around it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use testkit::database::of_tests;

use crate::binary::{redial, redial_json};

#[test]
fn the_yardstick_needs_no_server() {
    let directory = TempDir::new().unwrap();
    let pictures = directory.path().join("pictures");
    let run = ["bench", "--quick", "--only", "bare", "--json", "--directory"];
    let place = directory.path().to_str().unwrap();
    let finished = redial(&[&run, &[place, "--svg", pictures.to_str().unwrap()][..]].concat());
    let report: Value = serde_json::from_str(&finished.out).unwrap();
    assert!(finished.err.contains("bare requests, 256 at a time"), "the table: {}", finished.err);
    let figure = &report["figures"][0];
    assert_eq!(figure["scenario"], "bare");
    assert!(figure["value"].as_f64().is_some_and(|rate| rate > 100.0), "{report}");
    assert_eq!(report["store"], "sqlite");
    let command = report["command"].as_str().unwrap();
    assert!(command.starts_with("redial bench --quick --only bare --json"), "{command}");
    assert!(report["machine"]["sync_p99_seconds"].is_number(), "{report}");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "only the pictures are left: {left:?}");
}

/// It has the machine to itself: see `.config/nextest.toml`.
#[test]
fn the_smoke_form_finds_no_ratio_below_half_of_what_it_should_be() {
    let directory = TempDir::new().unwrap();
    let place = directory.path().to_str().unwrap();
    let report = redial_json(&["bench", "--smoke", "--json", "--directory", place]);
    let figures = report["figures"].as_array().unwrap();
    let named = |part: &str| {
        let found = figures.iter().find(|it| it["name"].as_str().unwrap().contains(part));
        found.unwrap_or_else(|| panic!("no {part} in {report:#}"))
    };
    for ratio in ["one at a time ÷ (bare ÷ 2)", "batches of 100 ÷ bare", "answering pings"] {
        assert!(named(ratio)["at_least"].is_number(), "{report:#}");
    }
    for counted in ["fsyncs for each delivery", "fsyncs for each commit", "rows in a commit"] {
        assert!(named(counted)["value"].as_f64().is_some_and(|it| it > 0.0), "{report:#}");
    }
    assert!(named("read back from the store")["value"].is_number());
    assert!(named("÷ (bare, connections held by hand ÷ 2)")["at_least"].is_null());
}

/// It has the machine to itself, too.
#[test]
fn the_smoke_form_finds_no_ratio_below_half_with_a_database() {
    let server = of_tests();
    let run = ["bench", "--smoke", "--pairs", "3", "--json", "--database", &server];
    let report = redial_json(&[&run[..], &["--only", "end-to-end,fleet"]].concat());
    let figures = report["figures"].as_array().unwrap();
    let bound = |part: &str| {
        let found = figures.iter().find(|it| it["name"].as_str().unwrap().contains(part));
        found.and_then(|it| it["at_least"].as_f64())
    };
    assert_eq!(bound("one at a time ÷ (bare ÷ 2)"), Some(0.25), "{report:#}");
    assert_eq!(bound("batches of 100 ÷ bare"), Some(0.2), "{report:#}");
    assert_eq!(bound("two nodes, all accepted on one ÷ one node"), Some(0.7), "{report:#}");
}

#[test]
fn what_a_database_makes_impossible_is_named() {
    let server = of_tests();
    let run = ["bench", "--quick", "--only", "bare,slow-sync", "--json", "--database", &server];
    let report = redial_json(&run);
    assert_eq!(report["left_out"][0]["scenario"], "slow-sync", "{report:#}");
    assert_eq!(report["store"], "postgresql", "{report:#}");
}

#[test]
fn a_server_that_does_not_start_is_quoted_and_the_rest_is_told() {
    let run = ["bench", "--quick", "--only", "bare,accept", "--server", "/bin/false"];
    let finished = redial(&run);
    assert_eq!(finished.code, Some(1));
    assert!(finished.out.contains("bare requests, 256 at a time"), "{}", finished.out);
    let said = "error: `accept` could not be measured: the server ended with exit status: 1";
    assert!(finished.err.contains(said), "{}", finished.err);
}

#[test]
fn a_fleet_without_a_database_makes_no_sense() {
    let finished = redial(&["bench", "--only", "fleet"]);
    assert_eq!(finished.code, Some(2));
    let said = "error: a fleet shares a database; name one with --database\n";
    assert_eq!(finished.err, said);
}

#[test]
fn an_unknown_scenario_is_refused_with_those_that_exist() {
    let finished = redial(&["bench", "--only", "latencies"]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.err.contains("latency"), "{}", finished.err);
}

#[test]
fn whoever_stops_it_finds_nothing_left() {
    let directory = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.args(["bench", "--only", "bare", "--directory"]).arg(directory.path());
    let mut bench = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(bench.stderr.take().unwrap());
    // It listens to signals before it says anything, and the yardstick takes seconds.
    said.read_line(&mut String::new()).unwrap();
    kill_process(Pid::from_child(&bench), Signal::TERM).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(1), "{rest}");
    assert!(rest.contains("error: `bare` could not be measured: interrupted"), "{rest}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
