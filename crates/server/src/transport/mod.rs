//! The one way out: every request that leaves this server leaves through here.
//!
//! A [`Transport`] takes an attempt to be made and returns the record of it. It never fails: each
//! way in which an attempt can end is an outcome. One deadline spans name look-up, connect, TLS,
//! writing, head and body. Dropping the future aborts the attempt and closes its connection.
//!
//! # Layout
//! - `prepared`, `cache`: what stays the same between attempts; `headers`: which ones may be added
//! - `connect`, `resolve`, `tls`, `proxy`, `interfaces`: from a URL to a connection
//! - `attempting`: the requests of an attempt; `hops`: where redirects lead, and with which headers
//! - `exchange`, `answer`, `stream`: one request and its answer; `pool`: connections in waiting
//! - `gates`: where a request waits, connection in hand, until its endpoint's rate lets it be written
//! - `outcome`: from errors to outcomes and words; `told`: what the operator has to know of them;
//!   [`prospect`]: a look at the way out
//!
//! Redirects are answers, unless the policy follows them. The environment's proxies are never used.

mod answer;
mod attempting;
mod cache;
mod connect;
mod exchange;
mod gates;
pub mod headers;
mod hops;
mod interfaces;
mod outcome;
mod pool;
mod prepared;
pub mod prospect;
mod proxy;
mod resolve;
mod stream;
mod tls;
mod told;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use domain::address::Guard;
use domain::ids::AttemptId;
use domain::outcome::Outcome;
use domain::policy::Part;
use domain::time::Timestamp;
use engine::protocol::effect::Sending;
use engine::roster::Member;
use rustls::pki_types::CertificateDer;
use signature::Brand;
use store::Headers;
use store::queue::{AttemptRecord, Phases};

pub use pool::PoolLimits;
pub use resolve::{LookUp, NoAddress, NoNameServers, Resolver};

use crate::clock::Clock;
use crate::dice;
use attempting::{Attempting, Deadline};
use cache::Cache;
use connect::Dialler;
use exchange::Progress;
use gates::Gates;
use hops::Trip;
use outcome::Failure;
use pool::Pool;
use prepared::{Prepared, Preparing};
use tls::Tls;
use told::Told;

/// How often this machine's addresses are read again.
const ADDRESSES_READ_EVERY: Duration = Duration::from_secs(60);
/// How often waiting connections are looked at.
const SWEPT_EVERY: Duration = Duration::from_secs(1);

/// What a transport is made with.
pub struct TransportSettings {
    /// Decides where requests may go. This machine's addresses are added to it.
    pub guard: Guard,
    /// Looks names up.
    pub resolver: Resolver,
    /// The brand of the signatures that have one.
    pub brand: Brand,
    /// How many connections wait to be used again.
    pub pool: PoolLimits,
    /// For how many endpoints requests are kept prepared.
    pub prepared: usize,
    /// Certificates to trust besides the system's; for tests.
    pub extra_roots: Vec<CertificateDer<'static>>,
}

/// Sends requests.
pub struct Transport {
    guard: RwLock<Arc<Guard>>,
    own: Mutex<Own>,
    brand: Brand,
    dialler: Dialler,
    pool: Pool,
    gates: Gates,
    prepared: Cache<Prepared>,
    told: Told,
}

/// This machine's addresses.
#[derive(Default)]
struct Own {
    /// As the guard knows them.
    known: BTreeSet<IpAddr>,
    /// Whether they could not be read the last time.
    stale: bool,
}

impl TransportSettings {
    /// Makes settings with every limit at its default.
    #[must_use]
    #[expect(clippy::expect_used, reason = "the brand is a word")]
    pub fn new(guard: Guard, resolver: Resolver) -> Self {
        Self {
            guard,
            resolver,
            brand: "Redial".parse().expect("a word is a brand"),
            pool: PoolLimits::default(),
            prepared: 4_096,
            extra_roots: Vec::new(),
        }
    }
}

