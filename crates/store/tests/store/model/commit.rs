//! Batches: from what was drawn to what is committed, and what was answered.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::breaker::Breaker;
use domain::delivery::Cause;
use domain::outcome::Outcome;
use store::catalog::{Endpoint, FanOut};
use store::conformance::{failure, fresh, success};
use store::keys::{DeliveryKey, EndpointKey, Epoch};
use store::queue::{
    Accept, Accepted, Batch, FirstState, NewDelivery, NewMessage, NextState, Running, Settle,
    Settled,
};

use super::operation::{Accepting, Flaw, Settling, Verdict};
use super::world::{World, choose, turn};

impl World {
    pub(super) async fn commit(
        &mut self,
        accepts: &[Accepting],
        settles: &[Settling],
        again: bool,
    ) -> String {
        let mut batch = Batch::default();
        for accepting in accepts {
            batch.accepts.extend(self.accept(accepting).await);
        }
        for settling in settles {
            batch.settles.extend(self.settle(settling).await);
        }
        let batch = Arc::new(batch);
        let answers = self.store().queue.commit(Arc::clone(&batch)).await.unwrap();
        if again {
            let second = self.store().queue.commit(Arc::clone(&batch)).await.unwrap();
            // What did not take effect may find another reason now: a later item has its key.
            for (first, second) in answers.accepts.iter().zip(&second.accepts) {
                let is_new = |answer: &Accepted| matches!(answer, Accepted::New { .. });
                assert!(first == second || !(is_new(first) || is_new(second)), "{second:?}");
            }
            // Of two settles of one delivery the first sees, the second time, what the other did.
            let keys: BTreeSet<_> = batch.settles.iter().map(|settle| settle.key).collect();
            if keys.len() == batch.settles.len() {
                assert_eq!(second.settles, answers.settles, "a repeated batch answers alike");
            }
        }
        let mut words = Vec::new();
        for (accept, answer) in batch.accepts.iter().zip(&answers.accepts) {
            words.push(self.note(accept, answer));
        }
        for (settle, answer) in batch.settles.iter().zip(&answers.settles) {
            words.push(match answer {
                Settled::Applied { turn: Some(applied) } => {
                    let order = self.endpoint(settle.key.endpoint).order;
                    format!("applied, {}", turn(order, *applied))
                }
                Settled::Applied { turn: None }
                | Settled::LeftAlone
                | Settled::Fenced
                | Settled::Missing
                | Settled::Refused => format!("{answer:?}"),
            });
        }
        words.join("; ")
    }

    async fn accept(&mut self, accepting: &Accepting) -> Option<Accept> {
        let application = choose(&self.notes.applications, accepting.application)?.clone();
        let fan_out = self.store().catalog.fan_out(application.key, self.now()).await;
        let (id, endpoints) = (application.id, Vec::new());
        let gone = FanOut {
            application: id,
            revision: 0,
            version: 0,
            policy: None,
            rate: None,
            endpoints,
        };
        let fan_out = fan_out.unwrap_or(gone);
        let endpoints = fan_out.endpoints.iter().map(|view| &view.endpoint).enumerate();
        let chosen = endpoints.filter(|(place, _)| accepting.endpoints >> (place % 8) & 1 == 1);
        let mut deliveries: Vec<_> =
            chosen.map(|(_, endpoint)| self.delivery(accepting, endpoint)).collect();
        let mut revision = fan_out.revision;
        match accepting.flaw {
            Some(Flaw::OldRevision) => revision -= 1,
            Some(Flaw::UnknownEndpoint) => {
                if let Some(first) = deliveries.first_mut() {
                    first.endpoint = EndpointKey(i64::MAX);
                }
            }
            Some(Flaw::DeadFromTheStart) | None => {}
        }
        let received_at = self.now();
        let message = NewMessage {
            id: self.id(),
            event_type: format!("type.{}", accepting.endpoints % 3),
            event_id: accepting.event_id.map(|number| format!("event {number}")),
            channels: Vec::new(),
            payload: Bytes::from(vec![b'x'; usize::from(accepting.endpoints) % 40]),
            content_type: None,
            policy: None,
            deliver_at: None,
            only: None,
            received_at,
            // Not a multiple of the history's steps, so that no moment is ever on the border.
            retained_until: received_at.after(Duration::from_secs(3_605)),
        };
        let idempotency = accepting.key.map(|number| [number; 32]);
        Some(Accept {
            application: application.key,
            named: None,
            revision,
            message,
            idempotency,
            deliveries,
        })
    }

