//! Checkpoints: from the log into the file, on a thread and a connection of their own.
//!
//! While it works the writer goes on. Only when the log has become large all the same, because
//! there was never a moment without new frames, the writer itself makes it begin anew, right after a
//! checkpoint that has left it little to copy and to sync.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use domain::time::Timestamp;
use rusqlite::Connection;

use crate::Error;
use crate::sqlite::io::connection::{PATIENCE, Place, free_pages};
use crate::sqlite::io::seats::Seats;

/// A log is large when it has so many pages, 64 MiB: then the writer begins it anew.
pub(crate) const LARGE: i32 = 16_384;
/// How long the writer waits for readers of a log that is far too large.
const RESTART_PATIENCE: Duration = Duration::from_millis(250);

/// How long the writer waits for readers when the log is to be emptied, and how often it tries: who
/// expunges much has the log emptied once in a while.
const EMPTYING_PATIENCE: Duration = Duration::from_millis(100);
const EMPTYING_EVERY: Duration = Duration::from_secs(1);

/// How many commits a checkpoint is for, about, as long as they are neither few nor many pages.
const COMMITS: i32 = 8;
/// Over how many commits it is reckoned how large they are.
const OF_LATE: i32 = 16;

/// How many pages of a log are many.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    /// A checkpoint begins when so many have been added since the last one: 8 MiB, where commits are
    /// large. Pages to which many rows are added come up again and again, and are copied once.
    enough: i32,
    /// Where commits are small, these are enough, 256 KiB: a checkpoint syncs with the disk that the
    /// writer syncs with, and whoever waits for such a commit would notice a millisecond.
    enough_of_small: i32,
    /// The writer begins a log anew that has these. If somebody reads it then, it tries again when
    /// it has grown by enough.
    large: i32,
    /// It does so when no more than these are left to copy.
    few: i32,
    /// When there are so many all the same, the writer waits for readers: 256 MiB.
    far_too_large: i32,
}

impl Sizes {
    const fn of(large: i32) -> Self {
        Self {
            enough: large / 8,
            enough_of_small: large / 256,
            large,
            few: large / 32,
            far_too_large: large.saturating_mul(4),
        }
    }

    /// Returns how many pages are enough for a checkpoint, if so many were added by the last
    /// [`OF_LATE`] commits.
    fn enough_after(self, added: i32) -> i32 {
        (added / OF_LATE).saturating_mul(COMMITS).clamp(self.enough_of_small, self.enough)
    }
}

/// How often the disk was asked to sync.
///
/// SQLite does not tell, so this counts by its rules: with full sync each commit that wrote something
/// syncs the log, and the first one in a log that begins anew its header as well. A checkpoint syncs
/// the log before it copies, and the file once nothing is left to copy.
#[derive(Debug, Default)]
pub(crate) struct Syncs(AtomicU64);

