//! What memory knows of one endpoint's pending deliveries: bounded, whatever the backlog.
//!
//! Below the *horizon* every pending row is known; at or above it the store may hold more. A known
//! delivery waits in the window or is out: in flight, settling or being buried. It stays known
//! until the store has answered, and while a load runs even beyond that, because the load may have
//! read it before. So nothing is sent twice, and nothing that was left out is forgotten. A delivery
//! may be replayed before the store's answer to its last settle has come: then it is out and, anew,
//! in the store.
//!
//! A row whose turn is not its due time belongs to a FIFO endpoint. Of these only the head matters,
//! and a hand-over is never trusted with the order: another one may have been lost before it.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::time::Timestamp;
use store::keys::MessageKey;
use store::queue::turn::{self, SCHEDULED};
use store::queue::{Doomed, Loaded, PendingDelivery};

use crate::endpoints::horizon::{Horizon, is_fifo, least, unseen};
use crate::endpoints::sharing::Share;
use crate::planted::{self, Bug};
use crate::protocol::event::Number;
use crate::protocol::moment::Moment;

/// Where a known delivery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Waiting,
    Out,
    /// Done with, but a load that runs may have read it before.
    Gone,
}

#[derive(Debug)]
struct Known {
    turn: i64,
    bytes: u32,
    /// The attempts recorded when memory got it.
    recorded: u32,
    /// When it had ended before it was replayed.
    ended_before: Option<Timestamp>,
    place: Place,
    /// Whether the store was seen to hold it anew while it was out.
    again: bool,
    /// Whether it was cancelled while it was out: then it does not wait again.
    cancelled: bool,
    /// Its share in a payload that it has in common with others.
    share: Option<Share>,
}

impl Known {
    /// Describes a row that is in memory without any payload.
    fn of(row: &PendingDelivery, place: Place) -> Self {
        let (turn, recorded, ended_before) = (row.turn, row.recorded, row.ended_before);
        Self { turn, recorded, ended_before, ..Self::bare(place) }
    }

    /// Describes a delivery of which nothing is known but where it is.
    fn bare(place: Place) -> Self {
        let (turn, bytes, recorded, ended_before) = (i64::MAX, 0, 0, None);
        let (again, cancelled, share) = (false, false, None);
        Self { turn, bytes, recorded, ended_before, place, again, cancelled, share }
    }

    /// Tells whether a row of the store is what became of this one since memory got it.
    fn became(&self, row: &PendingDelivery) -> bool {
        row.turn != self.turn && row.recorded >= self.recorded
    }
}

#[derive(Debug)]
struct Loading {
    number: Number,
    /// The lowest turn that it reads.
    from: i64,
    /// What was left out since the load was issued; its answer cannot make up for that.
    lowered: Option<Horizon>,
    gone: Vec<MessageKey>,
}

/// What the last load brought. With it a hand-over from before its answer can be told apart: either
/// the load brought that row, or it is new.
#[derive(Debug)]
struct Came {
    /// When the load before it was answered.
    before: Duration,
    rows: Vec<MessageKey>,
}

/// What a window may hold when something is to enter it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// The most rows that wait.
    pub(crate) rows: usize,
    /// The payload bytes that are left.
    pub(crate) bytes: u64,
    /// Those that are left for a loaded row while nothing else waits, if they are more.
    pub(crate) first: u64,
    /// What is due later stays in the store.
    pub(crate) until: Timestamp,
}

/// How much of what a load will bring is known already, at the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Familiar {
    pub(crate) rows: u32,
    pub(crate) bytes: u64,
}

/// What came of a load.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    /// How many rows are new.
    pub(crate) rows: usize,
    /// Rows without anything to send: they are out, and must be cancelled.
    pub(crate) gone: Vec<MessageKey>,
    /// Whether rows that are due stayed in the store although nothing came.
    pub(crate) stuck: bool,
}

/// The loaded deliveries of one endpoint.
#[derive(Debug)]
pub(crate) struct Window {
    rows: BTreeMap<(i64, MessageKey), Box<PendingDelivery>>,
    known: BTreeMap<MessageKey, Known>,
    horizon: Option<Horizon>,
    loading: Option<Box<Loading>>,
    /// When the last load was answered. A hand-over that was issued before may be settled already.
    answered: Duration,
    came: Option<Box<Came>>,
    /// Payload bytes of everything that is known.
    bytes: u64,
}