/// The clocks of an attempt.
#[derive(Clone, Copy)]
struct Clocks<'a> {
    /// The process's own: deadlines and gates count on it.
    own: &'a dyn Clock,
    /// The wall clock when the attempt began: signatures name it.
    wall: Timestamp,
    /// The time on the rows' timeline when the attempt began: secrets expire on it.
    rows: Timestamp,
}

impl Transport {
    /// Makes a transport. It reads the system's certificates and this machine's addresses.
    #[must_use]
    pub fn new(settings: TransportSettings) -> Self {
        let tls = Tls::new(&settings.extra_roots);
        let transport = Self {
            guard: RwLock::new(Arc::new(settings.guard)),
            own: Mutex::default(),
            brand: settings.brand,
            dialler: Dialler { resolver: settings.resolver, tls },
            pool: Pool::new(settings.pool),
            gates: Gates::default(),
            prepared: Cache::new(settings.prepared),
            told: Told::default(),
        };
        transport.learn(interfaces::own_addresses());
        transport
    }

    /// Makes an attempt and tells how it ended. Which secrets sign it is judged by the time on the
    /// rows' timeline; everything else, and what is recorded, is on the process's own clock.
    pub async fn send(
        &self,
        sending: &Sending,
        rows: Timestamp,
        clock: &dyn Clock,
    ) -> AttemptRecord {
        let (began_at, wall) = (clock.now(), clock.wall());
        let mut record = AttemptRecord {
            id: AttemptId::new(wall, dice::for_id()),
            began_at,
            ended_at: began_at,
            trigger: sending.trigger,
            outcome: Outcome::Interrupted,
            retry_after_kept: None,
            phases: Phases::default(),
            request_headers: Headers::default(),
            response_headers: Headers::default(),
            response_body: Bytes::new(),
            error: None,
            refusal: None,
            hops: Vec::new(),
        };
        let mut progress = Progress::default();
        let clocks = Clocks { own: clock, wall, rows };
        let ended = self.attempt(sending, clocks, (&mut record, &mut progress)).await;
        record.phases = progress.phases;
        let mut error = None;
        if let Err(failure) = ended {
            self.told.tell(&failure, &sending.member, &self.guard(), clock.now());
            (record.outcome, record.refusal) = (failure.outcome, failure.refusal);
            error = Some(failure.text.into_owned());
        } else if let Some(answer) = &mut progress.answer {
            record.outcome = answer.outcome();
            error = answer.complaint.take();
        }
        let kept = sending.member.defaults.response_kept.parts.contains(&Part::Error);
        record.error = error.filter(|_| kept);
        if let Some(answer) = progress.answer {
            (record.response_headers, record.response_body) = answer.finish();
        }
        record.ended_at = clock.now();
        record
    }

    /// Looks after what waits: closes old connections and reads this machine's addresses again. It
    /// never ends; whoever starts a transport lets this run beside it.
    pub async fn upkeep(&self, clock: &dyn Clock) {
        let mut sweep = tokio::time::interval(SWEPT_EVERY);
        let mut read_at = clock.now();
        loop {
            sweep.tick().await;
            let now = clock.now();
            self.pool.sweep(now);
            self.gates.sweep(now);
            // What could not be read is asked for at each turn.
            let due = now.since(read_at) >= ADDRESSES_READ_EVERY || self.own().stale;
            if due {
                read_at = now;
                self.learn(interfaces::own_addresses());
            }
        }
    }

    /// Interrupts the attempts that wait for their endpoint's rate, and every later one that would.
    pub fn stop_waiting(&self) {
        self.gates.close();
    }

