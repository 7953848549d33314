//! What Cargo.lock may hold: nothing from elsewhere than crates.io, nothing that deny.toml bans.
//!
//! cargo-deny knows more, but is not installed everywhere. This much is checked everywhere.

use super::tree;
use super::{Complaint, assert_tidy};

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Reads the names that deny.toml bans.
fn banned(deny: &str) -> Vec<&str> {
    let entry = |line| quoted(str::trim(line).strip_prefix("{ crate = ")?);
    deny.lines().filter_map(entry).collect()
}

/// Returns what stands between the quotes that a text begins with.
fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.split('"').next()
}

fn check_lock(lock: &str, banned: &[&str]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (index, line) in lock.lines().enumerate() {
        let name = line.strip_prefix("name = ").and_then(quoted);
        if let Some(name) = name.filter(|name| banned.contains(name)) {
            let text = format!("`{name}` is banned; deny.toml says why");
            complaints.push(Complaint::new("Cargo.lock", index + 1, text));
        }
        let source = line.strip_prefix("source = ").and_then(quoted);
        if let Some(source) = source.filter(|source| *source != CRATES_IO) {
            let text = format!("comes from {source}; only crates.io is allowed");
            complaints.push(Complaint::new("Cargo.lock", index + 1, text));
        }
    }
    complaints
}

#[test]
fn the_lock_file_holds_nothing_banned_and_nothing_from_elsewhere() {
    let deny = tree::file("deny.toml").unwrap();
    let lock = tree::file("Cargo.lock").unwrap();
    let banned = banned(&deny.text);
    assert!(banned.contains(&"openssl") && banned.contains(&"http-types"), "{banned:?}");
    assert!(lock.text.contains(CRATES_IO));
    assert_tidy(check_lock(&lock.text, &banned));
}

#[test]
fn a_banned_crate_and_a_foreign_source_are_found() {
    let deny =
        "[bans]\n# { crate = \"fine\" }\ndeny = [\n    { crate = \"tide\", reason = \"x\" },\n]\n";
    assert_eq!(banned(deny), ["tide"]);
    let lock = format!(
        "[[package]]\nname = \"tide\"\nsource = \"{CRATES_IO}\"\n\n\
         [[package]]\nname = \"tidewater\"\nsource = \"git+https://example.com/x\"\n\n\
         [[package]]\nname = \"redial\"\n"
    );
    let lines: Vec<usize> = check_lock(&lock, &banned(deny)).iter().map(|it| it.line).collect();
    assert_eq!(lines, [2, 7]);
}