impl Window {
    /// Makes an empty window; without a horizon there is nothing in the store.
    pub(crate) fn new(horizon: Option<Horizon>, answered: Duration) -> Self {
        let (rows, known) = (BTreeMap::new(), BTreeMap::new());
        Self { rows, known, horizon, loading: None, answered, came: None, bytes: 0 }
    }

    pub(crate) fn horizon(&self) -> Option<Horizon> {
        self.horizon
    }

    pub(crate) fn answered(&self) -> Duration {
        self.answered
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns how many rows wait.
    pub(crate) fn waiting(&self) -> usize {
        self.rows.len()
    }

    /// Returns the turn of the last row that waits.
    pub(crate) fn last_turn(&self) -> Option<i64> {
        self.rows.last_key_value().map(|((turn, _), _)| *turn)
    }

    /// Returns how many rows are known.
    pub(crate) fn known(&self) -> usize {
        self.known.len()
    }

    /// Returns the turn from which on the store may hold rows that are not known. Of a sequence the
    /// head must be seen, so that nothing is trusted that might have come before it.
    pub(crate) fn unread_from(&self) -> i64 {
        let by_due = |horizon: &Horizon| horizon.turn == horizon.at.as_micros();
        self.horizon.filter(by_due).map_or(i64::MIN, |horizon| horizon.turn)
    }

    /// Returns how much of what the store holds from a turn on may be known. Where in the store
    /// something is that is out, its settle decides.
    pub(crate) fn known_from(&self, from: i64) -> Familiar {
        let familiar = |known: &&Known| known.place != Place::Waiting || known.turn >= from;
        let add = |sum: Familiar, known: &Known| Familiar {
            rows: sum.rows.saturating_add(1),
            bytes: sum.bytes.saturating_add(u64::from(known.bytes)),
        };
        self.known.values().filter(familiar).fold(Familiar::default(), add)
    }

    pub(crate) fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// Tells whether neither memory nor the store holds anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.known.is_empty() && self.horizon.is_none() && self.loading.is_none()
    }

    /// Returns the delivery whose turn is next, if memory can tell.
    pub(crate) fn head(&self) -> Option<&PendingDelivery> {
        let (_, row) = self.rows.first_key_value()?;
        let hidden = self.horizon.is_some_and(|horizon| row.turn >= horizon.turn);
        (!(is_fifo(row) && hidden)).then_some(&**row)
    }

    /// Takes the head out.
    pub(crate) fn take_head(&mut self) -> Option<Box<PendingDelivery>> {
        self.head()?;
        let (_, row) = self.rows.pop_first()?;
        self.place(row.key.message, Place::Out);
        Some(row)
    }

    /// Takes out up to so many waiting rows that are wanted.
    pub(crate) fn take_where(
        &mut self,
        most: usize,
        wanted: impl Fn(&PendingDelivery) -> bool,
    ) -> Vec<MessageKey> {
        let keys: Vec<(i64, MessageKey)> =
            self.rows.iter().filter(|(_, row)| wanted(row)).map(|(key, _)| *key).collect();
        let taken: Vec<_> = keys.into_iter().take(most).collect();
        for key in &taken {
            self.rows.remove(key);
            self.place(key.1, Place::Out);
        }
        taken.into_iter().map(|(_, message)| message).collect()
    }

    /// Takes a delivery out if it waits; tells whether it is out now.
    pub(crate) fn withdraw(&mut self, message: MessageKey) -> bool {
        let known = self.known.get_mut(&message).filter(|known| known.place != Place::Gone);
        let Some(known) = known else { return false };
        known.place = Place::Out;
        self.rows.remove(&(known.turn, message));
        true
    }

    /// Lets a delivery in that this node has just accepted, or leaves it to a load.
    pub(crate) fn offer(
        &mut self,
        (row, share): (PendingDelivery, Option<Share>),
        issued_at: Duration,
        room: Room,
    ) {
        if self.known.contains_key(&row.key.message) {
            return;
        }
        let late = match &self.came {
            _ if issued_at > self.answered => false,
            Some(came) if issued_at > came.before => {
                if came.rows.binary_search(&row.key.message).is_ok() {
                    return;
                }
                false
            }
            Some(_) | None => true,
        };
        let late = late && !planted::has(Bug::TrustLateHandOver);
        let unnumbered = turn::due_if_scheduled(row.turn).is_some();
        let trusted = !is_fifo(&row) || (unnumbered && planted::has(Bug::SendUnnumbered));
        if late || !trusted || !self.fits(&row, room) {
            self.lower(Horizon::of(&row));
            return;
        }
        self.insert(row, share);
    }

