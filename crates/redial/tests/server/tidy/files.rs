//! Every file is short, says what it is for, and is named after a noun or a verb.

use super::tree::{self, File};
use super::{Complaint, assert_tidy};

const MOST_LINES: usize = 600;
const COUNTED: [&str; 6] = ["rs", "js", "css", "html", "sql", "py"];
/// Names that say nothing about what is inside, so that everything ends up there.
const EMPTY_NAMES: [&str; 9] =
    ["util", "utils", "helper", "helpers", "common", "misc", "type", "types", "shared"];

fn length(file: &File) -> Option<Complaint> {
    let lines = file.text.lines().count();
    (COUNTED.contains(&file.extension()) && lines > MOST_LINES).then(|| {
        let text = format!("has {lines} lines; split it by noun or verb below {MOST_LINES}");
        Complaint::new(&file.path, 0, text)
    })
}

/// Tests that were moved to `name/tests.rs` are explained by `name.rs`.
fn opening(file: &File) -> Option<Complaint> {
    let module = file.extension() == "rs" && file.stem() != "tests";
    (module && !file.text.starts_with("//! ")).then(|| {
        Complaint::new(&file.path, 1, "does not open with `//!`; say what the module is for")
    })
}

fn name(file: &File) -> Option<Complaint> {
    let mut parts = file.path.split('/').rev().skip(1).chain([file.stem()]);
    let part = parts.find(|part| EMPTY_NAMES.contains(part))?;
    let text = format!("`{part}` says nothing; name it after the noun or verb inside");
    Some(Complaint::new(&file.path, 0, text))
}

#[test]
fn no_file_is_longer_than_600_lines() {
    assert_tidy(tree::files().unwrap().iter().filter_map(length));
}

#[test]
fn every_module_opens_with_what_it_is_for() {
    assert_tidy(tree::rust_files().unwrap().iter().filter_map(opening));
}

#[test]
fn no_file_is_named_after_nothing() {
    let files = tree::files().unwrap();
    assert_tidy(files.iter().filter(|file| file.path.starts_with("crates/")).filter_map(name));
}

#[test]
fn a_long_file_is_found() {
    assert_eq!(length(&File::new("a.rs", &"x\n".repeat(600))), None);
    assert!(length(&File::new("a.rs", &"x\n".repeat(601))).is_some());
    assert!(length(&File::new("a/b.sql", &"x\n".repeat(601))).is_some());
    assert_eq!(length(&File::new("Cargo.lock", &"x\n".repeat(601))), None);
}

#[test]
fn a_module_without_a_word_about_itself_is_found() {
    assert_eq!(opening(&File::new("a.rs", "//! What it is.\n")), None);
    assert!(opening(&File::new("a.rs", "use std::fmt;\n//! Late.\n")).is_some());
    assert!(opening(&File::new("a.rs", "// Not for readers of the documentation.\n")).is_some());
    assert_eq!(opening(&File::new("a/tests.rs", "use super::*;\n")), None);
    assert_eq!(opening(&File::new("a.toml", "[package]\n")), None);
}

#[test]
fn an_empty_name_is_found_in_files_and_folders() {
    assert_eq!(name(&File::new("crates/domain/src/health.rs", "")), None);
    assert!(name(&File::new("crates/domain/src/utils.rs", "")).is_some());
    assert!(name(&File::new("crates/domain/src/helpers/mod.rs", "")).is_some());
}
