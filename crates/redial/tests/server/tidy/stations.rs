//! The way of a message in ARCHITECTURE.md: each file and function that it names is there, and the way
//! is short enough to be read at one go.

use super::tree::{self, File};
use super::{Complaint, assert_tidy};

/// The most stations that a reader is asked to pass.
const MOST: usize = 20;

/// A station: the line that names it, its file and its function.
#[derive(Debug, PartialEq, Eq)]
struct Station<'a> {
    line: usize,
    path: &'a str,
    function: &'a str,
}

/// Reads the numbered lines of the table.
fn stations(page: &str) -> Vec<Station<'_>> {
    let mut found = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, number, path, function, ..] = cells[..] else { continue };
        if number.parse::<usize>().is_ok() {
            let (path, function) = (path.trim_matches('`'), function.trim_matches('`'));
            found.push(Station { line: index + 1, path, function });
        }
    }
    found
}

fn complaints(page: &File, sources: &[File]) -> Vec<Complaint> {
    let stations = stations(&page.text);
    let mut complaints = Vec::new();
    if stations.is_empty() || stations.len() > MOST {
        let text = format!("names {} stations of a message, of 1 to {MOST}", stations.len());
        complaints.push(Complaint::new(&page.path, 0, text));
    }
    for Station { line, path, function } in stations {
        let source = sources.iter().find(|source| source.path == format!("crates/{path}"));
        let begins = format!("fn {function}");
        let is_there = |source: &File| {
            source
                .text
                .match_indices(&begins)
                .any(|(at, _)| source.text[at + begins.len()..].starts_with(['(', '<']))
        };
        let problem = match source {
            None => format!("there is no crates/{path}"),
            Some(source) if is_there(source) => continue,
            Some(_) => format!("crates/{path} has no function `{function}`"),
        };
        complaints.push(Complaint::new(&page.path, line, problem));
    }
    complaints
}

#[test]
fn the_way_of_a_message_leads_past_files_and_functions_that_are_there() {
    let files = tree::files().unwrap();
    let page = files.iter().find(|file| file.path == "ARCHITECTURE.md").unwrap();
    assert_tidy(complaints(page, &tree::rust_files().unwrap()));
}

#[test]
fn a_station_that_is_not_there_is_objected_to() {
    let sources = [File::new("crates/a/src/b.rs", "fn there() {}\nfn thereafter<T>() {}")];
    let page = |text| File::new("ARCHITECTURE.md", text);
    let good = page("| 1 | `a/src/b.rs` | `there` | x |\n| 2 | `a/src/b.rs` | `thereafter` | x |");
    assert_eq!(complaints(&good, &sources), []);
    let bad =
        page("| # | file |\n| 1 | `a/src/c.rs` | `there` | x |\n| 2 | `a/src/b.rs` | `the` | x |");
    let lines: Vec<usize> = complaints(&bad, &sources).iter().map(|it| it.line).collect();
    assert_eq!(lines, [2, 3]);
    assert_eq!(complaints(&page("nothing"), &sources).len(), 1);
}
