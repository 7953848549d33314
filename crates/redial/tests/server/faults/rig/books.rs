//! The books: what was acknowledged beside what arrived, endpoint by endpoint.
//!
//! A delivery has arrived when an attempt got an answer that ends it. Whatever arrives of it after
//! that is a duplicate, and needs an excuse: a moment between the two at which the sender lost its
//! memory. A process that was killed is one; nothing else is. And it excuses only what was not
//! settled yet: what arrived [`UNSETTLED`] before it was, what arrived [`SOON`] before it was but for
//! as many as may be in flight, and in a sequence everything was but one.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use domain::time::Timestamp;

use super::receiver::Arrival;
use super::scene::Endpoint;
use super::senders::Ledger;

/// How many findings of a kind are quoted.
const QUOTED: usize = 10;

/// How long an attempt may remain unsettled after it arrived. Receivers answer within a fifth of a
/// second, and a commit takes milliseconds; the rest is for a machine that is busy.
const UNSETTLED: Duration = Duration::from_secs(3);
/// What arrived longer ago is settled, but for what is in flight.
const SOON: Duration = Duration::from_secs(1);

/// A time in which somebody lost its memory: from the kill until it was back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage {
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    /// How often it was lost meanwhile.
    pub(crate) times: usize,
}

/// What one outage excuses at one endpoint.
#[derive(Debug, Clone, Copy, Default)]
struct Excused {
    all: usize,
    /// Those that had arrived some time before.
    early: usize,
}

/// What the books say.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) acknowledged: usize,
    /// Deliveries that acknowledged messages led to.
    pub(crate) deliveries: usize,
    pub(crate) attempts: usize,
    /// Deliveries of acknowledged messages that never arrived.
    pub(crate) lost: Vec<String>,
    /// Arrivals that nobody sent, or under another id, or to another endpoint.
    pub(crate) strange: Vec<String>,
    /// Arrivals of what had arrived.
    pub(crate) duplicates: usize,
    /// Those of them without an excuse.
    pub(crate) unexplained: Vec<String>,
    /// Outages that would have to excuse more than was in flight.
    pub(crate) too_many: Vec<String>,
    /// The most that one outage excuses.
    pub(crate) most_per_outage: usize,
    /// The longest time between an arrival and the kill that undid it.
    pub(crate) longest_unsettled: Duration,
    /// Messages that overtook others on an endpoint that keeps the order.
    pub(crate) disorder: Vec<String>,
}

/// What is compared.
pub(crate) struct Books<'a> {
    pub(crate) endpoints: &'a [Endpoint],
    pub(crate) channels: fn(u64) -> &'static [&'static str],
    pub(crate) ledger: &'a Ledger,
    pub(crate) arrivals: &'a [Arrival],
    pub(crate) outages: &'a [Outage],
}

