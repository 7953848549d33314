//! The files of the repository as texts.
//!
//! The folder is walked rather than Git asked: a file is checked before it is added, and copies of
//! the tree without Git are checked alike.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::source::Source;

/// What holds nothing of ours, besides those that Cargo marks as caches.
const FOREIGN: [&str; 7] =
    [".git", "target", "node_modules", ".venv", "redial-data", "corpus", "artifacts"];

/// A text file.
#[derive(Debug, Clone)]
pub(super) struct File {
    /// From the root of the repository, with `/` between the parts.
    pub(super) path: String,
    pub(super) text: String,
}

impl File {
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Returns the part of the name after the last dot.
    pub(super) fn extension(&self) -> &str {
        self.path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map_or("", |it| it.1)
    }

    /// Returns the name without its extension.
    pub(super) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or(name, |it| it.0)
    }

    pub(super) fn source(&self) -> Source {
        Source::scan(&self.text)
    }
}

/// Returns the folder that the repository is in.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads every text file of the repository, in order of path.
pub(super) fn files() -> io::Result<Vec<File>> {
    let mut found = Vec::new();
    collect(&root(), "", &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Reads every Rust file of the workspace.
pub(super) fn rust_files() -> io::Result<Vec<File>> {
    let mut files = files()?;
    files.retain(|file| file.path.starts_with("crates/") && file.extension() == "rs");
    Ok(files)
}

/// Reads one file, or none if it is not there yet.
pub(super) fn file(path: &str) -> Option<File> {
    let text = fs::read_to_string(root().join(path)).ok()?;
    Some(File::new(path, &text))
}

fn collect(folder: &Path, prefix: &str, found: &mut Vec<File>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if is_foreign(&name, &entry.path()) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), found)?;
        }
        if kind.is_file()
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            found.push(File { path, text });
        }
    }
    Ok(())
}

fn is_foreign(name: &str, path: &Path) -> bool {
    FOREIGN.contains(&name) || name.starts_with("mutants.out") || path.join("CACHEDIR.TAG").exists()
}

#[test]
fn the_walk_finds_this_file_and_nothing_that_was_built() {
    let files = files().unwrap();
    assert!(files.iter().any(|file| file.path == "crates/redial/tests/server/tidy/tree.rs"));
    assert!(files.iter().any(|file| file.path == "Cargo.lock"));
    assert!(!files.iter().any(|file| file.path.starts_with("target/")));
    assert!(!files.iter().any(|file| file.path.starts_with(".git/")));
}

#[test]
fn names_have_a_stem_and_an_extension() {
    let file = File::new("crates/domain/src/policy/mod.rs", "");
    assert_eq!((file.stem(), file.extension()), ("mod", "rs"));
    let file = File::new(".ci/run", "");
    assert_eq!((file.stem(), file.extension()), ("run", ""));
}
