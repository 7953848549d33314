//! `redial bench store`: a store beside a bare loop over the same rows.

use std::path::PathBuf;

use clap::Args;
use host::command::{Failure, Streams};
use host::table::{Side, Table};

use crate::store::{self, Place, Plan, Report};

#[derive(Debug, Args)]
pub(crate) struct Store {
    /// Where the embedded store writes; made if it is not there, and must be empty. Choose the disk
    /// that counts
    #[arg(long, value_name = "DIRECTORY", required_unless_present = "database")]
    directory: Option<PathBuf>,
    /// A PostgreSQL server to measure with instead, as a user who may create databases
    #[arg(long, value_name = "URL", conflicts_with = "directory")]
    database: Option<String>,
    /// Callers at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    callers: u64,
    /// Lifecycles in each run
    #[arg(long, default_value_t = 50_000,
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    lifecycles: u64,
    /// Interleaved pairs of runs; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pairs: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Store {
    pub(crate) fn run(&self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let Self { callers, lifecycles, pairs, .. } = *self;
        let plan = Plan { callers, lifecycles, pairs };
        let report = store::measure(&self.place()?, plan).map_err(Failure::Other)?;
        if self.json {
            writeln!(streams.out, "{:#}", report.to_json())?;
        } else {
            write!(streams.out, "{}", table(&report))?;
        }
        Ok(())
    }

    fn place(&self) -> Result<Place, Failure> {
        let directory = match (&self.database, &self.directory) {
            (Some(url), _) => return Ok(Place::Server(url.clone())),
            (None, Some(directory)) => directory,
            (None, None) => return Err(Failure::Usage("name a directory or a database".into())),
        };
        std::fs::create_dir_all(directory)?;
        if std::fs::read_dir(directory)?.next().is_some() {
            let text = format!("{} is not empty; name another", directory.display());
            return Err(Failure::Usage(text));
        }
        Ok(Place::Directory(directory.clone()))
    }
}

fn table(report: &Report) -> Table {
    let (store, bare) = report.rates();
    let mut table = Table::plain([Side::Left, Side::Right]);
    table.row(["store ÷ bare loop".to_owned(), format!("{:.2}", report.ratio())]);
    table.row(["lifecycles/s through the store".to_owned(), format!("{store:.0}")]);
    table.row(["lifecycles/s of the bare loop".to_owned(), format!("{bare:.0}")]);
    table.row(["items in a batch".to_owned(), format!("{:.0}", report.batch())]);
    table
}
