//! The machine that the figures are from. A figure without it is a rumour.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::pairs::median;
use crate::clock::Clock;

/// How often syncing is measured.
const SYNCS: u32 = 31;
/// How much is written before each.
const PAGE: [u8; 4_096] = [0; 4_096];

/// What the figures depend on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Machine {
    /// How many cores there are for us.
    pub(crate) cores: usize,
    /// What they are.
    pub(crate) processor: String,
    /// The kernel's version.
    pub(crate) kernel: String,
    /// How long the disk takes to sync one page, in seconds.
    pub(crate) sync_seconds: f64,
    /// Whether this is a release build; others mean little.
    pub(crate) release: bool,
}

impl Machine {
    /// Looks at the machine, and at the disk under a directory.
    pub(super) fn look(directory: &Path, clock: &dyn Clock) -> anyhow::Result<Self> {
        let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = information.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Ok(Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: model.unwrap_or("unknown").to_owned(),
            kernel: kernel.trim().to_owned(),
            sync_seconds: sync_seconds(&directory.join("sync"), clock)?,
            release: !cfg!(debug_assertions),
        })
    }

    /// Returns it as JSON.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "cores": self.cores,
            "processor": self.processor,
            "kernel": self.kernel,
            "sync_seconds": self.sync_seconds,
            "release_build": self.release,
        })
    }
}

fn sync_seconds(path: &Path, clock: &dyn Clock) -> anyhow::Result<f64> {
    let mut file = fs::File::create(path)?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        file.write_all(&PAGE)?;
        let began = clock.now();
        file.sync_data()?;
        times.push(clock.now().since(began).as_secs_f64());
    }
    fs::remove_file(path)?;
    Ok(median(times))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn it_has_a_core_and_a_kernel_and_leaves_nothing_behind() {
        let directory = tempfile::TempDir::new().unwrap();
        let machine = Machine::look(directory.path(), &SystemClock::start()).unwrap();
        assert!(machine.cores >= 1 && !machine.kernel.is_empty());
        assert!(machine.sync_seconds >= 0.0);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
