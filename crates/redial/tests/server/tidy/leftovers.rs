//! What is not left lying around in code: silenced lints, skipped tests, notes to finish later.

use super::tree::{self, File};
use super::{Complaint, assert_tidy};

/// What may not stand in code, and what to do instead.
const IN_CODE: [(&str, &str); 7] = [
    ("#[allow", "use #[expect(lint, reason = \"…\")]"),
    ("#![allow", "use #[expect(lint, reason = \"…\")] where it is needed"),
    ("#[ignore", "make it quick enough to run, or a command of its own in CONTRIBUTING.md"),
    ("todo!(", "finish it"),
    ("unimplemented!(", "finish it"),
    ("fn get_", "leave `get_` out of the name"),
    ("fn neo_", "there is one of each; replace the old one"),
];
/// What may not stand in comments.
const IN_COMMENTS: [&str; 3] = ["TODO", "FIXME", "XXX"];

fn leftovers(file: &File) -> Vec<Complaint> {
    let mut found = Vec::new();
    for line in file.source().lines {
        // A collection's `get_mut` stands beside its `get`, as in the standard library.
        let written = line.code.replace("fn get_mut(", "fn (");
        let code = IN_CODE.iter().filter(|(pattern, _)| written.contains(pattern));
        found.extend(code.map(|(pattern, advice)| {
            Complaint::new(&file.path, line.number, format!("`{pattern}`: {advice}"))
        }));
        let comment = IN_COMMENTS.iter().filter(|word| line.comment.contains(*word));
        found.extend(comment.map(|word| {
            let text = format!("`{word}`: finish it, or leave it out");
            Complaint::new(&file.path, line.number, text)
        }));
    }
    found
}

/// Tests are claims: `an_interrupted_attempt_does_not_count`.
fn test_names(file: &File) -> Vec<Complaint> {
    let lines = file.source().lines;
    let tests = lines.windows(2).filter(|pair| pair[0].code.trim_end().ends_with("test]"));
    let unclaimed = tests.filter(|pair| pair[1].code.contains("fn test_"));
    let complain = |pair: &[super::source::Line]| {
        let text = "a test's name is the claim it makes; leave `test_` out";
        Complaint::new(&file.path, pair[1].number, text)
    };
    unclaimed.map(complain).collect()
}

#[test]
fn nothing_is_silenced_skipped_or_unfinished() {
    assert_tidy(tree::rust_files().unwrap().iter().flat_map(leftovers));
}

#[test]
fn tests_are_named_after_their_claims() {
    assert_tidy(tree::rust_files().unwrap().iter().flat_map(test_names));
}

#[test]
fn each_leftover_is_found_where_it_counts() {
    let lines_of = |text: &str| -> Vec<usize> {
        leftovers(&File::new("a.rs", text)).iter().map(|complaint| complaint.line).collect()
    };
    assert_eq!(lines_of("x\n#[allow(dead_code)]\n#![allow(unused)]\n#[ignore]\n"), [2, 3, 4]);
    assert_eq!(lines_of("// TODO: more\n/// FIXME\nx /* XXX */\n"), [1, 2, 3]);
    assert_eq!(
        lines_of("fn get_x() {\n    todo!()\n}\nfn neo_x() { unimplemented!() }"),
        [1, 2, 4, 4]
    );
    assert_eq!(lines_of("// #[allow is not used here\nlet x = \"TODO #[ignore]\";"), [0; 0]);
    assert_eq!(
        lines_of("#[expect(dead_code, reason = \"…\")]\nfn get_mut(x: Y) { map.get_mut(); }"),
        [0; 0]
    );
}

#[test]
fn a_test_that_claims_nothing_is_found() {
    let named = |name: &str| test_names(&File::new("a.rs", &format!("#[test]\nfn {name}() {{}}")));
    assert_eq!(named("test_backoff").len(), 1);
    assert_eq!(named("waits_grow"), []);
}
