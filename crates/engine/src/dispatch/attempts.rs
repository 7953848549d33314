//! Attempts that are in flight or settling, and the slots they hold.
//!
//! An attempt *hangs* when it has been running for long. It costs memory and a file, and nothing
//! else, so it leaves its slot to others; of those that hang there is a limit of its own.
//!
//! An endpoint that has answered lately is *hopeful*, and may use any slot. One that has not, but did
//! not fail either when it was last tried, is *trusted* with one attempt. Any other is *doubtful*.
//! Doubtful attempts may hold half of the slots, and trusted ones three quarters together with them,
//! but for a few. So a burst for a thousand dead endpoints cannot stop those that answer, and if it
//! is known that they are dead, it does not stop those either that had nothing to do for a while.
//! Whoever is in doubt waits until the burst hangs, and not until it has timed out. Endpoints that
//! answer, but slowly, must not keep the silent ones out either: those may always hold some.
//!
//! While many hang, the silent ones begin little by little, so that they do not end all at once, and
//! the doubtful ones as slowly as they could if each held its slot until it hangs.
//!
//! Nor should an application with a thousand endpoints keep out one with a few, whether they answer
//! or nobody knows yet: the last slots are for applications that hold few of them, who so need not
//! wait until one is free, and may use them for endpoints that are trusted. Likewise the last quarter of
//! what may hang is for applications of which few attempts hang: one whose endpoints all lead to a tarpit,
//! or answer at once until they get many at a time, stops at three quarters.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use domain::breaker::Role;
use domain::partition::Partition;
use domain::policy::Policy;
use store::keys::{ApplicationKey, Lease};
use store::queue::{NextState, PendingDelivery};

use crate::dispatch::trickle::Trickle;
use crate::protocol::announcement::Announcement;
use crate::protocol::event::Number;
use crate::protocol::settings::Settings;
use crate::roster::Member;

/// Where an attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// On the wire.
    InFlight,
    /// Judged; its settle has not been answered.
    Settling(NextState),
}

/// How an attempt in flight is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Its endpoint had answered lately when it began.
    Hopeful,
    /// Its endpoint had not, but did not fail when it was last tried, and this is its only one.
    Trusted,
    /// Its endpoint had not, and this is not the only one or the last one failed.
    Doubtful,
    /// It has been running for long, and its endpoint had answered lately when it began.
    Slow,
    /// It has been running for long, and its endpoint had not.
    Hanging,
}

impl Counted {
    /// Returns how it is counted when it has been running for long.
    const fn aged(self) -> Self {
        match self {
            Self::Hopeful | Self::Slow => Self::Slow,
            Self::Trusted | Self::Doubtful | Self::Hanging => Self::Hanging,
        }
    }
}

/// Endpoints that have not answered lately may always hold this part of the slots. An application that
/// holds less than that holds few.
const ALWAYS: u32 = 16;
/// This part of the slots is kept for applications that hold few.
const KEPT: u32 = 8;
/// This part of what may hang is kept for them.
const KEPT_HANGING: u32 = 4;
/// From so many applications on, those that hold none are forgotten at once.
const FORGOTTEN_FROM: usize = 1_024;

/// An attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) delivery: Box<PendingDelivery>,
    pub(crate) lease: Lease,
    pub(crate) policy: Arc<Policy>,
    /// What it is made with.
    pub(crate) member: Arc<Member>,
    pub(crate) role: Role,
    pub(crate) began: Duration,
    pub(crate) stage: Stage,
    pub(crate) counted: Counted,
    /// What is announced once its settle has been answered.
    pub(crate) news: Vec<Announcement>,
    /// Whether its partition was lost since: what it says changes nothing here any more.
    pub(crate) stray: bool,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    /// What becomes of its delivery.
    pub(crate) next: NextState,
    /// Whether there was anybody at the other end.
    pub(crate) answered: bool,
    /// When that was.
    pub(crate) now: Duration,
}

impl Attempt {
    pub(crate) fn is_in_flight(&self) -> bool {
        self.stage == Stage::InFlight
    }

