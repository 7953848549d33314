//! Whatever strikes: crashes, freezes, cut lines, outages, slowness, wrong clocks, planned stops.

use std::time::Duration;

use crate::agenda::{Happening, Input};
use crate::counters::Path;
use crate::node::NodeRef;
use crate::people::Write;
use crate::plan::Faults;
use crate::watch::TRUSTED;
use crate::wires::Mood;
use crate::world::World;

/// A fault that ends some time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Frozen(NodeRef),
    Cut(NodeRef),
    Outage,
    Slow,
}

/// A kind of fault.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Crash,
    Freeze,
    Cut,
    Outage,
    Slow,
    Jump,
    Stop,
}

impl World {
    /// Something strikes, and the next thing is planned.
    pub(crate) fn fault_strikes(&mut self) {
        let wait = self.chance.millis(200, 9_000);
        self.agenda.plan(self.now + wait, Happening::FaultStrikes);
        let Some(kind) = self.draw_kind() else { return };
        let running = self.slots.iter().filter_map(|slot| slot.process.as_ref());
        let running: Vec<NodeRef> = running.map(|process| process.me).collect();
        let Some(me) = self.chance.pick(&running).copied() else { return };
        self.trace.say(self.now, || format!("{kind:?} strikes {me:?}"));
        match kind {
            Kind::Crash => self.crash(me),
            Kind::Freeze => self.freeze(me),
            Kind::Cut => {
                if let Some(process) = self.process_mut(me) {
                    process.cuts += 1;
                }
                self.ends_after(100, 20_000, Fault::Cut(me));
            }
            Kind::Outage => {
                self.weather.down += 1;
                self.ends_after(100, 12_000, Fault::Outage);
            }
            Kind::Slow => {
                self.weather.slow += 1;
                self.ends_after(500, 15_000, Fault::Slow);
            }
            Kind::Jump => self.jump(me),
            Kind::Stop => self.stop(me),
        }
    }

    fn draw_kind(&mut self) -> Option<Kind> {
        let faults = self.plan.faults;
        let weighted = [
            (faults.crash, Kind::Crash),
            (faults.freeze, Kind::Freeze),
            (faults.cut, Kind::Cut),
            (faults.outage, Kind::Outage),
            (faults.slow, Kind::Slow),
            (faults.jump, Kind::Jump),
            (faults.stop, Kind::Stop),
        ];
        let mut draw = self.chance.below(faults.weights().into());
        for (weight, kind) in weighted {
            if draw < u64::from(weight) {
                return Some(kind);
            }
            draw -= u64::from(weight);
        }
        None
    }

    fn ends_after(&mut self, low: u64, high: u64, fault: Fault) {
        let wait = self.chance.millis(low, high);
        self.agenda.plan(self.now + wait, Happening::FaultEnds(fault));
    }

    fn crash(&mut self, me: NodeRef) {
        self.counters.count(Path::Crashed);
        self.end_process(me.slot);
        let wait = self.chance.millis(50, 15_000);
        self.agenda.plan(self.now + wait, Happening::Starts(me.slot));
    }

    fn freeze(&mut self, me: NodeRef) {
        let Some(process) = self.process_mut(me) else { return };
        if process.frozen {
            return;
        }
        process.frozen = true;
        self.ends_after(20, 22_000, Fault::Frozen(me));
    }

    fn jump(&mut self, me: NodeRef) {
        if self.plan.fleet == 1 {
            return;
        }
        self.counters.count(Path::ClockJumped);
        let most = if self.chance.percent(80) { 60_000 } else { 3_000_000 };
        let by = i64::try_from(self.chance.between(0, 2 * most)).unwrap_or(0);
        let by = by - i64::try_from(most).unwrap_or(0);
        if let Some(process) = self.process_mut(me) {
            process.offset += by;
        }
    }

    fn stop(&mut self, me: NodeRef) {
        let Some(process) = self.process_mut(me) else { return };
        if process.stopping {
            return;
        }
        process.stopping = true;
        let grace = self.chance.millis(100, 6_000);
        self.reach(me, Input::Stop);
        self.reach_later(me, grace, Input::StopNow);
    }

    /// An engine says that it has stopped.
    pub(crate) fn stopped(&mut self, me: NodeRef) {
        self.counters.count(Path::Stopped);
        self.watch.stopped(me);
        self.end_process(me.slot);
        let wait = self.chance.millis(50, 8_000);
        self.agenda.plan(self.now + wait, Happening::Starts(me.slot));
    }

    /// A fault is over.
    pub(crate) fn fault_ends(&mut self, fault: Fault) {
        self.trace.say(self.now, || format!("{fault:?} ends"));
        match fault {
            Fault::Frozen(me) => self.thaw(me),
            Fault::Cut(me) => {
                if let Some(process) = self.process_mut(me) {
                    process.cuts = process.cuts.saturating_sub(1);
                }
            }
            Fault::Outage => self.weather.down = self.weather.down.saturating_sub(1),
            Fault::Slow => self.weather.slow = self.weather.slow.saturating_sub(1),
        }
    }

    fn thaw(&mut self, me: NodeRef) {
        let now = self.now;
        let Some(process) = self.process_mut(me) else { return };
        if !process.frozen {
            return;
        }
        process.frozen = false;
        let mut inbox = std::mem::take(&mut process.inbox);
        let wires: Vec<_> = process.attempts.values().copied().collect();
        if self.watch.since_renewal(me, now) >= TRUSTED {
            self.counters.count(Path::FrozenPastLease);
            self.watch.excuses(&wires);
        }
        // What waited comes in any order.
        while let Some(place) = self.chance.place(inbox.len()) {
            let input = inbox.swap_remove(place);
            self.reach(me, input);
        }
    }

    /// Ends all faults: from here on, everything has to end.
    pub(crate) fn calm_down(&mut self) {
        self.trace.say(self.now, || "all faults are over".to_owned());
        self.plan.faults = Faults::over();
        self.weather.down = 0;
        self.weather.slow = 0;
        let running = self.slots.iter().filter_map(|slot| slot.process.as_ref());
        let running: Vec<NodeRef> = running.map(|process| process.me).collect();
        for me in running {
            if let Some(process) = self.process_mut(me) {
                process.cuts = 0;
            }
            self.thaw(me);
        }
        for slot in 0..self.slots.len() {
            let wait = Duration::from_millis(50);
            self.agenda.plan(self.now + wait, Happening::Starts(slot));
        }
        for receiver in self.wires.receivers.values_mut() {
            receiver.mood = Mood::Fine;
        }
        self.resume_all();
    }

    /// Nobody stays paused: a person's last act may take effect late.
    pub(crate) fn resume_all(&mut self) {
        for endpoint in self.watch.paused_endpoints() {
            self.write(&Write::Resume(endpoint));
        }
    }
}
