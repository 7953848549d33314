//! The store's figures: on a store that is full, and when it is opened. Beside a bare loop it is
//! measured by `redial bench store`.
//!
//! ```text
//! cargo build --release -p redial-store --example figures
//! target/release/examples/figures full --store sqlite --place DIRECTORY
//! scripts/with-postgres target/release/examples/figures full --store postgres
//! target/release/examples/figures opening --store sqlite --place DIRECTORY
//! ```
//!
//! `--settled N --pending N --endpoints N` say how full, `--lifecycles N --pairs N` how long.
//!
//! # Layout
//! - `place`: where stores are, and how they are opened; `fill`: how they become full
//! - `load`: 64 callers and what gathers their batches; `reads`: lists and how long they take

#![expect(clippy::print_stdout, reason = "figures are printed")]

mod fill;
mod load;
mod place;
mod reads;

use std::time::{Duration, Instant};

use domain::partition::Partition;
use store::Error;
use store::conformance::Handle;

use fill::{Plan, Site};
use place::Place;

/// What the command line says.
struct Arguments {
    what: String,
    place: Place,
    plan: Plan,
    lifecycles: u64,
    pairs: u32,
}

fn main() -> Result<(), Error> {
    let arguments = parse(std::env::args().skip(1)).map_err(Error::Refused)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Error::unavailable("no runtime", error))?;
    runtime.block_on(async {
        match arguments.what.as_str() {
            "full" => full(&arguments).await,
            "opening" => opening(&arguments).await,
            other => Err(Error::Refused(format!("there is no figure `{other}`"))),
        }
    })
}

/// A full store beside an empty one, and how long reading takes on it.
///
/// Both have the same application with the same endpoints, and the callers go on where the rows
/// are. So what differs is what is there already. They go to one endpoint, as in all other figures,
/// and then to every endpoint in turn: that is as far apart as rows can be.
async fn full(arguments: &Arguments) -> Result<(), Error> {
    let place = arguments.place.at("full").await?;
    let began = now();
    let there = fill::fill(&place, arguments.plan).await?;
    println!("filled in {:.0} s: {:?}", now().duration_since(began).as_secs_f64(), arguments.plan);
    let full = place.open().await?;
    let empty = arguments.place.at("empty").await?.open().await?;
    let nothing = fill::set_up(&empty, arguments.plan.endpoints).await?;
    reads::tell(&full, &there).await?;
    beside(arguments, "to one endpoint", (&full, &there.first(1)), (&empty, &nothing.first(1)))
        .await?;
    beside(arguments, "to every endpoint in turn", (&full, &there), (&empty, &nothing)).await?;
    reads::tell(&full, &there).await
}

/// The same load on a full store and on an empty one.
async fn beside(
    arguments: &Arguments,
    what: &str,
    (full, there): (&Handle, &Site),
    (empty, nothing): (&Handle, &Site),
) -> Result<(), Error> {
    // Not measured: a file that grows for the first time is slower than one that has its size, and
    // what is read for the first time comes from the disk.
    load::run(empty, nothing, arguments.lifecycles).await?;
    load::run(full, there, arguments.lifecycles).await?;
    let mut pairs = Vec::new();
    for number in 0..arguments.pairs {
        // Each goes first as often as the other: the second pays for what the first left to do.
        let (mut of_full, mut of_empty) = (0.0, 0.0);
        for turn in 0..2 {
            if (number + turn) % 2 == 0 {
                of_empty = load::run(empty, nothing, arguments.lifecycles).await?;
            } else {
                of_full = load::run(full, there, arguments.lifecycles).await?;
            }
        }
        println!("full {of_full:.0}/s, empty {of_empty:.0}/s");
        pairs.push((of_full, of_empty));
    }
    tell(&format!("full ÷ empty, {what}"), &pairs);
    Ok(())
}

