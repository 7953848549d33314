//! The circuit breaker of an endpoint: closed, open, half-open.
//!
//! It counts failed attempts in a row over all deliveries of the endpoint. At the threshold it
//! trips: nothing is sent until the cooldown has passed, then one probe. The probe decides.
//! A policy without a breaker lets everything through, and what it hears closes the one before.
//! The owner of the endpoint's partition keeps it in memory and persists every change, so that all
//! nodes, and a restart, see the same breaker.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::policy::Problem;
use crate::span;
use crate::time::Timestamp;
use crate::verdict::Signal;

/// When a breaker trips, and for how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    threshold: NonZeroU32,
    cooldown: Duration,
    growth: f64,
    longest_cooldown: Duration,
    while_open: WhileOpen,
}

/// What happens to deliveries while the breaker is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhileOpen {
    /// They wait.
    Hold,
    /// They become dead letters, and the owner is told.
    Bury,
}

impl WhileOpen {
    /// Returns the word a preset uses for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Bury => "bury",
        }
    }
}

/// The numbers of a breaker, before they are checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Numbers {
    /// Failed attempts in a row that trip it.
    pub threshold: u32,
    /// The first cooldown.
    pub cooldown: Duration,
    /// By which factor a failed probe lengthens the cooldown.
    pub growth: f64,
    /// The longest cooldown.
    pub longest_cooldown: Duration,
}

impl Settings {
    /// Checks the numbers.
    ///
    /// # Errors
    /// If the threshold or the cooldown is zero, or the cooldown shrinks.
    pub fn new(numbers: Numbers, while_open: WhileOpen) -> Result<Self, Problem> {
        let Numbers { threshold, cooldown, growth, longest_cooldown } = numbers;
        let threshold = NonZeroU32::new(threshold).ok_or_else(|| {
            Problem::new("threshold", "is 0; use 1 or more, or breaker = \"off\"")
        })?;
        if cooldown.is_zero() {
            return Err(Problem::new("cooldown", "is zero; use 1s or more"));
        }
        if !(1.0..=10.0).contains(&growth) {
            let text = format!("is {growth}; it must be between 1 and 10");
            return Err(Problem::new("growth", text));
        }
        if longest_cooldown < cooldown {
            let (longest, first) = (span::format(longest_cooldown), span::format(cooldown));
            let text = format!("is {longest}, below the first cooldown of {first}; raise it");
            return Err(Problem::new("longest_cooldown", text));
        }
        Ok(Self { threshold, cooldown, growth, longest_cooldown, while_open })
    }

    /// Returns the numbers.
    #[must_use]
    pub const fn numbers(&self) -> Numbers {
        Numbers {
            threshold: self.threshold.get(),
            cooldown: self.cooldown,
            growth: self.growth,
            longest_cooldown: self.longest_cooldown,
        }
    }

    /// Returns what happens to deliveries while it is open.
    #[must_use]
    pub const fn while_open(&self) -> WhileOpen {
        self.while_open
    }

    fn longer(&self, cooldown: Duration) -> Duration {
        let seconds = cooldown.as_secs_f64() * self.growth;
        let longest = self.longest_cooldown;
        if seconds >= longest.as_secs_f64() { longest } else { Duration::from_secs_f64(seconds) }
    }
}

/// The state of one endpoint's breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaker {
    /// Everything is sent.
    Closed {
        /// Failed attempts in a row.
        failures: u32,
    },
    /// Nothing is sent until `until`.
    Open {
        /// When the probe may go.
        until: Timestamp,
        /// The cooldown that ends then.
        cooldown: Duration,
    },
    /// One probe is on its way.
    HalfOpen {
        /// The cooldown before it.
        cooldown: Duration,
    },
}

/// What may be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Everything.
    All,
    /// One attempt, as the probe.
    Probe,
    /// Nothing before this moment.
    Wait(Timestamp),
    /// Nothing until the probe has come back.
    WaitForProbe,
}

