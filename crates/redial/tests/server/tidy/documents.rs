//! Documents that stay true: two commands in the README, a place for the next change, links that
//! lead somewhere, and nothing about the machine they were written on.

use super::tree::{self, File};
use super::{Complaint, assert_tidy};

/// Returns the lines of a document outside or inside of its fenced blocks, with their numbers and
/// the language of the fence.
fn lines(text: &str) -> Vec<(usize, Option<&str>, &str)> {
    let mut fence = None;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), fence) {
            (Some(language), None) => fence = Some(language.trim()),
            (Some(_), Some(_)) => fence = None,
            (None, _) => found.push((index + 1, fence, line)),
        }
    }
    found
}

/// Returns the commands that a document tells to type.
fn commands(text: &str) -> Vec<&str> {
    let typed = |(_, fence, line): (usize, Option<_>, _)| (fence == Some("sh")).then_some(line);
    let is_command = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with('#');
    lines(text).into_iter().filter_map(typed).filter(is_command).collect()
}

/// What comes after the first section with commands is a tour, not a set-up.
fn set_up(readme: &File) -> Option<Complaint> {
    let start = readme.text.find("## Start").map_or("", |start| &readme.text[start + 3..]);
    let commands = commands(start.split("\n## ").next().unwrap_or_default());
    let two = matches!(commands[..], [run, "./check"] if run.starts_with("cargo run --release"));
    (!two).then(|| {
        let text =
            format!("sets up with {commands:?}; it takes `cargo run --release …`, `./check`");
        Complaint::new(&readme.path, 0, text)
    })
}

fn changelog(file: &File) -> Option<Complaint> {
    let open = file.text.lines().any(|line| line == "## [Unreleased]");
    (!open).then(|| Complaint::new(&file.path, 0, "has no section `## [Unreleased]`"))
}

/// Returns where the links of a line lead.
fn targets(line: &str) -> Vec<&str> {
    // What stands between backticks is no link.
    let prose = line.split('`').step_by(2);
    prose.flat_map(|part| part.split("](").skip(1)).filter_map(|it| it.split(')').next()).collect()
}

fn links(file: &File, exists: impl Fn(&str) -> bool) -> Vec<Complaint> {
    let folder = file.path.rsplit_once('/').map_or("", |it| it.0);
    let mut complaints = Vec::new();
    for (number, _, line) in lines(&file.text).into_iter().filter(|(_, fence, _)| fence.is_none()) {
        for target in targets(line) {
            let path = target.split('#').next().unwrap_or_default();
            let elsewhere = path.is_empty() || path.contains("://") || path.starts_with("mailto:");
            if !elsewhere && !exists(&format!("{folder}/{path}")) {
                let text = format!("the link to {target} leads nowhere");
                complaints.push(Complaint::new(&file.path, number, text));
            }
        }
    }
    complaints
}

/// Folders of the machines on which Redial is written. Put together here, or this file would be
/// the first to be complained about.
const MACHINE: [&str; 3] = [concat!("/", "work/"), concat!("/", "root/"), concat!("/", "tmp/wt")];

fn machine_paths(file: &File) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for path in MACHINE {
            let begins = |at: usize| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}".contains(c))
            };
            if line.match_indices(path).any(|(at, _)| begins(at)) {
                let text = format!("names {path}…, a folder of one machine");
                complaints.push(Complaint::new(&file.path, index + 1, text));
            }
        }
    }
    complaints
}

#[test]
fn the_readme_sets_up_with_two_commands() {
    assert_tidy(set_up(&tree::file("README.md").expect("there is a README.md")));
}

#[test]
fn the_changelog_has_a_place_for_the_next_change() {
    assert_tidy(changelog(&tree::file("CHANGELOG.md").expect("there is a CHANGELOG.md")));
}

#[test]
fn links_between_documents_lead_somewhere() {
    let files = tree::files().unwrap();
    let documents = files.iter().filter(|file| file.extension() == "md");
    let exists = |path: &str| tree::root().join(path.trim_start_matches('/')).exists();
    assert_tidy(documents.flat_map(|file| links(file, exists)));
}

#[test]
fn no_file_names_a_folder_of_one_machine() {
    assert_tidy(tree::files().unwrap().iter().flat_map(machine_paths));
}

#[test]
fn a_third_command_is_found() {
    let readme = |text: &str| set_up(&File::new("README.md", text));
    let two =
        "## Start\n```sh\n# Today:\ncargo run --release -- serve\n```\n\n```sh\n./check\n```\n";
    assert_eq!(readme(two), None);
    assert!(readme(&format!("{two}```sh\nmake\n```\n")).is_some());
    assert!(readme("## Start\n```sh\n./check\n```\n").is_some());
    assert!(readme("```sh\ncargo run --release\n./check\n```\n").is_some());
    assert_eq!(readme(&format!("{two}\n## Tour\n```sh\nmake\n```\n")), None);
    assert_eq!(readme(&format!("{two}```text\n$ output\n```\n")), None);
}

#[test]
fn a_closed_changelog_is_found() {
    assert_eq!(changelog(&File::new("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n")), None);
    assert!(changelog(&File::new("CHANGELOG.md", "## [1.0.0]\nUnreleased\n")).is_some());
}

#[test]
fn a_broken_link_is_found() {
    let exists = |path: &str| path == "docs/adr/0001.md" || path == "docs/../README.md";
    let text = "[a](adr/0001.md#status) [b](../README.md) [c](#here) [d](https://example.com)\n\
                `[e](code.md)`\n```text\n[f](fenced.md)\n```\n![g](pictures/g.svg)\n";
    let complaints = links(&File::new("docs/glossary.md", text), exists);
    assert_eq!(complaints.len(), 1);
    let expected = "docs/glossary.md:6: the link to pictures/g.svg leads nowhere";
    assert_eq!(complaints[0].to_string(), expected);
}

#[test]
fn a_path_of_the_machine_is_found() {
    let found = |text: &str| machine_paths(&File::new("a.md", text)).len();
    for path in MACHINE {
        assert_eq!(found(&format!("see {path}x")), 1, "{path}");
        assert_eq!(found(&format!("https://example.com{path}x")), 0, "{path}");
    }
}