impl Books<'_> {
    /// Returns how many deliveries have not arrived yet.
    pub(crate) fn missing(&self) -> usize {
        let arrived = self.by_delivery();
        let ended = |key: &(usize, u64)| {
            arrived.get(key).is_some_and(|all| all.iter().any(|arrival| arrival.ends))
        };
        self.expected().filter(|key| !ended(key)).count()
    }

    /// Compares everything.
    pub(crate) fn compare(&self) -> Findings {
        let arrived = self.by_delivery();
        let mut findings = Findings {
            acknowledged: self.ledger.entries.len(),
            deliveries: self.expected().count(),
            attempts: self.arrivals.len(),
            ..Findings::default()
        };
        let mut excused = vec![BTreeMap::new(); self.outages.len()];
        for key @ (endpoint, number) in self.expected() {
            let all = arrived.get(&key).map_or(&[][..], Vec::as_slice);
            let Some(first) = all.iter().position(|arrival| arrival.ends) else {
                findings.lost.push(format!("message {number} for endpoint {endpoint}"));
                continue;
            };
            // After a bad answer it is sent again by right, whether it had arrived before or not.
            for pair in all[first..].windows(2).filter(|pair| pair[0].ends) {
                self.duplicate(pair[0], pair[1], &mut excused, &mut findings);
            }
        }
        let sums = excused.iter().map(|all| all.values().map(|one: &Excused| one.all).sum());
        findings.most_per_outage = sums.max().unwrap_or(0);
        for (outage, by_endpoint) in self.outages.iter().zip(&excused) {
            findings.too_many.extend(self.too_many(outage, by_endpoint));
        }
        findings.strange = self.arrivals.iter().filter_map(|it| self.strange(it)).collect();
        for endpoint in 0..self.endpoints.len() {
            if self.endpoints[endpoint].fifo {
                self.order(endpoint, &arrived, &mut findings.disorder);
            }
        }
        findings
    }

    fn expected(&self) -> impl Iterator<Item = (usize, u64)> {
        let endpoints = self.endpoints.iter().enumerate();
        endpoints.flat_map(move |(number, endpoint)| {
            let messages = self.ledger.entries.keys();
            let wanted = move |it: &&u64| (self.channels)(**it).contains(&endpoint.channel);
            messages.filter(wanted).map(move |message| (number, *message))
        })
    }

    fn by_delivery(&self) -> BTreeMap<(usize, u64), Vec<&Arrival>> {
        let mut all: BTreeMap<_, Vec<&Arrival>> = BTreeMap::new();
        for arrival in self.arrivals {
            all.entry((arrival.endpoint, arrival.number)).or_default().push(arrival);
        }
        all
    }

    fn duplicate(
        &self,
        before: &Arrival,
        again: &Arrival,
        excused: &mut [BTreeMap<usize, Excused>],
        findings: &mut Findings,
    ) {
        findings.duplicates += 1;
        let unsettled = |outage: &Outage| outage.from.since(before.at);
        // What had been sent before the kill may have been read a moment after it.
        let excuses = |outage: &Outage| {
            again.at >= outage.from && before.at <= outage.to && unsettled(outage) <= UNSETTLED
        };
        // The first after it counts: another kill may follow before what the first undid is sent
        // again, which takes as long as a lease.
        let all = self.outages.iter().enumerate().filter(|(_, outage)| excuses(outage));
        let Some((excuse, _)) = all.min_by_key(|(_, outage)| unsettled(outage)) else {
            let Arrival { endpoint, number, .. } = again;
            let times = [before.at, again.at].map(|at| at.as_micros());
            let text = format!("message {number} for endpoint {endpoint}, at {times:?} µs");
            return findings.unexplained.push(text);
        };
        let unsettled = unsettled(&self.outages[excuse]);
        findings.longest_unsettled = findings.longest_unsettled.max(unsettled);
        let excused = excused[excuse].entry(again.endpoint).or_default();
        excused.all += 1;
        excused.early += usize::from(unsettled > SOON);
    }

    /// Tells where an outage would have to excuse more than it can.
    fn too_many(
        &self,
        outage: &Outage,
        by_endpoint: &BTreeMap<usize, Excused>,
    ) -> impl Iterator<Item = String> {
        let crowded = |(number, excused): (&usize, &Excused)| {
            let endpoint = &self.endpoints[*number];
            let cap = usize::try_from(endpoint.in_flight).unwrap_or(usize::MAX);
            let (found, most) = match endpoint.fifo {
                true => (excused.all, outage.times),
                false => (excused.early, cap.saturating_mul(outage.times)),
            };
            let at = outage.from.as_micros();
            let text = format!("{found} of endpoint {number} at {at} µs, at most {most} possible");
            (found > most).then_some(text)
        };
        by_endpoint.iter().filter_map(crowded).collect::<Vec<_>>().into_iter()
    }

    fn strange(&self, arrival: &Arrival) -> Option<String> {
        let Arrival { endpoint, number, message, .. } = arrival;
        let Some(entry) = self.ledger.entries.get(number) else {
            return Some(format!("message {number} arrived and was never acknowledged"));
        };
        let wanted = self.endpoints.get(*endpoint).map(|it| it.channel);
        if !wanted.is_some_and(|channel| (self.channels)(*number).contains(&channel)) {
            return Some(format!("message {number} arrived at endpoint {endpoint}"));
        }
        let known = &entry.message;
        (known != message).then(|| format!("message {number} is {known} and arrived as {message}"))
    }

    /// If A was acknowledged before B was sent, the last of A arrives before the first of B.
    fn order(
        &self,
        endpoint: usize,
        arrived: &BTreeMap<(usize, u64), Vec<&Arrival>>,
        disorder: &mut Vec<String>,
    ) {
        let mut all: Vec<(u64, &Vec<&Arrival>)> =
            arrived.iter().filter(|it| it.0.0 == endpoint).map(|it| (it.0.1, it.1)).collect();
        all.retain(|(number, _)| self.ledger.entries.contains_key(number));
        let entry = |number: u64| &self.ledger.entries[&number];
        let mut acknowledged = all.clone();
        acknowledged.sort_by_key(|(number, _)| entry(*number).acknowledged);
        all.sort_by_key(|(number, _)| entry(*number).sent);
        let mut earlier = acknowledged.into_iter().peekable();
        let mut latest: Option<(Timestamp, u64)> = None;
        for (number, arrivals) in all {
            let sent = entry(number).sent;
            while let Some((other, others)) =
                earlier.next_if(|(other, _)| entry(*other).acknowledged < sent)
            {
                latest = latest.max(others.last().map(|arrival| (arrival.at, other)));
            }
            let first = arrivals.first().map(|arrival| arrival.at);
            if let (Some((at, other)), Some(first)) = (latest, first)
                && at > first
            {
                disorder.push(format!("message {number} overtook {other} at endpoint {endpoint}"));
            }
        }
    }
}

impl Findings {
    /// Tells whether every promise was kept.
    pub(crate) fn is_good(&self) -> bool {
        let Self { lost, strange, unexplained, too_many, disorder, .. } = self;
        let kinds = [lost, strange, unexplained, too_many, disorder];
        kinds.iter().all(|found| found.is_empty())
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "acknowledged    {} messages", self.acknowledged)?;
        writeln!(
            f,
            "arrived         {} attempts of {} deliveries",
            self.attempts, self.deliveries
        )?;
        writeln!(
            f,
            "duplicates      {}, at most {} by one kill, unsettled for at most {:?}",
            self.duplicates, self.most_per_outage, self.longest_unsettled
        )?;
        let kinds = [
            ("lost", &self.lost),
            ("strange", &self.strange),
            ("unexplained", &self.unexplained),
            ("too many", &self.too_many),
            ("out of order", &self.disorder),
        ];
        for (kind, found) in kinds {
            writeln!(f, "{kind:<15} {}", found.len())?;
            for text in found.iter().take(QUOTED) {
                writeln!(f, "  {text}")?;
            }
        }
        Ok(())
    }
}