    fn delivery(&self, accepting: &Accepting, endpoint: &Endpoint) -> NewDelivery {
        let due = self.now().after(Duration::from_secs(accepting.due_in));
        let state = match accepting.flaw {
            Some(Flaw::DeadFromTheStart) => FirstState::Dead(Cause::EndpointDisabled),
            Some(Flaw::OldRevision | Flaw::UnknownEndpoint) | None => {
                FirstState::Pending(fresh(due))
            }
        };
        let (key, partition, order) = (endpoint.key, endpoint.partition, endpoint.order);
        NewDelivery { endpoint: key, partition, order, state }
    }

    /// Notes what was accepted, and words the answer.
    fn note(&mut self, accept: &Accept, answer: &Accepted) -> String {
        let Accepted::New { message, turns } = answer else {
            return match answer {
                Accepted::Refused(_) => "refused".to_owned(),
                Accepted::New { .. }
                | Accepted::Repeated(_)
                | Accepted::EventIdTaken(_)
                | Accepted::Stale(_)
                | Accepted::ApplicationMissing
                | Accepted::NameMoved => format!("{answer:?}"),
            };
        };
        let applications = &self.notes.applications;
        let application = applications.iter().find(|one| one.key == accept.application).unwrap();
        self.notes.messages.push((application.clone(), *message, accept.message.id));
        let keys = accept.deliveries.iter().map(|delivery| DeliveryKey {
            application: accept.application,
            endpoint: delivery.endpoint,
            message: *message,
        });
        self.notes.deliveries.extend(keys);
        let of = accept.deliveries.iter().zip(turns);
        let turns: Vec<_> = of.map(|(delivery, given)| turn(delivery.order, *given)).collect();
        format!("new with {turns:?}")
    }

    async fn settle(&mut self, settling: &Settling) -> Option<Settle> {
        let key = *choose(&self.notes.deliveries, settling.delivery)?;
        let recorded = self.look(key).await.map_or(0, |entry| entry.recorded);
        let mut lease = self.lease(self.endpoint(key.endpoint).partition);
        if settling.old_epoch {
            lease.epoch = Epoch(lease.epoch.0 - 1);
        }
        let id = self.id();
        let now = self.now();
        let (next, mut attempt) = match settling.verdict {
            Verdict::Delivered => (NextState::Delivered, success(id)),
            Verdict::Retry { wait } => {
                let due = now.after(Duration::from_secs(wait));
                (NextState::Pending { due }, failure(id))
            }
            Verdict::Bury { cause } => (NextState::Dead(cause), failure(id)),
        };
        if settling.body.is_multiple_of(3) {
            attempt.outcome = Outcome::TimedOut;
        }
        (attempt.began_at, attempt.ended_at) = (now, now);
        attempt.response_body = Bytes::from(vec![b'y'; settling.body]);
        let running = settling.running.then(|| Running {
            breaker: Breaker::Closed { failures: u32::try_from(settling.body).unwrap() },
            ..Running::default()
        });
        let budget = fresh(now).budget;
        let recorded = if settling.old_count { recorded + 1 } else { recorded };
        let ended_before = self.ended_before(key).await;
        let received_at = now;
        Some(Settle {
            lease,
            key,
            recorded,
            ended_before,
            received_at,
            next,
            budget,
            attempt,
            running,
        })
    }
}
