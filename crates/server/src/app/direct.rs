//! Takes messages in without a node: fans out, commits, and nudges nobody.
//!
//! For tests, and for a server whose node is not built yet. Each message is a commit of its own,
//! and nothing is ever sent.

use std::sync::Arc;

use domain::filter::Filter;
use engine::roster::{Facts, Member, Policies, Roster};
use store::keys::{ApplicationKey, EndpointKey};
use store::queue::{Accept, Accepted, Batch, Once, Queue, Request, Upkeep};
use store::{Catalog, queue};

use super::messages::{NewMessage, Taken};
use super::{Accepting, Answer, Ask, Error, Nudge};
use crate::dice;

/// How often a message is fanned out anew because its application changed meanwhile.
const MOST_ROUNDS: usize = 8;

/// Takes messages in, one commit each.
pub struct Direct {
    /// What people set up.
    pub catalog: Arc<dyn Catalog>,
    /// Where messages go.
    pub queue: Arc<dyn Queue>,
    /// The policies that apply.
    pub policies: Policies,
}

impl Direct {
    async fn take(&self, new: NewMessage) -> Result<Taken, Error> {
        let policy = new.policy.as_ref().map(engine::roster::read_policy).transpose();
        let policy = policy.map_err(|error| Error::field("policy", error.to_string()))?;
        for _ in 0..MOST_ROUNDS {
            let fan_out = self.catalog.fan_out(new.application, new.received_at).await?;
            let roster = Roster::read(new.application, fan_out, &self.policies);
            let roster = new.only.map_or_else(|| roster.clone(), |only| narrowed(&roster, only));
            let facts = Facts {
                event_type: &new.event_type,
                channels: &new.channels,
                policy: policy.as_ref().map(|read| &read.policy),
                received_at: new.received_at,
                deliver_at: new.deliver_at,
            };
            let deliveries = roster.fan_out(&facts, &self.policies);
            let accept = Accept {
                application: new.application,
                revision: roster.revision,
                message: stored(&new),
                idempotency: new.idempotency,
                deliveries,
            };
            let batch = Batch { accepts: vec![accept], ..Batch::default() };
            let mut committed = self.queue.commit(Arc::new(batch)).await?;
            match committed.accepts.pop() {
                Some(Accepted::New { .. }) => return Ok(Taken::New { id: new.id }),
                Some(Accepted::Repeated(id)) => return Ok(Taken::Repeated(id)),
                Some(Accepted::EventIdTaken(id)) => return Ok(Taken::EventIdTaken(id)),
                Some(Accepted::ApplicationMissing) => return Err(Error::Missing("application")),
                Some(Accepted::Refused(text)) => return Err(Error::Internal(text)),
                Some(Accepted::Stale(_)) => {}
                None => return Err(Error::Internal("the commit had no answer".to_owned())),
            }
        }
        Err(Error::Unavailable("the application changes too often".to_owned()))
    }
}

/// Leaves one endpoint, which takes everything.
fn narrowed(roster: &Roster, only: EndpointKey) -> Roster {
    let open = |member: &Arc<Member>| {
        let filter = Some(Filter::default());
        Arc::new(Member { filter, ..member.as_ref().clone() })
    };
    Roster { members: roster.member(only).map(open).into_iter().collect(), ..roster.clone() }
}

fn stored(new: &NewMessage) -> queue::NewMessage {
    queue::NewMessage {
        id: new.id,
        event_type: new.event_type.to_string(),
        event_id: new.event_id.clone(),
        channels: new.channels.iter().map(ToString::to_string).collect(),
        payload: new.payload.clone(),
        content_type: new.content_type.clone(),
        policy: new.policy.as_ref().map(ToString::to_string),
        received_at: new.received_at,
        retained_until: new.retained_until,
    }
}

impl Accepting for Direct {
    fn accept(&self, message: NewMessage) -> Answer<'_, Taken> {
        Box::pin(self.take(message))
    }

    fn changed(&self, _application: ApplicationKey, _endpoint: Option<EndpointKey>) {}

    fn ask(&self, ask: Ask) -> Answer<'_, ()> {
        let Ask { application, endpoint, partition, kind, at } = ask;
        let request = Request { number: 0, application, endpoint, partition, kind, at };
        Box::pin(async move {
            let mut id = [0; 16];
            dice::entropy(&mut id);
            let ask = Upkeep::Ask { once: Once { at, id }, request };
            let batch = Batch { upkeep: vec![ask], ..Batch::default() };
            self.queue.commit(Arc::new(batch)).await.map(|_| ()).map_err(Error::from)
        })
    }

    fn nudge(&self, _nudge: Nudge) {}
}
