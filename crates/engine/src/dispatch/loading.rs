//! Loading: one question per endpoint at a time, a few over all, and how much each may bring.

use std::time::Duration;

use domain::time::Timestamp;
use store::keys::ApplicationKey;
use store::queue::turn::{self, SCHEDULED};
use store::queue::{Load, Loaded, PendingDelivery};

use crate::dispatch::attempts::Counted;
use crate::endpoints::endpoint::{At, Wanted};
use crate::endpoints::horizon::{Horizon, is_fifo};
use crate::endpoints::window::{Entered, Room};
use crate::engine::{Act, Engine};
use crate::planted::{self, Bug};
use crate::protocol::effect::Effect;
use crate::protocol::event::{Number, Unanswered};
use crate::protocol::moment::Moment;

/// How long after a load that was not answered, or brought nothing, the endpoint rests.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// The payload bytes that one load may bring, as a part of what memory may hold.
const SHARE: u64 = 16;
/// A load asks for at least so many payload bytes, however full memory is.
const LEAST_BYTES: u64 = 64 << 10;

/// By how many quarters endpoints that answer may go beyond what memory may hold, and those that
/// have nothing in it: neither should wait because others have much.
const FOR_LIVELY: u32 = 1;
const FOR_SILENT: u32 = 2;

/// By how many quarters payloads may go beyond what memory may hold, so that each endpoint has at
/// least one to send. There may be thousands of endpoints that hang, each with an attempt in flight,
/// so this has an end too; and endpoints that are likely to answer find room that the others have left.
/// The last quarter is for applications whose attempts in flight hold few bytes.
const fn most_quarters(counted: Counted, of_few: bool) -> u64 {
    match (counted, of_few) {
        (Counted::Doubtful | Counted::Hanging, false) => 1,
        (Counted::Trusted, false) => 2,
        (Counted::Hopeful | Counted::Slow, false) => 3,
        (Counted::Doubtful | Counted::Hanging, true) => 3,
        (Counted::Hopeful | Counted::Slow | Counted::Trusted, true) => 4,
    }
}

/// A load that runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running {
    at: At,
    wanted: Wanted,
    /// How many rows were asked for.
    most: u32,
    /// Whether anything in the store was in doubt, which it still is if this is not answered.
    doubt: bool,
}

impl Engine {
    /// Starts the loads that are wanted, as far as there is room.
    pub(crate) fn load_what_may(&mut self, act: &mut Act<'_>) {
        let most = usize::try_from(self.settings.loads).unwrap_or(usize::MAX);
        while self.loads.len() < most {
            let Some(at) = self.next_to_load(act.now.elapsed) else { return };
            self.load(at, act);
        }
    }

    /// Takes the next one to load. Over the limit nothing is loaded that could not be sent at once. An
    /// application that has nothing to send gets the next turn, whatever the others have.
    fn next_to_load(&mut self, now: Duration) -> Option<At> {
        if !self.is_full() {
            return self.load_queue.next();
        }
        let free = usize::try_from(self.attempts.free(&self.settings)).unwrap_or(usize::MAX);
        let crowded = self.turns.ready().saturating_add(self.loads.len()) >= free;
        let (rows_beyond, bytes_beyond) =
            (self.rows_are_beyond(FOR_SILENT), self.bytes_are_beyond(FOR_SILENT));
        let mut queue = std::mem::take(&mut self.load_queue);
        let next = queue.next_where(|at| {
            let Some(endpoint) = self.endpoints.get(at) else { return true };
            let counted = endpoint.counted(now, self.settings.hanging_after);
            let beyond =
                rows_beyond || bytes_beyond && !self.attempts.holds_few_bytes(at.0, &self.settings);
            let has_turn = !crowded || (!beyond && !self.turns.has_ready(at.0));
            // What is only looked at, to be buried, does not enter.
            endpoint.wanted == Wanted::Check
                || endpoint.wanted == Wanted::Scheduled
                || (has_turn
                    && self.spare_bytes(at.0, counted) > 0
                    && self.attempts.has_room_of(at.0, counted, &self.settings))
        });
        self.load_queue = queue;
        next
    }

