//! Whatever is public in `domain` has a caller outside of tests: what only tests call is no rule.
//!
//! Names are compared, not paths: an item counts as called if its name stands in the code of another
//! crate, or in the code of an item of `domain` that is called itself.

use std::collections::BTreeSet;

use super::tree::{self, File};
use super::{Complaint, assert_tidy};

const DOMAIN: &str = "crates/domain/src/";
/// Crates that exist for tests.
const FOR_TESTS: [&str; 3] = ["crates/simulation/", "crates/testkit/", "crates/bench/"];
/// What only tests call, and why it stays.
const KNOWN: [(&str, &str); 1] =
    [("vet_address", "the sweep over all addresses asks for one at a time; `vet_all` needs a URL")];
const ITEMS: [&str; 8] =
    ["fn ", "struct ", "enum ", "trait ", "type ", "const ", "static ", "impl"];

/// An item with its code; what belongs to a type, such as its `impl`s, has the type's name.
#[derive(Debug)]
struct Item {
    path: String,
    line: usize,
    name: String,
    is_public: bool,
    words: BTreeSet<String>,
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the lines of a file's code that are in no test, with their numbers.
fn lines(file: &File) -> Vec<(usize, String)> {
    let folders: Vec<&str> = file.path.split('/').collect();
    let is_test = |part: &&str| {
        ["tests", "benches", "examples", "conformance", "tests.rs", "conformance.rs"].contains(part)
    };
    if folders.iter().any(is_test) || FOR_TESTS.iter().any(|it| file.path.starts_with(it)) {
        return Vec::new();
    }
    let lines = file.source().lines.into_iter().map(|line| (line.number, line.code));
    // Tests are the last thing in a file.
    lines.take_while(|(_, code)| !code.starts_with("#[cfg(test)]")).collect()
}

/// Returns the item that begins on a line: its name, and whether it is public.
fn begun(code: &str) -> Option<(String, bool)> {
    let (code, is_public) = match code.trim_start().strip_prefix("pub ") {
        Some(rest) => (rest, true),
        None => (code.trim_start(), false),
    };
    let code =
        code.strip_prefix("pub(super) ").or(code.strip_prefix("pub(crate) ")).unwrap_or(code);
    let code = code.strip_prefix("const ").filter(|it| it.starts_with("fn ")).unwrap_or(code);
    let keyword = ITEMS.into_iter().find(|keyword| code.starts_with(keyword))?;
    let rest = &code[keyword.len()..];
    let name = match keyword {
        "impl" => {
            let of = rest.split_once(" for ").map_or(rest, |it| it.1);
            // The parameters of `impl<'a> X<'a>` stand before the type.
            let of = of.split_once("> ").filter(|_| of.starts_with('<')).map_or(of, |it| it.1);
            words(of).next()
        }
        _ => words(rest).next(),
    };
    Some((name?.to_owned(), is_public))
}

/// Cuts a file of `domain` into its items.
fn items(file: &File) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut of_trait = None;
    for (line, code) in lines(file) {
        // What is re-exported, or imported, is not called by that.
        if code.starts_with("pub use ") || code.starts_with("use ") {
            continue;
        }
        if code.starts_with('}') {
            of_trait = None;
        }
        if let Some((name, is_public)) = begun(&code) {
            let is_impl = code.starts_with("impl") && !code.ends_with('}');
            let name = of_trait.clone().unwrap_or(name);
            if is_impl && code.contains(" for ") {
                of_trait = Some(name.clone());
            }
            let path = file.path.clone();
            items.push(Item { path, line, name, is_public, words: BTreeSet::new() });
        }
        if let Some(item) = items.last_mut() {
            item.words.extend(words(&code).map(str::to_owned));
        }
    }
    items
}

fn uncalled(files: &[File], known: &[(&str, &str)]) -> Vec<Complaint> {
    let (domain, others): (Vec<_>, Vec<_>) =
        files.iter().partition(|file| file.path.starts_with(DOMAIN));
    let mut items: Vec<Item> = domain.into_iter().flat_map(items).collect();
    let mut called: BTreeSet<String> = BTreeSet::new();
    for (_, code) in others.into_iter().flat_map(lines) {
        called.extend(words(&code).map(str::to_owned));
    }
    called.extend(known.iter().map(|(name, _)| (*name).to_owned()));
    loop {
        let (found, rest): (Vec<Item>, Vec<Item>) =
            items.into_iter().partition(|item| called.contains(&item.name));
        items = rest;
        if found.is_empty() {
            break;
        }
        called.extend(found.into_iter().flat_map(|item| item.words));
    }
    let public = items.into_iter().filter(|item| item.is_public);
    let complain = |item: Item| {
        let text = format!("nothing but tests calls `{}`; delete it with them", item.name);
        Complaint::new(&item.path, item.line, text)
    };
    public.map(complain).collect()
}

#[test]
fn whatever_is_public_in_domain_has_a_caller_outside_of_tests() {
    let files = tree::rust_files().unwrap();
    assert_tidy(uncalled(&files, &KNOWN));
    assert_eq!(uncalled(&files, &[]).len(), KNOWN.len(), "a known one is called, or is no more");
}

#[test]
fn what_only_tests_call_is_found() {
    let domain = "//! Rules.\npub use rule::asked;\npub const MOST: u8 = 3;\n\
        pub fn asked() { inner(); }\nfn inner() { MOST }\n\
        impl Rule {\n    /// asked() is not dead().\n    pub fn dead(&self) { deader() }\n}\n\
        pub struct Rule;\npub fn deader() {}\n\
        #[cfg(test)]\nmod tests { fn it() { dead() } }\n";
    let uncalled = |callers: &str| -> Vec<usize> {
        let files = [
            File::new("crates/domain/src/rule.rs", domain),
            File::new("crates/domain/tests/rule.rs", "dead()"),
            File::new("crates/engine/src/engine/tests.rs", "dead()"),
            File::new("crates/engine/src/engine.rs", callers),
        ];
        uncalled(&files, &[("Rule", "a sample")]).iter().map(|complaint| complaint.line).collect()
    };
    assert_eq!(uncalled("fn f() { asked() } // dead()\n"), [8, 11]);
    assert_eq!(uncalled("fn f() { asked(); x.dead() }\n"), [0; 0]);
}