    fn payload_bytes(&self) -> u64 {
        let bytes = self.delivery.payload.as_ref().map_or(0, bytes::Bytes::len);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// All attempts, by number and so by when they began.
#[derive(Debug)]
pub(crate) struct Attempts {
    all: BTreeMap<Number, Attempt>,
    in_flight: Tally,
    /// What each application holds.
    held: BTreeMap<ApplicationKey, Held>,
    /// Those that may not be old yet, with when they began. The first of them is in flight, as far as
    /// was last noticed.
    young: VecDeque<(Number, Duration)>,
    /// Those that settle, with when they ended. The first of them has not been answered, as far as was
    /// last noticed.
    settling: VecDeque<(Number, Duration)>,
    /// Those of endpoints that had not answered lately.
    silent: Trickle,
}

/// What an application has in flight.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    slots: u32,
    /// Attempts that have left their slot, because they have been running for long.
    hanging: u32,
    /// Payload bytes of all of them. One that goes to many endpoints counts for each.
    bytes: u64,
}

impl Held {
    fn of(&mut self, counted: Counted) -> &mut u32 {
        match counted {
            Counted::Hopeful | Counted::Trusted | Counted::Doubtful => &mut self.slots,
            Counted::Slow | Counted::Hanging => &mut self.hanging,
        }
    }
}

/// How many are in flight.
#[derive(Debug, Default)]
struct Tally {
    hopeful: u32,
    trusted: u32,
    doubtful: u32,
    slow: u32,
    hanging: u32,
}

impl Tally {
    fn of(&mut self, counted: Counted) -> &mut u32 {
        match counted {
            Counted::Hopeful => &mut self.hopeful,
            Counted::Trusted => &mut self.trusted,
            Counted::Doubtful => &mut self.doubtful,
            Counted::Slow => &mut self.slow,
            Counted::Hanging => &mut self.hanging,
        }
    }

    /// Returns how many hold a slot.
    fn young(&self) -> u32 {
        self.hopeful + self.trusted + self.doubtful
    }

    /// Returns how many there are of endpoints that had not answered lately.
    fn silent(&self) -> u32 {
        self.trusted + self.doubtful + self.hanging
    }

