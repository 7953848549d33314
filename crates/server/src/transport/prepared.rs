//! All of a request that stays the same from one attempt of an endpoint to the next.
//!
//! What is left for an attempt is its id, its time, its signatures and its length. A [`Prepared`] is
//! good for one state of the endpoint and of the guard, and until the next of its secrets expires.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use domain::address::{Guard, Scheme};
use domain::ids::DeliveryId;
use domain::policy;
use domain::time::Timestamp;
use engine::protocol::effect::Sending;
use engine::roster::Member;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use signature::{Attempt, Brand, Profile, SetupFault, Signer, SigningSecret};
use store::Headers;
use store::catalog::{Credentials, Endpoint, Secret};

use super::connect::Target;
use super::exchange::Outgoing;
use super::gates::{Gate, Gates};
use super::headers::{Allowance, MASK, comparable, is_sensitive, safe_header};
use super::outcome::Failure;
use super::pool::{Pool, Site};
use super::tls::server_name;

const AGENT: &str = concat!("Redial/", env!("CARGO_PKG_VERSION"));
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// About what the record of these headers takes.
const ADDED_BYTES: usize = 512;

/// A request but for what each attempt adds.
pub(super) struct Prepared {
    /// Where it goes.
    pub(super) target: Target,
    /// Where its connections wait.
    pub(super) site: Arc<Site>,
    /// Where its requests wait until its rate lets them be written.
    pub(super) gate: Arc<Gate>,
    /// Whose it is; held, so that its address in memory is not given to another.
    member: Arc<Member>,
    guard: Arc<Guard>,
    /// When a secret expires, if one does.
    good_until: Timestamp,
    uri: Uri,
    headers: HeaderMap,
    /// The same headers, with secrets masked.
    recorded: Headers,
    signer: Signer,
    /// The names of what the signer returns, in its order.
    signed: Vec<HeaderName>,
    /// Whether one of them carries the delivery's id, which is not written in vain.
    names_delivery: bool,
    /// The names of the endpoint's own headers that may not be sent.
    pub(super) left_out: Vec<String>,
}

/// What preparing takes besides the endpoint.
pub(super) struct Preparing<'a> {
    /// Where connections wait.
    pub(super) pool: &'a Pool,
    /// Where requests wait.
    pub(super) gates: &'a Gates,
    /// Decides where requests may go.
    pub(super) guard: &'a Arc<Guard>,
    /// The brand of the signatures that have one.
    pub(super) brand: &'a Brand,
    /// The time on the rows' timeline: secrets expire on it.
    pub(super) rows: Timestamp,
    /// The time on the process's own clock: the gates count on it.
    pub(super) now: Timestamp,
}

impl Prepared {
    /// Prepares the requests of an endpoint.
    pub(super) fn new(member: &Arc<Member>, with: &Preparing<'_>) -> Result<Self, Failure> {
        let endpoint = &member.view.endpoint;
        let (origin, path) = (&endpoint.settings.origin, &endpoint.confidential.path_and_query);
        let vetted = with.guard.vet_url(&[origin.as_str(), path].concat(), member.application);
        let url = vetted.map_err(|refusal| {
            let reason = refusal.for_operator();
            tracing::info!(endpoint.id = %endpoint.id, reason, "the address guard refused");
            Failure::blocked(&refusal)
        })?;
        let unusable = |_| Failure::blocked_url();
        let uri = Uri::try_from(url.expose_path_and_query()).map_err(unusable)?;
        let authority = HeaderValue::try_from(url.authority()).map_err(unusable_value)?;
        let profiles = profiles(member, with.brand)?;
        let signer = signer(member, &profiles, with.rows)?;
        let signed = signed_names(&signer)?;
        let mut head = Head::begin(authority);
        let left_out = head.add_own(endpoint, &signed);
        head.add_credentials(endpoint);
        head.keep_places(&signed);
        let tls = matches!(url.scheme(), Scheme::Https);
        let good_until = live(&member.view.secrets, with.rows).filter_map(|it| it.expires_at).min();
        Ok(Self {
            site: with.pool.site(with.guard.pool_key(&url, member.application)),
            gate: with.gates.of(member.key(), with.now),
            target: Target {
                server_name: server_name(url.host()).filter(|_| tls),
                application: member.application,
                url,
            },
            member: Arc::clone(member),
            guard: Arc::clone(with.guard),
            good_until: good_until.unwrap_or(Timestamp::FAR_FUTURE),
            uri,
            headers: head.headers,
            recorded: head.recorded.into_iter().collect(),
            names_delivery: profiles.iter().any(names_delivery),
            signer,
            signed,
            left_out,
        })
    }

