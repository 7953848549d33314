//! What a store has acknowledged, and must therefore still have, whatever happened to it since.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use domain::delivery::Delivery;
use domain::ids::{ApplicationId, AttemptId, MessageId};
use store::Error;
use store::catalog::Name;
use store::conformance::{Handle, NOW, attempts_of};
use store::keys::{ApplicationKey, EndpointKey, MessageKey};
use store::ledger::{DeliveryEntry, Payload};
use store::queue::{Accept, Accepted, Batch, Load, NewMessage, NextState};

use super::{key_of, payload_of};

/// More deliveries than are ever pending here.
const ALL: u32 = 10_000_000;

/// The place of a delivery.
type Place = (EndpointKey, MessageKey);

/// One thing that was acknowledged. As text it is one line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Promised {
    Accepted { id: MessageId, key: MessageKey },
    Settled { place: Place, attempt: AttemptId, next: Next },
}

/// Where a settle said that the delivery goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Pending,
    Delivered,
    Dead,
}

/// All that was acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    messages: BTreeMap<MessageKey, MessageId>,
    settled: BTreeMap<Place, Vec<(AttemptId, Next)>>,
}

/// What a check found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Messages and settled attempts that are there as promised.
    pub(crate) kept: u64,
    /// Messages and settled attempts that are not.
    pub(crate) lost: u64,
    /// What is wrong, in words.
    pub(crate) broken: Vec<String>,
}

impl Promised {
    /// Returns the message that it is about.
    pub(crate) fn message(&self) -> MessageKey {
        match self {
            Self::Accepted { key, .. } => *key,
            Self::Settled { place, .. } => place.1,
        }
    }
}

impl Promises {
    pub(crate) fn add(&mut self, promised: Promised) {
        match promised {
            Promised::Accepted { id, key } => drop(self.messages.insert(key, id)),
            Promised::Settled { place, attempt, next } => {
                self.settled.entry(place).or_default().push((attempt, next));
            }
        }
    }

    /// Returns how many messages and how many settled attempts there are.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.messages.len(), self.settled.values().map(Vec::len).sum())
    }

    /// Looks for everything that was promised, and for what cannot be.
    pub(crate) async fn check(&self, store: &Handle) -> Result<Findings, Error> {
        let settled = self.settled.keys().map(|place| place.1);
        self.check_some(store, self.messages.keys().copied().chain(settled).collect()).await
    }

    /// Looks for everything that was promised about some messages.
    pub(crate) async fn check_some(
        &self,
        store: &Handle,
        keys: BTreeSet<MessageKey>,
    ) -> Result<Findings, Error> {
        let mut findings = Findings::default();
        if keys.is_empty() {
            return Ok(findings);
        }
        let id = ApplicationId::new(NOW, [1; 16]);
        let application = match store.catalog.application(Name::Id(id)).await {
            Ok(application) => application.key,
            Err(Error::Missing(_)) => {
                findings.lost += keys.len() as u64;
                findings.broken.push("the application is missing".to_owned());
                return Ok(findings);
            }
            Err(error) => return Err(error),
        };
        let pending = pending(store, application).await?;
        let messages = keys.iter().filter_map(|key| self.messages.get(key).copied()).collect();
        let forgotten = forgotten(store, application, messages).await?;
        findings.lost += forgotten.len() as u64;
        findings.broken.extend(forgotten);
        for key in keys {
            match self.look(store, application, key, &pending).await? {
                Ok(kept) => findings.kept += kept,
                Err(text) => {
                    findings.lost += 1;
                    findings.broken.push(format!("message {}: {text}", key.0));
                }
            }
        }
        Ok(findings)
    }

    /// Looks for one message with its deliveries and their attempts.
    async fn look(
        &self,
        store: &Handle,
        application: ApplicationKey,
        key: MessageKey,
        pending: &BTreeSet<Place>,
    ) -> Result<Result<u64, String>, Error> {
        let mut kept = 0;
        // Without an id, the message was not acknowledged, but settles of its deliveries were.
        if let Some(id) = self.messages.get(&key) {
            let message = match store.ledger.message(application, Name::Id(*id)).await {
                Err(Error::Missing(_)) => return Ok(Err(format!("{id} is missing"))),
                found => found?,
            };
            if message.key != key || message.payload != Payload::Kept(payload_of(id)) {
                return Ok(Err(format!("{id} is another: {message:?}")));
            }
            kept += 1;
        }
        let deliveries = store.ledger.deliveries_of(application, key).await?;
        if deliveries.len() != 2 {
            return Ok(Err(format!("it has {} deliveries instead of 2", deliveries.len())));
        }
        for delivery in deliveries {
            let attempts = attempts_of(&store.ledger, delivery.key).await?;
            let attempts: Vec<_> = attempts.iter().map(|attempt| attempt.record.id).collect();
            match self.judge(&delivery, &attempts, pending) {
                Ok(settled) => kept += settled,
                Err(text) => {
                    return Ok(Err(format!("its delivery to {}: {text}", delivery.key.endpoint.0)));
                }
            }
        }
        Ok(Ok(kept))
    }

    /// Compares a delivery with what was promised of it, and with itself.
    fn judge(
        &self,
        delivery: &DeliveryEntry,
        attempts: &[AttemptId],
        pending: &BTreeSet<Place>,
    ) -> Result<u64, String> {
        let place = (delivery.key.endpoint, delivery.key.message);
        let promised = self.settled.get(&place).map_or(&[][..], Vec::as_slice);
        for (attempt, _) in promised {
            if !attempts.contains(attempt) {
                return Err(format!("{attempt} is missing"));
            }
        }
        if delivery.recorded as usize != attempts.len() {
            return Err(format!("{} attempts, of {}", attempts.len(), delivery.recorded));
        }
        if delivery.last_attempt.as_ref() != attempts.first() {
            return Err("its last attempt is not its last".to_owned());
        }
        let found = match delivery.state {
            Delivery::Pending(_) => Next::Pending,
            Delivery::Delivered => Next::Delivered,
            Delivery::Dead(_) => Next::Dead,
            Delivery::Cancelled => return Err("it is cancelled".to_owned()),
        };
        if (found == Next::Pending) != pending.contains(&place) {
            return Err(format!("it is {found:?}, and the index says otherwise"));
        }
        let last = promised.last().map_or(Next::Pending, |(_, next)| *next);
        // A settle that was not acknowledged may have taken effect, but only with its attempt.
        let explained = last == Next::Pending && attempts.len() > promised.len();
        if found != last && !explained {
            return Err(format!("it is {found:?} instead of {last:?}"));
        }
        Ok(promised.len() as u64)
    }
}