    fn load(&mut self, at: At, act: &mut Act<'_>) {
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        let wanted = std::mem::replace(&mut endpoint.wanted, Wanted::Nothing);
        let partition = endpoint.partition;
        if wanted == Wanted::Nothing || endpoint.window.is_loading() || !self.works_for(partition) {
            return;
        }
        let Some(what) = self.measure(at, wanted, act.now) else { return };
        let number = self.number();
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        endpoint.window.begin_load(number, what.from);
        let scheduled = wanted == Wanted::Scheduled;
        let doubt = !scheduled && std::mem::take(&mut endpoint.doubt);
        if scheduled {
            endpoint.scheduled = Timestamp::FAR_FUTURE;
        }
        self.loads.insert(number, Running { at, wanted, most: what.most, doubt });
        act.effects.push(Effect::Load { load: number, what });
    }

    /// Returns what to ask for. The store returns the earliest rows from a turn on, known ones
    /// included, so those are asked for in addition; otherwise a load might bring nothing new.
    fn measure(&mut self, at: At, wanted: Wanted, now: Moment) -> Option<Load> {
        self.clear_the_way(at, wanted, now.rows);
        let over = self.is_full();
        let reserve = u32::try_from(self.reserve(at, now.elapsed)).unwrap_or(u32::MAX);
        let rows = u32::try_from(self.room(now.rows).rows).unwrap_or(u32::MAX);
        let left = self.settings.payload_bytes.saturating_sub(self.held_bytes());
        let has_breaker = self.rosters.get(at.0).and_then(|roster| roster.member(at.1));
        let has_breaker = has_breaker.is_some_and(|member| member.defaults.breaker.is_some());
        let endpoint = self.endpoints.get_mut(&at)?;
        let window = &mut endpoint.window;
        let waiting = u32::try_from(window.waiting()).unwrap_or(u32::MAX);
        // What is to be buried may wait in memory, and what is in doubt may be anywhere.
        let all = wanted != Wanted::Rows || endpoint.doubt;
        let from = match wanted {
            Wanted::Scheduled => SCHEDULED,
            Wanted::Rows | Wanted::Check | Wanted::Nothing if all => i64::MIN,
            Wanted::Rows | Wanted::Check | Wanted::Nothing => window.unread_from(),
        };
        let known = window.known_from(from);
        let more = match wanted {
            Wanted::Check | Wanted::Scheduled | Wanted::Nothing => self.settings.bury_chunk,
            Wanted::Rows if endpoint.wants_probe_only(has_breaker) => 1,
            Wanted::Rows if over => reserve.saturating_sub(waiting).max(1),
            Wanted::Rows => rows.saturating_sub(waiting).min(self.settings.load_rows).max(1),
        };
        let most = known.rows.saturating_add(more << endpoint.unreadable.min(8));
        let most_bytes = match wanted {
            Wanted::Check | Wanted::Scheduled | Wanted::Nothing => 0,
            Wanted::Rows => {
                let bytes = left.min(self.settings.payload_bytes / SHARE).max(LEAST_BYTES);
                let bytes = bytes << endpoint.left_out.min(16);
                let bytes = bytes.min(self.settings.payload_bytes.max(LEAST_BYTES));
                known.bytes.saturating_add(bytes)
            }
        };
        Some(Load { application: at.0, endpoint: at.1, from, most, most_bytes })
    }

    /// Forgets what waits in memory if it may leave no room for what comes before it: the head of a
    /// sequence, or what is due while all that waits has time.
    fn clear_the_way(&mut self, at: At, wanted: Wanted, now: Timestamp) {
        let (rows, over) = (self.room(now).rows, self.is_full());
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        let window = &mut endpoint.window;
        let behind = match window.head() {
            None => true,
            Some(head) if is_fifo(head) || head.pending.due <= now => false,
            Some(_) => {
                let due = window.horizon().is_some_and(|horizon| horizon.at <= now);
                wanted == Wanted::Rows && due && (over || window.waiting() >= rows)
            }
        };
        if behind && window.waiting() > 0 {
            window.unload();
        }
    }

