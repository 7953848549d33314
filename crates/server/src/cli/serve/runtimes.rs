//! What the server runs on: one runtime that answers and one that sends, each with half of the
//! cores. What is busy on one side does not keep the other one waiting, and on a small machine
//! threads do not push each other aside.
//!
//! A runtime of one thread is tokio's plain one, which has no queues to share with others and
//! nothing to balance: that saves a delivery some of its time. Such a runtime runs only while
//! somebody waits on it, so the one that sends gets a thread that does.

use std::io;
use std::num::NonZeroUsize;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// The runtime that answers; whoever starts the server waits on it.
pub(super) fn answering() -> io::Result<Runtime> {
    runtime("api", threads())
}

/// The runtime that sends, on threads of its own.
pub(super) struct Sending {
    handle: Handle,
    /// Its end is that of the thread.
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Sending {
    /// Starts it.
    pub(super) fn start() -> io::Result<Self> {
        Self::start_on(threads())
    }

    fn start_on(threads: usize) -> io::Result<Self> {
        let runtime = runtime("sending", threads)?;
        let (handle, (stop, stopped)) = (runtime.handle().clone(), oneshot::channel());
        let thread = std::thread::Builder::new().name("sending".to_owned()).spawn(move || {
            // Told to stop or forgotten, it stops.
            let _told = runtime.block_on(stopped);
        })?;
        Ok(Self { handle, stop, thread })
    }

    /// Returns the way in.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Ends what still runs there, and waits for that.
    pub(super) fn end(self) {
        drop(self.stop);
        // A panic of the thread would be one of tokio's own; nothing is left to be saved from it.
        let _ended = self.thread.join();
    }

    /// Ends what still runs there, and does not wait for that.
    pub(super) fn let_go(self) {
        drop(self.stop);
    }
}

/// Returns how many threads answer requests, and how many send.
fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    cores.div_ceil(2)
}

fn runtime(name: &str, threads: usize) -> io::Result<Runtime> {
    let mut builder = match threads {
        0 | 1 => Builder::new_current_thread(),
        more => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(more);
            builder
        }
    };
    builder.thread_name(name).enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spawned_is_run_until_the_end_on_one_thread_or_more() {
        for threads in [1, 2] {
            let sending = Sending::start_on(threads).unwrap();
            let (say, said) = oneshot::channel();
            let (hold, held) = oneshot::channel::<()>();
            sending.handle().spawn(async move {
                say.send(42).unwrap();
                let _hold = hold;
                std::future::pending::<()>().await;
            });
            assert_eq!(said.blocking_recv(), Ok(42), "{threads}");
            sending.end();
            // What was still running is gone.
            assert!(held.blocking_recv().is_err(), "{threads}");
        }
    }

    #[test]
    fn what_is_let_go_ends_and_nobody_waits_for_what_blocks_there() {
        for threads in [1, 2] {
            let sending = Sending::start_on(threads).unwrap();
            let (hold, held) = oneshot::channel::<()>();
            sending.handle().spawn(async move {
                let _hold = hold;
                std::future::pending::<()>().await;
            });
            let (release, released) = oneshot::channel::<()>();
            let (say, blocks) = oneshot::channel();
            sending.handle().spawn_blocking(move || {
                say.send(()).unwrap();
                released.blocking_recv().unwrap();
            });
            blocks.blocking_recv().unwrap();
            sending.let_go();
            assert!(held.blocking_recv().is_err(), "{threads}");
            release.send(()).unwrap();
        }
    }
}