/// Returns all deliveries that are in the index of pending ones.
async fn pending(store: &Handle, application: ApplicationKey) -> Result<BTreeSet<Place>, Error> {
    let fan_out = store.catalog.fan_out(application, NOW).await?;
    let mut pending = BTreeSet::new();
    for view in fan_out.endpoints {
        let endpoint = view.endpoint.key;
        let load = Load { application, endpoint, from: i64::MIN, most: ALL, most_bytes: 0 };
        let loaded = store.queue.load(load).await?;
        pending.extend(loaded.deliveries.iter().map(|found| (endpoint, found.key.message)));
    }
    Ok(pending)
}

/// Asks once more for what was accepted, with the same idempotency keys, and returns what was not
/// recognised. Nothing can come of it: the revision is none that an application ever has.
async fn forgotten(
    store: &Handle,
    application: ApplicationKey,
    messages: Vec<MessageId>,
) -> Result<Vec<String>, Error> {
    let mut forgotten = Vec::new();
    for some in messages.chunks(500) {
        let accepts = some.iter().map(|id| again(application, id)).collect();
        let batch = Batch { accepts, ..Batch::default() };
        let answers = store.queue.commit(batch.into()).await?.accepts;
        let wrong = some.iter().zip(answers).filter(|(id, it)| *it != Accepted::Repeated(**id));
        forgotten.extend(wrong.map(|(id, it)| format!("the key of {id} was answered with {it:?}")));
    }
    Ok(forgotten)
}

fn again(application: ApplicationKey, first: &MessageId) -> Accept {
    let mut id = *first.as_bytes();
    id[19] ^= 0xff;
    Accept {
        application,
        named: None,
        revision: -1,
        message: NewMessage {
            id: MessageId::from_bytes(id),
            event_type: "invoice.paid".to_owned(),
            event_id: None,
            channels: Vec::new(),
            payload: payload_of(first),
            content_type: None,
            policy: None,
            deliver_at: None,
            only: None,
            received_at: NOW,
            retained_until: NOW,
        },
        idempotency: Some(key_of(first)),
        deliveries: Vec::new(),
    }
}

impl From<NextState> for Next {
    fn from(next: NextState) -> Self {
        match next {
            NextState::Pending { .. } => Self::Pending,
            NextState::Delivered => Self::Delivered,
            NextState::Dead(_) => Self::Dead,
        }
    }
}

impl fmt::Display for Promised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted { id, key } => write!(f, "accepted {id} {}", key.0),
            Self::Settled { place: (endpoint, message), attempt, next } => {
                write!(f, "settled {} {} {attempt} {next:?}", endpoint.0, message.0)
            }
        }
    }
}

impl FromStr for Promised {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<_> = line.split(' ').collect();
        let parsed = match words[..] {
            ["accepted", id, key] => id
                .parse()
                .ok()
                .zip(key.parse().ok())
                .map(|(id, key)| Self::Accepted { id, key: MessageKey(key) }),
            ["settled", endpoint, message, attempt, next] => {
                settled([endpoint, message, attempt, next])
            }
            _ => None,
        };
        parsed.ok_or_else(|| format!("`{line}` is no promise"))
    }
}

fn settled([endpoint, message, attempt, next]: [&str; 4]) -> Option<Promised> {
    let place = (EndpointKey(endpoint.parse().ok()?), MessageKey(message.parse().ok()?));
    let next = [Next::Pending, Next::Delivered, Next::Dead]
        .into_iter()
        .find(|word| format!("{word:?}") == next)?;
    Some(Promised::Settled { place, attempt: attempt.parse().ok()?, next })
}
