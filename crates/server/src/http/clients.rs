//! Which clients hold the connections, and which of them gives one up when there are no more.
//!
//! A connection is a newcomer until a request with a valid token came on it. Then it is its application's, or
//! the operator's. While such a request is in progress the connection stays. Any other may be closed: nothing
//! is asked on it, or its client is slow to ask or to read. When all are taken, the next client gets the place
//! - of a newcomer, while newcomers hold more than a quarter: of the network that has most of them the oldest;
//! - or else of the connection that rests for longest, of the application that has most. An operator's go last.
//!
//! One network has no more than its share: beyond that it gives up its own. Ranges of proxies are exempt,
//! because many clients come from there.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use domain::ids::ApplicationId;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::ranked::Ranked;
use crate::network::{Network, Range};

/// Newcomers may hold one in so many connections, whatever else wants one.
const NEWCOMERS: usize = 4;
/// Stands in for the number of requests in progress of a connection that is being closed.
const CLOSING: u32 = u32::MAX;

/// Whose requests came on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    /// Those of an application's token.
    Application(ApplicationId),
    /// An operator's.
    Operator,
}

/// How many connections there may be.
#[derive(Debug, Clone)]
pub(super) struct Room {
    /// In all.
    pub(super) all: usize,
    /// Of one network.
    pub(super) each: usize,
    /// Where that does not count.
    pub(super) proxies: Vec<Range>,
}

/// The clients that are connected.
pub(super) struct Clients {
    room: Room,
    connected: Mutex<Connected>,
    /// Counts the ends of requests, so that it is known which connection has rested for longest.
    ends: AtomicU64,
    /// Whether a client waits for a place.
    is_wanted: AtomicBool,
    freed: Notify,
}

#[derive(Default)]
struct Connected {
    /// Numbers them in the order in which they came.
    next: u64,
    clients: BTreeMap<u64, (Arc<Client>, Option<Holder>)>,
    networks: BTreeMap<Network, usize>,
    newcomers: Ranked<Network>,
    known: Ranked<Holder>,
}

/// A client on one connection.
pub(crate) struct Client {
    number: u64,
    network: Network,
    clients: Arc<Clients>,
    holder: Mutex<Option<Holder>>,
    /// How many requests with a valid token are in progress, or [`CLOSING`].
    running: AtomicU32,
    /// Which end of a request was the last here.
    rests_since: AtomicU64,
    task: OnceLock<AbortHandle>,
}

/// A connection's place, until it is dropped.
pub(super) struct Place(Arc<Client>);

/// A request in progress: its connection stays until this is dropped.
pub(crate) struct Serving(Arc<Client>);

/// What became of a client that wants a place.
enum Entry {
    Has(Place),
    /// All places are in use by requests in progress.
    Waits,
    /// Its network's share is, too.
    Refused,
}

impl Clients {
    pub(super) fn new(room: Room) -> Arc<Self> {
        Arc::new(Self {
            room,
            connected: Mutex::default(),
            ends: AtomicU64::new(0),
            is_wanted: AtomicBool::new(false),
            freed: Notify::new(),
        })
    }

