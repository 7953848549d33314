//! Syncs that fail, writes that fail, and a disk that is full.

use std::sync::Arc;

use rusqlite::Row;
use store::Error;
use store::conformance::Handle;
use store::queue::Batch;

use super::disk::{Counts, Event, Faults};
use super::platter::Platter;
use super::work::{Chance, Promises, Worker};
use super::{Place, damage, setting};

const STEPS: u64 = 6;
/// How many syncs in a row fail when a disk is ill for a while.
const ILL: u64 = 4;
/// How often a batch is given to a store before we say that it does not recover.
const TRIES: u64 = ILL + 2;

/// A store on a disk, with all that it has promised.
struct Run {
    place: Place,
    worker: Worker,
    promises: Promises,
}

impl Run {
    async fn begin() -> Self {
        let place = Place::new();
        let store = place.open().unwrap();
        Self::begin_on(place, store).await
    }

    async fn begin_on(place: Place, store: Handle) -> Self {
        let worker = Worker::begin(store, 1, Chance::new(1)).await.unwrap();
        let mut run = Self { place, worker, promises: Promises::default() };
        run.step().await.unwrap();
        run
    }

    async fn step(&mut self) -> Result<(), Error> {
        let batch = self.worker.batch(2).await?;
        self.commit(&batch).await
    }

    async fn commit(&mut self, batch: &Batch) -> Result<(), Error> {
        let promised = self.worker.commit(batch.clone()).await?;
        promised.into_iter().for_each(|promised| self.promises.add(promised));
        Ok(())
    }

    /// Does the steps; the file is opened again exactly after an error. Answers how many failed.
    async fn work(&mut self) -> u64 {
        let mut failed = 0;
        for _ in 0..STEPS {
            let openings = self.place.disk.counts().openings;
            let has_failed = self.insist().await > 0;
            let reopened = self.place.disk.counts().openings > openings;
            assert_eq!(reopened, has_failed);
            failed += u64::from(has_failed);
        }
        failed
    }

    /// Does a step; if it fails, the batch is given again. Answers how often it failed.
    async fn insist(&mut self) -> u64 {
        let batch = self.worker.batch(2).await.unwrap();
        let mut failed = 0;
        while let Err(error) = self.commit(&batch).await {
            assert!(error.is_retryable(), "{error}");
            failed += 1;
            assert!(failed < TRIES, "it does not recover: {error}");
        }
        failed
    }

    /// Looks whether all is there that was promised. While the disk is ill, a store whose checkpoint has
    /// failed cannot be opened for reading either.
    async fn check(&self) {
        let mut failed = 0;
        let findings = loop {
            match self.promises.check(&self.worker.store).await {
                Err(error) if error.is_retryable() && failed < TRIES => failed += 1,
                checked => break checked.unwrap(),
            }
        };
        assert_eq!(findings.lost, 0, "{:#?}", findings.broken);
    }

    /// Closes the store, and returns what is left to look at.
    fn close(self) -> (Place, Promises) {
        drop(self.worker);
        (self.place, self.promises)
    }
}

#[tokio::test]
async fn a_sync_that_fails_loses_nothing_and_the_file_is_opened_again_before_the_next_accept() {
    let (first, last) = syncs_of_the_work().await;
    let mut failed = 0;
    for number in first..=last {
        let faults = Faults { failing_syncs: number..number + 1, ..Faults::default() };
        let (counts, errors) = run_with(faults).await;
        // The thread that checkpoints may come round less often, so that the last ones are not reached.
        let reached = counts.log_syncs + counts.other_syncs >= number;
        assert_eq!(counts.failures, u64::from(reached), "sync {number} was to fail");
        failed += errors;
    }
    // Those of the closing fail when nobody is told any more; the others each fail one commit.
    assert!(failed >= STEPS, "{failed} syncs of {first} to {last} failed a commit");
}

