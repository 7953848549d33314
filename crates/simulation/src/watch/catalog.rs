//! Invariants 13 and 14: whose a name is when a message becomes durable, and how long something may be
//! sent with what a change of the catalog has replaced.

use std::sync::Arc;
use std::time::Duration;

use domain::endpoint::State as EndpointState;
use domain::ids::ApplicationId;
use domain::time::Timestamp;
use engine::{Member, Roster, Sending};
use store::catalog::{Name, Secret};
use store::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use store::memory::State;
use store::queue::Accept;

use super::Watch;
use crate::node::{BEGINNING, NodeRef};

/// How long what was replaced may be in use.
const IN_USE: Duration = Duration::from_secs(2);
/// How long it is remembered what was replaced.
const REMEMBERED: Duration = Duration::from_secs(600);

/// What an endpoint was since a moment; none if it was gone.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) since: Duration,
    pub(super) member: Option<Arc<Member>>,
}

impl Watch {
    /// Something about an application or its endpoints was changed.
    pub(crate) fn catalog_changed(
        &mut self,
        application: ApplicationKey,
        roster: Option<&Roster>,
        now: Duration,
    ) {
        let rows = BEGINNING.after(now);
        let theirs = self.endpoints.iter_mut().filter(|(_, it)| it.application == application);
        for (key, place) in theirs {
            let member = roster.and_then(|roster| roster.member(*key)).cloned();
            let last = place.versions.last().and_then(|version| version.member.as_ref());
            let is_same = match (last, &member) {
                (Some(last), Some(member)) => is_same(last, member, rows),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            if is_same {
                continue;
            }
            if let Some(member) = &member {
                place.member = Arc::clone(member);
            }
            place.versions.push(Version { since: now, member });
            let is_old = |version: &Version| now.saturating_sub(version.since) > REMEMBERED;
            if place.versions.len() > 2 && place.versions.get(1).is_some_and(is_old) {
                place.versions.remove(0);
            }
        }
    }

    /// An application was deleted: nothing is owed for it any more.
    pub(crate) fn application_deleted(&mut self, application: ApplicationKey, now: Duration) {
        self.gone.insert(application);
        let theirs = self.endpoints.iter().filter(|(_, place)| place.application == application);
        let theirs: Vec<EndpointKey> = theirs.map(|(key, _)| *key).collect();
        for key in theirs {
            self.state_changed(key, EndpointState::Deleted, now);
        }
        let key = |number: i64| DeliveryKey {
            application,
            endpoint: EndpointKey(number),
            message: MessageKey(number),
        };
        let owed: Vec<DeliveryKey> =
            self.pending.range(key(i64::MIN)..=key(i64::MAX)).copied().collect();
        self.pending.retain(|key| !owed.contains(key));
    }

    /// Tells whether an application was deleted.
    pub(crate) fn is_gone(&self, application: ApplicationKey) -> bool {
        self.gone.contains(&application)
    }

    /// A process says that it sends by all that was committed before a moment.
    pub(crate) fn confirms(&mut self, me: NodeRef, heard: Timestamp) {
        let confirmed = self.confirmed.entry(me).or_insert(heard);
        *confirmed = heard.max(*confirmed);
    }

    /// A name leads to the application that has it when the message becomes durable.
    pub(super) fn check_name(&mut self, accept: &Accept, state: &State) {
        let Some(uid) = &accept.named else { return };
        let named = state.application(&Name::<ApplicationId>::Uid(uid.to_string()));
        let named = named.ok().map(|application| application.key);
        if named != Some(accept.application) {
            let (id, to) = (accept.message.id, accept.application);
            self.complain(13, format!("{id} for {uid} went to {to:?}, and it is {named:?}"));
        }
    }

    /// An attempt begins with what the endpoint is, or was two seconds ago; and with nothing that was
    /// replaced before its process confirmed the change.
    pub(super) fn check_version(&mut self, me: NodeRef, sending: &Sending) {
        let (now, rows) = (self.now, BEGINNING.after(self.now));
        let Some(place) = self.endpoints.get(&sending.delivery.key.endpoint) else { return };
        let is_this = |version: &Version| {
            version.member.as_ref().is_some_and(|member| is_same(member, &sending.member, rows))
        };
        let Some(which) = place.versions.iter().rposition(is_this) else {
            let text = format!("{:?} is sent with what never was", sending.delivery.key);
            return self.complain(14, text);
        };
        let Some(end) = place.versions.get(which + 1).map(|next| next.since) else { return };
        let since = now.saturating_sub(end);
        if since >= IN_USE {
            let key = sending.delivery.key;
            self.complain(14, format!("{key:?} is sent with what was replaced {since:?} ago"));
        } else if self.confirmed.get(&me).is_some_and(|heard| *heard > BEGINNING.after(end)) {
            let key = sending.delivery.key;
            let text = format!("{key:?} is sent with what {me:?} has confirmed to be replaced");
            self.complain(14, text);
        }
    }
}

/// Tells whether two members are sent to in the same way.
fn is_same(one: &Member, other: &Member, at: Timestamp) -> bool {
    let secrets = |member: &Member| -> Vec<String> {
        let signs = |secret: &&Secret| secret.expires_at.is_none_or(|end| end > at);
        member.view.secrets.iter().filter(signs).map(|secret| secret.text.clone()).collect()
    };
    one.view.endpoint == other.view.endpoint && secrets(one) == secrets(other)
}