    pub(crate) fn loaded(
        &mut self,
        load: Number,
        answer: Result<Loaded, Unanswered>,
        act: &mut Act<'_>,
    ) {
        let Some(Running { at, wanted, most, doubt }) = self.loads.remove(&load) else { return };
        let room = self.room_for(at, act.now);
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        // The endpoint may have been forgotten and remembered since.
        if !endpoint.window.awaits(load) {
            return;
        }
        match (answer, wanted) {
            (Err(Unanswered), _) => {
                endpoint.window.load_failed();
                endpoint.doubt |= doubt;
                endpoint.expect((wanted == Wanted::Scheduled).then_some(Timestamp::EPOCH));
                endpoint.rest_until = act.now.rows.after(AGAIN_AFTER);
            }
            (Ok(answer), Wanted::Rows | Wanted::Nothing) => {
                let left_out = |row: &PendingDelivery| row.payload.is_none() && !row.expunged;
                let left_out = answer.deliveries.iter().any(left_out);
                // Where fewer came than were asked for, and there are more, some cannot be read.
                let came = u32::try_from(answer.deliveries.len()).unwrap_or(u32::MAX);
                let unreadable = came < most && !answer.complete;
                let hidden = left_out || !answer.complete;
                let Entered { rows, gone, stuck } = endpoint.window.loaded(answer, act.now, room);
                let fruitless = rows == 0 && gone.is_empty();
                count_on(&mut endpoint.fruitless, fruitless && hidden);
                count_on(&mut endpoint.unreadable, fruitless && unreadable);
                count_on(&mut endpoint.left_out, fruitless && left_out);
                endpoint.stuck = stuck;
                self.cancel_gone(at, &gone, act);
            }
            (Ok(answer), Wanted::Check | Wanted::Scheduled) => {
                let unreadable = answer.deliveries.is_empty() && !answer.complete;
                count_on(&mut endpoint.unreadable, unreadable);
                if unreadable {
                    endpoint.rest_until = act.now.rows.after(AGAIN_AFTER);
                }
                self.check(at, &answer, wanted == Wanted::Scheduled, act);
            }
        }
        self.look(at, act);
    }

    /// Tells whether memory holds as much as it may.
    pub(crate) fn is_full(&self) -> bool {
        self.is_beyond(0)
    }

    /// Tells whether memory holds so many quarters more than it may.
    fn is_beyond(&self, quarters: u32) -> bool {
        self.bytes_are_beyond(quarters) || self.rows_are_beyond(quarters)
    }

    fn bytes_are_beyond(&self, quarters: u32) -> bool {
        let most = self.settings.payload_bytes;
        self.held_bytes() >= most.saturating_add(most / 4 * u64::from(quarters))
    }

    fn rows_are_beyond(&self, quarters: u32) -> bool {
        let most = self.settings.rows;
        self.rows >= most.saturating_add(most / 4 * quarters)
    }

