//! One word for one thing: identifiers and comments keep to docs/glossary.md.
//!
//! The glossary's table "Do not say" is the list. Names are taken apart (`DeliveryId`, `delivery_id`),
//! a final s and articles are overlooked, and what stands between quotes is not looked at: other
//! people's formats have their own words.

use super::source::Source;
use super::tree::{self, File};
use super::{Complaint, assert_tidy};

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    /// What is not said, as single words.
    phrases: Vec<Vec<String>>,
    /// What is said instead.
    say: String,
    /// Texts inside of which it may be said, and paths below which it may.
    except: Vec<String>,
}

/// A word of a line.
#[derive(Debug)]
struct Word {
    text: String,
    start: usize,
    end: usize,
}

/// Reads the rows below the heading "Do not say".
fn rules(glossary: &str) -> Vec<Rule> {
    let table = glossary.lines().skip_while(|line| *line != "## Do not say").skip(1);
    let table = table.take_while(|line| !line.starts_with("## "));
    table.filter_map(rule).collect()
}

fn rule(row: &str) -> Option<Rule> {
    let cells: Vec<&str> = row.strip_prefix('|')?.split('|').map(str::trim).collect();
    let [phrases, say, except, _because, ..] = cells[..] else { return None };
    let phrases: Vec<Vec<String>> = code_spans(phrases)
        .map(|phrase| words(phrase).into_iter().map(|word| word.text).collect())
        .collect();
    let except = code_spans(except).map(str::to_lowercase).collect();
    (!phrases.is_empty()).then(|| Rule { phrases, say: say.replace('`', ""), except })
}

/// Returns what stands between backticks.
fn code_spans(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Takes a line apart into words: at blanks and signs, at `_`, and where a capital follows.
fn words(line: &str) -> Vec<Word> {
    let mut found: Vec<Word> = Vec::new();
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        let end = at + c.len_utf8();
        let goes_on = before.is_alphanumeric() && !(c.is_uppercase() && before.is_lowercase());
        match found.last_mut().filter(|_| goes_on) {
            Some(word) if c.is_alphanumeric() => {
                word.text.extend(c.to_lowercase());
                word.end = end;
            }
            None if c.is_alphanumeric() => {
                found.push(Word { text: c.to_lowercase().collect(), start: at, end });
            }
            Some(_) | None => {}
        }
        before = c;
    }
    for word in &mut found {
        if word.text.len() > 3 && word.text.ends_with('s') && !word.text.ends_with("ss") {
            word.text.pop();
        }
    }
    found.retain(|word| !["a", "an", "the", "each", "every"].contains(&word.text.as_str()));
    found
}

/// Finds the places of a line where a phrase is said.
fn said<'a>(line: &'a str, words: &'a [Word], phrase: &'a [String]) -> Vec<(usize, usize)> {
    let fits = |window: &&[Word]| {
        let same = window.iter().zip(phrase).all(|(word, part)| word.text == *part);
        let joined = window.windows(2).all(|pair| {
            // Other words in between are articles; a full stop ends the phrase.
            line[pair[0].end..pair[1].start].chars().all(|c| c.is_alphabetic() || " _-".contains(c))
        });
        same && joined
    };
    words
        .windows(phrase.len())
        .filter(fits)
        .filter_map(|window| Some((window.first()?.start, window.last()?.end)))
        .collect()
}

impl Rule {
    fn excuses(&self, path: &str, line: &str, (start, end): (usize, usize)) -> bool {
        // A final s may lie outside of the exception: `event types` is excused by `event type`.
        let line = line.to_ascii_lowercase();
        self.except.iter().any(|text| {
            let mut places = line.match_indices(text.as_str());
            path.starts_with(text.as_str())
                || places.any(|(at, _)| at <= start && end <= at + text.len() + 1)
        })
    }

    fn check(&self, path: &str, line: &str, words: &[Word]) -> Option<String> {
        let places = self.phrases.iter().flat_map(|phrase| said(line, words, phrase));
        let (start, end) = places.into_iter().find(|at| !self.excuses(path, line, *at))?;
        Some(format!("says \"{}\"; say {} (docs/glossary.md)", &line[start..end], self.say))
    }
}

