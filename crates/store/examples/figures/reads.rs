//! How long reading takes: a load, and the first page of each list.

use std::pin::Pin;

use domain::partition::Partition;
use store::Error;
use store::conformance::Handle;
use store::keys::MessageKey;
use store::ledger::Within;
use store::page::{From, Page};
use store::queue::Load;

use super::fill::Site;
use super::{median, moment, now};

const TIMES: u32 = 15;

type Reading<'a> = Pin<Box<dyn Future<Output = Result<usize, Error>> + 'a>>;

/// Reads everything some times, and tells the median and the longest time of each.
pub(crate) async fn tell<'a>(store: &'a Handle, site: &Site) -> Result<(), Error> {
    let Site { application, endpoints } = site;
    let (application, message) = (*application, MessageKey(7));
    let endpoint = endpoints[endpoints.len() / 2].key;
    let (queue, catalog, ledger) = (&store.queue, &store.catalog, &store.ledger);
    let load = Load { application, endpoint, from: i64::MIN, most: 100, most_bytes: 1 << 20 };
    let day = std::time::Duration::from_secs(86_400);
    let reads: [(&str, &dyn Fn() -> Reading<'a>); 11] = [
        ("load of 100", &|| Box::pin(async move { Ok(queue.load(load).await?.deliveries.len()) })),
        ("messages", &|| {
            Box::pin(
                async move { len(ledger.messages(application, Default::default(), page()).await) },
            )
        }),
        ("deliveries of an endpoint", &|| {
            Box::pin(async move {
                len(ledger.deliveries(application, endpoint, Default::default(), page()).await)
            })
        }),
        ("deliveries of a message", &|| {
            Box::pin(async move { Ok(ledger.deliveries_of(application, message).await?.len()) })
        }),
        ("dead letters", &|| {
            Box::pin(async move {
                len(ledger.dead_letters(application, Default::default(), page()).await)
            })
        }),
        ("attempts of an endpoint", &|| {
            Box::pin(async move {
                len(ledger.attempts(application, endpoint, Default::default(), page()).await)
            })
        }),
        ("endpoints", &|| {
            Box::pin(async move { len(catalog.endpoints(application, page()).await) })
        }),
        ("applications", &|| Box::pin(async move { len(catalog.applications(page()).await) })),
        ("counts of an endpoint's day", &|| {
            Box::pin(async move {
                let (since, until) = (moment().before(day), moment());
                let counts = ledger.delivery_counts(application, endpoint, since, until).await?;
                Ok(usize::try_from(counts.pending + counts.delivered).unwrap_or(0))
            })
        }),
        ("count of dead letters", &|| {
            Box::pin(async move {
                let counted = ledger.dead_letter_count(Within::Application(application)).await?;
                Ok(usize::try_from(counted.number).unwrap_or(0))
            })
        }),
        ("endpoints that wait", &|| {
            Box::pin(async move { Ok(queue.waiting(Partition::all().collect()).await?.len()) })
        }),
    ];
    for (name, read) in reads {
        let (mut times, mut rows) = (Vec::new(), 0);
        for _ in 0..TIMES {
            let began = now();
            rows = read().await?;
            times.push(now().duration_since(began).as_secs_f64() * 1_000.0);
        }
        let longest = times.iter().copied().fold(0.0, f64::max);
        let median = median(times.iter().copied());
        println!("{name:<28} {median:>8.2} ms, at most {longest:.2} ms ({rows} rows)");
    }
    Ok(())
}

fn len<T, Id>(listed: Result<store::page::Listed<T, Id>, Error>) -> Result<usize, Error> {
    Ok(listed?.entries.len())
}

fn page<Id>() -> Page<Id> {
    Page { from: From::Start, limit: 50 }
}
