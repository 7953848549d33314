//! Requests that somebody else makes up from the OpenAPI document, and answers held against it.

use std::path::Path;
use std::process::Command;

use super::installed;
use super::process::Running;

/// A short run. CONTRIBUTING.md says how to make a longer one.
#[test]
fn every_answer_to_a_made_up_request_is_one_that_the_document_tells_of() {
    installed("schemathesis/bin/st");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/schemathesis");
    let mut command = Command::new(script);
    command.args(["--max-examples", "5"]).env("REDIAL_TEST_BINARY", env!("CARGO_BIN_EXE_redial"));
    let out = Running::start(command).finish();
    assert!(out.contains("No issues found"), "{out}");
}
