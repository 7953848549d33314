//! Every spelling in `forms.txt` gets the verdict written beside it.
//!
//! `http` is allowed here, so that the host decides and not the scheme.

use std::collections::BTreeSet;

use domain::address::{DeliverableUrl, Guard, PlainHttp, Reason, Refusal, Settings};

use super::FIRST;

const FORMS: &str = include_str!("forms.txt");

struct Form {
    line: usize,
    input: String,
    verdict: &'static str,
}

fn forms() -> Vec<Form> {
    let rows = FORMS.lines().enumerate();
    rows.filter(|(_, row)| !row.is_empty() && !row.starts_with('#'))
        .map(|(index, row)| {
            let columns: Vec<&str> = row.split(" | ").collect();
            assert_eq!(columns.len(), 3, "line {} needs three columns", index + 1);
            assert!(!columns[2].is_empty(), "line {} says no reason", index + 1);
            Form { line: index + 1, input: unescape(columns[0]), verdict: columns[1] }
        })
        .collect()
}

/// Reads `\t`, `\n`, `\r`, `\\` and `\u{…}`.
fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        let escape = if character == '\\' { rest.next() } else { None };
        plain.push(match escape {
            None => character,
            Some('t') => '\t',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('\\') => '\\',
            Some('u') => {
                let code: String = rest.by_ref().take_while(|digit| *digit != '}').collect();
                let code = u32::from_str_radix(code.trim_start_matches('{'), 16).unwrap();
                char::from_u32(code).unwrap()
            }
            Some(other) => unreachable!("no such escape: {other}"),
        });
    }
    plain
}

fn guard() -> Guard {
    Guard::new(Settings { plain_http: PlainHttp::Allowed, ..Settings::default() })
}

fn verdict(result: &Result<DeliverableUrl, Refusal>) -> &'static str {
    match result.as_ref().map_err(Refusal::reason) {
        Ok(_) => "allow",
        Err(Reason::Malformed(_) | Reason::InvalidName(_)) => "deny-text",
        Err(Reason::Name(..)) => "deny-name",
        Err(Reason::Port(..)) => "deny-port",
        Err(Reason::NotPublic { .. } | Reason::OwnAddress(_)) => "deny-address",
        Err(Reason::PlainHttp | Reason::NoAddress | Reason::OtherPeer { .. }) => "out of place",
    }
}

#[test]
fn every_form_gets_the_verdict_written_beside_it() {
    let guard = guard();
    let mut wrong = Vec::new();
    for Form { line, input, verdict: expected } in forms() {
        let result = guard.vet_url(&input, FIRST);
        if verdict(&result) != expected {
            wrong.push(format!("line {line}: {input:?} is not {expected} but {result:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_allowed_form_is_stored_in_a_spelling_that_does_not_change_again() {
    let guard = guard();
    for Form { line, input, .. } in forms() {
        if let Ok(url) = guard.vet_url(&input, FIRST) {
            let stored = format!("{}{}", url.origin(), url.expose_path_and_query());
            let again = guard.vet_url(&stored, FIRST).unwrap();
            assert_eq!(again, url, "line {line}");
        }
    }
}

#[test]
fn the_list_holds_three_hundred_different_forms_or_more() {
    let inputs: BTreeSet<String> = forms().into_iter().map(|form| form.input).collect();
    assert_eq!(inputs.len(), forms().len(), "a form is listed twice");
    assert!(inputs.len() >= 300, "{} forms", inputs.len());
}