    fn all(&self) -> u32 {
        self.young() + self.slow + self.hanging
    }
}

impl Attempts {
    /// Begins with none.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            all: BTreeMap::new(),
            in_flight: Tally::default(),
            held: BTreeMap::new(),
            young: VecDeque::new(),
            settling: VecDeque::new(),
            silent: Trickle::new(settings),
        }
    }

    /// Adds one that begins.
    pub(crate) fn begin(&mut self, number: Number, attempt: Attempt) {
        *self.in_flight.of(attempt.counted) += 1;
        if attempt.counted != Counted::Hopeful {
            self.silent.begin(attempt.counted, attempt.began);
        }
        let held = self.held.entry(attempt.delivery.key.application).or_default();
        *held.of(attempt.counted) += 1;
        held.bytes += attempt.payload_bytes();
        self.young.push_back((number, attempt.began));
        self.all.insert(number, attempt);
    }

    pub(crate) fn get(&self, number: Number) -> Option<&Attempt> {
        self.all.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: Number) -> Option<&mut Attempt> {
        self.all.get_mut(&number)
    }

    /// Frees the slot of one that ended, and keeps it until its settle is answered.
    pub(crate) fn settle(&mut self, number: Number, ended: Ended) {
        let Some(attempt) = self.all.get_mut(&number) else { return };
        let Ended { next, answered, now } = ended;
        if attempt.is_in_flight() {
            *self.in_flight.of(attempt.counted) -= 1;
            if answered && matches!(attempt.counted, Counted::Trusted | Counted::Doubtful) {
                self.silent.answered(attempt.counted);
            }
            give_back(&mut self.held, attempt);
            attempt.stage = Stage::Settling(next);
            self.settling.push_back((number, now));
        }
    }

    /// Removes one, freeing its slot if it still held one.
    pub(crate) fn remove(&mut self, number: Number) -> Option<Attempt> {
        let attempt = self.all.remove(&number)?;
        if attempt.is_in_flight() {
            *self.in_flight.of(attempt.counted) -= 1;
            give_back(&mut self.held, &attempt);
        }
        Some(attempt)
    }

    /// Tells whether nothing is in flight or settling.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns those in flight.
    pub(crate) fn in_flight(&self) -> Vec<Number> {
        let flying = self.all.iter().filter(|(_, attempt)| attempt.is_in_flight());
        flying.map(|(number, _)| *number).collect()
    }

    /// Returns those of some partitions.
    pub(crate) fn of_partitions(&self, partitions: &[Partition]) -> Vec<Number> {
        let theirs = self.all.iter().filter(|(_, one)| partitions.contains(&one.lease.partition));
        theirs.map(|(number, _)| *number).collect()
    }

    /// Tells whether any is under a lease.
    pub(crate) fn are_under(&self, lease: Lease) -> bool {
        self.all.values().any(|one| one.lease == lease)
    }

    /// Returns how many slots are free for anybody.
    pub(crate) fn free(&self, settings: &Settings) -> u32 {
        let (slots, all) = self.unused(settings);
        let slots = slots.saturating_sub(settings.in_flight / KEPT);
        slots.min(all.saturating_sub(settings.hanging / KEPT_HANGING))
    }

    /// Tells whether slots are free only for applications that hold few, if any are.
    pub(crate) fn is_short(&self, settings: &Settings) -> bool {
        self.free(settings) == 0
    }

    /// Tells whether an application holds few slots, and few of its attempts hang.
    pub(crate) fn holds_few(&self, application: ApplicationKey, settings: &Settings) -> bool {
        let Held { slots, hanging, .. } = self.held_by(application);
        slots < few(settings) && hanging < (settings.hanging / ALWAYS).max(1)
    }

    /// Tells whether the payloads of an application in flight are few bytes.
    pub(crate) fn holds_few_bytes(&self, application: ApplicationKey, settings: &Settings) -> bool {
        self.held_by(application).bytes < settings.payload_bytes / u64::from(ALWAYS)
    }

    fn held_by(&self, application: ApplicationKey) -> Held {
        self.held.get(&application).copied().unwrap_or_default()
    }

    /// Returns how many slots are not held, and how many more attempts may be in flight at all.
    fn unused(&self, settings: &Settings) -> (u32, u32) {
        let all = settings.in_flight.saturating_add(settings.hanging);
        let slots = settings.in_flight.saturating_sub(self.in_flight.young());
        (slots, all.saturating_sub(self.in_flight.all()))
    }

    /// Tells whether some endpoint may start, slots and settles considered.
    pub(crate) fn has_room(&self, settings: &Settings) -> bool {
        let in_flight = usize::try_from(self.in_flight.all()).unwrap_or(0);
        let most = usize::try_from(settings.settling).unwrap_or(usize::MAX);
        let (slots, all) = self.unused(settings);
        slots.min(all) > 0 && self.all.len() - in_flight < most
    }

    /// Tells whether a settle has been waiting for so long that nothing should be sent: the store does
    /// not keep up. When it is answered, that is an event, so nobody need be woken.
    pub(crate) fn waits_for_settles(&mut self, now: Duration, patience: Duration) -> bool {
        while let Some((number, ended)) = self.settling.front() {
            if self.all.contains_key(number) {
                return ended.saturating_add(patience) < now;
            }
            self.settling.pop_front();
        }
        false
    }

    /// Tells whether an attempt may begin that is counted so, if there is a slot at all. Those of
    /// endpoints that have not answered lately are limited, young and old; and some slots are left to
    /// the others, but for a few.
    pub(crate) fn has_room_for(&self, counted: Counted, settings: &Settings) -> bool {
        let has_share = match counted {
            Counted::Hopeful | Counted::Slow => return true,
            Counted::Trusted | Counted::Doubtful | Counted::Hanging => {
                self.has_share(counted, settings)
            }
        };
        let leaves_some = self.unused(settings).1 > settings.hanging / KEPT_HANGING
            || self.in_flight.silent() < few(settings);
        has_share
            && leaves_some
            && self.leaves_slots(settings)
            && self.may_hang(most_hanging(settings), settings)
    }

    /// Tells whether those that are counted so have not used up their share of the slots.
    fn has_share(&self, counted: Counted, settings: &Settings) -> bool {
        let Tally { trusted, doubtful, .. } = self.in_flight;
        let half = settings.in_flight.div_ceil(2);
        let most = half + settings.in_flight / 4;
        trusted + doubtful < most
            && match counted {
                Counted::Hopeful | Counted::Slow => true,
                Counted::Trusted => trusted < most.saturating_sub(few(settings)).max(1),
                Counted::Doubtful | Counted::Hanging => doubtful < half,
            }
    }

    /// Tells whether one more that has not answered lately leaves slots to the others: few may always have
    /// one.
    fn leaves_slots(&self, settings: &Settings) -> bool {
        let Tally { trusted, doubtful, .. } = self.in_flight;
        trusted + doubtful < few(settings) || self.unused(settings).0 > settings.in_flight / KEPT
    }

    /// Tells whether an attempt of an application may begin that is counted so, if there is a slot at
    /// all. One that holds few need not wait for the share of a burst that others have to themselves, nor
    /// until fewer attempts of others hang.
    pub(crate) fn has_room_of(
        &self,
        application: ApplicationKey,
        counted: Counted,
        settings: &Settings,
    ) -> bool {
        self.has_room_for(counted, settings)
            || self.has_room_for_few(counted, settings) && self.holds_few(application, settings)
    }

    /// Tells whether one may begin that is counted so, of an application that holds few.
    pub(crate) fn has_room_for_few(&self, counted: Counted, settings: &Settings) -> bool {
        let left_to_hopeful = (settings.in_flight / KEPT).max(1);
        let Tally { trusted, doubtful, .. } = self.in_flight;
        let has_slot = match counted {
            Counted::Hopeful | Counted::Slow => return true,
            Counted::Trusted => {
                trusted + doubtful < settings.in_flight.saturating_sub(left_to_hopeful)
            }
            Counted::Doubtful | Counted::Hanging => {
                self.leaves_slots(settings) && self.has_share(counted, settings)
            }
        };
        has_slot && self.may_hang(settings.hanging, settings)
    }

    /// Tells whether one more may hang: of those that have not answered lately there is a limit, and
    /// as long as there are few of them those that answer slowly do not count.
    fn may_hang(&self, most: u32, settings: &Settings) -> bool {
        let silent = self.in_flight.silent();
        let most_of_all = settings.hanging.saturating_add(settings.in_flight.div_ceil(2));
        let left = silent.saturating_add(self.in_flight.slow) < most_of_all;
        silent < most && (left || silent < few(settings))
    }

    /// Tells whether silent endpoints have to wait a moment: many hang, and others have just begun.
    pub(crate) fn hold_back(&self, counted: Counted, now: Duration, settings: &Settings) -> bool {
        counted != Counted::Hopeful && self.many_hang(settings) && self.silent.is_ahead(now)
    }

    /// Returns when some of them may begin, if they have to wait.
    pub(crate) fn next_silent(&self, now: Duration, settings: &Settings) -> Option<Duration> {
        let waits = self.many_hang(settings) && self.silent.is_ahead(now);
        waits.then(|| self.silent.next(now))
    }

    fn many_hang(&self, settings: &Settings) -> bool {
        self.in_flight.hanging >= few(settings)
    }

    /// Tells whether as many of silent endpoints are in flight as may hang of applications that hold many.
    pub(crate) fn hang_enough(&self, settings: &Settings) -> bool {
        self.in_flight.silent() >= most_hanging(settings)
    }

    /// Notices which attempts have been running for long.
    pub(crate) fn age(&mut self, now: Duration, hanging_after: Duration) {
        while let Some((number, began)) = self.young.front() {
            let attempt = self.all.get_mut(number).filter(|attempt| attempt.is_in_flight());
            if attempt.is_some() && began.saturating_add(hanging_after) > now {
                return;
            }
            self.young.pop_front();
            if let Some(attempt) = attempt {
                let (before, aged) = (attempt.counted, attempt.counted.aged());
                attempt.counted = aged;
                *self.in_flight.of(before) -= 1;
                *self.in_flight.of(aged) += 1;
                if let Some(held) = self.held.get_mut(&attempt.delivery.key.application) {
                    *held.of(before) = held.of(before).saturating_sub(1);
                    *held.of(aged) += 1;
                }
            }
        }
    }

    /// Returns when the next attempt will have been running for long, and leaves its slot.
    pub(crate) fn next_to_hang(&self, hanging_after: Duration) -> Option<Duration> {
        self.young.front().map(|(_, began)| began.saturating_add(hanging_after))
    }
}

/// Returns how many slots are few.
fn few(settings: &Settings) -> u32 {
    (settings.in_flight / ALWAYS).max(1)
}

/// Returns how many attempts for silent endpoints may hang, but for applications that hold few.
const fn most_hanging(settings: &Settings) -> u32 {
    settings.hanging - settings.hanging / KEPT_HANGING
}

/// Gives back what an attempt held that ended.
fn give_back(all: &mut BTreeMap<ApplicationKey, Held>, attempt: &Attempt) {
    let application = attempt.delivery.key.application;
    if let Some(held) = all.get_mut(&application) {
        let count = held.of(attempt.counted);
        *count = count.saturating_sub(1);
        held.bytes = held.bytes.saturating_sub(attempt.payload_bytes());
        // Kept for a while otherwise: most applications come again at once.
        if held.slots + held.hanging == 0 && all.len() > FORGOTTEN_FROM {
            all.remove(&application);
        }
    }
}
