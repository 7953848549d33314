//! Telling other nodes about work in their partitions, and hearing of it from them.
//!
//! NOTIFY takes a lock that all commits with one share, so it never rides on a batch: a task of its
//! own sends what has gathered, every 5 ms at the most, in a statement of its own, and only for
//! partitions that others own. Either side may lose some; whoever relies on it also looks for itself.
//! A release and a change of the catalog are rare, and call with their own commit: [`FREE`], [`CHANGED`].
//!
//! Whoever listens calls itself first. As long as it does not hear that, as behind a pooler that gives
//! out connections for one transaction, or cannot listen at all, everything counts as called once a
//! second.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::partition::Partition;
use domain::time::Timestamp;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::AsyncMessage;
use tokio_postgres::types::Type;

use crate::keys::{Lease, Node};
use crate::postgres::failure::Failure;
use crate::postgres::io::link::{Access, Pool, Transaction};
use crate::postgres::io::partitions::{Partitions, number};
use crate::postgres::io::tls::Connector;
use crate::postgres::row::{field, unknown};
use crate::queue::Call;

/// The shortest time between two notifications.
const NOTIFY_EVERY: Duration = Duration::from_millis(5);
/// How long to wait before listening again after the connection was lost.
const LISTEN_AGAIN_AFTER: Duration = LOOK_EVERY;
/// How long connecting may take in all. Whoever is connected to may never answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How often everything counts as called while nothing can be heard.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a notification says if partitions were given back.
pub(crate) const FREE: &str = "free";
/// What a notification says if something in the catalog was changed.
pub(crate) const CHANGED: &str = "changed";

/// What is called out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Called {
    /// There is work in these.
    partitions: Partitions,
    /// Some were given back.
    free: bool,
    /// Something in the catalog was changed.
    changed: bool,
}

impl FromIterator<Partition> for Called {
    fn from_iter<I: IntoIterator<Item = Partition>>(partitions: I) -> Self {
        Self { partitions: partitions.into_iter().collect(), ..Self::default() }
    }
}

/// What was called out, gathered until somebody comes for it.
#[derive(Default)]
struct Gathered {
    partitions: AtomicU64,
    free: AtomicBool,
    changed: AtomicBool,
    /// Told whenever something is added.
    more: Notify,
}

impl Gathered {
    fn add(&self, called: Called) {
        if called != Called::default() {
            self.partitions.fetch_or(called.partitions.0, Ordering::AcqRel);
            self.free.fetch_or(called.free, Ordering::AcqRel);
            self.changed.fetch_or(called.changed, Ordering::AcqRel);
            self.more.notify_one();
        }
    }

    async fn next(&self) -> Call {
        loop {
            if self.changed.swap(false, Ordering::AcqRel) {
                return Call::Changed;
            }
            if self.free.swap(false, Ordering::AcqRel) {
                return Call::Free;
            }
            match self.partitions.swap(0, Ordering::AcqRel) {
                0 => self.more.notified().await,
                partitions => return Call::Work(Partitions(partitions).list().collect()),
            }
        }
    }
}

/// Both directions.
pub(crate) struct Wake {
    /// What others should hear of.
    outgoing: Arc<Gathered>,
    /// What this node was told.
    incoming: Arc<Gathered>,
    /// What this node owns, so that it does not talk to itself.
    owned: AtomicU64,
    /// This node's name, once it is known.
    node: Arc<Mutex<Option<String>>>,
    tasks: [JoinHandle<()>; 2],
}

impl Wake {
    /// Begins to send and to listen.
    pub(crate) async fn start(pool: Arc<Pool>, listener: Connector) -> Result<Self, Failure> {
        let channel = channel(&pool).await?;
        let (outgoing, incoming) = (Arc::<Gathered>::default(), Arc::<Gathered>::default());
        let node = Arc::<Mutex<Option<String>>>::default();
        let sender = Sender {
            pool: Arc::clone(&pool),
            channel: channel.clone(),
            node: Arc::clone(&node),
            outgoing: Arc::clone(&outgoing),
        };
        let tasks = [
            tokio::spawn(sender.run()),
            tokio::spawn(
                Listener { connector: listener, pool, channel }.run(Arc::clone(&incoming)),
            ),
        ];
        Ok(Self { outgoing, incoming, owned: AtomicU64::new(0), node, tasks })
    }