    /// Tells whether it is still what preparing anew would make, at a time of the rows' timeline.
    pub(super) fn is_good(
        &self,
        member: &Arc<Member>,
        guard: &Arc<Guard>,
        rows: Timestamp,
    ) -> bool {
        Arc::ptr_eq(&self.member, member)
            && Arc::ptr_eq(&self.guard, guard)
            && rows < self.good_until
    }

    /// Makes the request of one attempt, and the record of its headers.
    pub(super) fn request(
        &self,
        sending: &Sending,
        payload: Bytes,
        wall: Timestamp,
    ) -> Result<(Outgoing, Headers), Failure> {
        let delivery = &sending.delivery;
        let message = IdText::of(&delivery.message);
        let derived = self.names_delivery.then(|| {
            let row = u64::try_from(delivery.key.endpoint.0).unwrap_or_default();
            IdText::of(&DeliveryId::derive(&delivery.message, row))
        });
        let attempt = Attempt {
            message_id: message.as_str(),
            delivery_id: derived.as_ref().map_or("", IdText::as_str),
            event_type: &delivery.event_type,
            timestamp: wall.as_seconds(),
            body: &payload,
        };
        let signatures = self.signer.headers(&attempt).map_err(unsigned)?;
        let mut headers = self.headers.clone();
        let mut recorded = self.recorded.copy_with_room(ADDED_BYTES);
        if let Some(kind) = &delivery.content_type
            && let Ok(value) = HeaderValue::try_from(kind.as_str())
        {
            set(&mut headers, &CONTENT_TYPE, value);
            recorded = with_content_type(&self.recorded, kind);
        }
        let length = HeaderValue::from(payload.len());
        recorded.push(CONTENT_LENGTH.as_str(), length.to_str().unwrap_or_default());
        set(&mut headers, &CONTENT_LENGTH, length);
        for (name, header) in self.signed.iter().zip(signatures) {
            recorded.push(name.as_str(), &header.value);
            let value = HeaderValue::try_from(header.value.as_ref()).map_err(unusable_value)?;
            set(&mut headers, name, value);
        }
        let mut request = Request::new(Full::new(payload));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        Ok((request, recorded))
    }
}

/// A request's headers under construction, with the record of them.
struct Head {
    headers: HeaderMap,
    recorded: Vec<(String, String)>,
}

impl Head {
    fn begin(authority: HeaderValue) -> Self {
        let mut head = Self { headers: HeaderMap::new(), recorded: Vec::new() };
        head.set(HOST, authority, false);
        head.set(USER_AGENT, HeaderValue::from_static(AGENT), false);
        head.set(ACCEPT, HeaderValue::from_static("*/*"), false);
        head.set(ACCEPT_ENCODING, HeaderValue::from_static("identity"), false);
        head.set(CONTENT_TYPE, JSON, false);
        head
    }

    /// Adds the endpoint's own headers, and returns the names of the others: one that is not safe,
    /// that a receiver could take for a signature, or that is there in another spelling. Such a one
    /// is refused when it is saved, and a delivery must not fail for it.
    fn add_own(&mut self, endpoint: &Endpoint, signed: &[HeaderName]) -> Vec<String> {
        let mut allowance = Allowance::default();
        let mut taken: BTreeSet<String> =
            signed.iter().map(|name| comparable(name.as_str())).collect();
        let mut left_out = Vec::new();
        let plain = endpoint.settings.headers.iter().map(|header| (header, false));
        let secret = endpoint.confidential.headers.iter().map(|header| (header, true));
        for ((name, value), secret) in plain.chain(secret) {
            let read = safe_header(name, value).ok();
            let fits =
                |_: &_| taken.insert(comparable(name)) && allowance.spend(name, value).is_ok();
            let Some((read, safe)) = read.filter(fits) else {
                left_out.push(name.clone());
                continue;
            };
            let secret = secret || is_sensitive(read.as_str());
            self.set(read, safe, secret);
        }
        left_out
    }

    fn add_credentials(&mut self, endpoint: &Endpoint) {
        let text = match &endpoint.confidential.credentials {
            None => return,
            Some(Credentials::Bearer(token)) => ["Bearer ", token].concat(),
            Some(Credentials::Basic { user, password }) => {
                ["Basic ", &BASE64.encode([user, ":", password].concat())].concat()
            }
        };
        if let Ok(value) = HeaderValue::try_from(text) {
            self.set(AUTHORIZATION, value, true);
        }
    }

    /// Keeps places for the headers that each attempt sets: a copy of the map would have to grow.
    fn keep_places(&mut self, signed: &[HeaderName]) {
        for name in [&CONTENT_LENGTH].into_iter().chain(signed) {
            self.headers.insert(name.clone(), HeaderValue::from_static(""));
        }
    }

