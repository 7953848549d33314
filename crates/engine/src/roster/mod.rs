//! An application's endpoints as of one version: read once, shared by whoever accepts and sends.
//!
//! What was saved as text becomes what decisions need: filters, limits, policies. A document that
//! no longer reads, because a later version is stricter, must not stop deliveries: the next policy
//! outwards applies, and [`Member::complaint`] says so.

pub(crate) mod documents;
pub(crate) mod hearing;
pub(crate) mod rosters;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use domain::delivery::Pending;
use domain::endpoint::Reception;
use domain::ids::ApplicationId;
use domain::index::Index;
use domain::names::{Channel, EventTypeName};
use domain::policy::{self, EndpointDefaults, Policy, Preset, ReadError, Scopes};
use domain::rate::Rate;
use domain::time::Timestamp;
use serde_json::Value;
use store::catalog::{EndpointSettings, EndpointView, FanOut};
use store::keys::{ApplicationKey, EndpointKey};
use store::queue::{FirstState, NewDelivery};

/// What an entry of a map, an allocation or a node of a document takes beside its text, about.
const ENTRY: usize = 64;
/// What a policy takes that is read from a short document, about.
const POLICY: usize = 1_024;

/// The policies that apply beyond endpoints and applications.
#[derive(Debug, Clone, PartialEq)]
pub struct Policies {
    /// The server's policy and endpoint defaults.
    pub server: Read,
    /// Policies by event type.
    pub event_types: BTreeMap<String, Arc<Policy>>,
}

/// A policy document that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// The policy.
    pub policy: Arc<Policy>,
    /// What endpoints start with under it.
    pub defaults: Arc<EndpointDefaults>,
}

/// All endpoints of an application, as of one version.
#[derive(Debug, Clone, PartialEq)]
pub struct Roster {
    /// Whose they are.
    pub application: ApplicationKey,
    /// The revision, by which an accept is found to be stale.
    pub revision: i64,
    /// The version, by which a newer roster is told from an older one.
    pub version: i64,
    /// The application's policy.
    pub policy: Option<Arc<Policy>>,
    /// The endpoints that are not deleted, by row.
    pub members: Vec<Arc<Member>>,
    /// Which of them get a message, by their positions.
    pub(crate) index: Index,
    /// About how many bytes all of it takes.
    pub(crate) bytes: usize,
}

/// An endpoint with all that fanning out to it and sending to it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its application's id: what an operator opens to one application is opened by that.
    pub application: ApplicationId,
    /// The endpoint, its secrets, and its running state as its owner last wrote it.
    pub view: EndpointView,
    /// Its own policy.
    pub policy: Option<Arc<Policy>>,
    /// What stands where it sets nothing itself.
    pub defaults: Arc<EndpointDefaults>,
    /// What was saved and does not read.
    pub complaint: Option<String>,
}

/// What decides where a message goes, and how.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Its event type.
    pub event_type: &'a EventTypeName,
    /// Its channels.
    pub channels: &'a BTreeSet<Channel>,
    /// The policy that was set on it.
    pub policy: Option<&'a Arc<Policy>>,
    /// When it was received.
    pub received_at: Timestamp,
    /// When it is to be delivered, if not at once.
    pub deliver_at: Option<Timestamp>,
}

/// Reads a policy as it is saved: the name of a preset, or a document.
///
/// # Errors
/// Says which field is wrong, or which preset may have been meant.
pub fn read_policy(saved: &Value) -> Result<Read, ReadError> {
    policy::read_saved(saved).map(|preset| Read::from(&preset))
}

impl From<&Preset> for Read {
    fn from(preset: &Preset) -> Self {
        Self {
            policy: Arc::new(preset.policy.clone()),
            defaults: Arc::new(preset.endpoint.clone()),
        }
    }
}

