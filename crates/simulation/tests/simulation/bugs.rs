//! Every planted bug is found, within a budget of seeds that says how hard it is to find.

use simulation::{Bug, Detail, run};

/// The most seeds that any planted bug may take. The hardest needs about six hundred.
const BUDGET: u64 = 1_000;

/// Returns the first seed that shows a bug.
fn found(bug: Bug) -> Option<u64> {
    (0..BUDGET).find(|seed| !run(*seed, Some(bug), Detail::Outline).violations.is_empty())
}

#[test]
fn there_are_at_least_twenty_and_each_has_a_name_of_its_own() {
    let mut names: Vec<String> = Bug::all().into_iter().map(Bug::name).collect();
    assert!(names.len() >= 20);
    assert!(names.iter().all(|name| Bug::named(name).is_some()));
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn each_planted_bug_is_listed_in_the_documentation() {
    let page = include_str!("../../../../docs/simulation.md");
    let missing = |bug: &Bug| !page.contains(&format!("`{}`", bug.name()));
    let missing: Vec<_> = Bug::all().into_iter().filter(missing).map(Bug::name).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn each_planted_bug_is_found() {
    let missed: Vec<_> = Bug::all().into_iter().filter(|bug| found(*bug).is_none()).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