    fn set(&mut self, name: HeaderName, mut value: HeaderValue, secret: bool) {
        value.set_sensitive(secret);
        let shown = if secret { MASK.to_owned() } else { readable(&value) };
        match self.recorded.iter_mut().find(|(known, _)| known == name.as_str()) {
            Some((_, entry)) => *entry = shown,
            None => self.recorded.push((name.as_str().to_owned(), shown)),
        }
        self.headers.insert(name, value);
    }
}

/// Sets a header that has its place.
fn set(headers: &mut HeaderMap, name: &HeaderName, value: HeaderValue) {
    if let Some(place) = headers.get_mut(name) {
        *place = value;
    }
}

fn signer(member: &Member, profiles: &[Profile], now: Timestamp) -> Result<Signer, Failure> {
    let read = |secret: &Secret| secret.text.parse::<SigningSecret>();
    let secrets: Result<Vec<_>, _> = live(&member.view.secrets, now).map(read).collect();
    Signer::new(&secrets.map_err(unsigned)?, profiles).map_err(unsigned)
}

fn names_delivery(profile: &Profile) -> bool {
    match profile {
        Profile::Branded(_) | Profile::WebhookDigest => true,
        Profile::StandardWebhooks | Profile::Svix | Profile::Digest(_) | Profile::EventId => false,
    }
}

fn live(secrets: &[Secret], now: Timestamp) -> impl Iterator<Item = &Secret> {
    secrets.iter().filter(move |secret| secret.expires_at.is_none_or(|until| now < until))
}

fn profiles(member: &Member, brand: &Brand) -> Result<Vec<Profile>, Failure> {
    let own = &member.view.endpoint.settings.signatures;
    if !own.is_empty() {
        let read = |word: &String| match word.as_str() {
            "branded" => Ok(Profile::Branded(brand.clone())),
            word => word.parse().map_err(unsigned),
        };
        return own.iter().map(read).collect();
    }
    let standing = member.defaults.signatures.iter().map(|profile| match profile {
        policy::Profile::StandardWebhooks => Profile::StandardWebhooks,
        policy::Profile::Svix => Profile::Svix,
        policy::Profile::Branded => Profile::Branded(brand.clone()),
        policy::Profile::WebhookDigest => Profile::WebhookDigest,
        policy::Profile::EventId => Profile::EventId,
    });
    Ok(standing.collect())
}

/// Asks the signer itself for the names, because only their order matters later.
fn signed_names(signer: &Signer) -> Result<Vec<HeaderName>, Failure> {
    let (id, event_type) = ("id", "type");
    let specimen = Attempt { message_id: id, delivery_id: id, event_type, timestamp: 0, body: b"" };
    let headers = signer.headers(&specimen).map_err(unsigned)?;
    let name = |header: &signature::Header<'_>| {
        HeaderName::try_from(header.name).map_err(|_| Failure::unsigned("a name is no header"))
    };
    headers.iter().map(name).collect()
}

/// Tells what we cannot use from what an owner may choose: the secrets and the profiles are each
/// looked at when they are saved, and not whether they fit together.
fn unsigned(error: signature::Error) -> Failure {
    let text = error.to_string();
    let chosen = matches!(
        error,
        signature::Error::Setup(SetupFault::NeedsSharedSecret(_) | SetupFault::HeaderTwice(_))
    );
    if chosen { Failure::misfit(&text) } else { Failure::unsigned(&text) }
}

fn unusable_value(_: http::header::InvalidHeaderValue) -> Failure {
    Failure::blocked_url()
}

/// Returns the record with another content type.
fn with_content_type(recorded: &Headers, kind: &str) -> Headers {
    let pairs = recorded.pairs();
    let pairs = pairs.iter().map(|(name, value)| {
        (name.as_str(), if name == CONTENT_TYPE.as_str() { kind } else { value.as_str() })
    });
    pairs.collect()
}

fn readable(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// The text of an id, without a trip to the heap.
struct IdText {
    bytes: [u8; Self::MOST],
    length: usize,
}

impl IdText {
    /// A prefix of at most seven and 27 more.
    const MOST: usize = 40;

    fn of(id: &impl fmt::Display) -> Self {
        let mut text = Self { bytes: [0; Self::MOST], length: 0 };
        // An id that did not fit would be cut off, and no id is as long.
        let _fits = write!(text, "{id}");
        text
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl fmt::Write for IdText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let end = self.length + part.len();
        let room = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        room.copy_from_slice(part.as_bytes());
        self.length = end;
        Ok(())
    }
}