    /// Gives a client a place, if need be that of another one; waits while all have requests in progress. None
    /// if the client's network has its share, and nothing of it can be closed.
    pub(super) async fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        loop {
            // Asked for before the look, so that no place that becomes free in between is missed.
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            self.is_wanted.store(true, Ordering::SeqCst);
            let entry = self.try_enter(address);
            if !matches!(entry, Entry::Waits) {
                self.is_wanted.store(false, Ordering::SeqCst);
            }
            match entry {
                Entry::Has(place) => return Some(place),
                Entry::Refused => return None,
                Entry::Waits => freed.await,
            }
        }
    }

    fn try_enter(self: &Arc<Self>, address: IpAddr) -> Entry {
        let network = Network::from(address);
        let is_shared = self.room.proxies.iter().any(|range| range.contains(address));
        let mut connected = self.lock();
        let own = connected.networks.get(&network).copied().unwrap_or_default();
        if !is_shared && own >= self.room.each {
            if !connected.close_one_of(network) {
                return Entry::Refused;
            }
        } else if connected.clients.len() >= self.room.all && !connected.close_one(self.room.all) {
            return Entry::Waits;
        }
        let number = connected.next;
        connected.next += 1;
        let client = Arc::new(Client {
            number,
            network,
            clients: Arc::clone(self),
            holder: Mutex::default(),
            running: AtomicU32::new(0),
            rests_since: AtomicU64::new(0),
            task: OnceLock::new(),
        });
        connected.newcomers.insert(network, number);
        *connected.networks.entry(network).or_default() += 1;
        connected.clients.insert(number, (Arc::clone(&client), None));
        Entry::Has(Place(client))
    }

    fn free(&self) {
        if self.is_wanted.load(Ordering::SeqCst) {
            self.freed.notify_waiters();
        }
    }

    // Nothing panics while it is held.
    fn lock(&self) -> MutexGuard<'_, Connected> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connected {
    /// Closes a connection in favour of another client's; tells whether there was one to close.
    fn close_one(&mut self, all: usize) -> bool {
        let crowded = self.newcomers.len() > all / NEWCOMERS;
        crowded && self.close_newcomer() || self.close_known() || self.close_newcomer()
    }

    /// Closes the oldest newcomer of the network that has most of them.
    fn close_newcomer(&mut self) -> bool {
        let found = self.newcomers.largest_first().flat_map(|network| self.newcomers.of(network));
        let found = found.copied().find(|number| self.ends(*number));
        found.is_some_and(|number| self.remove(number))
    }

    /// Closes what rests for longest of the application that has most connections.
    fn close_known(&mut self) -> bool {
        let is_operator = |holder: &&Holder| **holder == Holder::Operator;
        let applications = self.known.largest_first().filter(|holder| !is_operator(holder));
        let operator = self.known.largest_first().filter(is_operator);
        let found = applications
            .chain(operator)
            .find_map(|holder| self.end_longest(self.known.of(holder).copied()));
        found.is_some_and(|number| self.remove(number))
    }

    /// Closes a connection of one network: its oldest newcomer, or else what rests for longest.
    fn close_one_of(&mut self, network: Network) -> bool {
        let newcomer = self.newcomers.of(&network).copied().find(|number| self.ends(*number));
        let own = self.clients.values().filter(|(client, _)| client.network == network);
        let found = newcomer.or_else(|| self.end_longest(own.map(|(client, _)| client.number)));
        found.is_some_and(|number| self.remove(number))
    }

    /// Ends the connection that rests for longest among some, if one rests.
    fn end_longest(&self, numbers: impl Iterator<Item = u64>) -> Option<u64> {
        let since = |number: u64| Some((self.clients.get(&number)?.0.rests_since()?, number));
        let mut resting: Vec<_> = numbers.filter_map(since).collect();
        resting.sort_unstable();
        resting.into_iter().map(|(_, number)| number).find(|number| self.ends(*number))
    }

    fn ends(&self, number: u64) -> bool {
        self.clients.get(&number).is_some_and(|(client, _)| client.end())
    }

    /// Takes a client out; tells whether it was there.
    fn remove(&mut self, number: u64) -> bool {
        let Some((client, holder)) = self.clients.remove(&number) else { return false };
        match holder {
            Some(holder) => self.known.remove(holder, number),
            None => self.newcomers.remove(client.network, number),
        }
        if let Some(count) = self.networks.get_mut(&client.network) {
            *count -= 1;
            if *count == 0 {
                self.networks.remove(&client.network);
            }
        }
        true
    }

    /// Notes whose a connection is from now on.
    fn give(&mut self, client: &Client, to: Holder) {
        let number = client.number;
        let Some((_, holder)) = self.clients.get_mut(&number) else { return };
        match holder.replace(to) {
            Some(before) => self.known.remove(before, number),
            None => self.newcomers.remove(client.network, number),
        }
        self.known.insert(to, number);
    }
}

impl Client {
    /// Returns where it connects from.
    pub(crate) fn network(&self) -> Network {
        self.network
    }

    /// Notes that a request with a valid token came, and whose it is.
    pub(crate) fn belongs_to(&self, holder: Holder) {
        let mut own = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        if own.replace(holder) != Some(holder) {
            self.clients.lock().give(self, holder);
        }
    }

    /// Has the connection stay while a request is in progress. None if it is being closed.
    pub(crate) fn serves(self: &Arc<Self>) -> Option<Serving> {
        let one_more = |running: u32| running.checked_add(1).filter(|more| *more != CLOSING);
        self.running.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).ok()?;
        Some(Serving(Arc::clone(self)))
    }

    /// Notes which task serves the connection: aborting it closes the connection.
    pub(super) fn is_served_by(&self, task: AbortHandle) {
        drop(self.task.set(task));
    }

    /// Returns since when nothing is in progress; none if something is.
    fn rests_since(&self) -> Option<u64> {
        let rests = self.running.load(Ordering::SeqCst) == 0;
        rests.then(|| self.rests_since.load(Ordering::Relaxed))
    }

    /// Ends the connection unless a request is in progress; tells whether it did.
    fn end(&self) -> bool {
        let rests =
            self.running.compare_exchange(0, CLOSING, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if rests && let Some(task) = self.task.get() {
            task.abort();
        }
        rests
    }
}

