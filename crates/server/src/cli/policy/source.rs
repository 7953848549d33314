//! Where a policy comes from: a name is a built-in one, anything with a dot or a slash is a file.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use domain::nearest::nearest;
use domain::policy::{Preset, preset, preset_names, read_json, read_toml};

use crate::cli::Failure;

/// The largest policy file that is read.
const LARGEST_FILE: u64 = 1024 * 1024;

/// Finds a policy by name, or reads it from a file.
pub(super) fn load(source: &str) -> Result<Preset, Failure> {
    if !source.contains(['.', '/', '\\']) {
        let found = preset(source).map_err(|unknown| Failure::Usage(unknown.to_string()))?;
        return Ok(found.clone());
    }
    let path = Path::new(source);
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
    let read = match extension {
        "toml" => read_toml,
        "json" => read_json,
        _ => {
            let text = "is neither a .toml nor a .json file, and no policy has a dot or a slash in its name";
            return Err(Failure::Usage(format!("`{source}` {text}{}", hint(path))));
        }
    };
    let text = text_of(path).map_err(|why| {
        Failure::Usage(format!("cannot read the policy file `{source}`: {why}{}", hint(path)))
    })?;
    read(&text).map_err(|error| {
        let told = error.to_string();
        Failure::Usage(format!("in `{source}`: {}", told.trim_end()))
    })
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
        assert_eq!(load("svix").unwrap().name, "svix");
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
}