fn check_words(file: &File, rules: &[Rule]) -> Vec<Complaint> {
    let Source { lines, .. } = file.source();
    let mut complaints = Vec::new();
    for line in lines {
        for text in [&line.code, &line.comment] {
            let words = words(text);
            let texts = rules.iter().filter_map(|rule| rule.check(&file.path, text, &words));
            complaints.extend(texts.map(|it| Complaint::new(&file.path, line.number, it)));
        }
    }
    complaints
}

#[test]
fn code_and_comments_use_the_words_of_the_glossary() {
    let glossary = tree::file("docs/glossary.md").expect("there is a glossary");
    let rules = rules(&glossary.text);
    assert!(rules.len() >= 10, "the table is not where it was: {rules:?}");
    assert_tidy(tree::rust_files().unwrap().iter().flat_map(|file| check_words(file, &rules)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY: &str = "\
# Glossary

| noun | meaning |
|---|---|
| `tenant` | not in this table |

## Do not say

| do not say | say | except in | because |
|---|---|---|---|
| `tenant` | application | — | one word |
| `circuit` | breaker | `circuit breaker` | the industry's term, once |
| `webhook event`, `deliver event` | message | `crates/signature/` | a header of theirs |
| `msg` | message | `msg_…`, `/msg` | an id's prefix |
| `cfg` | configuration | `#[cfg` | the compiler's |

## After it

| `application` | x | — | y |
";

    fn complaints(path: &str, text: &str) -> Vec<String> {
        let found = check_words(&File::new(path, text), &rules(GLOSSARY));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_table_is_read_and_nothing_else() {
        let rules = rules(GLOSSARY);
        assert_eq!(rules.len(), 5);
        assert_eq!(rules[2].phrases, [["webhook", "event"], ["deliver", "event"]]);
        assert_eq!(rules[3].except, ["msg_…", "/msg"]);
    }

    #[test]
    fn a_word_is_found_in_names_and_comments_with_what_to_say() {
        let expected = "a.rs:2: says \"Tenant\"; say application (docs/glossary.md)";
        assert_eq!(complaints("a.rs", "\nstruct TenantId;"), [expected]);
        for text in ["let tenant_id = 1;", "// Of all tenants.", "fn of(TENANTS: u8) {}"] {
            assert_eq!(complaints("a.rs", text).len(), 1, "{text}");
        }
        for text in ["let x = \"tenant\";", "let lieutenant = 1;", "let application = 1;"] {
            assert_eq!(complaints("a.rs", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_phrase_is_found_across_an_article_and_not_across_a_sentence() {
        for text in ["// Delivers an event.", "fn deliver_events() {}", "struct WebhookEvent;"] {
            assert_eq!(complaints("a.rs", text).len(), 1, "{text}");
        }
        for text in ["// Sends a webhook. Event types are", "// what to deliver, event type x"] {
            assert_eq!(complaints("a.rs", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn an_exception_excuses_its_own_text_and_its_own_folder_only() {
        assert_eq!(complaints("a.rs", "//! The circuit breaker of an endpoint."), [""; 0]);
        assert_eq!(complaints("a.rs", "// circuit breaker, circuit").len(), 1);
        assert_eq!(complaints("crates/signature/a.rs", "const WEBHOOK_EVENT: u8 = 1;"), [""; 0]);
        assert_eq!(complaints("crates/domain/a.rs", "const WEBHOOK_EVENT: u8 = 1;").len(), 1);
        assert_eq!(complaints("a.rs", "/// `msg_…`, at `/app/x/msg`"), [""; 0]);
        assert_eq!(complaints("a.rs", "let msg_id = 1;").len(), 1);
        assert_eq!(complaints("a.rs", "#[cfg(test)]"), [""; 0]);
        assert_eq!(complaints("a.rs", "let cfg = 1;").len(), 1);
    }
}
