//! `redial migrate`: brings a store's schema up to date, and does nothing else.
//!
//! A server does the same when it starts. This is for operators who want to see it happen before
//! they replace a fleet's binaries. A store in a file must not be open in a server meanwhile; the
//! store says so by itself.

use std::sync::Arc;

use clap::Args;

use super::{Failure, Streams, serve};
use crate::clock::{Clock, SystemClock};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: serve::Arguments,
}

pub(crate) fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let configuration = arguments.server.configuration()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let opened = runtime.block_on(serve::open_store(&configuration, &clock));
    drop(opened.map_err(Failure::Other)?);
    writeln!(streams.err, "the schema is up to date")?;
    Ok(())
}
