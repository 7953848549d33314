//! The machine itself: everything one node keeps in mind, and what it does with each event.

use crate::effect::Effect;
use crate::event::Event;
use crate::leases::Leases;
use crate::moment::Moment;
use crate::settings::Settings;

/// One node's core.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    leases: Leases,
}

impl Engine {
    /// Makes an engine that owns nothing yet. It begins with its first event.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, leases: Leases::default() }
    }

    /// Takes in one event and adds what is to be done about it.
    pub fn step(&mut self, now: Moment, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Renewed { asked_at, answer } => {
                self.leases.renewal_ended();
                if let Ok(renewal) = answer {
                    self.leases.renewed(asked_at, &renewal);
                    if let Some(most) = self.leases.wanted(self.settings.partitions) {
                        effects.push(Effect::Take { most });
                    }
                }
            }
            Event::Taken(Ok(leases)) => {
                for lease in leases {
                    self.leases.hold(lease, now.elapsed);
                }
            }
            Event::TimePassed
            | Event::Policies(_)
            | Event::Taken(Err(_))
            | Event::Released(_)
            | Event::Walked(_)
            | Event::Loaded { .. }
            | Event::Roster { .. }
            | Event::HandedOver { .. }
            | Event::Ended { .. }
            | Event::Settled { .. }
            | Event::Upkept { .. }
            | Event::Disabled { .. }
            | Event::Requests(_)
            | Event::Woken(_)
            | Event::Stop
            | Event::StopNow => {}
        }
        if self.leases.renewal_is_due(now.elapsed, self.settings.renew_every) {
            effects.push(Effect::Renew);
        }
        effects.extend(self.leases.next_renewal().map(Effect::WakeAt));
    }
}
