//! A Rust file with its comments and literals taken apart.
//!
//! A check for a word in comments must not stumble over the same word in a test's sample, nor a
//! check of code over a comment. So each line is kept three times: as written, with only its code,
//! and with only its comment. What is left out becomes blanks, so that columns agree.

/// A scanned file.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) lines: Vec<Line>,
    pub(super) literals: Vec<Literal>,
}

/// One line.
#[derive(Debug)]
pub(super) struct Line {
    /// Counted from 1.
    pub(super) number: usize,
    /// The line without comments and without what stands between quotes.
    pub(super) code: String,
    /// The line without anything but comments.
    pub(super) comment: String,
}

/// What stands between double quotes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Literal {
    /// The line on which it begins.
    pub(super) line: usize,
    pub(super) text: String,
    /// It is what a match arm yields: `Self::NotFound => "not_found"`.
    pub(super) yielded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl Source {
    /// Takes a file apart.
    pub(super) fn scan(text: &str) -> Self {
        let spans = spans(text);
        let only = |kept: Kind| {
            let mut masked = String::with_capacity(text.len());
            for (kind, part) in &spans {
                masked.extend(part.chars().flat_map(|c| shown(c, *kind == kept)));
            }
            masked
        };
        let (code, comment) = (only(Kind::Code), only(Kind::Comment));
        let pairs = code.split('\n').zip(comment.split('\n')).enumerate();
        let line = |(index, (code, comment)): (usize, (&str, &str))| Line {
            number: index + 1,
            code: code.to_owned(),
            comment: comment.to_owned(),
        };
        Self { lines: pairs.map(line).collect(), literals: literals(&spans) }
    }
}

/// A character as it is, or as many blanks as it has bytes. Ends of lines stay.
fn shown(c: char, kept: bool) -> impl Iterator<Item = char> {
    let count = if kept || c == '\n' { 1 } else { c.len_utf8() };
    std::iter::repeat_n(if kept || c == '\n' { c } else { ' ' }, count)
}

fn literals(spans: &[(Kind, &str)]) -> Vec<Literal> {
    let mut found = Vec::new();
    let mut line = 1;
    let mut code = String::new();
    for (kind, part) in spans {
        match kind {
            Kind::Code => code.push_str(part),
            Kind::Comment => {}
            Kind::Literal => {
                let before = code.trim_end_matches(['"', '#', 'r', 'b', 'c']).trim_end();
                let yielded = before.ends_with("=>");
                found.push(Literal { line, text: (*part).to_owned(), yielded });
            }
        }
        line += part.matches('\n').count();
    }
    found
}

/// Cuts a text into code, comments and contents of literals; quotes belong to the code.
fn spans(text: &str) -> Vec<(Kind, &str)> {
    let mut spans = Vec::new();
    let mut rest = text;
    let mut code = 0;
    while code < rest.len() {
        let at = &rest[code..];
        let (lead, kind, length) = match next(at, rest[..code].chars().next_back()) {
            Next::Code(length) => {
                code += length;
                continue;
            }
            Next::Comment(length) => (0, Kind::Comment, length),
            Next::Literal { lead, length } => (lead, Kind::Literal, length),
        };
        let (before, after) = rest.split_at(code + lead);
        let (body, after) = after.split_at(length.min(after.len()));
        spans.push((Kind::Code, before));
        spans.push((kind, body));
        rest = after;
        // The closing quote is code, and must not open the next literal.
        code = if kind == Kind::Literal { closing(rest) } else { 0 };
    }
    spans.push((Kind::Code, rest));
    spans
}

enum Next {
    Code(usize),
    Comment(usize),
    Literal { lead: usize, length: usize },
}

/// Tells what begins here. `before` is the character before it.
fn next(at: &str, before: Option<char>) -> Next {
    if at.starts_with("//") {
        return Next::Comment(at.find('\n').unwrap_or(at.len()));
    }
    if at.starts_with("/*") {
        return Next::Comment(block_comment(at));
    }
    let inside_a_name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if let Some(hashes) = raw_hashes(at).filter(|_| !inside_a_name) {
        let lead = at.find('"').map_or(0, |quote| quote + 1);
        let end = format!("\"{}", "#".repeat(hashes));
        let length = at[lead..].find(&end).unwrap_or(at.len() - lead);
        return Next::Literal { lead, length };
    }
    if let Some(inner) = at.strip_prefix('"') {
        return Next::Literal { lead: 1, length: unescaped_quote(inner) };
    }
    Next::Code(character(at))
}

