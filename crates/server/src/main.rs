//! The `redial` binary: it reads the command line, does what it says, and tells by its exit code
//! how that went.

use std::process::ExitCode;

use clap::Parser as _;

/// Small things are made and dropped all the time, on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    redial::cli::Arguments::parse().run()
}
