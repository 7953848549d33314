//! The `redial` binary: it reads the command line, does what it says, and tells by its exit code
//! how that went.
//!
//! # Layout
//! - [`cli`]: one file per command
//! - [`lab`]: what a policy does to a receiver, on virtual time
//! - [`dice`]: where throws come from; [`words`]: numbers as people say them

mod cli;
mod dice;
mod lab;
mod words;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    cli::Arguments::parse().run()
}