    /// Returns how many connections wait to be used again.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.pool.idle()
    }

    /// Replaces the guard's settings; what was vetted under the old ones is not used again.
    pub fn change_guard(&self, settings: domain::address::Settings) {
        self.replace_guard(self.guard().as_ref().clone().with_settings(settings));
    }

    async fn attempt(
        &self,
        sending: &Sending,
        clocks: Clocks<'_>,
        (record, progress): (&mut AttemptRecord, &mut Progress),
    ) -> Result<(), Failure> {
        let payload = sending.delivery.payload.clone();
        let payload = payload.ok_or_else(|| Failure::interrupted("the payload was not loaded"))?;
        let guard = self.guard();
        let prepared = self.prepared(&sending.member, &guard, (clocks.rows, record.began_at))?;
        let (request, recorded) = prepared.request(sending, payload.clone(), clocks.wall)?;
        record.request_headers = recorded;
        let policy = &sending.policy;
        let at = record.began_at.after(policy.timeouts.whole());
        let mut attempting = Attempting {
            transport: self,
            sending,
            guard: &guard,
            gate: &prepared.gate,
            deadline: Deadline { at, clock: clocks.own },
            record,
            progress,
        };
        let home = &prepared.target;
        let trip = Trip::begin((&guard, home), policy.redirects, (&request, &payload));
        let asked = attempting.ask((home, &prepared.site), request, trip.as_ref()).await?;
        match (asked, trip) {
            // Boxed, because hardly any attempt is redirected and every one would have room for it.
            (Some(redirect), Some(trip)) => Box::pin(attempting.follow(redirect, trip)).await,
            (Some(_) | None, _) => Ok(()),
        }
    }

    fn prepared(
        &self,
        member: &Arc<Member>,
        guard: &Arc<Guard>,
        (rows, now): (Timestamp, Timestamp),
    ) -> Result<Arc<Prepared>, Failure> {
        let found = self.prepared.find(member.key());
        if let Some(found) = found.filter(|found| found.is_good(member, guard, rows)) {
            return Ok(found);
        }
        let (pool, gates, brand) = (&self.pool, &self.gates, &self.brand);
        let with = Preparing { pool, gates, guard, brand, rows, now };
        let prepared = Arc::new(Prepared::new(member, &with)?);
        self.told.tell_left_out(&prepared.left_out, member, now);
        self.prepared.put(member.key(), Arc::clone(&prepared));
        Ok(prepared)
    }

    fn guard(&self) -> Arc<Guard> {
        Arc::clone(&self.guard.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in which addresses this machine has. If they could not be read it keeps those it had: a
    /// guard that knows none lets requests through to this machine.
    fn learn(&self, read: Option<BTreeSet<IpAddr>>) {
        let mut own = self.own();
        let Some(read) = read else {
            if !own.stale {
                tracing::warn!(
                    known = own.known.len(),
                    "this machine's addresses cannot be read; those known before stay closed to \
                     deliveries"
                );
            }
            own.stale = true;
            return;
        };
        own.stale = false;
        if own.known != read {
            self.replace_guard(self.guard().as_ref().clone().with_own_addresses(read.clone()));
            own.known = read;
        }
    }

    fn replace_guard(&self, guard: Guard) {
        *self.guard.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(guard);
        self.pool.clear();
    }
}

#[cfg(test)]
mod tests {
    use domain::address::Settings;

    use super::*;

    #[test]
    fn addresses_that_cannot_be_read_again_stay_closed() {
        let guard = Guard::new(Settings::default());
        let resolver = Resolver::from_fn(|_| Box::pin(async { Err(NoAddress::Absent) }));
        let transport = Transport::new(TransportSettings::new(guard, resolver));
        let own: IpAddr = [8, 8, 8, 8].into();
        let is_open = || {
            let application = domain::ids::ApplicationId::from_bytes([7; 20]);
            transport.guard().vet_address((own, 443).into(), application).is_ok()
        };
        assert!(is_open(), "somebody else's");
        transport.learn(Some(BTreeSet::from([own])));
        assert!(!is_open(), "ours");
        transport.learn(None);
        assert!(!is_open() && transport.own().stale, "ours, for all that is known");
        transport.learn(Some(BTreeSet::new()));
        assert!(is_open() && !transport.own().stale, "ours no more");
    }
}
