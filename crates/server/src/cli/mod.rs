//! The command line: data goes to standard output, everything else to standard error.
//!
//! Exit codes: 0 it worked; 1 it failed; 2 what was asked for makes no sense, and the message says
//! what would; 3 a server's data directory has gone while it ran.

mod access;
mod client;
mod doctor;
mod migrate;
mod policy;
pub mod serve;
mod token;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::words::{printable, without_middle};
pub use host::command::{Failure, Streams};
pub(crate) use host::table;

/// The most letters of a line of an error: what a file says in one line may fill a screen.
const LONGEST_LINE: usize = 400;

const EXIT_CODES: &str = "Exit codes: 0 it worked, 1 it failed, 2 what was asked for makes no sense, \
     3 the data directory of a running server has gone";

/// Webhook delivery that keeps calling until the receiver picks up.
#[derive(Debug, Parser)]
#[command(name = "redial", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Arguments<Further: Subcommand> {
    #[command(subcommand)]
    command: Command<Further>,
}

#[derive(Debug, Subcommand)]
enum Command<Further: Subcommand> {
    #[command(flatten)]
    Further(Further),
    /// Look at what a server needs, and change nothing
    Doctor(doctor::Arguments),
    /// Bring the store's schema up to date
    Migrate(migrate::Arguments),
    /// Look at retry policies and try them out
    #[command(subcommand)]
    Policy(policy::Command),
    /// Start the server
    Serve(serve::Arguments),
    /// Make, list and revoke API tokens of a running server
    #[command(subcommand)]
    Token(token::Command),
}

impl<Further: Subcommand> Arguments<Further> {
    /// Does what the command line says. The binary has further commands, which it does itself.
    pub fn run(
        self,
        further: impl FnOnce(Further, &mut Streams<'_>) -> Result<(), Failure>,
    ) -> ExitCode {
        let mut out = io::BufWriter::new(io::stdout().lock());
        // Not locked: a server logs there from many threads for as long as it runs.
        let mut err = io::stderr();
        let mut streams = Streams { out: &mut out, err: &mut err };
        let done = match self.command {
            Command::Further(command) => further(command, &mut streams),
            Command::Doctor(arguments) => doctor::run(&arguments, &mut streams),
            Command::Migrate(arguments) => migrate::run(&arguments, &mut streams),
            Command::Policy(command) => command.run(&mut streams),
            Command::Serve(arguments) => serve::run_command(&arguments, &mut streams),
            Command::Token(command) => command.run(&mut streams),
        };
        let flushed = done.and_then(|()| out.flush().map_err(Failure::from));
        flushed.map_or_else(|failure| report(&failure, &mut err), |()| ExitCode::SUCCESS)
    }
}

fn report(failure: &Failure, err: &mut dyn io::Write) -> ExitCode {
    let (text, code) = match failure {
        Failure::Usage(text) => (text.clone(), 2),
        // Whoever reads us may stop reading, as `head` does. That is no error.
        Failure::Other(error) if is_broken_pipe(error) => return ExitCode::SUCCESS,
        Failure::Other(error) => {
            (format!("{error:#}"), if error.is::<serve::FilesGone>() { 3 } else { 1 })
        }
    };
    // If standard error is gone too, the exit code has to do.
    let _ = writeln!(err, "{}", readable(&format!("error: {text}")));
    ExitCode::from(code)
}

/// An error may quote a file, and a file may hold anything.
fn readable(text: &str) -> String {
    let lines = text.lines().map(|line| without_middle(&printable(line), LONGEST_LINE));
    lines.collect::<Vec<_>>().join("\n")
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_plain_text_in_lines_of_bearable_length() {
        let read = readable(&format!("a\u{1b}[2J\nlong {}; use less", "x".repeat(1_000)));
        let (first, second) = read.split_once('\n').unwrap();
        assert_eq!(first, "a\\u{1b}[2J");
        assert_eq!(second.chars().count(), LONGEST_LINE);
        assert!(second.starts_with("long xxx") && second.ends_with("xxx; use less"), "{second}");
    }
}