impl Syncs {
    /// Returns how many there were.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

/// The log, as the writer sees it grow.
#[derive(Debug)]
pub(crate) struct Wal {
    sizes: Sizes,
    /// How many pages it has.
    pages: AtomicI32,
    /// How many were added by the last commits, about.
    added: AtomicI32,
    /// How many it had when a checkpoint was last asked for.
    asked_at: AtomicI32,
    /// How many it must have for the writer to see to it that it begins anew.
    restart_at: AtomicI32,
    /// How many of them the last checkpoint left copied: all but those that were still being read, and
    /// those that came since.
    copied: AtomicI32,
    /// Whether something was expunged that may still be in it.
    holds_expunged: AtomicBool,
    /// Whether some of that may be in pages of the file that became free before: a row that moves
    /// when its neighbours go leaves a copy behind.
    free_pages_hold_expunged: AtomicBool,
    /// When it was last tried to empty it, in microseconds.
    tried_at: AtomicI64,
    syncs: Arc<Syncs>,
    seats: Arc<Seats>,
    wake: SyncSender<()>,
}

/// The thread that checkpoints. It ends when nobody has the log any more.
pub(crate) struct Checkpointer {
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(crate) fn start(
        place: &Place,
        seats: &Arc<Seats>,
        large: i32,
    ) -> Result<(Self, Arc<Wal>), Error> {
        *seats.checkpointer() = Some(place.write()?);
        let (wake, woken) = sync_channel(1);
        let wal = Arc::new(Wal::new(wake, seats.clone(), large));
        // The thread ends with the last of those who write.
        let (place, log, seats) = (place.clone(), Arc::downgrade(&wal), seats.clone());
        let thread = Builder::new().name("sqlite-checkpoint".to_owned());
        let thread = thread.spawn(move || run(&place, &woken, &log, &seats));
        let thread = thread.map_err(|error| Error::unavailable("no thread to tidy on", error))?;
        Ok((Self { thread: Some(thread) }, wal))
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

fn run(place: &Place, woken: &Receiver<()>, wal: &Weak<Wal>, seats: &Seats) {
    // Never closed before the connections are: that would end the locks of all of them.
    let file = File::open(&place.file).ok();
    while woken.recv().is_ok() {
        if let Some(wal) = wal.upgrade() {
            wal.checkpoint(place, || file.as_ref().map_or(Ok(()), File::sync_data));
        }
    }
    seats.close(place);
}

impl Wal {
    /// Whoever had the file before may have been killed, or stopped, after it expunged something.
    fn new(wake: SyncSender<()>, seats: Arc<Seats>, large: i32) -> Self {
        Self {
            sizes: Sizes::of(large),
            pages: AtomicI32::new(0),
            added: AtomicI32::new(0),
            asked_at: AtomicI32::new(0),
            restart_at: AtomicI32::new(large),
            copied: AtomicI32::new(0),
            holds_expunged: AtomicBool::new(true),
            free_pages_hold_expunged: AtomicBool::new(true),
            tried_at: AtomicI64::new(i64::MIN),
            syncs: Arc::default(),
            seats,
            wake,
        }
    }

    /// Lets a connection tell how long the log is after each of its commits.
    pub(super) fn watch(self: &Arc<Self>, connection: &mut Connection) -> Result<(), Error> {
        // The connection lives as long as the thread that writes, and so does the log.
        let wal = Arc::downgrade(self);
        let hook = move |_: &mut rusqlite::hooks::Wal, pages| {
            if let Some(wal) = wal.upgrade() {
                wal.has(pages);
            }
            Ok(())
        };
        Ok(connection.wal_hook(Some(hook))?)
    }

    /// Returns where syncs are counted.
    pub(crate) fn syncs(&self) -> Arc<Syncs> {
        Arc::clone(&self.syncs)
    }

    fn has(&self, pages: i32) {
        let before = self.pages.load(Ordering::Relaxed);
        // A log that goes on grows with each commit.
        let has_new_header = before == 0 || pages <= before;
        self.syncs.add(1 + u64::from(has_new_header));
        if pages < self.asked_at.load(Ordering::Relaxed) {
            // Shorter than before: by itself.
            self.has_begun_anew();
        }
        self.pages.store(pages, Ordering::Relaxed);
        let added = self.added.load(Ordering::Relaxed);
        let grown = if has_new_header { pages } else { pages - before };
        let added = (added - added / OF_LATE).saturating_add(grown);
        self.added.store(added, Ordering::Relaxed);
        let enough = self.sizes.enough_after(added);
        if pages - self.asked_at.load(Ordering::Relaxed) >= enough {
            self.asked_at.store(pages, Ordering::Relaxed);
            // If it is still at work on the last one, the next will come soon enough.
            let _woken = self.wake.try_send(());
        }
    }

    /// Copies what can be copied without making anybody wait, and has it synced.
    fn checkpoint(&self, place: &Place, sync: impl FnOnce() -> io::Result<()>) {
        // Whoever is at it does it as well.
        let Some(mut seat) = self.seats.to_checkpoint(Duration::ZERO) else { return };
        // Without a connection the log stays as it is, and is asked for again when it has grown.
        let Ok(connection) = seat.take().map_or_else(|| place.write(), Ok) else { return };
        let Copied { pages, of } = match passive(&connection) {
            Ok(copied) => copied,
            Err(error) => return self.doubt_after(&error),
        };
        *seat = Some(connection);
        self.syncs.add(1 + u64::from(pages == of));
        // SQLite syncs the file once all is copied, which under load is never. What is on the disk by
        // then need not be written all at once, or while the writer waits for it to begin the log
        // anew. If this fails, SQLite may never come to see it.
        self.syncs.add(1);
        if sync().is_err() {
            return self.seats.doubt();
        }
        self.copied.store(pages, Ordering::Relaxed);
    }

    /// Tells whether nobody knows what of the file is on disk.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.seats.is_doubtful()
    }

    /// Notes that nobody knows what is on disk, if an error says so.
    pub(super) fn doubt_after(&self, error: &Error) {
        self.seats.doubt_after(error);
    }

    /// Ends the doubt. The writer has closed its connection.
    pub(super) fn copy_again(&self, place: &Place) -> Result<(), Error> {
        self.seats.copy_again(place)?;
        self.has_begun_anew();
        Ok(())
    }

    /// Has the log emptied between two transactions, for the sake of what was expunged, and all
    /// free pages given back by the next steps of pruning.
    pub(crate) fn empty_soon(&self) {
        self.holds_expunged.store(true, Ordering::Relaxed);
        self.free_pages_hold_expunged.store(true, Ordering::Relaxed);
    }

    /// Tells whether no free page may be kept for what comes next.
    pub(crate) fn wants_no_free_pages(&self) -> bool {
        self.free_pages_hold_expunged.load(Ordering::Relaxed)
    }

    /// Empties the log if something was expunged that may still be in it. If somebody reads it, or
    /// it was emptied just now, that is left to a later time: pruning comes by twice a minute. Once
    /// there are no free pages any more the log is emptied again: until then their old bytes are
    /// still in the file.
    pub(crate) fn empty_if_asked(&self, connection: &Connection, now: Timestamp) {
        let tried_at = Timestamp::from_micros(self.tried_at.load(Ordering::Relaxed));
        let in_log = self.holds_expunged.load(Ordering::Relaxed);
        let in_pages = self.wants_no_free_pages();
        if !(in_log || in_pages) || now.since(tried_at) < EMPTYING_EVERY {
            return;
        }
        self.tried_at.store(now.as_micros(), Ordering::Relaxed);
        let all_given_back = in_pages && free_pages(connection).is_ok_and(|free| free == 0);
        if !in_log && !all_given_back {
            return;
        }
        let Some(_seat) = self.seats.to_checkpoint(EMPTYING_PATIENCE) else { return };
        let _patience = connection.busy_timeout(EMPTYING_PATIENCE);
        let emptied = truncate(connection);
        self.syncs.add(self.syncs_of_the_rest());
        let _patience = connection.busy_timeout(PATIENCE);
        if let Err(error) = &emptied {
            self.doubt_after(error);
        } else {
            self.holds_expunged.store(false, Ordering::Relaxed);
            self.free_pages_hold_expunged.store(in_pages && !all_given_back, Ordering::Relaxed);
            self.has_begun_anew();
        }
    }

    /// Sees to it that the log begins anew if it has become too large. Between two transactions of
    /// the writer.
    pub(super) fn restart_if_large(&self, connection: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        let left = pages.saturating_sub(self.copied.load(Ordering::Relaxed));
        let far_too_many = pages >= self.sizes.far_too_large;
        if pages < self.restart_at.load(Ordering::Relaxed)
            || (left > self.sizes.few && !far_too_many)
        {
            return;
        }
        // If somebody reads the log, or copies it, it goes on growing until the next try.
        let patience = if far_too_many { RESTART_PATIENCE } else { Duration::ZERO };
        let try_later = pages.saturating_add(self.sizes.enough);
        let Some(_seat) = self.seats.to_checkpoint(patience) else {
            return self.restart_at.store(try_later, Ordering::Relaxed);
        };
        let _patience = connection.busy_timeout(patience);
        let begun_anew = restart(connection);
        self.syncs.add(self.syncs_of_the_rest());
        let _patience = connection.busy_timeout(PATIENCE);
        match begun_anew {
            Ok(true) => return self.has_begun_anew(),
            Ok(false) => {}
            Err(error) => self.doubt_after(&error),
        }
        self.restart_at.store(try_later, Ordering::Relaxed);
    }

    /// Returns how many syncs it takes to copy what the last checkpoint has left: none if that is
    /// nothing, otherwise one of the log and one of the file.
    fn syncs_of_the_rest(&self) -> u64 {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages > self.copied.load(Ordering::Relaxed) { 2 } else { 0 }
    }

    fn has_begun_anew(&self) {
        for pages in [&self.pages, &self.asked_at, &self.copied] {
            pages.store(0, Ordering::Relaxed);
        }
        self.restart_at.store(self.sizes.large, Ordering::Relaxed);
    }
}

/// How much of the log is in the file.
struct Copied {
    pages: i32,
    /// How many there were to copy.
    of: i32,
}

/// Copies what it can without making anybody wait.
fn passive(connection: &Connection) -> Result<Copied, Error> {
    let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?;
    let copied = statement.query_row([], |row| {
        let (of, pages): (i32, i32) = (row.get(1)?, row.get(2)?);
        // None, as far as can be told, if somebody else is at it.
        Ok(Copied { pages: pages.max(0), of })
    });
    Ok(copied?)
}

/// Copies everything, so that the log begins anew; answers whether it could.
fn restart(connection: &Connection) -> Result<bool, Error> {
    let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(RESTART)")?;
    Ok(statement.query_row([], |row| row.get::<_, i64>(0))? == 0)
}

/// Copies everything, and leaves an empty log.
pub(crate) fn truncate(connection: &Connection) -> Result<(), Error> {
    let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(TRUNCATE)")?;
    let busy = statement.query_row([], |row| row.get::<_, i64>(0))? != 0;
    if busy {
        let text = "the log is still being read; it will be emptied at the next try".to_owned();
        return Err(Error::Unavailable { text, source: None });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes::of(LARGE);

    fn wal() -> (Wal, Receiver<()>) {
        let (wake, woken) = sync_channel(1);
        (Wal::new(wake, Arc::default(), LARGE), woken)
    }

    /// Returns how much was added to the log before each checkpoint that was asked for.
    fn asked_for(wal: &Wal, woken: &Receiver<()>, commits: i32, each: i32) -> Vec<i32> {
        let (mut asked, mut last) = (Vec::new(), wal.pages.load(Ordering::Relaxed));
        for _ in 0..commits {
            let pages = wal.pages.load(Ordering::Relaxed) + each;
            wal.has(pages);
            if woken.try_recv().is_ok() {
                asked.push(pages - last);
                last = pages;
            }
        }
        asked
    }

    #[test]
    fn a_checkpoint_is_asked_for_each_time_the_log_has_grown_enough_for_its_commits() {
        let (wal, woken) = wal();
        let small = asked_for(&wal, &woken, 32, 4);
        assert_eq!(small, [SIZES.enough_of_small; 2]);
        asked_for(&wal, &woken, 64, 16);
        let middling = asked_for(&wal, &woken, 64, 16);
        assert_eq!(middling.last(), Some(&128), "{middling:?}");
        asked_for(&wal, &woken, 64, 256);
        let large = asked_for(&wal, &woken, 64, 256);
        assert_eq!(large.last(), Some(&SIZES.enough), "{large:?}");
        wal.has(3);
        assert!(woken.try_recv().is_err(), "it began anew");
    }

    /// A log with a page or two, a file of its own, and a connection that writes to it.
    fn written() -> (tempfile::TempDir, Place, Connection, Arc<Wal>) {
        let directory = tempfile::tempdir().unwrap();
        let place = Place { file: directory.path().join("redial.db") };
        let mut connection = place.create().unwrap();
        let wal = Arc::new(wal().0);
        wal.watch(&mut connection).unwrap();
        connection.execute_batch("CREATE TABLE one (a); INSERT INTO one VALUES (1)").unwrap();
        (directory, place, connection, wal)
    }

    #[test]
    fn a_log_that_is_too_large_begins_anew_unless_somebody_reads_it() {
        let (_directory, place, connection, wal) = written();
        let pages = || wal.pages.load(Ordering::Relaxed);
        let grown = pages();
        assert!(grown > 1, "{grown}");
        wal.restart_at.store(grown, Ordering::Relaxed);

        let reader = place.read().unwrap();
        let snapshot = reader.unchecked_transaction().unwrap();
        snapshot.query_row("SELECT count(*) FROM one", [], |_| Ok(())).unwrap();
        connection.execute_batch("INSERT INTO one VALUES (2)").unwrap();
        wal.restart_if_large(&connection);
        assert_eq!(wal.restart_at.load(Ordering::Relaxed), pages() + SIZES.enough);
        connection.execute_batch("INSERT INTO one VALUES (3)").unwrap();
        assert!(pages() > grown, "{} {grown}", pages());
        drop(snapshot);

        wal.restart_at.store(grown, Ordering::Relaxed);
        wal.restart_if_large(&connection);
        connection.execute_batch("INSERT INTO one VALUES (4)").unwrap();
        assert!(pages() < grown, "{} {grown}", pages());
        assert_eq!(wal.restart_at.load(Ordering::Relaxed), LARGE);
    }

    #[test]
    fn syncs_are_counted_as_sqlite_makes_them() {
        let (_directory, place, connection, wal) = written();
        let syncs = wal.syncs();
        let during = |work: &dyn Fn()| {
            let before = syncs.count();
            work();
            syncs.count() - before
        };
        let insert = || connection.execute_batch("INSERT INTO one VALUES (2)").unwrap();
        assert_eq!(during(&insert), 1);
        assert_eq!(during(&|| connection.execute_batch("BEGIN IMMEDIATE; COMMIT").unwrap()), 0);
        let checkpoint = || wal.checkpoint(&place, || Ok(()));
        assert_eq!(during(&checkpoint), 3, "of the log, of the file, and our own");
        assert_eq!(during(&insert), 2, "of the header of a log that begins anew, and of the log");
    }

    #[test]
    fn after_a_sync_that_failed_the_log_stays_until_all_of_it_was_copied_by_somebody_alone() {
        let (_directory, place, connection, wal) = written();
        let log = || std::fs::metadata(place.file.with_extension("db-wal")).unwrap().len();
        wal.restart_at.store(0, Ordering::Relaxed);
        wal.checkpoint(&place, || Err(io::Error::other("ill")));
        assert!(wal.is_doubtful());
        wal.pages.store(SIZES.far_too_large, Ordering::Relaxed);
        wal.restart_if_large(&connection);
        wal.empty_if_asked(&connection, Timestamp::from_seconds(1));
        assert_eq!(wal.pages.load(Ordering::Relaxed), SIZES.far_too_large);
        assert!(log() > 0);

        // As another process would have it open.
        wal.copy_again(&place).unwrap_err();
        assert!(wal.is_doubtful() && log() > 0);
        drop(connection);
        wal.copy_again(&place).unwrap();
        assert!(!wal.is_doubtful());
        assert_eq!((log(), wal.pages.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn the_writer_copies_what_a_checkpoint_has_left_and_no_more() {
        let (_directory, _place, connection, wal) = written();
        let tries = |pages: i32, copied: i32| {
            wal.restart_at.store(LARGE, Ordering::Relaxed);
            wal.pages.store(pages, Ordering::Relaxed);
            wal.copied.store(copied, Ordering::Relaxed);
            wal.restart_if_large(&connection);
            wal.pages.load(Ordering::Relaxed) == 0
        };
        assert!(!tries(LARGE - 1, LARGE - 1));
        assert!(!tries(LARGE, LARGE - SIZES.few - 1));
        assert!(tries(LARGE, LARGE - SIZES.few));
        assert!(tries(SIZES.far_too_large, 0), "even if nobody checkpoints any more");
    }
}
