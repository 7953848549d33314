//! The `redial` binary: it reads the command line, does what it says, and tells by its exit code
//! how that went.

use std::process::ExitCode;

use clap::{Parser as _, Subcommand};
use redial::cli::Arguments;

/// Small things are made and dropped all the time, on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Subcommand)]
enum Further {
    /// Measure what this machine makes of it
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    Arguments::parse().run(|Further::Bench(arguments), streams| arguments.run(streams))
}
