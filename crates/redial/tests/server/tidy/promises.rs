//! What users meet is documented: every error code has its section in docs/errors.md, and no
//! section is about a code that is gone; every configuration key is in docs/configuration.md.
//!
//! A code is a literal that a match arm of the server's `problem` yields. A key is a field that its
//! `config` reads from a file, or a `REDIAL_…` name that it reads from the environment.

use std::io;

use super::tree::{self, File};
use super::{Complaint, assert_tidy};

/// A name that must be documented, and where it stands.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    path: String,
    line: usize,
    text: String,
}

fn error_codes(file: &File) -> Vec<Name> {
    let literals = file.source().literals.into_iter().filter(|literal| literal.yielded);
    let codes = literals.filter(|literal| is_code(&literal.text));
    codes.map(|it| Name { path: file.path.clone(), line: it.line, text: it.text }).collect()
}

fn is_code(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_')
}

fn configuration_keys(file: &File) -> Vec<Name> {
    let source = file.source();
    let name = |line, text: &str| Name { path: file.path.clone(), line, text: text.to_owned() };
    let mut keys = Vec::new();
    let mut inside = false;
    let mut derived = false;
    for line in &source.lines {
        let code = line.code.trim();
        derived |= code.starts_with("#[derive") && code.contains("Deserialize");
        if derived && code.contains("struct ") {
            inside = true;
            derived = false;
        } else if line.code.starts_with('}') {
            inside = false;
        } else if inside && let Some(field) = field(code) {
            keys.push(name(line.number, field));
        }
    }
    let variables = source.literals.iter().filter(|it| it.text.starts_with("REDIAL_"));
    keys.extend(variables.map(|it| name(it.line, &it.text)));
    keys
}

/// Returns the name of the field that a line declares.
fn field(code: &str) -> Option<&str> {
    let (before, _) = code.split_once(": ")?;
    let name = before.rsplit(' ').next()?;
    (is_code(name) && !code.starts_with('#')).then_some(name)
}

fn is_documented(name: &str, document: &str) -> bool {
    document.contains(&format!("`{name}`"))
}

fn undocumented(names: &[Name], document: &File) -> Vec<Complaint> {
    let missing = names.iter().filter(|name| !is_documented(&name.text, &document.text));
    let complain = |name: &Name| {
        let text = format!("`{}` is not documented in {}", name.text, document.path);
        Complaint::new(&name.path, name.line, text)
    };
    missing.map(complain).collect()
}

/// Finds sections, headed by nothing but a name in backticks, about names that are gone.
fn stale(names: &[Name], document: &File) -> Vec<Complaint> {
    let heading = |(index, line): (usize, &str)| {
        let heading = line.strip_prefix('#')?.trim_start_matches('#').trim();
        let name = heading.strip_prefix('`')?.strip_suffix('`')?;
        let text = format!("describes `{name}`, which no longer exists");
        let known = names.iter().any(|known| known.text == name);
        (!known).then(|| Complaint::new(&document.path, index + 1, text))
    };
    document.text.lines().enumerate().filter_map(heading).collect()
}

/// Collects names from a room of the server, if that room exists.
fn names_in(room: &str, names: fn(&File) -> Vec<Name>) -> io::Result<Vec<Name>> {
    let files = tree::rust_files()?;
    let inside = files.iter().filter(|file| {
        let rest = file.path.strip_prefix("crates/server/src/").unwrap_or_default();
        rest == format!("{room}.rs") || rest.starts_with(&format!("{room}/"))
    });
    Ok(inside.flat_map(names).collect())
}

fn document(path: &str) -> File {
    tree::file(path).unwrap_or_else(|| File::new(path, ""))
}

#[test]
fn every_error_code_has_its_section() {
    let codes = names_in("problem", error_codes).unwrap();
    let document = document("docs/errors.md");
    assert_tidy(undocumented(&codes, &document));
    assert_tidy(stale(&codes, &document));
}

#[test]
fn every_configuration_key_is_described() {
    let keys = names_in("config", configuration_keys).unwrap();
    assert_tidy(undocumented(&keys, &document("docs/configuration.md")));
}

#[test]
fn a_code_without_a_section_and_a_section_without_a_code_are_found() {
    let problem = "match self {\n  Self::A => \"not_found\",\n  Self::B => \"conflict\",\n  \
                   Self::C => \"Not a code\",\n}\nlet x = \"detail\";\n";
    let codes = error_codes(&File::new("problem.rs", problem));
    let texts: Vec<&str> = codes.iter().map(|code| code.text.as_str()).collect();
    assert_eq!(texts, ["not_found", "conflict"]);
    let text = "# What `code` means\n\n## `not_found`\n\n## `gone`\n";
    let document = File::new("errors.md", text);
    let missing = "problem.rs:3: `conflict` is not documented in errors.md";
    assert_eq!(undocumented(&codes, &document)[0].to_string(), missing);
    let gone = "errors.md:5: describes `gone`, which no longer exists";
    assert_eq!(stale(&codes, &document)[0].to_string(), gone);
    assert_eq!((undocumented(&codes, &document).len(), stale(&codes, &document).len()), (1, 1));
}

#[test]
fn keys_are_fields_and_variables() {
    let config = "#[derive(Debug, Deserialize)]\n#[serde(deny_unknown_fields)]\nstruct File {\n  \
                  /// Where: here.\n  pub(crate) listen: String,\n  #[serde(default)]\n  \
                  data: PathBuf,\n}\nstruct Other {\n  x: u8,\n}\nlet y = \"REDIAL_LISTEN\";\n";
    let keys = configuration_keys(&File::new("config.rs", config));
    let texts: Vec<(usize, &str)> = keys.iter().map(|key| (key.line, key.text.as_str())).collect();
    assert_eq!(texts, [(5, "listen"), (7, "data"), (12, "REDIAL_LISTEN")]);
    let document = File::new("configuration.md", "`listen` and `data`");
    assert_eq!(undocumented(&keys, &document).len(), 1);
}