impl Roster {
    /// Reads a roster from what the catalog returns.
    #[must_use]
    pub fn read(application: ApplicationKey, fan_out: FanOut, policies: &Policies) -> Self {
        let own = fan_out.policy.as_ref().and_then(|saved| read_policy(saved).ok());
        let defaults = own.as_ref().map_or(&policies.server.defaults, |own| &own.defaults);
        let (id, rate) = (fan_out.application, fan_out.rate);
        let read = |view| Arc::new(Member::read(id, view, defaults).capped(rate));
        let roster = Self {
            application,
            revision: fan_out.revision,
            version: fan_out.version,
            members: fan_out.endpoints.into_iter().map(read).collect(),
            policy: own.map(|own| own.policy),
            index: Index::default(),
            bytes: 0,
        };
        roster.indexed()
    }

    /// Has these endpoints, which were read before, in place of its own.
    #[must_use]
    pub fn with(mut self, members: Vec<Arc<Member>>) -> Self {
        self.members = members;
        self.indexed()
    }

    /// Drops what neither fanning out nor sending needs any more, and half of it is: texts for people,
    /// and documents and lists in the form in which they were saved.
    #[must_use]
    pub fn slim(mut self) -> Self {
        for member in &mut self.members {
            let settings = &mut Arc::make_mut(member).view.endpoint.settings;
            *settings = EndpointSettings {
                origin: std::mem::take(&mut settings.origin),
                rate: settings.rate,
                in_flight: settings.in_flight,
                signatures: std::mem::take(&mut settings.signatures),
                headers: std::mem::take(&mut settings.headers),
                ..EndpointSettings::default()
            };
        }
        self
    }

    /// Returns about how many bytes it takes in memory when it is slim.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn indexed(mut self) -> Self {
        let settings = self.members.iter().map(|member| &member.view.endpoint.settings);
        self.index = Index::of(settings.map(|it| (&it.event_types[..], &it.channels[..])));
        let members: usize = self.members.iter().map(|member| member.bytes()).sum();
        self.bytes = size_of::<Self>() + members + self.index.bytes();
        self
    }

    /// Finds an endpoint.
    #[must_use]
    pub fn member(&self, endpoint: EndpointKey) -> Option<&Arc<Member>> {
        let place = self.members.binary_search_by_key(&endpoint, |member| member.key());
        place.ok().and_then(|place| self.members.get(place))
    }

    /// Makes one delivery for each endpoint that gets a message.
    #[must_use]
    pub fn fan_out(&self, facts: &Facts<'_>, policies: &Policies) -> Vec<NewDelivery> {
        let places = self.index.matches(facts.event_type, facts.channels);
        let deliver = |member: &Arc<Member>| self.delivery(member, facts, policies);
        places.into_iter().filter_map(|place| deliver(self.at(place)?)).collect()
    }

    /// Tells whether an endpoint's filter takes a message.
    #[must_use]
    pub fn takes(
        &self,
        endpoint: EndpointKey,
        event_type: &EventTypeName,
        channels: &BTreeSet<Channel>,
    ) -> bool {
        let places = self.index.matches(event_type, channels);
        places.into_iter().filter_map(|place| self.at(place)).any(|it| it.key() == endpoint)
    }

    /// Tells whether a message of this kind would be sent to anybody.
    #[must_use]
    pub fn receives(&self, event_type: &EventTypeName, channels: &BTreeSet<Channel>) -> bool {
        let places = self.index.matches(event_type, channels);
        places
            .into_iter()
            .filter_map(|place| self.at(place))
            .any(|member| member.view.endpoint.state.reception() == Reception::Pending)
    }

    fn at(&self, place: u32) -> Option<&Arc<Member>> {
        self.members.get(usize::try_from(place).ok()?)
    }

    /// Makes a delivery for one endpoint, whatever its filter says; none if it is not there.
    #[must_use]
    pub fn fan_out_to(
        &self,
        only: EndpointKey,
        facts: &Facts<'_>,
        policies: &Policies,
    ) -> Option<NewDelivery> {
        self.member(only).and_then(|member| self.delivery(member, facts, policies))
    }

    /// Returns the policy that applies to a delivery: the nearest one, from the message outwards.
    #[must_use]
    pub fn applicable<'a>(
        &'a self,
        member: &'a Member,
        event_type: &str,
        message: Option<&'a Arc<Policy>>,
        policies: &'a Policies,
    ) -> &'a Arc<Policy> {
        let scopes = Scopes {
            message,
            endpoint: member.policy.as_ref(),
            event_type: policies.event_types.get(event_type),
            application: self.policy.as_ref(),
            server: &policies.server.policy,
        };
        scopes.applicable().1
    }

    fn delivery(
        &self,
        member: &Member,
        facts: &Facts<'_>,
        policies: &Policies,
    ) -> Option<NewDelivery> {
        let state = match member.view.endpoint.state.reception() {
            Reception::None => return None,
            Reception::Dead(cause) => FirstState::Dead(cause),
            Reception::Pending => FirstState::Pending(self.first(member, facts, policies)),
        };
        let endpoint = &member.view.endpoint;
        let (partition, order) = (endpoint.partition, endpoint.order);
        Some(NewDelivery { endpoint: endpoint.key, partition, order, state })
    }

    fn first(&self, member: &Member, facts: &Facts<'_>, policies: &Policies) -> Pending {
        let policy = self.applicable(member, facts.event_type.as_str(), facts.policy, policies);
        Pending::accept(&policy.limits, facts.received_at, facts.deliver_at)
    }
}

