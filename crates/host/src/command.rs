//! What a command of the command line writes to, and why it did not do what it was asked.

use std::io::{self, Write};

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// The question makes no sense; asking differently helps.
    Usage(String),
    /// The question was fine, something else was not.
    Other(anyhow::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Other(error.into())
    }
}

/// Where a command writes.
pub struct Streams<'a> {
    /// What was asked for.
    pub out: &'a mut dyn Write,
    /// What has to be said besides.
    pub err: &'a mut dyn Write,
}
