//! Syncs that fail, writes that fail, and a disk that is full.

use store::Error;
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

    /// Does the steps; a batch that failed is given again. Answers how many failed.
    async fn work(&mut self) -> u64 {
        let mut failed = 0;
        for _ in 0..STEPS {
            let batch = self.worker.batch(2).await.unwrap();
            let openings = self.place.disk.counts().openings;
            let mut tries = 0;
            while let Err(error) = self.commit(&batch).await {
                assert!(error.is_retryable(), "{error}");
                tries += 1;
                assert!(tries < TRIES, "it does not recover: {error}");
            }
            let reopened = self.place.disk.counts().openings > openings;
            assert_eq!(reopened, tries > 0, "the file is opened again exactly after an error");
            failed += u64::from(tries > 0);
        }
        failed
    }

    async fn check(&self) {
        let findings = self.promises.check(&self.worker.store).await.unwrap();
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
        assert_eq!(counts.failures, 1, "sync {number} was to fail");
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
    let trace = place.disk.trace();
    let mut chance = Chance::new(faults.failing_syncs.start);
    let mut platter = Platter::default();
    for (moment, event) in trace.iter().enumerate() {
        platter.advance(event, &mut chance);
        // From the moment on at which all was acknowledged, all must be there.
        let matters = matches!(event, Event::Sync { .. } | Event::FailedSync { .. });
        if moment + 1 == acknowledged || (moment >= acknowledged && matters) {
            let left = Place::holding(&platter.after_a_cut(&mut chance));
            let findings = promises.check(&left.open().unwrap()).await.unwrap();
            assert_eq!(findings.lost, 0, "{faults:?}, {moment}: {:#?}", findings.broken);
        }
    }
    (place.disk.counts(), failed)
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