impl Member {
    fn read(
        application: ApplicationId,
        view: EndpointView,
        defaults: &Arc<EndpointDefaults>,
    ) -> Self {
        let settings = &view.endpoint.settings;
        let mut complaint = None;
        let own = settings.policy.as_ref().and_then(|saved| {
            read_policy(saved).map_err(|error| complaint = Some(error.to_string())).ok()
        });
        Self {
            application,
            defaults: Arc::clone(own.as_ref().map_or(defaults, |own| &own.defaults)),
            policy: own.map(|own| own.policy),
            complaint,
            view,
        }
    }

    /// Holds it to its application's rate, if that is lower than its own.
    #[must_use]
    pub fn capped(mut self, rate: Option<u32>) -> Self {
        if let Some(rate) = rate {
            self.view.endpoint.settings.rate = Some(rate.min(self.rate().get()));
        }
        self
    }

    /// Returns about how many bytes it takes in memory when its roster is slim.
    fn bytes(&self) -> usize {
        let EndpointView { endpoint, secrets, .. } = &self.view;
        let (settings, confidential) = (&endpoint.settings, &endpoint.confidential);
        let headers = settings.headers.iter().chain(&confidential.headers);
        let headers: usize = headers.map(|(name, value)| name.len() + value.len() + ENTRY).sum();
        let secrets: usize = secrets.iter().map(|secret| secret.text.len() + ENTRY).sum();
        let uid = endpoint.uid.as_ref().map_or(0, String::len);
        let own = settings.policy.as_ref().map_or(0, weight);
        let signatures: usize = settings.signatures.iter().map(|it| it.len() + ENTRY).sum();
        let texts = settings.origin.len() + confidential.path_and_query.len() + uid;
        size_of::<Self>() + ENTRY + headers + secrets + signatures + own + texts
    }

    /// Returns its row.
    #[must_use]
    pub const fn key(&self) -> EndpointKey {
        self.view.endpoint.key
    }

    /// Returns the most attempts in flight that it allows.
    #[must_use]
    pub fn in_flight(&self) -> NonZeroU32 {
        let own = self.view.endpoint.settings.in_flight.and_then(NonZeroU32::new);
        own.unwrap_or(self.defaults.in_flight)
    }

    /// Returns the most attempts per second that it allows.
    #[must_use]
    pub fn rate(&self) -> Rate {
        let own = self.view.endpoint.settings.rate;
        own.and_then(|own| Rate::per_second(own.into()).ok()).unwrap_or(self.defaults.rate)
    }
}

/// Returns about how many bytes the policy takes that was read from a document.
fn weight(document: &Value) -> usize {
    match document {
        Value::Array(entries) => POLICY + entries.iter().map(weight).sum::<usize>(),
        Value::Object(fields) => POLICY + fields.values().map(weight).sum::<usize>(),
        Value::String(text) => ENTRY + text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => ENTRY,
    }
}