#[tokio::test]
async fn syncs_that_fail_for_a_while_lose_nothing_either() {
    let (first, last) = syncs_of_the_work().await;
    let mut failed = 0;
    for number in first..=last {
        let faults = Faults { failing_syncs: number..number + ILL, ..Faults::default() };
        let (counts, errors) = run_with(faults).await;
        assert!(counts.failures > 0, "sync {number} was to fail");
        failed += errors;
    }
    assert!(failed >= STEPS, "{failed} syncs of {first} to {last} failed a commit");
}

#[tokio::test]
async fn a_write_that_fails_loses_nothing() {
    let (first, last) = (before_work().await.writes, run_with(Faults::default()).await.0.writes);
    let stride = setting("REDIAL_WRITE_STRIDE", 7);
    let mut failed = 0;
    for number in (first + 1..=last).step_by(usize::try_from(stride).unwrap()) {
        let faults = Faults { failing_write: Some(number), ..Faults::default() };
        let (counts, errors) = run_with(faults).await;
        assert_eq!(counts.failures, 1, "write {number} was to fail");
        failed += errors;
    }
    assert!(failed >= STEPS, "{failed} writes failed a commit");
}

/// Returns the first and the last sync that is not one of the opening.
async fn syncs_of_the_work() -> (u64, u64) {
    let syncs = |counts: Counts| counts.log_syncs + counts.other_syncs;
    let ordinary = run_with(Faults::default()).await.0;
    (syncs(before_work().await) + 1, syncs(ordinary))
}

/// Returns what opening and the first step do.
async fn before_work() -> Counts {
    Run::begin().await.place.disk.counts()
}

/// Runs the load with faults, closes the store, then cuts the power at several moments since
/// then. Answers what happened, and how many commits failed.
async fn run_with(faults: Faults) -> (Counts, u64) {
    let mut run = Run::begin().await;
    run.place.disk.fail(faults.clone());
    let failed = run.work().await;
    run.check().await;
    let acknowledged = run.place.disk.now();
    let (place, promises) = run.close();
    assert_eq!(damage(&place.connect()), [""; 0]);
    survives_cuts(&place, &promises, (acknowledged, faults.failing_syncs.start)).await;
    (place.disk.counts(), failed)
}

/// Cuts the power at several moments since all was acknowledged, and looks for all of it.
async fn survives_cuts(place: &Place, promises: &Promises, (acknowledged, seed): (usize, u64)) {
    let trace = place.disk.trace();
    let mut chance = Chance::new(seed);
    let mut platter = Platter::default();
    for (moment, event) in trace.iter().enumerate() {
        platter.advance(event, &mut chance);
        // From the moment on at which all was acknowledged, all must be there.
        let matters = matches!(event, Event::Sync { .. } | Event::FailedSync { .. });
        if moment + 1 == acknowledged || (moment >= acknowledged && matters) {
            let left = Place::holding(&platter.after_a_cut(&mut chance));
            let findings = promises.check(&left.open().unwrap()).await.unwrap();
            assert_eq!(findings.lost, 0, "{seed}, {moment}: {:#?}", findings.broken);
        }
    }
}

#[tokio::test]
async fn a_checkpoint_whose_sync_fails_loses_nothing_that_an_earlier_one_had_copied() {
    for (failing, steps) in [(1, 1), (1, 3), (ILL, 3)] {
        let mut run = copied_without_a_sync().await;
        let Counts { other_syncs, failures, .. } = run.place.disk.counts();
        let failing_other_syncs = other_syncs + 1..other_syncs + 1 + failing;
        run.place.disk.fail(Faults { failing_other_syncs, ..Faults::default() });
        // The writer has the log begin anew after each of its commits, or tries to.
        for _ in 0..steps {
            run.insist().await;
        }
        run.check().await;
        let acknowledged = run.place.disk.now();
        let (place, promises) = run.close();
        assert!(place.disk.counts().failures > failures, "no sync has failed");
        for seed in 0..8 {
            survives_cuts(&place, &promises, (acknowledged, seed)).await;
        }
    }
}

