//! The binary as a shell would run it.

use std::process::Command;

use serde_json::Value;

/// What a run of the binary left behind.
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the binary.
pub(crate) fn redial(arguments: &[&str]) -> Finished {
    let output = Command::new(env!("CARGO_BIN_EXE_redial")).args(arguments).output().unwrap();
    Finished {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs the binary, which must work, and reads the JSON it prints.
pub(crate) fn redial_json(arguments: &[&str]) -> Value {
    let finished = redial(arguments);
    assert_eq!(finished.code, Some(0), "{arguments:?}: {}", finished.err);
    serde_json::from_str(&finished.out).unwrap()
}
