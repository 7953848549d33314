//! What a case arranges with: a transport, an endpoint, and a message to send.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::address::{Guard, Settings};
use domain::delivery::Pending;
use domain::endpoint::State;
use domain::ids::{ApplicationId, EndpointId, MessageId};
use domain::partition::Partition;
use domain::policy::{self, EndpointDefaults, Policy, Timeouts};
use domain::time::Timestamp;
use engine::{Member, Number, Sending};
use redial::clock::{Clock as _, SystemClock};
use redial::transport::{NoAddress, Resolver, Transport, TransportSettings};
use store::catalog::{Confidential, Endpoint, EndpointSettings, EndpointView, Secret};
use store::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use store::queue::{AttemptRecord, Order, PendingDelivery, Running, Trigger};

/// The secret that every endpoint begins with.
pub(super) const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
/// The application that all endpoints belong to.
pub(super) const APPLICATION: ApplicationId = ApplicationId::from_bytes([7; 20]);

/// An attempt under construction.
pub(super) struct Scene {
    /// The transport.
    pub(super) transport: Transport,
    /// The endpoint's plain settings.
    pub(super) settings: EndpointSettings,
    /// Its confidential ones.
    pub(super) confidential: Confidential,
    /// Its secrets.
    pub(super) secrets: Vec<Secret>,
    /// What stands where it sets nothing.
    pub(super) defaults: EndpointDefaults,
    /// The policy.
    pub(super) policy: Policy,
    /// The payload.
    pub(super) payload: Bytes,
    /// What the payload is said to be.
    pub(super) content_type: Option<String>,
}

impl Scene {
    /// Arranges for a URL, with a transport that may reach loopback.
    pub(super) fn new(url: &str) -> Self {
        Self::with(url, Transport::new(settings(loopback(), resolving(&[]))))
    }

    /// Arranges for a URL with a transport.
    pub(super) fn with(url: &str, transport: Transport) -> Self {
        let preset = policy::preset("redial").unwrap();
        let mut scene = Self {
            transport,
            settings: EndpointSettings::default(),
            confidential: Confidential::default(),
            secrets: vec![secret(SECRET, None)],
            defaults: preset.endpoint.clone(),
            policy: preset.policy.clone(),
            payload: Bytes::from_static(br#"{"amount": 1.50,  "note":"\u00e4"}"#),
            content_type: None,
        };
        scene.goes_to(url);
        scene
    }

    /// Changes where it goes.
    pub(super) fn goes_to(&mut self, url: &str) {
        let host_at = url.find("://").unwrap() + 3;
        let path_at = url[host_at..].find('/').map_or(url.len(), |at| host_at + at);
        self.settings.origin = url[..path_at].to_owned();
        self.confidential.path_and_query = url[path_at..].to_owned();
    }

    /// Gives it little time.
    pub(super) fn within(mut self, connect: Duration, whole: Duration) -> Self {
        self.policy.timeouts = Timeouts::new(connect, None, whole).unwrap();
        self
    }

    /// Makes the endpoint.
    pub(super) fn member(&self) -> Arc<Member> {
        let endpoint = Endpoint {
            key: EndpointKey(5),
            application: ApplicationKey(3),
            id: EndpointId::from_bytes([5; 20]),
            uid: None,
            partition: Partition::from_number(0).unwrap(),
            state: State::Active,
            order: Order::Due,
            settings: self.settings.clone(),
            confidential: self.confidential.clone(),
            created_at: Timestamp::EPOCH,
            updated_at: Timestamp::EPOCH,
        };
        Arc::new(Member {
            application: APPLICATION,
            view: EndpointView {
                endpoint,
                secrets: self.secrets.clone(),
                running: Running::default(),
            },
            policy: None,
            defaults: Arc::new(self.defaults.clone()),
            complaint: None,
        })
    }

    /// Makes an attempt for an endpoint.
    pub(super) fn sending(&self, member: &Arc<Member>) -> Sending {
        let delivery = PendingDelivery {
            key: DeliveryKey {
                application: ApplicationKey(3),
                endpoint: member.key(),
                message: MessageKey(9),
            },
            partition: Partition::from_number(0).unwrap(),
            turn: 0,
            pending: Pending::fresh(&self.policy.limits, Timestamp::EPOCH),
            recorded: 0,
            ended_before: None,
            last_attempt_at: None,
            message: message(),
            event_type: "invoice.paid".to_owned(),
            received_at: Timestamp::EPOCH,
            policy: None,
            content_type: self.content_type.clone(),
            payload: Some(self.payload.clone()),
            expunged: false,
        };
        Sending {
            attempt: Number(1),
            member: Arc::clone(member),
            version: 1,
            delivery,
            policy: Arc::new(self.policy.clone()),
            trigger: Trigger::Scheduled,
        }
    }

    /// Makes an attempt.
    pub(super) async fn send(&self) -> AttemptRecord {
        self.send_as(&self.member()).await
    }

    /// Makes an attempt for an endpoint.
    pub(super) async fn send_as(&self, member: &Arc<Member>) -> AttemptRecord {
        self.send_at(member, SystemClock::start().now()).await
    }

    /// Makes an attempt for an endpoint when this is the time of the rows.
    pub(super) async fn send_at(&self, member: &Arc<Member>, rows: Timestamp) -> AttemptRecord {
        self.transport.send(&self.sending(member), rows, &SystemClock::start()).await
    }
}

/// Returns the message's id.
pub(super) fn message() -> MessageId {
    MessageId::from_bytes([9; 20])
}

/// Makes a secret.
pub(super) fn secret(text: &str, expires_at: Option<Timestamp>) -> Secret {
    Secret { text: text.to_owned(), created_at: Timestamp::EPOCH, expires_at }
}

/// Makes a guard that lets everybody reach loopback.
pub(super) fn loopback() -> Settings {
    Settings { allowed: vec!["127.0.0.1".parse().unwrap()], ..Settings::default() }
}

/// Makes a resolver that knows these names.
pub(super) fn resolving(names: &[(&str, &[&str])]) -> Resolver {
    let parse = |addresses: &[&str]| -> Vec<IpAddr> {
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    };
    let known: BTreeMap<String, Vec<IpAddr>> =
        names.iter().map(|(name, found)| ((*name).to_owned(), parse(found))).collect();
    Resolver::from_fn(move |name| {
        let found = known.get(name.as_str()).cloned().ok_or(NoAddress::Absent);
        Box::pin(async move { found })
    })
}

/// Makes a transport's settings.
pub(super) fn settings(guard: Settings, resolver: Resolver) -> TransportSettings {
    TransportSettings::new(Guard::new(guard), resolver)
}

/// Finds a recorded header.
pub(super) fn recorded(record: &AttemptRecord, name: &str) -> Option<String> {
    let mut headers = record.request_headers.pairs().into_iter();
    headers.find(|(known, _)| known == name).map(|(_, value)| value)
}

/// Returns how long an attempt took.
pub(super) fn took(record: &AttemptRecord) -> Duration {
    record.ended_at.since(record.began_at)
}

/// Returns a port that nobody listens on.
pub(super) async fn closed_port() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}
