//! Senders, and the API of a process: from a request to its 202.
//!
//! A sender that gets no answer, or 503, hands the same message over again, mostly with the same
//! idempotency key, to whichever process it meets.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::ids::MessageId;
use domain::names::{Channel, EventTypeName};
use domain::policy::Policy;
use domain::time::Timestamp;
use engine::Event;
use engine::roster::Facts;
use store::keys::{ApplicationKey, DeliveryKey};
use store::queue::{Accept, Accepted, FirstState, NewMessage, PendingDelivery};

use crate::agenda::{ArrivalId, Happening, Input, RequestId};
use crate::bugs::Bug;
use crate::calls::{Question, Reader, Reply};
use crate::committer::AcceptTicket;
use crate::counters::Path;
use crate::node::{BEGINNING, NodeRef};
use crate::plan;
use crate::world::World;

/// How long a sender waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The event types that messages have and endpoints choose from.
pub(crate) const EVENT_TYPES: [&str; 3] = ["invoice.paid", "invoice.sent", "user.created"];
/// The channels likewise.
pub(crate) const CHANNELS: [&str; 2] = ["north", "south"];

/// How the payload of a message begins that makes every process panic.
pub(crate) const POISON: &str = "{\"poison\":";

/// A message as its sender knows it.
#[derive(Debug, Clone)]
pub(crate) struct Letter {
    pub(crate) application: ApplicationKey,
    pub(crate) event_type: EventTypeName,
    pub(crate) channels: BTreeSet<Channel>,
    pub(crate) payload: Bytes,
    pub(crate) key: Option<[u8; 32]>,
    pub(crate) deliver_at: Option<Timestamp>,
    /// Its own policy, as a document and read.
    pub(crate) policy: Option<(String, Arc<Policy>)>,
    pub(crate) acknowledged: Option<MessageId>,
    /// When its sender comes again.
    pub(crate) again: Duration,
}

impl World {
    /// A sender has a message.
    pub(crate) fn sender_sends(&mut self) {
        let Some(application) = self.chance.pick(&self.applications).copied() else { return };
        self.letters_left = self.letters_left.saturating_sub(1);
        let number = u64::try_from(self.letters.len()).unwrap_or(u64::MAX);
        let event_type = self.chance.pick(&EVENT_TYPES).copied().unwrap_or_default();
        let Ok(event_type) = EventTypeName::parse(event_type) else { return };
        let channel = self.chance.place(4).and_then(|place| CHANNELS.get(place));
        let channels = channel.and_then(|name| Channel::parse(name).ok()).into_iter().collect();
        let length = usize::try_from(self.chance.between(2, 120)).unwrap_or(2);
        let poison = self.chance.permille(self.plan.faults.poison);
        let word = if poison { POISON } else { "{\"number\":" };
        let mut payload = format!("{word}{number},\"filling\":\"");
        payload.extend(std::iter::repeat_n('x', length));
        payload.push_str("\"}");
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        let keyed = self.chance.percent(85);
        let later = self.chance.percent(6);
        let deliver_at = BEGINNING.after(self.now).after(self.chance.millis(500, 20_000));
        let own_policy = self.chance.percent(2);
        self.letters.push(Letter {
            application,
            event_type,
            channels,
            payload: Bytes::from(payload),
            key: keyed.then_some(key),
            deliver_at: later.then_some(deliver_at),
            policy: own_policy.then(plan::own_policy).flatten(),
            acknowledged: None,
            again: Duration::ZERO,
        });
        self.submit(RequestId(number));
        if self.letters_left > 0 {
            let mean = self.plan.lasting / self.plan.messages.max(1);
            let micros = u64::try_from(mean.as_micros()).unwrap_or(1);
            // Half of them come in bursts.
            let wait = if self.chance.percent(50) { 1 } else { self.chance.between(1, micros * 4) };
            self.agenda.plan(self.now + Duration::from_micros(wait), Happening::SenderSends);
        }
    }

    /// Hands a message to some process.
    pub(crate) fn submit(&mut self, request: RequestId) {
        let Some(letter) = self.letter(request) else { return };
        if letter.acknowledged.is_some() || letter.again > self.now {
            return;
        }
        let open = self.open_processes();
        if let Some(me) = self.chance.pick(&open).copied() {
            let wait = self.chance.millis(1, 5);
            self.reach_later(me, wait, Input::Request(request));
        }
        self.comes_again(request, PATIENCE);
    }

    /// Has a sender hand its message over again after a while, and not at any other time.
    fn comes_again(&mut self, request: RequestId, wait: Duration) {
        let at = self.now + wait;
        let place = usize::try_from(request.0).ok();
        if let Some(letter) = place.and_then(|place| self.letters.get_mut(place)) {
            letter.again = at;
        }
        self.agenda.plan(at, Happening::SenderRepeats(request));
    }