    /// Returns the payload bytes in memory.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.payload_bytes.saturating_sub(self.sharing.excess())
    }

    /// Returns how many payload bytes are left for an endpoint that has nothing else to send. Where
    /// nothing is on its way that would make room when it ends, there is always some.
    fn spare_bytes(&self, application: ApplicationKey, counted: Counted) -> u64 {
        if self.attempts.is_empty() {
            return u64::MAX;
        }
        let most = self.settings.payload_bytes;
        let of_few = self.attempts.holds_few_bytes(application, &self.settings);
        let most = most.saturating_add((most / 4).saturating_mul(most_quarters(counted, of_few)));
        most.saturating_sub(self.held_bytes())
    }

    /// Returns what may enter a window now.
    pub(crate) fn room(&self, now: Timestamp) -> Room {
        let settings = &self.settings;
        let held = self.held_bytes();
        let ample = held < settings.payload_bytes / 2 && self.rows < settings.rows / 2;
        let rows = if ample { settings.window } else { settings.window.min(settings.load_rows) };
        let left = settings.payload_bytes.saturating_sub(held);
        // Far beyond the limit, what waits for its time takes room from what could be sent now.
        let crammed = left == 0 && self.is_beyond(FOR_SILENT);
        let kept_within = if crammed { Duration::ZERO } else { settings.kept_within };
        Room {
            rows: usize::try_from(rows).unwrap_or(usize::MAX),
            bytes: if self.rows < settings.rows { left } else { 0 },
            first: 0,
            until: now.after(kept_within),
        }
    }

    /// Returns what may enter one endpoint's window now. Those that hang may fill memory; whoever
    /// answers still gets enough to keep its attempts in flight.
    fn room_for(&self, at: At, now: Moment) -> Room {
        let room = self.room(now.rows);
        let reserve = self.reserve(at, now.elapsed);
        let Some(endpoint) = self.endpoints.get(&at) else { return room };
        let counted = endpoint.counted(now.elapsed, self.settings.hanging_after);
        let spare = self.spare_bytes(at.0, counted);
        // A payload is not cut: one more may come as long as there is any room.
        let room = Room { first: if spare > 0 { u64::MAX } else { 0 }, ..room };
        if reserve == 0 {
            return room;
        }
        let least = LEAST_BYTES.saturating_sub(endpoint.window.bytes()).min(spare);
        let rows = if self.is_full() { room.rows.min(reserve) } else { room.rows };
        Room { rows, bytes: room.bytes.max(least), ..room }
    }

    /// Returns how many rows of an endpoint may wait although memory is full: twice what it may have
    /// in flight if it answers, or as many if too many answer; and otherwise one if it has none.
    pub(crate) fn reserve(&self, at: At, now: Duration) -> usize {
        let Some(endpoint) = self.endpoints.get(&at) else { return 0 };
        if !endpoint.is_lively(now, self.settings.hanging_after) {
            return usize::from(endpoint.window.known() == 0 && !self.is_beyond(FOR_SILENT));
        }
        let member = self.rosters.get(at.0).and_then(|roster| roster.member(at.1));
        let Some(cap) = member.map(|member| member.in_flight()) else { return 0 };
        let most = if self.is_beyond(FOR_LIVELY) {
            endpoint.concurrency.allowed(cap).get()
        } else {
            cap.get().saturating_mul(2)
        };
        let most = most.min(self.settings.window);
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Takes in deliveries that this node accepted.
    pub(crate) fn handed_over(
        &mut self,
        issued_at: Duration,
        deliveries: Vec<PendingDelivery>,
        act: &mut Act<'_>,
    ) {
        let sharing = self.sharing.clone();
        for (delivery, share) in sharing.among(deliveries) {
            let Some(held) = self.leases.get(delivery.partition) else { continue };
            if self.requests.was_cancelled(&delivery.key) {
                continue;
            }
            let surveyed = held.surveyed;
            let at = (delivery.key.application, delivery.key.endpoint);
            if !self.endpoints.contains(&at) {
                // Before the first walk the store may hold more than this node was handed.
                let horizon = (!surveyed).then(|| Horizon::unknown(delivery.pending.due));
                self.remember(at, delivery.partition, horizon, act);
            }
            let room = self.room_for(at, act.now);
            if let Some(endpoint) = self.endpoints.get_mut(&at) {
                match turn::due_if_scheduled(delivery.turn) {
                    Some(due) if !planted::has(Bug::SendUnnumbered) => endpoint.expect(Some(due)),
                    Some(_) | None => endpoint.window.offer((delivery, share), issued_at, room),
                }
            }
            self.look(at, act);
        }
    }
}

/// Counts how often something was so in a row.
fn count_on(count: &mut u8, again: bool) {
    *count = if again { count.saturating_add(1) } else { 0 };
}