/// Opening a store with a million pending deliveries, and learning which endpoints have work.
///
/// The two are opened in turns; the first time of each is not counted.
async fn opening(arguments: &Arguments) -> Result<(), Error> {
    let pending = arguments.plan.pending;
    let mut places = Vec::new();
    for (name, endpoints) in [("one", 1), ("many", (pending / 10).max(1))] {
        let place = arguments.place.at(name).await?;
        let began = now();
        fill::only_pending(&place, pending, endpoints).await?;
        println!("{name}: filled in {:.0} s", now().duration_since(began).as_secs_f64());
        places.push((place, endpoints, Vec::new(), Vec::new()));
    }
    for round in 0..=arguments.pairs {
        for (place, endpoints, opened, known) in &mut places {
            let before = resident();
            let began = now();
            let store = place.open().await?;
            let after_opening = now().duration_since(began).as_secs_f64();
            let waiting = store.queue.waiting(Partition::all().collect()).await?;
            let after_looking = now().duration_since(began).as_secs_f64();
            if u64::try_from(waiting.len()) != Ok(*endpoints) {
                let text = format!("{} of {endpoints} endpoints are known", waiting.len());
                return Err(Error::Refused(text));
            }
            let new = resident().saturating_sub(before);
            println!(
                "{pending} pending on {endpoints} endpoints: opened after {after_opening:.3} s, \
                 all known after {after_looking:.3} s; {} KiB resident, {new} KiB of them new",
                resident(),
            );
            if round > 0 {
                opened.push(after_opening);
                known.push(after_looking);
            }
        }
    }
    for (_, endpoints, opened, known) in places {
        let longest = known.iter().copied().fold(0.0, f64::max);
        println!(
            "{pending} pending on {endpoints} endpoints: opened after {:.3} s, all known after \
             {:.3} s (medians of {}), at most {longest:.3} s; at most {} KiB resident",
            median(opened.iter().copied()),
            median(known.iter().copied()),
            known.len(),
            status("VmHWM:"),
        );
    }
    Ok(())
}

/// Tells the median ratio of pairs, and the median rates.
fn tell(what: &str, pairs: &[(f64, f64)]) {
    let ratio = median(pairs.iter().map(|pair| pair.0 / pair.1));
    let (one, other) =
        (median(pairs.iter().map(|pair| pair.0)), median(pairs.iter().map(|pair| pair.1)));
    println!("{what}: {ratio:.2} (medians {one:.0}/s and {other:.0}/s of {} pairs)", pairs.len());
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns how many KiB of memory this process has.
fn resident() -> u64 {
    status("VmRSS:")
}

fn status(what: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(what));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark looks at the clock")]
fn now() -> Instant {
    Instant::now()
}

/// Returns a moment for rows: ids and times in a benchmark have to be fresh.
#[expect(clippy::disallowed_methods, reason = "a benchmark looks at the clock")]
fn moment() -> domain::time::Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    domain::time::Timestamp::EPOCH.after(since.unwrap_or(Duration::ZERO))
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let what = words.next().ok_or("say which figure: full or opening")?;
    let (mut store, mut directory) = ("sqlite".to_owned(), None);
    let mut plan = Plan { settled: 5_000_000, pending: 1_000_000, endpoints: 1_000 };
    let (mut lifecycles, mut pairs) = (20_000, 5);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|error| format!("{word} {value}: {error}"));
        match word.as_str() {
            "--store" => store = value,
            "--place" => directory = Some(value),
            "--settled" => plan.settled = number()?,
            "--pending" => plan.pending = number()?,
            "--endpoints" => plan.endpoints = number()?,
            "--lifecycles" => lifecycles = number()?,
            "--pairs" => pairs = u32::try_from(number()?).map_err(|error| error.to_string())?,
            _ => return Err(format!("there is no option `{word}`")),
        }
    }
    let place = Place::named(&store, directory)?;
    Ok(Arguments { what, place, plan, lifecycles, pairs })
}