/// Begins with a log whose first pages a checkpoint has copied to the file. Nothing has synced them
/// there: SQLite does so only once it has copied the whole log.
async fn copied_without_a_sync() -> Run {
    let place = Place::new();
    let store = place.open_with_log(1).unwrap();
    let mut run = Run::begin_on(place, store).await;
    let readers = [run.place.connect(), run.place.connect()];
    let snapshot = |reader: usize| {
        let snapshot = readers[reader].unchecked_transaction().unwrap();
        snapshot.query_row("SELECT count(*) FROM messages", [], |_| Ok(())).unwrap();
        snapshot
    };
    let whole_log = snapshot(0);
    // Enough for pages that no later step writes to.
    let many = run.worker.accepts(40);
    run.commit(&many).await.unwrap();
    let first_part = snapshot(1);
    run.step().await.unwrap();
    drop(whole_log);
    let (log, copied) = checkpoint(&run.place);
    assert!(0 < copied && copied < log, "{copied} pages of {log}");
    drop(first_part);
    run
}

/// Copies what can be copied, and returns how many pages the log has and how many are copied.
fn checkpoint(place: &Place) -> (i64, i64) {
    let connection = place.connect();
    loop {
        let sql = "PRAGMA wal_checkpoint(PASSIVE)";
        let pages = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (busy, log, copied): (bool, _, _) = connection.query_row(sql, [], pages).unwrap();
        // The store may be at it.
        if !busy {
            return (log, copied);
        }
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_messages_lets_everything_be_read_and_recovers_by_itself() {
    let mut run = Run::begin().await;
    let space = Some(run.place.disk.used() + 100_000);
    run.place.disk.fail(Faults { space, ..Faults::default() });
    let (batch, error) = loop {
        let batch = run.worker.batch(2).await.unwrap();
        if let Err(error) = run.commit(&batch).await {
            break (batch, error);
        }
    };
    assert!(error.is_retryable(), "{error}");
    assert!(error.to_string().contains("full"), "{error}");
    assert!(run.place.disk.counts().refusals > 0);
    for _ in 0..TRIES {
        assert!(run.commit(&batch).await.unwrap_err().is_retryable());
        run.check().await;
    }
    run.place.disk.fail(Faults::default());
    run.commit(&batch).await.unwrap();
    run.work().await;
    run.check().await;
    let (place, promises) = run.close();
    let findings = promises.check(&place.open().unwrap()).await.unwrap();
    assert_eq!(findings.lost, 0, "{:#?}", findings.broken);
    assert_eq!(damage(&place.connect()), [""; 0]);
}

#[tokio::test]
async fn a_probe_fails_while_the_disk_does_and_works_again_by_itself() {
    let run = Run::begin().await;
    let queue = Arc::clone(&run.worker.store.queue);
    queue.probe().await.unwrap();
    for _ in 0..3 {
        run.place.disk.fail(Faults { failing_syncs: 0..u64::MAX, ..Faults::default() });
        for _ in 0..TRIES {
            assert!(queue.probe().await.unwrap_err().is_retryable());
        }
        run.place.disk.fail(Faults::default());
        queue.probe().await.unwrap();
    }
    run.check().await;
}

#[test]
fn a_store_that_finds_no_room_says_so_and_where() {
    let mut refusals = 0;
    for space in (0..).step_by(16 * 1_024) {
        let place = Place::new();
        place.disk.fail(Faults { space: Some(space), ..Faults::default() });
        match place.open() {
            Err(Error::CannotOpen(text)) => {
                let place = place.directory.path().display().to_string();
                assert!(text.contains("no space is left in") && text.contains(&place), "{text}");
                refusals += 1;
            }
            Err(other) => panic!("{space}: {other:?}"),
            Ok(_) => break,
        }
    }
    assert!(refusals > 3, "{refusals}");
}