    /// Tells other nodes, soon, that there is work in these partitions.
    pub(crate) fn others(&self, partitions: Partitions) {
        let partitions = Partitions(partitions.0 & !self.owned.load(Ordering::Acquire));
        self.outgoing.add(Called { partitions, ..Called::default() });
    }

    /// Waits for a call of another node.
    pub(crate) async fn heard(&self) -> Call {
        self.incoming.next().await
    }

    /// Remembers whose store this is, and that it owns these and no others.
    pub(crate) fn owns(&self, node: &Node, leases: &[Lease]) {
        self.owned.store(0, Ordering::Release);
        self.took(node, leases);
    }

    /// Remembers whose store this is, and that it owns these, too.
    pub(crate) fn took(&self, node: &Node, leases: &[Lease]) {
        let taken: Partitions = leases.iter().map(|lease| lease.partition).collect();
        self.owned.fetch_or(taken.0, Ordering::AcqRel);
        *self.node.lock().unwrap_or_else(PoisonError::into_inner) = Some(node.0.clone());
    }

    /// Forgets that it owns these.
    pub(crate) fn disown(&self, leases: &[Lease]) {
        let given: Partitions = leases.iter().map(|lease| lease.partition).collect();
        self.owned.fetch_and(!given.0, Ordering::AcqRel);
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Fleets in different schemas of one database do not hear each other.
async fn channel(pool: &Pool) -> Result<String, Failure> {
    let mut transaction = pool.begin(Access::Read).await?;
    let statement = "select left('redial_' || current_schema(), 60) as channel";
    let result = transaction.one(statement, &[]).await;
    let row = transaction.end(result).await?;
    Ok(row.map_or(Ok("redial".to_owned()), |row| field(&row, "channel"))?)
}

struct Sender {
    pool: Arc<Pool>,
    channel: String,
    node: Arc<Mutex<Option<String>>>,
    outgoing: Arc<Gathered>,
}

impl Sender {
    async fn run(self) {
        loop {
            // Of the others each is a part of the commit that it tells of.
            if let Call::Work(partitions) = self.outgoing.next().await {
                // A notification that cannot be sent is lost, as it may be.
                drop(self.send(partitions.into_iter().collect()).await);
            }
            tokio::time::sleep(NOTIFY_EVERY).await;
        }
    }

    async fn send(&self, partitions: Partitions) -> Result<(), Failure> {
        let statement = "\
            select pg_notify($1, string_agg(number::text, ','))::text from partitions \
            where number = any($2) and owner is distinct from $3 and owner is not null \
            having count(*) > 0";
        let node = self.node.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let numbers: Vec<i16> = partitions.list().map(number).collect();
        let parameters = [
            (&self.channel as _, Type::TEXT),
            (&numbers as _, Type::INT2_ARRAY),
            (&node as _, Type::TEXT),
        ];
        let mut transaction = self.pool.begin(Access::Write).await?;
        let result = transaction.query(statement, &parameters).await;
        transaction.end(result).await?;
        Ok(())
    }
}

struct Listener {
    connector: Connector,
    pool: Arc<Pool>,
    channel: String,
}

impl Listener {
    /// Listens for ever, on a connection of its own. As long as nothing is heard, be it that a
    /// connection cannot be made and does not say so, everything is looked at.
    async fn run(self, incoming: Arc<Gathered>) {
        let hears = AtomicBool::new(false);
        let listening = async {
            loop {
                drop(self.listen(&incoming, &hears).await);
                hears.store(false, Ordering::Release);
                // Whatever was called meanwhile was not heard.
                incoming.add(Partition::all().collect());
                tokio::time::sleep(LISTEN_AGAIN_AFTER).await;
            }
        };
        let looking = async {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                if !hears.load(Ordering::Acquire) {
                    incoming.add(Partition::all().collect());
                }
            }
        };
        tokio::select! {
            () = listening => {}
            () = looking => {}
        }
    }

    /// Listens until the connection is lost.
    async fn listen(&self, incoming: &Gathered, hears: &AtomicBool) -> Result<(), Failure> {
        let connected = tokio::time::timeout(CONNECT_WITHIN, self.connector.listen()).await;
        let Ok(connected) = connected else { return Ok(()) };
        let (client, mut connection) = connected?;
        let command = format!("LISTEN \"{}\"", self.channel.replace('"', "\"\""));
        let asked = async {
            client.batch_execute(&command).await?;
            self.call().await?;
            // The client has to live as long as the connection is listened to.
            std::future::pending().await
        };
        let heard = async {
            while let Some(message) = connection.next().await {
                if let AsyncMessage::Notification(notification) = message {
                    hears.store(true, Ordering::Release);
                    incoming.add(parse(notification.payload()));
                }
            }
        };
        tokio::select! {
            result = asked => result,
            () = heard => Ok(()),
        }
    }

    /// Calls everybody who listens, and names no partition.
    async fn call(&self) -> Result<(), Failure> {
        let statement = "select pg_notify($1, '')::text";
        let mut transaction = self.pool.begin(Access::Write).await?;
        let result = transaction.query(statement, &[(&self.channel, Type::TEXT)]).await;
        transaction.end(result).await?;
        Ok(())
    }
}

/// Reads a notification. What is no partition is left out: another version may have sent it.
fn parse(payload: &str) -> Called {
    let numbers = payload.split(',').filter_map(|number| number.parse().ok());
    let partitions = numbers.filter_map(Partition::from_number).collect();
    Called { partitions, free: payload == FREE, changed: payload == CHANGED }
}

/// Calls all who listen, this node among them, once the transaction has committed.
pub(crate) async fn call(transaction: &mut Transaction<'_>, what: &str) -> Result<(), Failure> {
    let statement = "select pg_notify(left('redial_' || current_schema(), 60), $1)::text";
    transaction.query(statement, &[(&what, Type::TEXT)]).await?;
    Ok(())
}

/// Calls all who listen because something was changed, and returns a moment before the call.
pub(crate) async fn call_now(pool: &Pool) -> Result<Timestamp, Failure> {
    let statement = "\
        select (extract(epoch from statement_timestamp()) * 1000000)::bigint as now, \
            pg_notify(left('redial_' || current_schema(), 60), $1)::text";
    let mut transaction = pool.begin(Access::Write).await?;
    let result = transaction.one(statement, &[(&CHANGED, Type::TEXT)]).await;
    let row = transaction.end(result).await?;
    let row = row.ok_or_else(|| unknown("the time", "none"))?;
    Ok(Timestamp::from_micros(field(&row, "now")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_lists_partitions_and_nonsense_is_left_out() {
        let numbers =
            |text| parse(text).partitions.list().map(Partition::number).collect::<Vec<_>>();
        assert_eq!(numbers("3,1,63"), [1, 3, 63]);
        assert_eq!(numbers("x,64,,2"), [2]);
        assert_eq!(numbers(""), Vec::<u8>::new());
        assert_eq!((numbers(FREE), parse(FREE).free), (Vec::new(), true));
        assert!(!parse("3").free && !parse("").free);
        assert!(parse(CHANGED).changed && !parse(FREE).changed);
    }

    #[tokio::test]
    async fn each_kind_of_call_is_told_beside_the_others() {
        let gathered = Gathered::default();
        gathered.add(parse("3"));
        gathered.add(parse(FREE));
        gathered.add(parse(CHANGED));
        assert_eq!(gathered.next().await, Call::Changed);
        assert_eq!(gathered.next().await, Call::Free);
        let three = Partition::from_number(3).unwrap();
        assert_eq!(gathered.next().await, Call::Work(vec![three]));
    }
}
