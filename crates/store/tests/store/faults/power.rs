//! The power is cut after every event of a small load.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::disk::{Event, Image};
use super::platter::Platter;
use super::work::{Chance, Promised, Promises, Worker};
use super::{Place, damage, setting};

/// Of so many cuts, one is followed by another.
const CUTS_PER_SECOND_CUT: u64 = 4;
/// Of so many moments, one is enough to see what NORMAL loses.
const MOMENTS_PER_NORMAL_CUT: usize = 5;
/// A write of so many bytes at the beginning of a log begins it anew.
const LOG_HEADER: usize = 32;

/// What was done to a disk, and what was promised when.
struct Recording {
    trace: Vec<Event>,
    /// With the length of the trace when it was promised.
    promised: Vec<(usize, Promised)>,
    /// How many steps each session had.
    steps: u64,
}

/// What the cuts showed.
#[derive(Debug, Default)]
struct Toll {
    cuts: u64,
    kept: u64,
    lost: u64,
    damaged: u64,
    /// The first of what was lost or damaged, with its event and seed.
    broken: Vec<String>,
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_by_a_power_cut_at_any_moment() {
    let recording = record(false).await;
    assert!(covers_everything(&recording));
    let toll = cut_everywhere(&recording, false).await;
    assert_eq!((toll.lost, toll.damaged), (0, 0), "{:#?}", toll.broken);
    assert!(toll.kept > toll.cuts, "the cuts must come when something is promised: {toll:?}");
    eprintln!("{} events, {} cuts, {} promises kept", recording.trace.len(), toll.cuts, toll.kept);
}

#[tokio::test]
async fn the_same_cuts_lose_acknowledged_messages_with_synchronous_normal() {
    let recording = record(true).await;
    let toll = cut_everywhere(&recording, true).await;
    assert_eq!(toll.damaged, 0, "NORMAL forgets, and damages nothing: {:#?}", toll.broken);
    assert!(toll.lost > 0, "cuts that lose nothing here would prove nothing elsewhere: {toll:?}");
    eprintln!("{} cuts, {} promises lost, {} kept", toll.cuts, toll.lost, toll.kept);
}

/// Runs the load: in an empty store, over a checkpoint that lets the log begin anew, over a
/// closing that copies and removes it, and in a store that was there before, whose writer finds its
/// log far too large after every commit.
async fn record(normal: bool) -> Recording {
    let steps = setting("REDIAL_POWER_STEPS", 6);
    let place = Place::new();
    if normal {
        place.disk.be_normal();
    }
    let mut promised = Vec::new();
    for (session, large_log) in [(1, None), (2, Some(1))] {
        let store = large_log.map_or_else(|| place.open(), |pages| place.open_with_log(pages));
        let store = store.unwrap();
        let mut worker = Worker::begin(store, session, Chance::new(1)).await.unwrap();
        for step in 0..steps {
            let told = worker.step(2).await.unwrap();
            let now = place.disk.now();
            promised.extend(told.into_iter().map(|promised| (now, promised)));
            if step == steps / 2 {
                checkpoint(&place);
            }
        }
    }
    Recording { trace: place.disk.trace(), promised, steps }
}

/// Tells whether a load did all that is delicate: it removed files, and began a log anew, which
/// it only does when a checkpoint has copied all of it, with nearly every step of a session.
fn covers_everything(recording: &Recording) -> bool {
    let trace = &recording.trace;
    let removed = trace.iter().any(|event| matches!(event, Event::Delete { .. }));
    let mut begun = BTreeMap::new();
    for event in trace {
        if let Event::Write { file, offset: 0, bytes } = event
            && bytes.len() == LOG_HEADER
        {
            *begun.entry(file).or_insert(0) += 1;
        }
    }
    removed && begun.values().any(|times| *times >= recording.steps)
}

/// Copies the log, so that the next commit begins it anew.
fn checkpoint(place: &Place) {
    let connection = place.connect();
    let sql = "PRAGMA wal_checkpoint(PASSIVE)";
    let (log, copied): (i64, i64) =
        connection.query_row(sql, [], |row| Ok((row.get(1)?, row.get(2)?))).unwrap();
    assert_eq!(log, copied);
}

/// Cuts the power after each event, several times, and opens the store on what is left.
async fn cut_everywhere(recording: &Recording, normal: bool) -> Toll {
    let cuts = setting("REDIAL_POWER_CUTS", 2);
    let mut platter = Platter::default();
    let mut promises = Promises::default();
    let mut promised = recording.promised.iter().peekable();
    let mut toll = Toll::default();
    let mut seen = BTreeSet::new();
    for (moment, event) in recording.trace.iter().enumerate() {
        platter.advance(event, &mut Chance::new(moment as u64));
        while let Some((_, next)) = promised.next_if(|(at, _)| *at <= moment + 1) {
            promises.add(*next);
        }
        let skipped = normal && !moment.is_multiple_of(MOMENTS_PER_NORMAL_CUT);
        for cut in 0..if skipped { 0 } else { cuts } {
            let seed = moment as u64 * 1_000 + cut;
            let image = platter.after_a_cut(&mut Chance::new(seed));
            // Often nothing of what was not synced is there, and it is as after the last cut.
            if !seen.insert(fingerprint(&image, &promises)) {
                continue;
            }
            let before = toll.broken.len();
            let again = survive(&image, normal, &promises, &mut toll).await;
            // The power may be cut again while the store recovers, or just afterwards.
            if (moment as u64 + cut).is_multiple_of(CUTS_PER_SECOND_CUT) {
                let image = cut_again(&image, &again, &mut Chance::new(seed));
                survive(&image, normal, &promises, &mut toll).await;
            }
            toll.broken.truncate(20);
            for text in toll.broken.iter_mut().skip(before) {
                *text = format!("event {moment}, seed {seed}: {text}");
            }
        }
    }
    toll
}

fn fingerprint(image: &Image, promises: &Promises) -> u64 {
    let mut hasher = DefaultHasher::new();
    (image, promises.counts()).hash(&mut hasher);
    hasher.finish()
}

/// Opens the store on what is left and looks for everything; returns what that did to the disk.
async fn survive(
    image: &Image,
    normal: bool,
    promises: &Promises,
    toll: &mut Toll,
) -> Arc<[Event]> {
    toll.cuts += 1;
    let place = Place::holding(image);
    if normal {
        place.disk.be_normal();
    }
    match place.open() {
        Ok(store) => match promises.check(&store).await {
            Ok(findings) => {
                toll.kept += findings.kept;
                toll.lost += findings.lost;
                toll.broken.extend(findings.broken);
            }
            Err(error) => {
                toll.damaged += 1;
                toll.broken.push(format!("it cannot be read: {error}"));
            }
        },
        Err(error) => {
            toll.damaged += 1;
            toll.broken.push(format!("it cannot be opened: {error}"));
        }
    }
    let trace = place.disk.trace().into();
    let damage = damage(&place.connect());
    toll.damaged += damage.len() as u64;
    toll.broken.extend(damage);
    trace
}

/// Cuts the power at some moment of what was done to a disk that held an image.
fn cut_again(image: &Image, trace: &[Event], chance: &mut Chance) -> Image {
    let mut platter = Platter::holding(image);
    let moment = chance.below(trace.len() as u64 + 1);
    for event in trace.iter().take(usize::try_from(moment).unwrap()) {
        platter.advance(event, chance);
    }
    platter.after_a_cut(chance)
}
