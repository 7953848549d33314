//! Keeps the house in order: what the style asks for and a machine can see.
//!
//! Every check is a function from texts to complaints. It is applied to the repository, and to a
//! small sample that it must object to, so that a check which has gone blind fails as well.
//!
//! # Layout
//! - `tree`: the files of the repository; `source`: a Rust file, its comments and literals apart
//! - `rooms`: who may import whom; `supply`: what Cargo.lock may hold
//! - `files`, `leftovers`: length, opening, names; what is not left lying around
//! - `words`: the glossary; `promises`: codes and keys that must be documented
//! - `twins`: what the stores in a file and in PostgreSQL have alike
//! - `callers`: what is public in `domain` and only tests call
//! - `documents`: README, changelog, links, paths; `stations`: the way of a message

mod callers;
mod documents;
mod files;
mod leftovers;
mod promises;
mod rooms;
mod source;
mod stations;
mod supply;
mod tree;
mod twins;
mod words;

use std::fmt;

/// Something that is out of order, and where.
#[derive(Debug, PartialEq, Eq)]
struct Complaint {
    path: String,
    /// Counted from 1; 0 for a file as a whole.
    line: usize,
    text: String,
}

impl Complaint {
    fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

/// Fails with all complaints at once, one per line, so that one run is enough to mend them.
#[track_caller]
fn assert_tidy(complaints: impl IntoIterator<Item = Complaint>) {
    let lines: Vec<String> = complaints.into_iter().map(|it| format!("  {it}")).collect();
    assert!(lines.is_empty(), "out of order:\n{}", lines.join("\n"));
}
