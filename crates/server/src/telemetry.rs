//! What the server says about itself: logs, one line for each event, to standard error, for people
//! or for machines; and figures.
//!
//! # Layout
//! - `metrics`: what is counted; `measured`: where

mod measured;
mod metrics;

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};
pub(crate) use measured::Measured;
pub(crate) use metrics::{InFlight, Look, Metrics, Waiting};

/// Begins to log. A second call in the same process changes nothing.
///
/// # Errors
/// If the filter cannot be read.
pub(crate) fn begin(log: &Log) -> Result<(), String> {
    let filter = EnvFilter::try_new(&log.filter)
        .map_err(|error| format!("log.filter: `{}` cannot be read: {error}", log.filter))?;
    let colours = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
    // What cannot be written is lost. To say so on standard error would panic: it is the same full disk,
    // or the same pipe that nobody reads.
    let builder = builder.with_writer(std::io::stderr).log_internal_errors(false);
    // Whoever logs already, such as a test, goes on doing so.
    let _ = match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    Ok(())
}
