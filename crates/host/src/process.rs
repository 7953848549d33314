//! The process itself: the files it may open, and the signals that stop it.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// File descriptors that a server needs besides those of connections and attempts.
const FILES_OF_OUR_OWN: u64 = 64;

/// Raises the number of files that this process may open to what the system allows it.
pub fn raise_file_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it is not allowed, what needs that many files says so itself.
    let _raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Returns how many of some limited things there may be if all of them may open a quarter of this
/// process's files; at least one.
pub fn within_files(most: u32) -> u32 {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    within_a_quarter(most, files)
}

fn within_a_quarter(most: u32, files: u64) -> u32 {
    most.min(u32::try_from(files / 4).unwrap_or(u32::MAX)).max(1)
}

/// Returns how many files a server wants to open: so many that it can reach all of these limits at
/// once, and that [`within_files`] leaves them as they are.
pub fn files_wanted(connections: usize, idle: usize, in_flight: u32, hanging: u32) -> u64 {
    let [connections, idle] =
        [connections, idle].map(|count| u64::try_from(count).unwrap_or(u64::MAX));
    let [in_flight, hanging] = [in_flight, hanging].map(u64::from);
    let all = [connections, idle, in_flight, hanging, FILES_OF_OUR_OWN];
    let all = all.into_iter().fold(0, u64::saturating_add);
    all.max(in_flight.max(hanging).saturating_mul(4))
}

/// Ends the process after a time, if it is still there: a disk that does not answer, or whatever else
/// hangs, must not keep it.
pub fn end_after(limit: Duration) {
    let end = move || {
        std::thread::sleep(limit);
        let said = "the process has not ended in time, so it is ended; nothing is lost";
        tracing::error!(target: "redial::process", "{said}");
        std::process::exit(1);
    };
    // Without a thread for it, the process can still be killed.
    drop(std::thread::Builder::new().name("deadline".to_owned()).spawn(end));
}

/// Signals to stop.
pub struct Stops {
    interrupted: Signal,
    terminated: Signal,
}

impl Stops {
    /// Begins to listen, on the runtime that this is called on.
    pub fn listen() -> std::io::Result<Self> {
        let [interrupted, terminated] = [SignalKind::interrupt(), SignalKind::terminate()];
        Ok(Self { interrupted: signal(interrupted)?, terminated: signal(terminated)? })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupted.recv() => {}
            _ = self.terminated.recv() => {}
        }
    }
}

/// Signals that a terminal has closed, or that the operator wants files to be read again.
pub struct Hangups(Signal);

impl Hangups {
    /// Begins to listen, on the runtime that this is called on. From then on SIGHUP does not end the
    /// process.
    pub fn listen() -> std::io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        // Nothing follows only once the process ends.
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_may_open_what_it_wants_keeps_its_limits() {
        assert_eq!(files_wanted(4_096, 1_024, 1_024, 4_096), 16_384);
        assert_eq!(files_wanted(20_000, 1_024, 10, 100), 21_198);
        assert_eq!(files_wanted(usize::MAX, usize::MAX, u32::MAX, u32::MAX), u64::MAX);
        for (in_flight, hanging) in [(1_024, 4_096), (9_000, 1), (1, 1)] {
            let files = files_wanted(100, 1_024, in_flight, hanging);
            assert_eq!(within_a_quarter(in_flight, files), in_flight);
            assert_eq!(within_a_quarter(hanging, files), hanging);
        }
    }

    #[test]
    fn nothing_takes_more_than_a_quarter_of_the_files() {
        let table =
            [(1_024, 1_024, 256), (1_024, u64::MAX, 1_024), (4_096, 20_000, 4_096), (7, 3, 1)];
        for (most, files, may) in table {
            assert_eq!(within_a_quarter(most, files), may, "{most} {files}");
        }
    }
}