impl Place {
    /// Returns the client that has it.
    pub(super) fn client(&self) -> &Arc<Client> {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let clients = &self.0.clients;
        clients.lock().remove(self.0.number);
        clients.free();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let Client { clients, running, rests_since, .. } = &*self.0;
        rests_since.store(clients.ends.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        running.fetch_sub(1, Ordering::SeqCst);
        clients.free();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn clients(all: usize, each: usize) -> Arc<Clients> {
        Clients::new(Room { all, each, proxies: vec!["127.0.0.0/8".parse().unwrap()] })
    }

    fn address(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn application(number: u8) -> Holder {
        Holder::Application(ApplicationId::from_bytes([number; 20]))
    }

    fn come(clients: &Arc<Clients>, from: u8) -> Place {
        clients.enter(address(from)).now_or_never().expect("it waits").expect("it is refused")
    }

    /// Comes, and has had a request answered.
    fn known(clients: &Arc<Clients>, from: u8, holder: Holder) -> Place {
        let place = come(clients, from);
        place.0.belongs_to(holder);
        drop(place.0.serves().unwrap());
        place
    }

    fn is_closed(place: &Place) -> bool {
        place.0.serves().is_none()
    }

    #[test]
    fn newcomers_give_way_to_each_other_and_keep_no_known_client_out() {
        let clients = clients(16, 16);
        let own: Vec<_> = (0..10).map(|_| known(&clients, 1, application(1))).collect();
        let mut crowd: Vec<_> = (0..5).map(|_| come(&clients, 2)).collect();
        let other = come(&clients, 3);
        for _ in 0..50 {
            crowd.push(come(&clients, 2));
        }
        assert!(own.iter().chain([&other]).all(|place| !is_closed(place)));
        let open = crowd.iter().filter(|place| !is_closed(place)).count();
        assert_eq!((open, clients.lock().clients.len()), (5, 16));
        assert!(crowd[50..].iter().all(|place| !is_closed(place)), "the oldest went");
    }

    #[test]
    fn of_those_that_rest_the_application_with_most_gives_up_its_oldest() {
        let clients = clients(8, 8);
        let operator: Vec<_> = (0..4).map(|_| known(&clients, 1, Holder::Operator)).collect();
        let many: Vec<_> = (0..3).map(|_| known(&clients, 2, application(1))).collect();
        let one = known(&clients, 3, application(2));
        // What was used since is not the oldest any more.
        drop(many[0].0.serves());
        let newcomer = come(&clients, 4);
        assert!(is_closed(&many[1]) && !is_closed(&many[0]) && !is_closed(&many[2]));
        assert!(operator.iter().chain([&one, &newcomer]).all(|place| !is_closed(place)));
    }

    #[test]
    fn a_request_in_progress_is_not_cut_off_and_who_comes_waits_for_its_end() {
        let clients = clients(2, 2);
        let own = [known(&clients, 1, application(1)), known(&clients, 1, application(1))];
        let [one, two] = own.each_ref().map(|place| place.0.serves().unwrap());
        let mut waits = Box::pin(clients.enter(address(2)));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(two);
        let place = waits.now_or_never().unwrap().unwrap();
        assert!(is_closed(&own[1]) && !is_closed(&own[0]) && !is_closed(&place));
        drop((one, own));
        let left = clients.lock().clients.len();
        assert_eq!(left, 1, "the one that was closed is not counted twice");
        drop(place);
        let connected = clients.lock();
        assert!(connected.networks.is_empty() && connected.known.len() == 0);
        assert_eq!(connected.newcomers.len(), 0);
    }

    #[test]
    fn a_network_beyond_its_share_gives_up_its_own_unless_it_is_a_proxys() {
        let clients = clients(16, 2);
        let other = come(&clients, 2);
        let own = [known(&clients, 1, application(1)), come(&clients, 1)];
        let third = come(&clients, 1);
        assert!(is_closed(&own[1]) && !is_closed(&own[0]), "newcomers go first");
        let fourth = known(&clients, 1, application(1));
        assert!(is_closed(&third) && !is_closed(&fourth));
        let serving = [own[0].0.serves().unwrap(), fourth.0.serves().unwrap()];
        assert!(clients.enter(address(1)).now_or_never().unwrap().is_none(), "refused");
        drop(serving);
        let fifth = come(&clients, 1);
        assert!(!is_closed(&other) && !is_closed(&fifth));
        let proxy: IpAddr = "127.0.0.1".parse().unwrap();
        let proxied: Vec<_> =
            (0..8).map(|_| clients.enter(proxy).now_or_never().unwrap().unwrap()).collect();
        assert!(proxied.iter().all(|place| !is_closed(place)));
    }

    #[tokio::test]
    async fn what_is_closed_ends_its_task() {
        let clients = clients(1, 1);
        let place = come(&clients, 1);
        let task = {
            let client = Arc::clone(place.client());
            let task = tokio::spawn(async move {
                let _place = place;
                std::future::pending::<()>().await;
            });
            client.is_served_by(task.abort_handle());
            task
        };
        let next = come(&clients, 2);
        assert!(task.await.unwrap_err().is_cancelled());
        assert!(!is_closed(&next) && clients.lock().clients.len() == 1);
    }
}
