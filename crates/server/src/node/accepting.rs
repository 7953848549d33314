//! Takes in what the app accepts: the app's port [`Accepting`], on this process's intake.

use std::ops::Range;

use engine::commit::Crowded;
use engine::roster::read_policy;
use store::keys::ApplicationKey;
use store::ledger::Within;
use store::queue::{self, Accepted, Minute, Request, Rollup};

use super::{Draft, Intake, NotTaken};
use crate::app::messages::{Kind, NewMessage, Taken};
use crate::app::{Accepting, Answer, Ask, Error, Nudge};
use crate::committer::Rejected;

impl Accepting for Intake {
    fn accept(&self, message: NewMessage) -> Answer<'_, Taken> {
        Box::pin(async move {
            let id = message.id;
            match self.take_in(draft(message)?).await? {
                Accepted::New { .. } => Ok(Taken::New { id }),
                Accepted::Repeated(id) => Ok(Taken::Repeated(id)),
                Accepted::EventIdTaken(id) => Ok(Taken::EventIdTaken(id)),
                Accepted::NameMoved => Ok(Taken::NameMoved),
                Accepted::ApplicationMissing => Err(Error::Missing("application")),
                Accepted::Stale(_) | Accepted::Refused(_) => {
                    Err(Error::Internal("the intake left a message undecided".to_owned()))
                }
            }
        })
    }

    fn receives(&self, application: ApplicationKey, revision: i64, kind: Kind) -> Answer<'_, bool> {
        Box::pin(async move {
            let roster = self.roster(application, revision).await?;
            Ok(roster.receives(&kind.event_type, &kind.channels))
        })
    }

    fn is_ready(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.is_ready().await.map_err(|text| Error::Unavailable(text.to_string()))
        })
    }

    fn changed(&self) {
        self.changed();
    }

    fn is_in_force(&self) -> Answer<'_, bool> {
        Box::pin(async move { Ok(self.is_in_force().await) })
    }

    fn ask(&self, ask: Ask) -> Answer<'_, ()> {
        let Ask { application, endpoint, partition, kind, at } = ask;
        let request = Request { number: 0, application, endpoint, partition, kind, at };
        Box::pin(async move { Ok(self.ask(request).await?) })
    }

    fn sums(&self, within: Within, minutes: Range<Minute>) -> Answer<'_, Rollup> {
        Box::pin(async move { Ok(self.sums(within, minutes).await?) })
    }

    fn nudge(&self, nudge: Nudge) {
        match nudge {
            Nudge::Requests(partition) => self.asked(partition),
            Nudge::Task(_) => self.replay_started(),
        }
    }
}

fn draft(new: NewMessage) -> Result<Draft, Error> {
    let read = new.policy.as_ref().map(read_policy).transpose();
    let policy = read.map_err(|error| Error::field("policy", error.to_string()))?;
    Ok(Draft {
        application: new.application,
        named: new.named,
        message: queue::NewMessage {
            id: new.id,
            event_type: new.event_type.as_str().to_owned(),
            event_id: new.event_id,
            channels: new.channels.iter().map(|channel| channel.as_str().to_owned()).collect(),
            payload: new.payload,
            content_type: new.content_type,
            policy: new.policy.as_ref().map(ToString::to_string),
            deliver_at: new.deliver_at,
            only: new.only,
            received_at: new.received_at,
            retained_until: new.retained_until,
        },
        event_type: new.event_type,
        channels: new.channels,
        policy: policy.map(|read| read.policy),
        deliver_at: new.deliver_at,
        idempotency: new.idempotency,
        only: new.only,
    })
}

impl From<NotTaken> for Error {
    fn from(error: NotTaken) -> Self {
        match error {
            NotTaken::Rejected(rejected) => rejected.into(),
            NotTaken::Store(error) => error.into(),
            NotTaken::ApplicationMissing => Self::Missing("application"),
            NotTaken::Refused(text) => Self::Internal(text),
        }
    }
}

impl From<Rejected> for Error {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Crowded(Crowded::Share) => Self::TooFast,
            Rejected::Crowded(Crowded::Lane) => Self::Overloaded,
            Rejected::Closed | Rejected::Store(_) => Self::Unavailable(rejected.to_string()),
        }
    }
}