    pub(crate) fn letter(&self, request: RequestId) -> Option<&Letter> {
        self.letters.get(usize::try_from(request.0).ok()?)
    }

    /// A message reaches a process.
    pub(crate) fn requested(&mut self, me: NodeRef, request: RequestId) {
        let now = self.now;
        let random = self.chance.id_bytes();
        let Some(letter) = self.letter(request).cloned() else { return };
        let Some(process) = self.process_mut(me) else { return };
        let rows = process.rows(now);
        let message = NewMessage {
            id: MessageId::new(rows, random),
            event_type: letter.event_type.as_str().to_owned(),
            event_id: None,
            channels: letter.channels.iter().map(|it| it.as_str().to_owned()).collect(),
            payload: letter.payload,
            content_type: None,
            policy: letter.policy.map(|(document, _)| document),
            deliver_at: letter.deliver_at,
            only: None,
            received_at: rows,
            retained_until: Timestamp::FAR_FUTURE,
        };
        process.arrivals += 1;
        let arrival = ArrivalId(process.arrivals);
        process.received.insert(arrival, (request, message));
        match process.rosters.contains_key(&letter.application) {
            true => self.fan_out(me, arrival),
            false => self.read_roster(me, letter.application, arrival),
        }
    }

    fn read_roster(&mut self, me: NodeRef, application: ApplicationKey, arrival: ArrivalId) {
        let reader = Reader::Api(arrival);
        self.call(me, Question::Roster { application, reader });
    }

    /// A roster was read, for the engine or for the API.
    pub(crate) fn roster_read(
        &mut self,
        me: NodeRef,
        application: ApplicationKey,
        reader: Reader,
        reply: Option<Reply>,
    ) {
        let answer = match reply {
            Some(Reply::Roster(roster)) => Ok(roster),
            _ => Err(engine::Unanswered),
        };
        match reader {
            Reader::Engine => self.feed(me, Event::Roster { application, answer }),
            Reader::Api(arrival) => {
                let Ok(Some(roster)) = answer else {
                    let received = self.process(me).and_then(|it| it.received.get(&arrival));
                    let request = received.map(|(request, _)| *request);
                    return request.into_iter().for_each(|request| self.refuse(request));
                };
                if let Some(process) = self.process_mut(me) {
                    process.rosters.insert(application, Arc::clone(&roster));
                }
                // The API and the engine of a process share what they read.
                if self.chance.percent(50) {
                    self.feed(me, Event::RosterSeen { application, answer: Ok(Some(roster)) });
                }
                self.fan_out(me, arrival);
            }
        }
    }

    fn fan_out(&mut self, me: NodeRef, arrival: ArrivalId) {
        let Some(process) = self.process(me) else { return };
        let Some((request, message)) = process.received.get(&arrival).cloned() else { return };
        let Some(letter) = self.letter(request).cloned() else { return };
        let Some(roster) = process.rosters.get(&letter.application) else { return };
        let policies = plan::policies();
        let facts = Facts {
            event_type: &letter.event_type,
            channels: &letter.channels,
            policy: letter.policy.as_ref().map(|(_, policy)| policy),
            received_at: message.received_at,
            deliver_at: letter.deliver_at,
        };
        let deliveries = roster.fan_out(&facts, &policies);
        let accept = Accept {
            application: letter.application,
            named: None,
            revision: roster.revision,
            message,
            idempotency: letter.key,
            deliveries,
        };
        self.offer_accept(me, AcceptTicket { arrival, request, accept });
    }

    /// A process answers 503, and the sender comes again.
    pub(crate) fn refuse(&mut self, request: RequestId) {
        let wait = self.chance.millis(50, 2_000);
        self.comes_again(request, wait);
    }

    /// A process answers 202.
    pub(crate) fn acknowledge(&mut self, request: RequestId, message: MessageId) {
        let Some(letter) = self.letter(request).cloned() else { return };
        self.watch.acknowledged(&letter, message, &self.state);
        let letter = usize::try_from(request.0).ok().and_then(|it| self.letters.get_mut(it));
        if let Some(letter) = letter {
            letter.acknowledged = Some(message);
        }
    }