    /// Puts back a delivery that was out, unchanged.
    pub(crate) fn put_back(&mut self, row: Box<PendingDelivery>) {
        let message = row.key.message;
        let known = self.known.get(&message).filter(|known| known.place == Place::Out);
        let Some(known) = known else { return };
        if known.cancelled {
            return self.leave_to_the_store(message);
        }
        self.place(message, Place::Waiting);
        self.rows.insert((row.turn, message), row);
    }

    /// Forgets a delivery that was cancelled while it was out: if it was replayed since, the store has
    /// it.
    fn leave_to_the_store(&mut self, message: MessageKey) {
        self.settled(message);
        self.lower(Horizon::unknown(Timestamp::EPOCH));
    }

    /// Lets a delivery wait again whose attempt was settled, or leaves it to a load.
    pub(crate) fn wait_again(&mut self, row: Box<PendingDelivery>, room: Room) {
        let message = row.key.message;
        let known = self.known.get(&message).filter(|known| known.place == Place::Out);
        let Some(known) = known else { return };
        if known.cancelled && !planted::has(Bug::SendCancelledAgain) {
            return self.leave_to_the_store(message);
        }
        // It was in memory all the time, so there is room for it.
        if !self.fits(&row, Room { bytes: u64::MAX, rows: usize::MAX, ..room }) {
            self.lower(Horizon::of(&row));
            self.settled(message);
            if is_fifo(&row) {
                self.unload();
            }
            return;
        }
        if let Some(known) = self.known.get_mut(&message) {
            (known.turn, known.recorded) = (row.turn, row.recorded);
            (known.place, known.again) = (Place::Waiting, false);
        }
        self.rows.insert((row.turn, message), row);
    }

    /// Forgets a delivery that was out, once the store has answered.
    pub(crate) fn settled(&mut self, message: MessageKey) {
        let Some(known) = self.known.get_mut(&message) else { return };
        self.bytes = self.bytes.saturating_sub(u64::from(known.bytes));
        (known.bytes, known.share) = (0, None);
        let (turn, again) = (known.turn, std::mem::take(&mut known.again));
        match &mut self.loading {
            Some(loading) if !planted::has(Bug::ForgetKnownDuringLoad) => {
                known.place = Place::Gone;
                loading.gone.push(message);
            }
            Some(_) | None => {
                self.known.remove(&message);
            }
        }
        self.rows.remove(&(turn, message));
        if again {
            self.lower(Horizon::unknown(Timestamp::EPOCH));
        }
    }

    /// Forgets a waiting delivery that was cancelled. A load that runs may have read it before. One
    /// that is out will not wait again; tells whether it is.
    pub(crate) fn cancel(&mut self, message: MessageKey) -> bool {
        match (self.known.get(&message).map(|known| known.place), &mut self.loading) {
            // It may have been replayed after this cancel, whatever memory says of it: only the store
            // knows.
            (Some(Place::Waiting), _) => self.leave_to_the_store(message),
            (None, Some(loading)) => {
                self.known.insert(message, Known::bare(Place::Gone));
                loading.gone.push(message);
            }
            (Some(Place::Out), _) => self.mark_cancelled(message, true),
            (Some(Place::Gone), _) | (None, None) => {}
        }
        self.is_out(message)
    }

    /// Says whether a delivery that is out was cancelled meanwhile.
    pub(crate) fn mark_cancelled(&mut self, message: MessageKey, cancelled: bool) {
        if let Some(known) = self.known.get_mut(&message) {
            known.cancelled = cancelled;
        }
    }

    /// Makes a waiting delivery due; tells whether it is known.
    pub(crate) fn hurry(&mut self, message: MessageKey, at: Timestamp) -> bool {
        let known = self.known.get_mut(&message).filter(|known| known.place != Place::Gone);
        let Some(known) = known else { return false };
        if known.place == Place::Waiting
            && let Some(mut row) = self.rows.remove(&(known.turn, message))
        {
            let fifo = is_fifo(&row);
            row.pending.due = row.pending.due.min(at);
            if !fifo {
                row.turn = row.pending.due.as_micros();
            }
            known.turn = row.turn;
            self.rows.insert((row.turn, message), row);
        }
        true
    }

