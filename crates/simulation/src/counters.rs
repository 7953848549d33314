//! How often the rare paths were taken. A path that no seed takes is not tested, whatever the
//! result says, so a run that leaves one out fails.

/// A path that is taken rarely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// A hand-over never reached the engine.
    HandOverLost,
    /// A hand-over reached the engine late.
    HandOverLate,
    /// A hand-over reached the engine after the delivery had been sent or settled.
    HandOverOfKnown,
    /// Another node was not woken.
    NotificationLost,
    /// Another node was not told that partitions are free.
    FreeUnheard,
    /// A committer waited for a crowd.
    WaitedForACrowd,
    /// A load returned deliveries whose attempt was not settled yet.
    LoadedKnownRows,
    /// A load did not return everything.
    LoadedPart,
    /// A load left payloads out.
    PayloadLeftOut,
    /// A settle came under an epoch that is over.
    SettleFenced,
    /// A settle found its delivery cancelled or buried.
    SettleLeftAlone,
    /// A settle was repeated after it had taken effect.
    SettleRepeated,
    /// A step of upkeep came under an epoch that is over.
    UpkeepFenced,
    /// An accept was repeated after it had taken effect.
    AcceptFoundItself,
    /// An idempotency key was used again.
    KeyRepeated,
    /// A fan-out turned out to be older than the catalog.
    StaleFanOut,
    /// A message found the accept lane full, and waited.
    WaitedForTheLane,
    /// A message was refused because the accept lane was full for too long, or too many waited.
    LaneFull,
    /// A call took effect and its answer was lost.
    LostAnswer,
    /// A call took effect after it had been reported as failed.
    EffectAfterAnswer,
    /// An engine announced that it took partitions.
    Took,
    /// A partition was taken from an owner that had not given it back.
    TookOver,
    /// An engine announced that it lost partitions.
    Lost,
    /// Partitions were given back.
    Released,
    /// A process stopped as planned.
    Stopped,
    /// A process was told to stop at once.
    StopForced,
    /// A process crashed.
    Crashed,
    /// A process was frozen for longer than its lease.
    FrozenPastLease,
    /// A process guessed the time wrong.
    ClockJumped,
    /// An attempt was interrupted.
    Interrupted,
    /// A receiver got again what it had taken before.
    Duplicate,
    /// Sending panicked.
    Panicked,
    /// A breaker tripped.
    BreakerTripped,
    /// A breaker opened again after its probe.
    BreakerReopened,
    /// A breaker closed.
    BreakerClosed,
    /// A probe was sent.
    Probe,
    /// An endpoint was paused by Retry-After.
    RetryAfter,
    /// An owner was warned.
    Warned,
    /// An endpoint was disabled by its answers.
    DisabledByHealth,
    /// An owner was told about a delivery.
    Noticed,
    /// Deliveries were buried without an attempt.
    BuriedUnsent,
    /// Deliveries were buried because their time was over.
    BuriedExpired,
    /// Deliveries of a disabled endpoint were buried.
    BuriedDisabled,
    /// Deliveries were buried by an open breaker.
    BuriedByBreaker,
    /// A delivery was buried because it made us panic.
    BuriedPoison,
    /// Deliveries were replayed.
    Replayed,
    /// A delivery was cancelled.
    Cancelled,
    /// A delivery was cancelled while its attempt was in flight.
    CancelledInFlight,
    /// A person had a delivery sent at once.
    RetriedNow,
    /// A person closed a breaker.
    BreakerReset,
    /// An attempt ended for an endpoint whose breaker was open and had been switched off.
    BreakerSwitchedOff,
    /// An endpoint was set aside because as many attempts hang as may.
    HangingLimit,
    /// An endpoint was set aside because many attempts hang and others have just begun.
    HeldBack,
    /// An engine was woken before it wished to be.
    WokenEarly,
    /// A FIFO endpoint got an attempt.
    FifoSent,
    /// An attempt was made because a person asked.
    ManualSent,
    /// Scheduled deliveries of a FIFO endpoint took their places.
    Numbered,
    /// A person expunged a payload.
    Expunged,
    /// An owner cancelled what it could not send.
    CalledOff,
    /// A name became that of another application.
    NameMoved,
    /// A message was refused because the name it was sent to had moved.
    NameRefused,
    /// An application was deleted.
    ApplicationDeleted,
    /// A process was not called when the catalog was changed.
    ChangeUncalled,
    /// An engine confirmed changes of the catalog.
    ChangeConfirmed,
}

impl Path {
    /// All of them.
    pub const ALL: [Self; 64] = [
        Self::HandOverLost,
        Self::HandOverLate,
        Self::HandOverOfKnown,
        Self::NotificationLost,
        Self::FreeUnheard,
        Self::WaitedForACrowd,
        Self::LoadedKnownRows,
        Self::LoadedPart,
        Self::PayloadLeftOut,
        Self::SettleFenced,
        Self::SettleLeftAlone,
        Self::SettleRepeated,
        Self::UpkeepFenced,
        Self::AcceptFoundItself,
        Self::KeyRepeated,
        Self::StaleFanOut,
        Self::WaitedForTheLane,
        Self::LaneFull,
        Self::LostAnswer,
        Self::EffectAfterAnswer,
        Self::Took,
        Self::TookOver,
        Self::Lost,
        Self::Released,
        Self::Stopped,
        Self::StopForced,
        Self::Crashed,
        Self::FrozenPastLease,
        Self::ClockJumped,
        Self::Interrupted,
        Self::Duplicate,
        Self::Panicked,
        Self::BreakerTripped,
        Self::BreakerReopened,
        Self::BreakerClosed,
        Self::Probe,
        Self::RetryAfter,
        Self::Warned,
        Self::DisabledByHealth,
        Self::Noticed,
        Self::BuriedUnsent,
        Self::BuriedExpired,
        Self::BuriedDisabled,
        Self::BuriedByBreaker,
        Self::BuriedPoison,
        Self::Replayed,
        Self::Cancelled,
        Self::CancelledInFlight,
        Self::RetriedNow,
        Self::BreakerReset,
        Self::BreakerSwitchedOff,
        Self::HangingLimit,
        Self::HeldBack,
        Self::WokenEarly,
        Self::FifoSent,
        Self::ManualSent,
        Self::Numbered,
        Self::Expunged,
        Self::CalledOff,
        Self::NameMoved,
        Self::NameRefused,
        Self::ApplicationDeleted,
        Self::ChangeUncalled,
        Self::ChangeConfirmed,
    ];

    /// Returns its name, as counters are printed.
    #[must_use]
    pub fn name(self) -> String {
        format!("{self:?}")
    }
}

/// Counts by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters([u64; Path::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; Path::ALL.len()])
    }
}

impl Counters {
    /// Counts one.
    pub(crate) fn count(&mut self, path: Path) {
        if let Some(count) = self.0.get_mut(path as usize) {
            *count += 1;
        }
    }

    /// Adds the counts of another history.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    /// Returns every path with its count.
    pub fn all(&self) -> impl Iterator<Item = (Path, u64)> {
        Path::ALL.into_iter().zip(self.0)
    }

    /// Returns the paths that were never taken.
    #[must_use]
    pub fn missed(&self) -> Vec<Path> {
        self.all().filter(|(_, count)| *count == 0).map(|(path, _)| path).collect()
    }
}
