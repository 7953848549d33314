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
use store::queue::{Accept, Accepted, Call, FirstState, NewMessage, PendingDelivery};

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
    /// Whose it is; with a name, whose it was when it was last answered.
    pub(crate) application: ApplicationKey,
    /// The name that it is sent to, if it is not sent to an id.
    pub(crate) named: Option<String>,
    pub(crate) event_type: EventTypeName,
    pub(crate) channels: BTreeSet<Channel>,
    pub(crate) payload: Bytes,
    pub(crate) key: Option<[u8; 32]>,
    pub(crate) deliver_at: Option<Timestamp>,
    /// Its own policy, as a document and read.
    pub(crate) policy: Option<(String, Arc<Policy>)>,
    pub(crate) acknowledged: Option<MessageId>,
    /// Whether its sender was told that there is no such application.
    pub(crate) returned: bool,
    /// When its sender comes again.
    pub(crate) again: Duration,
}

impl Letter {
    /// Tells whether its sender has an answer to keep to.
    pub(crate) fn is_answered(&self) -> bool {
        self.acknowledged.is_some() || self.returned
    }
}

/// A message that a process has received and not answered.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    request: RequestId,
    /// Whose it is, as far as the process knows.
    application: ApplicationKey,
    message: NewMessage,
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
        let named = self.chance.percent(40).then(|| {
            let number = self.chance.below(u64::from(self.plan.applications));
            format!("customer-{number}")
        });
        self.letters.push(Letter {
            application,
            named,
            event_type,
            channels,
            payload: Bytes::from(payload),
            key: keyed.then_some(key),
            deliver_at: later.then_some(deliver_at),
            policy: own_policy.then(plan::own_policy).flatten(),
            acknowledged: None,
            returned: false,
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
        if letter.is_answered() || letter.again > self.now {
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
        let received = Received { request, application: letter.application, message };
        process.received.insert(arrival, received);
        match letter.named {
            None => self.arrives_for(me, arrival, letter.application),
            Some(name) => match process.names.get(&name).copied() {
                Some(application) => self.arrives_for(me, arrival, application),
                None => self.call(me, Question::Name { name, arrival }),
            },
        }
    }

    /// A process knows for which application a message is.
    fn arrives_for(&mut self, me: NodeRef, arrival: ArrivalId, application: ApplicationKey) {
        let Some(process) = self.process_mut(me) else { return };
        let Some(received) = process.received.get_mut(&arrival) else { return };
        received.application = application;
        match process.rosters.contains_key(&application) {
            true => self.fan_out(me, arrival),
            false => self.read_roster(me, application, arrival),
        }
    }

    /// A name was looked up.
    pub(crate) fn name_read(
        &mut self,
        me: NodeRef,
        name: &str,
        arrival: ArrivalId,
        found: Option<ApplicationKey>,
    ) {
        let Some(application) = found else { return self.give_back(me, arrival) };
        if let Some(process) = self.process_mut(me) {
            process.names.insert(name.to_owned(), application);
        }
        self.arrives_for(me, arrival, application);
    }

    /// A process answers 404: there is no such application.
    fn give_back(&mut self, me: NodeRef, arrival: ArrivalId) {
        let received = self.process_mut(me).and_then(|process| process.received.remove(&arrival));
        let place = received.and_then(|received| usize::try_from(received.request.0).ok());
        let letter = place.and_then(|place| self.letters.get_mut(place));
        if let Some(letter) = letter {
            letter.returned = true;
        }
    }

    /// A process answers 503: the store did not answer.
    pub(crate) fn refuse_arrival(&mut self, me: NodeRef, arrival: ArrivalId) {
        let received = self.process(me).and_then(|process| process.received.get(&arrival));
        if let Some(request) = received.map(|received| received.request) {
            self.refuse(request);
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
        (reply, issued): (Option<Reply>, Duration),
    ) {
        let answer = match reply {
            Some(Reply::Roster(roster)) => Ok(roster),
            _ => Err(engine::Unanswered),
        };
        match reader {
            Reader::Engine => self.feed(me, Event::Roster { application, answer }),
            Reader::Api(arrival) => {
                let roster = match answer {
                    Ok(Some(roster)) => roster,
                    Ok(None) => return self.leads_nowhere(me, arrival),
                    Err(_) => return self.refuse_arrival(me, arrival),
                };
                if let Some(process) = self.process_mut(me) {
                    process.rosters.insert(application, Arc::clone(&roster));
                }
                // The API and the engine of a process share what they read.
                if self.chance.percent(50) {
                    let started = self.process(me).map_or(self.now, |process| process.started);
                    let began = issued.saturating_sub(started);
                    let event = Event::RosterSeen { roster, began };
                    if self.chance.permille(self.plan.faults.late_hand_overs) {
                        let wait = self.chance.millis(1, 3_000);
                        self.reach_later(me, wait, Input::Event(Box::new(event)));
                    } else {
                        self.feed(me, event);
                    }
                }
                self.fan_out(me, arrival);
            }
        }
    }

    fn fan_out(&mut self, me: NodeRef, arrival: ArrivalId) {
        let Some(process) = self.process(me) else { return };
        let Some(received) = process.received.get(&arrival).cloned() else { return };
        let Received { request, application, message } = received;
        let Some(letter) = self.letter(request).cloned() else { return };
        let Some(roster) = process.rosters.get(&application) else { return };
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
            application,
            named: letter.named.as_deref().map(Arc::from),
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
    pub(crate) fn acknowledge(
        &mut self,
        request: RequestId,
        application: ApplicationKey,
        message: MessageId,
    ) {
        let letter = usize::try_from(request.0).ok().and_then(|it| self.letters.get_mut(it));
        let Some(letter) = letter else { return };
        if letter.application != application {
            // The name moved in between: what its former application has got is another message.
            (letter.application, letter.acknowledged) = (application, None);
        }
        let before = letter.clone();
        letter.acknowledged = Some(message);
        self.watch.acknowledged(&before, message, &self.state);
    }

    /// A message was for an application that is not there, or no longer bears the name: with a name, it
    /// is looked up once more.
    fn leads_nowhere(&mut self, me: NodeRef, arrival: ArrivalId) {
        let received = self.process(me).and_then(|process| process.received.get(&arrival));
        let Some(request) = received.map(|received| received.request) else { return };
        let name = self.letter(request).and_then(|letter| letter.named.clone());
        let Some(name) = name else { return self.give_back(me, arrival) };
        if let Some(process) = self.process_mut(me) {
            process.names.remove(&name);
        }
        self.call(me, Question::Name { name, arrival });
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
                    self.acknowledge(request, accept.application, accept.message.id);
                    fresh.extend(pending(&accept, message, &turns));
                }
                Accepted::Repeated(first) | Accepted::EventIdTaken(first) => {
                    self.acknowledge(request, accept.application, first);
                }
                Accepted::Stale(_) => {
                    self.read_roster(me, accept.application, arrival);
                    continue;
                }
                Accepted::ApplicationMissing | Accepted::NameMoved => {
                    self.leads_nowhere(me, arrival);
                    continue;
                }
                Accepted::Refused(_) => {}
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
            self.reach_later(owner, wait, Input::Event(Box::new(Event::Woken(Call::Work(theirs)))));
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
            self.reach_later(other, wait, Input::Event(Box::new(Event::Woken(Call::Free))));
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