    /// Tells whether a delivery is in flight, settling or being buried.
    pub(crate) fn is_out(&self, message: MessageKey) -> bool {
        self.known.get(&message).is_some_and(|known| known.place == Place::Out)
    }

    /// Returns what memory got of deliveries that are known, for a step that buries them.
    pub(crate) fn doomed(&self, messages: &[MessageKey]) -> Vec<Doomed> {
        let doomed = |message: &MessageKey| {
            let Known { recorded, ended_before, .. } = *self.known.get(message)?;
            Some(Doomed { message: *message, recorded, ended_before })
        };
        messages.iter().filter_map(doomed).collect()
    }

    /// Says that the store holds a row from here on.
    pub(crate) fn lower(&mut self, to: Horizon) {
        let lower = |from: Option<Horizon>| Some(from.map_or(to, |from| from.lowered(to)));
        self.horizon = lower(self.horizon);
        if let Some(loading) = &mut self.loading {
            loading.lowered = lower(loading.lowered);
        }
    }

    /// Says that the store may hold more behind its first row, which is known and due then.
    pub(crate) fn look_behind(&mut self, due: Timestamp) {
        let first = self.rows.first_key_value();
        let by_due = first.is_some_and(|(_, row)| !is_fifo(row))
            || self.horizon.is_some_and(|horizon| horizon.turn == horizon.at.as_micros());
        let unknown = Horizon::unknown(due);
        self.lower(if by_due { Horizon { turn: due.as_micros(), ..unknown } } else { unknown });
    }

    /// Tells whether what is known explains that the first row in the store is due then. What is out
    /// and would come before it is settled there, so it explains nothing but itself; and a load that
    /// runs explains what it reads.
    pub(crate) fn explains(&self, due: Timestamp) -> bool {
        let turn = due.as_micros();
        let explains = |known: &Known| match known.place {
            Place::Waiting => known.turn <= turn,
            Place::Out | Place::Gone => known.turn == turn,
        };
        self.horizon.is_some_and(|horizon| horizon.at <= due)
            || self.loading.as_ref().is_some_and(|loading| loading.from <= turn)
            || self.known.values().any(explains)
    }

    /// Forgets what waits: the store still has it. A load that runs may have read it before its
    /// last attempt was settled, so what that one brings of it does not count.
    pub(crate) fn unload(&mut self) {
        let Some((_, first)) = self.rows.first_key_value() else { return };
        self.lower(Horizon::of(first));
        for ((_, message), _) in std::mem::take(&mut self.rows) {
            self.settled(message);
        }
    }

    /// Begins a load of what has this turn or a later one.
    pub(crate) fn begin_load(&mut self, number: Number, from: i64) {
        self.loading = Some(Box::new(Loading { number, from, lowered: None, gone: Vec::new() }));
    }

    /// Tells whether this load runs.
    pub(crate) fn awaits(&self, number: Number) -> bool {
        self.loading.as_ref().is_some_and(|loading| loading.number == number)
    }

    /// Ends a load that was not answered.
    pub(crate) fn load_failed(&mut self) {
        for message in self.loading.take().map(|loading| loading.gone).unwrap_or_default() {
            self.known.remove(&message);
        }
    }

    /// Stops telling late hand-overs apart, to save memory.
    pub(crate) fn forget_what_came(&mut self) {
        self.came = None;
    }

