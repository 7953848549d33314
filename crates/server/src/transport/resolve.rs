//! From names to addresses. What comes back is not to be trusted: the guard vets each address.
//!
//! Names are looked up as they stand, never completed with a search list, and without threads, so
//! that a name server which does not answer costs a timer and not a thread.

use std::fmt;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::address::{HostName, POOL_MAX_AGE};
use domain::outcome::Unreachable;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{ResolverBuilder, TokioResolver};

use super::outcome::{Failure, is_our_lack};

/// How long one question to one name server may take.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);
/// How many answers are remembered.
const REMEMBERED_ANSWERS: u64 = 4_096;
/// How long the absence of a name is remembered: a typing error is soon mended.
const ABSENCE_REMEMBERED: Duration = Duration::from_secs(10);
/// How many questions may be under way on one connection to a name server.
const QUESTIONS_UNDER_WAY: usize = 256;
/// How many addresses of an answer are looked at; a thousand of them would only cost time.
const ADDRESSES_PER_ANSWER: usize = 64;

/// Looks names up. Clones share its memory.
#[derive(Clone)]
pub struct Resolver {
    look_up: Arc<dyn Fn(HostName) -> LookUp + Send + Sync>,
}

/// A look-up under way.
pub type LookUp = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, NoAddress>> + Send>>;

/// Why a name has no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAddress {
    /// There is no such name, or it has no address.
    #[error("the name has no address")]
    Absent,
    /// Its name servers did not say.
    #[error("the name servers did not answer")]
    Silent,
    /// They were not asked: this machine has no files or memory left for a question.
    #[error("the name servers could not be asked")]
    NotAsked,
}

/// Why this machine's name servers are not known.
#[derive(Debug, thiserror::Error)]
#[error("the machine's name servers cannot be read: {0}")]
pub struct NoNameServers(String);

impl Resolver {
    /// Looks names up with the name servers that this machine is set up with.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn system() -> Result<Self, NoNameServers> {
        let builder = TokioResolver::builder_tokio();
        Self::built(builder.map_err(|error| NoNameServers(error.to_string()))?)
    }

    /// Looks names up with these name servers.
    ///
    /// # Errors
    /// If they cannot be used.
    pub fn asking(servers: &[SocketAddr]) -> Result<Self, NoNameServers> {
        let server = |address: &SocketAddr| {
            let mut server = NameServerConfig::udp_and_tcp(address.ip());
            for connection in &mut server.connections {
                connection.port = address.port();
            }
            server
        };
        let servers = servers.iter().map(server).collect();
        let config = ResolverConfig::from_parts(None, Vec::new(), servers);
        let provider = TokioRuntimeProvider::default();
        Self::built(TokioResolver::builder_with_config(config, provider))
    }

    fn built(mut builder: ResolverBuilder<TokioRuntimeProvider>) -> Result<Self, NoNameServers> {
        let options = builder.options_mut();
        options.timeout = QUESTION_TIMEOUT;
        options.attempts = 2;
        options.cache_size = REMEMBERED_ANSWERS;
        // A name is asked for again as often as its connections are made anew.
        options.positive_max_ttl = Some(POOL_MAX_AGE);
        options.negative_max_ttl = Some(ABSENCE_REMEMBERED);
        options.max_active_requests = QUESTIONS_UNDER_WAY;
        let resolver = builder.build().map_err(|error| NoNameServers(error.to_string()))?;
        Ok(Self::from_fn(move |name| {
            let resolver = resolver.clone();
            Box::pin(async move { ask(&resolver, &name).await })
        }))
    }

    /// Looks names up with a function.
    pub fn from_fn(look_up: impl Fn(HostName) -> LookUp + Send + Sync + 'static) -> Self {
        Self { look_up: Arc::new(look_up) }
    }

    /// Tells whether the name servers answer, whatever they say about the name.
    pub(super) async fn answers(&self, name: &HostName) -> bool {
        match (self.look_up)(name.clone()).await {
            Ok(_) | Err(NoAddress::Absent) => true,
            Err(NoAddress::Silent | NoAddress::NotAsked) => false,
        }
    }

    /// Looks a name up.
    pub(super) async fn addresses(&self, name: &HostName) -> Result<Vec<IpAddr>, Failure> {
        let found = (self.look_up)(name.clone()).await.and_then(|addresses| {
            if addresses.is_empty() { Err(NoAddress::Absent) } else { Ok(addresses) }
        });
        let mut addresses = found.map_err(|fault| match fault {
            NoAddress::Absent | NoAddress::Silent => {
                Failure::unreachable(Unreachable::Dns, fault.to_string())
            }
            NoAddress::NotAsked => Failure::our_lack(),
        })?;
        addresses.truncate(ADDRESSES_PER_ANSWER);
        Ok(addresses)
    }
}

async fn ask(resolver: &TokioResolver, name: &HostName) -> Result<Vec<IpAddr>, NoAddress> {
    // The final dot says that the name is complete.
    let complete = [name.as_str(), "."].concat();
    match resolver.lookup_ip(complete).await {
        Ok(found) => Ok(found.iter().collect()),
        Err(error) if error.is_no_records_found() => Err(NoAddress::Absent),
        Err(_) if cannot_ask() => Err(NoAddress::NotAsked),
        Err(_) => Err(NoAddress::Silent),
    }
}

/// Tells whether no socket can be had for a question. The resolver does not: whatever keeps it from a
/// name server, it says that there are no connections. Nothing is sent from this one.
fn cannot_ask() -> bool {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    socket.is_err_and(|error| is_our_lack(&error))
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::outcome::Outcome;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    fn answering(answer: Result<Vec<IpAddr>, NoAddress>) -> Resolver {
        Resolver::from_fn(move |_| {
            let answer = answer.clone();
            Box::pin(async move { answer })
        })
    }

    #[tokio::test]
    async fn an_answer_without_addresses_is_a_failed_look_up() {
        let name: HostName = "hooks.example.com".parse().unwrap();
        for answer in [Ok(Vec::new()), Err(NoAddress::Absent), Err(NoAddress::Silent)] {
            let failure = answering(answer).addresses(&name).await.unwrap_err();
            assert_eq!(failure.outcome, Outcome::Unreachable(Unreachable::Dns));
        }
    }

    #[tokio::test]
    async fn a_question_that_we_have_no_socket_for_is_no_verdict_on_the_receiver() {
        let name: HostName = "hooks.example.com".parse().unwrap();
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let resolver = Resolver::asking(&[server.local_addr().unwrap()]).unwrap();
        // Each test has a process of its own: nobody else misses the files.
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum }).unwrap();
        let failure = resolver.addresses(&name).await.unwrap_err();
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
        assert_eq!(failure.outcome, Outcome::Interrupted, "{failure:?}");
    }

    #[tokio::test]
    async fn of_a_thousand_addresses_a_few_are_looked_at() {
        let name: HostName = "hooks.example.com".parse().unwrap();
        let many = vec![IpAddr::from([8, 8, 8, 8]); 1_000];
        let found = answering(Ok(many)).addresses(&name).await.unwrap();
        assert_eq!(found.len(), ADDRESSES_PER_ANSWER);
    }
}