/// Which role an attempt played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// One of many. It may have begun before the breaker tripped.
    Ordinary,
    /// The probe of a half-open breaker.
    Probe,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

impl Breaker {
    /// Returns what may be sent now.
    #[must_use]
    pub fn admission(self, now: Timestamp) -> Admission {
        match self {
            Self::Closed { .. } => Admission::All,
            Self::Open { until, .. } if now >= until => Admission::Probe,
            Self::Open { until, .. } => Admission::Wait(until),
            Self::HalfOpen { .. } => Admission::WaitForProbe,
        }
    }

    /// Sends the probe: an open breaker whose cooldown is over becomes half-open. Others stay.
    #[must_use]
    pub fn probe(self, now: Timestamp) -> Self {
        match self {
            Self::Open { until, cooldown } if now >= until => Self::HalfOpen { cooldown },
            Self::Open { .. } | Self::Closed { .. } | Self::HalfOpen { .. } => self,
        }
    }

    /// Takes in what an attempt said about the receiver.
    #[must_use]
    pub fn after(self, settings: &Settings, role: Role, signal: Signal, now: Timestamp) -> Self {
        match (self, signal) {
            (_, Signal::Success) => Self::default(),
            (Self::Closed { failures }, Signal::Failure) => {
                let failures = failures.saturating_add(1);
                if failures < settings.threshold.get() {
                    return Self::Closed { failures };
                }
                let cooldown = settings.cooldown;
                Self::Open { until: now.after(cooldown), cooldown }
            }
            (Self::HalfOpen { cooldown }, signal) => match role {
                // An attempt from before the trip tells nothing that the trip did not know.
                Role::Ordinary => self,
                Role::Probe => after_probe(settings, cooldown, signal, now),
            },
            // Permanent answers neither count nor reset; whatever fails while open is an attempt
            // that had begun before.
            (Self::Closed { .. }, Signal::Permanent | Signal::Nothing)
            | (Self::Open { .. }, Signal::Failure | Signal::Permanent | Signal::Nothing) => self,
        }
    }

    /// Takes in what an attempt said about the receiver while the policy has no breaker. Nothing is
    /// kept of the one before, which would wait for its probe when a breaker comes back. Only an
    /// attempt that never reached the receiver changes nothing, but that no probe is on its way.
    #[must_use]
    pub fn while_off(self, role: Role, signal: Signal, now: Timestamp) -> Self {
        match (signal, role) {
            (Signal::Success | Signal::Failure | Signal::Permanent, _) => Self::default(),
            (Signal::Nothing, Role::Probe) => self.taken_over(now),
            (Signal::Nothing, Role::Ordinary) => self,
        }
    }

    /// Takes over a breaker that another process left behind: its probe, if one was on its way,
    /// will never report, so another may go at once.
    #[must_use]
    pub fn taken_over(self, now: Timestamp) -> Self {
        match self {
            Self::HalfOpen { cooldown } => Self::Open { until: now, cooldown },
            Self::Closed { .. } | Self::Open { .. } => self,
        }
    }

    /// Closes it by hand.
    #[must_use]
    pub fn reset(self) -> Self {
        Self::default()
    }

    /// Returns the word that SQL, JSON and metrics use.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen { .. } => "half-open",
        }
    }
}

fn after_probe(settings: &Settings, cooldown: Duration, signal: Signal, now: Timestamp) -> Breaker {
    match signal {
        // Whoever refuses one delivery for good is there to receive the next.
        Signal::Success | Signal::Permanent => Breaker::default(),
        Signal::Failure => {
            let cooldown = settings.longer(cooldown);
            Breaker::Open { until: now.after(cooldown), cooldown }
        }
        // The probe never reached the receiver: another may go at once, and nothing grows.
        Signal::Nothing => Breaker::Open { until: now, cooldown },
    }
}

#[cfg(test)]
mod tests;
