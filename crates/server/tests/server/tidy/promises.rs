//! What users meet is documented: every error code in docs/errors.md, every configuration key in
//! docs/configuration.md, and nothing there that no longer exists.
//!
//! A code is a literal that a match arm of the server's `problem` yields. A key is a field that its
//! `config` reads from a file, or a `REDIAL_…` name that it reads from the environment.

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

/// Finds sections, headed by a name in backticks, about names that are gone.
fn stale(names: &[Name], document: &File) -> Vec<Complaint> {
    let heading = |(index, line): (usize, &str)| {
        let name = line.strip_prefix('#')?.trim_start_matches('#').split('`').nth(1)?;
        let text = format!("describes `{name}`, which no longer exists");
        let known = names.iter().any(|known| known.text == name);
        (!known).then(|| Complaint::new(&document.path, index + 1, text))
    };
    document.text.lines().enumerate().filter_map(heading).collect()
}

fn check_promises(names: &[Name], document: &File) -> Vec<Complaint> {
    let mut complaints = undocumented(names, document);
    complaints.extend(stale(names, document));
    complaints
}

/// Collects names from a room of the server, if that room exists.
fn names_in(room: &str, names: fn(&File) -> Vec<Name>) -> Vec<Name> {
    let files = tree::rust_files().unwrap_or_default();
    let inside = files.iter().filter(|file| {
        let rest = file.path.strip_prefix("crates/server/src/").unwrap_or_default();
        rest == format!("{room}.rs") || rest.starts_with(&format!("{room}/"))
    });
    inside.flat_map(names).collect()
}

fn document(path: &str) -> File {
    tree::file(path).unwrap_or_else(|| File::new(path, ""))
}

#[test]
fn every_error_code_has_its_section() {
    let codes = names_in("problem", error_codes);
    assert_tidy(check_promises(&codes, &document("docs/errors.md")));
}

#[test]
fn every_configuration_key_is_described() {
    let keys = names_in("config", configuration_keys);
    assert_tidy(check_promises(&keys, &document("docs/configuration.md")));
}

#[test]
fn a_code_without_a_section_and_a_section_without_a_code_are_found() {
    let problem = "match self {\n  Self::A => \"not_found\",\n  Self::B => \"conflict\",\n  \
                   Self::C => \"Not a code\",\n}\nlet x = \"detail\";\n";
    let codes = error_codes(&File::new("problem.rs", problem));
    let texts: Vec<&str> = codes.iter().map(|code| code.text.as_str()).collect();
    assert_eq!(texts, ["not_found", "conflict"]);
    let document = File::new("errors.md", "# Errors\n\n## `not_found`\n\n## `gone`\n");
    let complaints: Vec<String> =
        check_promises(&codes, &document).iter().map(ToString::to_string).collect();
    assert_eq!(
        complaints,
        [
            "problem.rs:3: `conflict` is not documented in errors.md",
            "errors.md:5: describes `gone`, which no longer exists"
        ]
    );
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