    /// Takes in what a load returned.
    pub(crate) fn loaded(&mut self, answer: Loaded, now: Moment, room: Room) -> Entered {
        let mut horizon = unseen(&answer);
        let (mut room, mut came, mut gone) = (room, Vec::new(), Vec::new());
        self.horizon = None;
        for row in answer.deliveries {
            if let Some(known) = self.known.get_mut(&row.key.message) {
                match known.place {
                    Place::Waiting => self.refresh(&row),
                    Place::Out => known.again |= known.became(&row),
                    Place::Gone if known.became(&row) => {
                        horizon = Some(least(horizon, Horizon::of(&row)));
                    }
                    Place::Gone => {}
                }
                continue;
            }
            if row.expunged {
                self.known.insert(row.key.message, Known::of(&row, Place::Out));
                if !planted::has(Bug::ForgetExpunged) {
                    gone.push(row.key.message);
                }
                continue;
            }
            let first = came.is_empty() && self.rows.is_empty() && row.payload.is_some();
            let bytes = if first { room.bytes.max(room.first) } else { room.bytes };
            let room_now = Room { bytes, ..room };
            if !self.fits(&row, room_now) {
                horizon = Some(least(horizon, Horizon::of(&row)));
                break;
            }
            room.bytes = room.bytes.saturating_sub(length(&row).into());
            came.push(row.key.message);
            self.insert(row, None);
        }
        let rows = came.len();
        let due = horizon.is_some_and(|horizon| horizon.at <= now.rows);
        let stuck = due && rows == 0 && gone.is_empty();
        came.extend(&gone);
        self.end_load(horizon, now.elapsed, came);
        Entered { rows, gone, stuck }
    }

    /// Takes in what a load returned that looked for deliveries to bury: those that are wanted are
    /// out from now on and returned, nothing else enters. One that looked at scheduled ones says
    /// nothing about those that have their turn.
    pub(crate) fn checked(
        &mut self,
        answer: &Loaded,
        now: Duration,
        wanted: impl Fn(&PendingDelivery) -> bool,
        most: usize,
    ) -> Vec<MessageKey> {
        let scheduled = self.loading.as_ref().is_some_and(|loading| loading.from >= SCHEDULED);
        let mut horizon = if scheduled { self.horizon } else { unseen(answer) };
        let mut taken = Vec::new();
        for row in &answer.deliveries {
            let message = row.key.message;
            let known = self.known.get_mut(&message);
            if known.as_ref().is_some_and(|known| known.place != Place::Waiting) {
                continue;
            }
            match known {
                known if wanted(row) && taken.len() < most => {
                    taken.push(message);
                    if let Some(known) = known {
                        self.rows.remove(&(known.turn, message));
                        let (bytes, share) = (known.bytes, known.share.take());
                        *known = Known { bytes, share, ..Known::of(row, Place::Out) };
                    } else {
                        self.known.insert(message, Known::of(row, Place::Out));
                    }
                }
                Some(_) => {}
                None if scheduled => {}
                None => horizon = Some(least(horizon, Horizon::of(row))),
            }
        }
        self.end_load(horizon, now, taken.clone());
        taken
    }

    fn end_load(&mut self, horizon: Option<Horizon>, now: Duration, mut came: Vec<MessageKey>) {
        let lowered = self.loading.as_ref().and_then(|loading| loading.lowered);
        self.load_failed();
        self.horizon = match (horizon, lowered) {
            (Some(horizon), Some(lowered)) => Some(horizon.lowered(lowered)),
            (horizon, lowered) => horizon.or(lowered),
        };
        came.sort_unstable();
        self.came = Some(Box::new(Came { before: self.answered, rows: came }));
        self.answered = now;
    }

    fn fits(&self, row: &PendingDelivery, room: Room) -> bool {
        row.payload.is_some()
            && self.rows.len() < room.rows
            && u64::from(length(row)) <= room.bytes
            && row.pending.due <= room.until
            && self.horizon.is_none_or(|horizon| row.turn < horizon.turn)
    }

    fn insert(&mut self, row: PendingDelivery, share: Option<Share>) {
        let (message, turn, bytes) = (row.key.message, row.turn, length(&row));
        self.bytes += u64::from(bytes);
        self.known.insert(message, Known { bytes, share, ..Known::of(&row, Place::Waiting) });
        self.rows.insert((turn, message), Box::new(row));
    }

    /// A person may have hurried a row that was in memory already.
    fn refresh(&mut self, row: &PendingDelivery) {
        let Some(known) = self.known.get(&row.key.message) else { return };
        let here = self.rows.get(&(known.turn, row.key.message));
        let hurried = here.is_some_and(|here| {
            here.recorded == row.recorded && row.pending.due < here.pending.due
        });
        if hurried {
            self.hurry(row.key.message, row.pending.due);
        }
    }

    fn place(&mut self, message: MessageKey, place: Place) {
        if let Some(known) = self.known.get_mut(&message) {
            known.place = place;
        }
    }
}

fn length(row: &PendingDelivery) -> u32 {
    row.payload.as_ref().map_or(0, |payload| u32::try_from(payload.len()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
