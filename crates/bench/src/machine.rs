//! The machine that the figures are from. A figure without it is a rumour.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use host::clock::Clock;
use serde_json::{Value, json};

use super::figure::{Unit, seconds};
use super::latencies::Latencies;
use super::real;

/// How often syncing is measured: often enough for a p99 that is not merely the longest.
const SYNCS: u32 = 201;
/// How much is written before each.
const PAGE: [u8; 4_096] = [0; 4_096];
/// A file system that has no disk.
const IN_MEMORY: &str = "tmpfs";

/// What the figures depend on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Machine {
    /// How many cores there are for us.
    pub(crate) cores: usize,
    /// What they are.
    pub(crate) processor: String,
    /// How much memory there is for all.
    pub(crate) memory_bytes: u64,
    /// The kernel's version.
    pub(crate) kernel: String,
    /// The kind of the file system that is written to.
    pub(crate) file_system: String,
    /// How long it takes to sync one page: the median.
    pub(crate) sync: Duration,
    /// The same, for the slowest of a hundred.
    pub(crate) sync_p99: Duration,
}

impl Machine {
    /// Looks at the machine, and at the disk under a directory.
    pub(super) fn look(directory: &Path, clock: &dyn Clock) -> anyhow::Result<Self> {
        let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = information.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let file_system = file_system(&directory.canonicalize()?, &mounts);
        let syncs = syncs(&directory.join("sync"), clock)?;
        Ok(Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: model.unwrap_or("unknown").to_owned(),
            memory_bytes: total_memory(&memory).unwrap_or(0),
            kernel: kernel.trim().to_owned(),
            file_system: file_system.unwrap_or("unknown file system").to_owned(),
            sync: syncs.quantile(0.5),
            sync_p99: syncs.quantile(0.99),
        })
    }

    /// Says what whoever reads the figures should know, if there is something.
    pub(super) fn caveat(&self) -> Option<&'static str> {
        let caveat = "the directory is in memory, where a sync costs nothing; name one on a disk \
                      with --directory";
        (self.file_system == IN_MEMORY).then_some(caveat)
    }

    /// Returns it in one line.
    pub(super) fn line(&self) -> String {
        let Self { cores, processor, kernel, file_system, .. } = self;
        let memory = Unit::Bytes.format(real(self.memory_bytes));
        let [sync, p99] = [self.sync, self.sync_p99].map(|time| Unit::Time.format(seconds(time)));
        format!(
            "{cores} cores of {processor}, {memory} of memory, Linux {kernel}; {file_system}, a sync \
             takes {sync} (p99 {p99})"
        )
    }

    /// Returns it as JSON.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "cores": self.cores,
            "processor": self.processor,
            "memory_bytes": self.memory_bytes,
            "kernel": self.kernel,
            "file_system": self.file_system,
            "sync_seconds": seconds(self.sync),
            "sync_p99_seconds": seconds(self.sync_p99),
        })
    }
}

fn total_memory(information: &str) -> Option<u64> {
    let line = information.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1_024)
}

/// Returns the kind of the file system that a directory is on: the innermost one, and of two at the same
/// place the later one, which hides the other.
fn file_system<'a>(directory: &Path, mounts: &'a str) -> Option<&'a str> {
    let mounted = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let place = fields.next()?.replace("\\040", " ");
        let kind = fields.next()?;
        directory.starts_with(&place).then_some((place.len(), kind))
    });
    mounted.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

fn syncs(path: &Path, clock: &dyn Clock) -> anyhow::Result<Latencies> {
    let mut file = fs::File::create(path)?;
    let mut times = Latencies::default();
    for _ in 0..SYNCS {
        file.write_all(&PAGE)?;
        let began = clock.now();
        file.sync_data()?;
        times.record(clock.now().since(began));
    }
    fs::remove_file(path)?;
    Ok(times)
}

#[cfg(test)]
impl Machine {
    /// A machine for tests.
    pub(super) fn example() -> Self {
        Self {
            cores: 2,
            processor: "a processor".to_owned(),
            memory_bytes: 8 << 30,
            kernel: "6.1".to_owned(),
            file_system: "ext4".to_owned(),
            sync: Duration::from_micros(500),
            sync_p99: Duration::from_millis(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use host::clock::SystemClock;

    use super::*;

    #[test]
    fn it_has_a_core_and_a_kernel_and_leaves_nothing_behind() {
        let directory = tempfile::TempDir::new().unwrap();
        let machine = Machine::look(directory.path(), &SystemClock::start()).unwrap();
        assert!(machine.cores >= 1 && !machine.kernel.is_empty());
        assert!(machine.memory_bytes > 1 << 20, "{machine:?}");
        assert!(machine.sync_p99 >= machine.sync);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_is_on_the_innermost_file_system() {
        let mounts = "/dev/a / ext4 rw 0 0\nproc /proc proc rw 0 0\n/dev/b /var/my\\040data xfs rw 0 0\n\
                      none /tmp ext4 rw 0 0\nnone /tmp tmpfs rw 0 0\n";
        let table = [
            ("/", "ext4"),
            ("/var/my data/x", "xfs"),
            ("/var/my", "ext4"),
            ("/tmp/x", "tmpfs"),
            ("/tmpfiles", "ext4"),
        ];
        for (directory, kind) in table {
            assert_eq!(file_system(Path::new(directory), mounts), Some(kind), "{directory}");
        }
        assert_eq!(file_system(Path::new("/"), ""), None);
    }

    #[test]
    fn figures_from_memory_come_with_a_caveat() {
        let file_system = IN_MEMORY.to_owned();
        assert!(Machine { file_system, ..Machine::example() }.caveat().is_some());
        assert_eq!(Machine::example().caveat(), None);
    }

    #[test]
    fn a_line_says_it_all() {
        let expected = "2 cores of a processor, 8.6 GB of memory, Linux 6.1; ext4, a sync takes 500 µs \
                        (p99 5.00 ms)";
        assert_eq!(Machine::example().line(), expected);
    }
}
