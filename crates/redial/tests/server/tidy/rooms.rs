//! Who may import whom: between the crates, and between the rooms of the server.
//!
//! The compiler refuses circles, not wrong directions. ARCHITECTURE.md draws the picture of the crates;
//! a new one is added there.

use std::collections::BTreeMap;

use super::tree::{self, File};
use super::{Complaint, assert_tidy};

/// Crates whose every answer follows from their arguments.
const PURE: [&str; 4] = ["signature", "domain", "engine", "svg"];
/// What brings a clock, dice, a runtime, SQL or logs with it.
const IMPURE: &str = "async-std chrono fastrand getrandom hyper jiff log rand reqwest rusqlite time \
                      tokio tokio-postgres tracing";

/// The rooms of the server from the top down, and which of them each one must not import.
const ROOMS: [(&str, &[&str]); 7] = [
    ("cli", &[]),
    ("http", &["cli", "api", "dashboard", "app"]),
    ("api", &["cli", "dashboard"]),
    ("dashboard", &["cli", "api"]),
    ("problem", &["cli", "api", "dashboard"]),
    ("node", &["cli", "api", "dashboard", "problem"]),
    ("app", &["cli", "api", "dashboard", "problem", "node", "committer"]),
];
/// What a room must not import that is not in the list: it lies below `app`.
const ABOVE: &[&str] = &["cli", "api", "dashboard", "problem", "app"];
/// These reach the store through `app` alone.
const WITHOUT_STORE: [&str; 2] = ["api", "dashboard"];

/// A dependency as a manifest lists it.
struct Dependency<'a> {
    line: usize,
    name: &'a str,
    /// It is needed by tests, not by the crate.
    dev: bool,
}

fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut section = "";
    let mut found = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
        }
        let table = section.rsplit_once('.').map_or("", |it| it.0);
        let name = if line.starts_with('[') && table.ends_with("dependencies") {
            section.rsplit_once('.').map(|it| it.1)
        } else if section.ends_with("dependencies") {
            line.split(['=', '.']).next().filter(|_| line.contains('='))
        } else {
            None
        };
        let dev = section.contains("dev-dependencies");
        found.extend(name.map(|name| Dependency { line: index + 1, name: name.trim(), dev }));
    }
    found
}

/// Which crates each one may import, as a picture of arrows has it.
struct Picture(BTreeMap<String, Vec<String>>);

impl Picture {
    fn read(architecture: &str) -> Self {
        let mut picture = BTreeMap::<String, Vec<String>>::new();
        let arrows = architecture.lines().filter(|line| !line.starts_with("inside "));
        for (from, to) in arrows.filter_map(|line| line.split_once(" ──▶ ")) {
            let name = |name: &str| name.split('(').next().unwrap_or_default().trim().to_owned();
            let to: Vec<String> = to.split(',').map(name).collect();
            for below in &to {
                picture.entry(below.clone()).or_default();
            }
            for from in from.split(',').map(name) {
                picture.entry(from).or_default().extend(to.clone());
            }
        }
        Self(picture)
    }

    /// Tells whether a crate may import another one; its tests may do so at second hand.
    fn allows(&self, from: &str, to: &str, dev: bool) -> bool {
        let below = self.0.get(from).into_iter().flatten();
        below.clone().any(|it| it == to) || dev && below.clone().any(|it| self.allows(it, to, dev))
    }
}

fn crate_directions(picture: &Picture, manifest: &File) -> Vec<Complaint> {
    let folder = manifest.path.split('/').nth(1).unwrap_or_default();
    if !picture.0.contains_key(folder) {
        let text = "is a crate that the picture in ARCHITECTURE.md does not have";
        return vec![Complaint::new(&manifest.path, 0, text)];
    }
    let mut complaints = Vec::new();
    for Dependency { line, name, dev } in dependencies(&manifest.text) {
        // A crate's own tests may ask for one of its features.
        let own = |other: &&str| dev && *other == folder;
        let ours = name.strip_prefix("redial-").filter(|other| !own(other));
        if let Some(other) = ours.filter(|other| !picture.allows(folder, other, dev)) {
            let text = format!("`{folder}` must not depend on `{other}`");
            complaints.push(Complaint::new(&manifest.path, line, text));
        }
        if PURE.contains(&folder) && !dev && IMPURE.split(' ').any(|it| it == name) {
            let text = format!("`{folder}` is pure; `{name}` does not belong in it");
            complaints.push(Complaint::new(&manifest.path, line, text));
        }
    }
    complaints
}

fn room_directions(file: &File) -> Vec<Complaint> {
    let Some(inside) = file.path.strip_prefix("crates/server/src/") else { return Vec::new() };
    let room = inside.split(['/', '.']).next().unwrap_or_default();
    let forbidden = ROOMS.iter().find(|(name, _)| *name == room).map_or(ABOVE, |(_, it)| *it);
    let depth = inside.trim_end_matches("/mod.rs").split('/').count();
    let mut complaints = Vec::new();
    for (number, name) in imports(file, depth) {
        if forbidden.contains(&name.as_str()) {
            let text = format!("`{room}` must not import `{name}`, which lies above or beside it");
            complaints.push(Complaint::new(&file.path, number, text));
        }
        if WITHOUT_STORE.contains(&room) && name == "store" {
            let text = format!("`{room}` reaches the store through `app` alone");
            complaints.push(Complaint::new(&file.path, number, text));
        }
    }
    complaints
}

