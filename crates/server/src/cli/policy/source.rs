//! Where a policy comes from: a name is a built-in one, anything with a dot or a slash is a file.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use domain::nearest::nearest;
use domain::policy::{Policy, Preset, ReadError, preset, preset_names, read_json, read_toml};

use crate::cli::Failure;
use crate::words::printable;

/// The largest policy file that is read.
const LARGEST_FILE: u64 = 1024 * 1024;

/// The two ways to write a policy file.
#[derive(Debug, Clone, Copy)]
enum Format {
    Toml,
    Json,
}

/// Finds a policy by name, or reads it from a file. Whatever the file holds, its name and summary
/// can be shown on a terminal afterwards.
pub(super) fn load(source: &str) -> Result<Preset, Failure> {
    if !source.contains(['.', '/', '\\']) {
        let found = preset(source).map_err(|unknown| Failure::Usage(unknown.to_string()))?;
        return Ok(found.clone());
    }
    let path = Path::new(source);
    let format = Format::of(path).ok_or_else(|| {
        let text =
            "is neither a .toml nor a .json file, and no policy has a dot or a slash in its name";
        Failure::Usage(format!("`{source}` {text}{}", hint(path)))
    })?;
    let text = text_of(path).map_err(|why| {
        Failure::Usage(format!("cannot read the policy file `{source}`: {why}{}", hint(path)))
    })?;
    if format.is_empty(&text) {
        let example = format.example();
        return Err(Failure::Usage(format!(
            "`{source}` is empty; write what differs from `redial`, for example {example}"
        )));
    }
    let read = format.read(&text).map_err(|error| {
        let told = error.to_string();
        Failure::Usage(format!("in `{source}`: {}", told.trim_end()))
    })?;
    let policy = Policy { name: printable(&read.policy.name), ..read.policy };
    Ok(Preset { policy, summary: printable(&read.summary), ..read })
}

impl Format {
    fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        let formats = [("toml", Self::Toml), ("json", Self::Json)];
        let found = formats.into_iter().find(|(name, _)| extension.eq_ignore_ascii_case(name));
        found.map(|(_, format)| format)
    }

    fn read(self, text: &str) -> Result<Preset, ReadError> {
        match self {
            Self::Toml => read_toml(text),
            Self::Json => read_json(text),
        }
    }

    /// Tells whether a file says nothing. It would be the policy `redial`, which nobody means who
    /// names a file.
    fn is_empty(self, text: &str) -> bool {
        let text = text.trim_start_matches('\u{feff}');
        match self {
            Self::Toml => {
                text.lines().map(str::trim).all(|it| it.is_empty() || it.starts_with('#'))
            }
            Self::Json => {
                let bare: String = text.chars().filter(|it| !it.is_whitespace()).collect();
                bare.is_empty() || bare == "{}"
            }
        }
    }

    const fn example(self) -> &'static str {
        match self {
            Self::Toml => "`policy.max_attempts = 5`",
            Self::Json => "`{\"policy\": {\"max_attempts\": 5}}`",
        }
    }
}

fn text_of(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    let read = file.take(LARGEST_FILE + 1).read_to_string(&mut text);
    match read {
        Err(error) => Err(error.to_string()),
        Ok(_) if text.len() as u64 > LARGEST_FILE => {
            Err("it is larger than 1 MiB, which no policy is".to_owned())
        }
        Ok(_) => Ok(text),
    }
}

/// A file that is named like a policy may have been meant as the policy.
fn hint(path: &Path) -> String {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    match nearest(stem, preset_names()) {
        Some(meant) => format!("; did you mean the policy `{meant}`?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(source: &str) -> String {
        match load(source).unwrap_err() {
            Failure::Usage(text) => text,
            Failure::Other(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_name_is_a_preset() {
        assert_eq!(load("svix").unwrap().policy.name, "svix");
        assert!(refusal("svixx").ends_with("did you mean `svix`?"));
    }

    #[test]
    fn a_missing_file_that_is_named_like_a_policy_hints_at_it() {
        let text = refusal("no-such-folder/stripe.toml");
        assert!(text.starts_with("cannot read the policy file `no-such-folder/stripe.toml`: "));
        assert!(text.ends_with("; did you mean the policy `stripe`?"), "{text}");
    }

    #[test]
    fn only_two_formats_are_read() {
        assert!(refusal("mine.yaml").starts_with("`mine.yaml` is neither a .toml nor a .json"));
    }

    #[test]
    fn the_formats_are_known_by_their_endings_in_any_case() {
        assert!(matches!(Format::of(Path::new("a/MINE.TOML")), Some(Format::Toml)));
        assert!(matches!(Format::of(Path::new("mine.Json")), Some(Format::Json)));
        assert!(Format::of(Path::new("toml")).is_none());
    }

    #[test]
    fn a_document_without_a_word_is_empty() {
        for text in ["", " \n", "# only a comment\n\n  # another", "\u{feff}"] {
            assert!(Format::Toml.is_empty(text), "{text:?}");
        }
        assert!(!Format::Toml.is_empty("# a\n[policy]"));
        assert!(Format::Json.is_empty("{ \n}") && Format::Json.is_empty(""));
        assert!(!Format::Json.is_empty("{\"policy\": {}}"));
        for format in [Format::Toml, Format::Json] {
            let example = format.read(format.example().trim_matches('`')).unwrap();
            assert_eq!(example.policy.limits.max_attempts().map(|it| it.get()), Some(5));
        }
    }
}
