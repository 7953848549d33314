//! Planted bugs: mistakes that can be switched on for the simulator to find.
//!
//! Without the feature `planted` nothing can be switched on, [`has`] is constantly false, and what
//! stands behind it is not in the binary. With it, a bug is planted for the current thread: a
//! history of the simulator runs in one thread, and so does a test.

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// What settles while a load runs is forgotten before the load has answered.
    ForgetKnownDuringLoad,
    /// The next of a sequence goes before the settle of the one before has committed.
    SendFifoBeforeSettle,
    /// A new owner may send for a second as if it had saved up for it.
    KeepRateCredit,
    /// An interrupted attempt counts.
    CountInterrupted,
    /// A breaker's changes are not written.
    ForgetBreaker,
    /// What was never tried expires.
    ExpireUntried,
    /// Attempts start although the lease has not been renewed for too long.
    IgnoreTrust,
    /// A half-open breaker lets everything through.
    TwoProbes,
    /// A new owner begins with as many attempts at a time as the endpoint's limit allows.
    StartWide,
    /// A hand-over is let in however late it comes.
    TrustLateHandOver,
    /// Partitions are given back with attempts in flight.
    ReleaseUndrained,
    /// A pause by Retry-After ends with its owner.
    ForgetPause,
    /// A delivery that was cancelled while it was being sent waits again.
    SendCancelledAgain,
    /// What memory knows of a partition outlives its loss.
    KeepLostWindows,
    /// A new owner believes a roster from before it took over.
    TrustOldRoster,
    /// An interrupted attempt leaves its delivery nowhere.
    LoseInterrupted,
    /// An interrupted probe leaves the breaker half-open for good.
    LoseProbe,
    /// A breaker that was switched off stays as it was, be it half-open.
    KeepSwitchedOff,
    /// Attempts are aborted when their partition is to be given back.
    AbortAtHandOver,
    /// Nobody is woken for silent endpoints that were held back for a moment.
    ForgetHeldBack,
    /// Deliveries of a paused endpoint are buried as if it were disabled.
    BuryPaused,
    /// Scheduled deliveries take their places in a sequence before they are due.
    NumberEarly,
    /// Scheduled deliveries are sent without a place in the sequence.
    SendUnnumbered,
    /// A walk finds no scheduled deliveries.
    ForgetScheduled,
    /// Deliveries without a payload are left where they are.
    ForgetExpunged,
    /// The end of a pause by hand is not written.
    ForgetEndOfPause,
    /// What was changed is asked for and not looked at.
    IgnoreChanges,
    /// Attempts begin however long ago changes were last heard of.
    TrustOldChanges,
    /// A roster that is known to be outdated is used until it was read again.
    SendOutdated,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 29] = [
        Self::ForgetKnownDuringLoad,
        Self::SendFifoBeforeSettle,
        Self::KeepRateCredit,
        Self::CountInterrupted,
        Self::ForgetBreaker,
        Self::ExpireUntried,
        Self::IgnoreTrust,
        Self::TwoProbes,
        Self::StartWide,
        Self::TrustLateHandOver,
        Self::ReleaseUndrained,
        Self::ForgetPause,
        Self::SendCancelledAgain,
        Self::KeepLostWindows,
        Self::TrustOldRoster,
        Self::LoseInterrupted,
        Self::LoseProbe,
        Self::KeepSwitchedOff,
        Self::AbortAtHandOver,
        Self::ForgetHeldBack,
        Self::BuryPaused,
        Self::NumberEarly,
        Self::SendUnnumbered,
        Self::ForgetScheduled,
        Self::ForgetExpunged,
        Self::ForgetEndOfPause,
        Self::IgnoreChanges,
        Self::TrustOldChanges,
        Self::SendOutdated,
    ];
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in this thread, or removes the one that is.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.with(|planted| planted.set(bug));
}

/// Tells whether a bug is planted.
#[cfg(feature = "planted")]
pub(crate) fn has(bug: Bug) -> bool {
    PLANTED.with(|planted| planted.get() == Some(bug))
}

/// Tells whether a bug is planted.
#[cfg(not(feature = "planted"))]
pub(crate) const fn has(_: Bug) -> bool {
    false
}