/// Returns what a file of the server names from outside of its room, with the line: rooms behind
/// `crate::` or enough `super::`, and the store's crate.
fn imports(file: &File, depth: usize) -> Vec<(usize, String)> {
    let source = file.source();
    let lines: Vec<&str> = source.lines.iter().map(|line| line.code.as_str()).collect();
    let code = lines.join("\n");
    let root = ["crate::".to_owned(), "super::".repeat(depth)];
    let mut found = Vec::new();
    for prefix in &root {
        for (at, _) in code.match_indices(prefix.as_str()) {
            let rest = code[at + prefix.len()..].trim_start_matches("super::");
            let number = code[..at].matches('\n').count() + 1;
            found.extend(heads(rest).into_iter().map(|name| (number, name)));
        }
    }
    for (at, _) in code.match_indices("store::") {
        let before = code[..at].chars().next_back();
        if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            found.push((code[..at].matches('\n').count() + 1, "store".to_owned()));
        }
    }
    found
}

/// Returns the first names of a path or of each path in a group: `{app::x, api}` gives app, api.
fn heads(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else { return vec![name_at(rest)] };
    let mut depth = 0_usize;
    let mut heads = Vec::new();
    let mut expected = true;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => expected = true,
            _ if expected && !c.is_whitespace() => {
                heads.push(name_at(&group[at..]));
                expected = false;
            }
            _ => {}
        }
    }
    heads
}

fn name_at(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[test]
fn crates_depend_downwards_only() {
    let picture = Picture::read(&tree::file("ARCHITECTURE.md").unwrap().text);
    let files = tree::files().unwrap();
    let manifests = files.iter().filter(|file| {
        file.path.starts_with("crates/")
            && file.path.matches('/').count() == 2
            && file.path.ends_with("/Cargo.toml")
    });
    assert_tidy(manifests.flat_map(|manifest| crate_directions(&picture, manifest)));
}

#[test]
fn rooms_of_the_server_import_downwards_only() {
    assert_tidy(tree::rust_files().unwrap().iter().flat_map(room_directions));
}

#[test]
fn a_dependency_upwards_is_found_however_it_is_written() {
    let picture = Picture::read("app ──▶ shell, store (in memory)\nstore, shell ──▶ domain\n");
    let complaints = |folder: &str, text: &str| {
        let manifest = File::new(&format!("crates/{folder}/Cargo.toml"), text);
        crate_directions(&picture, &manifest).len()
    };
    assert_eq!(complaints("app", "[dependencies]\nredial-store.workspace = true\n"), 0);
    assert_eq!(complaints("domain", "[dependencies]\nredial-store.workspace = true\n"), 1);
    assert_eq!(complaints("store", "[dev-dependencies]\nredial-shell = { path = \"x\" }\n"), 1);
    assert_eq!(complaints("store", "[dependencies.redial-app]\nworkspace = true\n"), 1);
    assert_eq!(complaints("store", "[target.'cfg(unix)'.dependencies]\nredial-app = \"1\"\n"), 1);
    // What lies below is for tests at once, and otherwise for the crate that has the arrow.
    assert_eq!(complaints("app", "[dev-dependencies]\nredial-domain = \"1\"\n"), 0);
    assert_eq!(complaints("app", "[dependencies]\nredial-domain = \"1\"\n"), 1);
    // Its own tests may name a crate, to ask for one of its features.
    assert_eq!(complaints("store", "[dev-dependencies]\nredial-store = \"1\"\n"), 0);
    assert_eq!(complaints("store", "[dependencies]\nredial-store = \"1\"\n"), 1);
    assert_eq!(complaints("attic", ""), 1);
}

#[test]
fn a_pure_crate_gets_no_clock_and_no_runtime() {
    let picture = Picture::read("engine ──▶ domain\n");
    let complaints =
        |text: &str| crate_directions(&picture, &File::new("crates/engine/Cargo.toml", text));
    assert_eq!(complaints("[dependencies]\ntokio = \"1\"\n")[0].line, 2);
    assert_eq!(complaints("[dev-dependencies]\ntokio = \"1\"\n"), []);
    assert_eq!(complaints("[dependencies]\nthiserror = \"2\" # tokio = \"1\"\n"), []);
}

#[test]
fn an_import_upwards_is_found_however_it_is_written() {
    let names = |path: &str, text: &str| {
        let path = format!("crates/server/src/{path}");
        room_directions(&File::new(&path, text)).len()
    };
    assert_eq!(names("app/endpoints.rs", "use crate::api::Page;\n"), 1);
    assert_eq!(names("app/endpoints.rs", "use crate::{config, dashboard::{a, b}, api};\n"), 2);
    assert_eq!(names("app/endpoints.rs", "use super::super::cli;\n"), 1);
    assert_eq!(names("app/endpoints.rs", "use super::api;\n"), 0);
    assert_eq!(names("app/endpoints.rs", "use crate::node::Intake;\n"), 1);
    assert_eq!(names("node/accepting.rs", "use crate::app::Accepting;\n"), 0);
    assert_eq!(names("app.rs", "use super::api;\n"), 1);
    assert_eq!(names("replay.rs", "fn f() { crate::app::g() }\n"), 1);
    assert_eq!(names("transport/connect.rs", "use crate::{\n    config,\n    cli,\n};\n"), 1);
    assert_eq!(names("api/endpoints.rs", "use crate::dashboard::Chart;\n"), 1);
    assert_eq!(names("api/endpoints.rs", "use store::Store;\n"), 1);
    assert_eq!(names("api/endpoints.rs", "use crate::app::{endpoints, Error};\n"), 0);
    assert_eq!(names("cli/serve.rs", "use crate::{api, app, dashboard};\nuse store::sqlite;\n"), 0);
    assert_eq!(names("config.rs", "// crate::cli reads it\nlet x = \"crate::cli\";\n"), 0);
}