    /// A batch with messages was committed.
    pub(crate) fn accepted(
        &mut self,
        me: NodeRef,
        answers: Vec<(AcceptTicket, Accepted)>,
        issued: Duration,
    ) {
        let mut fresh = Vec::new();
        for (ticket, answer) in answers {
            let AcceptTicket { arrival, request, accept } = ticket;
            match answer {
                Accepted::New { message, turns } => {
                    self.acknowledge(request, accept.message.id);
                    fresh.extend(pending(&accept, message, &turns));
                }
                Accepted::Repeated(first) | Accepted::EventIdTaken(first) => {
                    self.acknowledge(request, first);
                }
                Accepted::Stale(_) => {
                    self.read_roster(me, accept.application, arrival);
                    continue;
                }
                Accepted::ApplicationMissing | Accepted::NameMoved | Accepted::Refused(_) => {}
            }
            if let Some(process) = self.process_mut(me) {
                process.received.remove(&arrival);
            }
        }
        self.hand_over(me, fresh, issued);
    }

    /// Gives fresh deliveries to this process's engine, or wakes their owners.
    fn hand_over(&mut self, me: NodeRef, fresh: Vec<PendingDelivery>, issued: Duration) {
        let Some(process) = self.process(me) else { return };
        let issued_at = match self.bug {
            Some(Bug::HandOverAsIfNew) => process.moment(self.now).elapsed,
            Some(_) | None => issued.saturating_sub(process.started),
        };
        let (own, others): (Vec<_>, Vec<_>) =
            fresh.into_iter().partition(|delivery| process.owned.contains(&delivery.partition));
        let partitions: BTreeSet<_> = others.iter().map(|it| it.partition).collect();
        self.notify(me, partitions);
        if own.is_empty() {
            return;
        }
        if self.chance.permille(self.plan.faults.lost_hand_overs) {
            self.counters.count(Path::HandOverLost);
            return;
        }
        let event = Event::HandedOver { issued_at, deliveries: own };
        if self.chance.permille(self.plan.faults.late_hand_overs) {
            self.counters.count(Path::HandOverLate);
            let wait = self.chance.millis(1, 3_000);
            self.reach_later(me, wait, Input::Event(Box::new(event)));
            return;
        }
        self.hands_over(me, event);
    }

    fn hands_over(&mut self, me: NodeRef, event: Event) {
        self.feed(me, event);
    }

    /// Wakes whoever owns partitions that have new work; that may get lost.
    pub(crate) fn notify(
        &mut self,
        me: NodeRef,
        partitions: BTreeSet<domain::partition::Partition>,
    ) {
        if partitions.is_empty() {
            return;
        }
        let processes = self.slots.iter().filter_map(|slot| slot.process.as_ref());
        let owners = processes.filter(|it| it.me != me).map(|process| {
            let theirs = partitions.iter().filter(|it| process.owned.contains(it));
            (process.me, theirs.copied().collect::<Vec<_>>())
        });
        let owners: Vec<_> = owners.filter(|(_, theirs)| !theirs.is_empty()).collect();
        for (owner, theirs) in owners {
            if self.chance.permille(self.plan.faults.lost_notifications) {
                self.counters.count(Path::NotificationLost);
                continue;
            }
            let wait = self.chance.millis(1, 60);
            self.reach_later(owner, wait, Input::Event(Box::new(Event::Woken(theirs))));
        }
    }

    /// Tells all others that partitions are free; that may get lost.
    pub(crate) fn notify_of_free(&mut self, me: NodeRef) {
        let processes = self.slots.iter().filter_map(|slot| slot.process.as_ref());
        let others: Vec<NodeRef> = processes.map(|it| it.me).filter(|it| *it != me).collect();
        for other in others {
            if self.chance.permille(self.plan.faults.lost_notifications) {
                self.counters.count(Path::FreeUnheard);
                continue;
            }
            let wait = self.chance.millis(1, 60);
            self.reach_later(other, wait, Input::Event(Box::new(Event::Woken(Vec::new()))));
        }
    }
}

/// Returns the pending deliveries of a message that was just accepted.
fn pending(
    accept: &Accept,
    message: store::keys::MessageKey,
    turns: &[i64],
) -> Vec<PendingDelivery> {
    let with_turns = accept.deliveries.iter().zip(turns);
    let made = with_turns.filter_map(|(delivery, turn)| {
        let FirstState::Pending(pending) = delivery.state else { return None };
        let (application, endpoint) = (accept.application, delivery.endpoint);
        Some(PendingDelivery {
            key: DeliveryKey { application, endpoint, message },
            partition: delivery.partition,
            turn: *turn,
            pending,
            recorded: 0,
            ended_before: None,
            last_attempt_at: None,
            message: accept.message.id,
            event_type: accept.message.event_type.clone(),
            received_at: accept.message.received_at,
            policy: accept.message.policy.clone(),
            content_type: None,
            payload: Some(accept.message.payload.clone()),
            expunged: false,
        })
    });
    made.collect()
}