/// Counts the hashes of a raw string that begins here.
fn raw_hashes(at: &str) -> Option<usize> {
    let rest = at.strip_prefix("br").or_else(|| at.strip_prefix('r'))?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

fn closing(rest: &str) -> usize {
    usize::from(rest.starts_with('"'))
}

fn unescaped_quote(inner: &str) -> usize {
    let mut escaped = false;
    for (index, c) in inner.char_indices() {
        match c {
            '"' if !escaped => return index,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    inner.len()
}

/// The length of what is no literal: a character such as `'"'` as a whole, else one `char`.
fn character(at: &str) -> usize {
    let first = at.chars().next().map_or(1, char::len_utf8);
    let Some(inner) = at.strip_prefix('\'') else { return first };
    if let Some(escape) = inner.strip_prefix('\\') {
        let body = escape.chars().next().map_or(0, char::len_utf8);
        return escape[body..].find('\'').map_or(first, |end| 2 + body + end + 1);
    }
    let body = inner.chars().next().map_or(0, char::len_utf8);
    // Without a quote behind it, it is a lifetime.
    if inner[body..].starts_with('\'') { 1 + body + 1 } else { first }
}

fn block_comment(at: &str) -> usize {
    let mut depth = 0_usize;
    let mut index = 0;
    while index < at.len() {
        let rest = &at[index..];
        if rest.starts_with("/*") {
            depth += 1;
            index += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            index += 2;
            if depth == 0 {
                return index;
            }
        } else {
            index += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    at.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::scan(text).lines.iter().map(|line| line.code.trim_end().to_owned() + "\n").collect()
    }

    fn comments(text: &str) -> Vec<String> {
        let lines = Source::scan(text).lines;
        lines
            .iter()
            .map(|line| line.comment.trim().to_owned())
            .filter(|it| !it.is_empty())
            .collect()
    }

    #[test]
    fn comments_and_literals_leave_the_code() {
        assert_eq!(code("let a = \"x // y\"; // z"), "let a = \"      \";\n");
        assert_eq!(comments("let a = \"x // y\"; // z"), ["// z"]);
        assert_eq!(code("a /* b /* c */ \" */ d"), "a                   d\n");
    }

    #[test]
    fn quotes_in_other_clothes_do_not_open_a_literal() {
        assert_eq!(code("m('\"', '\\'', b'\"') // x"), "m('\"', '\\'', b'\"')\n");
        assert_eq!(comments("fn f<'a>(x: &'a str) {} // y \" z"), ["// y \" z"]);
        assert_eq!(code("r\"\\\" + x"), "r\" \" + x\n");
        assert_eq!(code("br#\"a\"b\"# + x"), "br#\"   \"# + x\n");
        assert_eq!(code("\"a\\\\\" + \"\\\"\" + x"), "\"   \" + \"  \" + x\n");
        assert_eq!(code("\"\" + x // y"), "\"\" + x\n");
    }

    #[test]
    fn lines_keep_their_numbers_and_columns() {
        let source = Source::scan("a\n\"é\nb\" /*\nc */ d\n");
        let lines: Vec<(usize, &str)> =
            source.lines.iter().map(|line| (line.number, line.code.as_str())).collect();
        assert_eq!(lines, [(1, "a"), (2, "\"  "), (3, " \"   "), (4, "     d"), (5, "")]);
    }

    #[test]
    fn literals_know_their_line_and_whether_an_arm_yields_them() {
        let source = Source::scan("match x {\n  A => \"one\", // \"no\"\n  B => f(r#\"two\"#),\n}");
        let literal = |line, text: &str, yielded| Literal { line, text: text.to_owned(), yielded };
        assert_eq!(source.literals, [literal(2, "one", true), literal(3, "two", false)]);
    }
}
