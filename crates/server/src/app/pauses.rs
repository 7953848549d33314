//! Pauses by Retry-After: until when, why, and their end by hand.
//!
//! The endpoint's owner alone writes them. A person who ends one leaves a request for the owner. The
//! deliveries whose own attempts were answered so would wait on, so they are asked for, too.

use std::time::Duration;

use domain::endpoint::State;
use domain::ids::AttemptId;
use domain::outcome::Outcome;
use domain::retry_after::RetryAfter;
use domain::time::Timestamp;
use store::catalog::Endpoint;
use store::keys::{ApplicationKey, EndpointKey};
use store::ledger::AttemptEntry;
use store::page::{From, Page};
use store::queue::{AttemptRecord, RequestKind};

use super::{App, Error};

/// How many of an endpoint's newest attempts are looked at for the one that brought a pause. The endpoint gets
/// no attempt during a pause, so only attempts that were in flight when it began can be newer.
const NEWEST: u32 = 100;

/// How many attempts are read at a time, newest first, to find those whose deliveries wait because of a
/// pause, and how often at the most. An endpoint can have 1,000 attempts in flight; each page on which one
/// of them waits is followed by the next one.
const PAGE: u32 = 250;
const MOST_PAGES: u32 = 20;

/// How far the end of a pause may be from the end of the wait that its answer asked for.
const NEARLY: Duration = Duration::from_secs(60);

/// An endpoint's pause.
#[derive(Debug, Clone)]
pub struct Pause {
    /// Until when.
    pub until: Timestamp,
    /// The answer that asked for it, if it is still recorded.
    pub cause: Option<Cause>,
}

/// An answer with Retry-After.
#[derive(Debug, Clone, Copy)]
pub struct Cause {
    /// Which attempt it was the answer to.
    pub attempt: AttemptId,
    /// Its status.
    pub status: u16,
    /// When it came.
    pub at: Timestamp,
    /// What it asked for.
    pub asked: RetryAfter,
    /// How long that counts, if it is less.
    pub kept: Option<Duration>,
}

/// Returns what the answer to an attempt asked for by Retry-After.
#[must_use]
pub const fn asked_by(record: &AttemptRecord) -> Option<RetryAfter> {
    if let Outcome::Answered { retry_after, .. } = record.outcome { retry_after } else { None }
}

impl Cause {
    fn of(attempt: &AttemptEntry) -> Option<Self> {
        let record = &attempt.record;
        let Outcome::Answered { status, retry_after: Some(asked) } = record.outcome else {
            return None;
        };
        let (at, kept) = (record.ended_at, record.retry_after_kept);
        Some(Self { attempt: record.id, status, at, asked, kept })
    }

    /// Returns how long what was asked for counts.
    fn counts(&self) -> Duration {
        self.kept.or_else(|| self.asked.wait(self.at)).unwrap_or_default()
    }
}

/// Tells whether a change of an endpoint ends its pause: it was enabled or resumed, or has another URL.
pub(super) fn ends_pause(before: &Endpoint, after: &Endpoint) -> bool {
    let begins = before.state != State::Active && after.state == State::Active;
    let moves = before.settings.origin != after.settings.origin
        || before.confidential.path_and_query != after.confidential.path_and_query;
    begins || moves
}

impl App {
    /// Returns an endpoint's pause, if it has one.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn pause_of(
        &self,
        (application, endpoint): (ApplicationKey, EndpointKey),
    ) -> Result<Option<Pause>, Error> {
        let running = self.catalog.running(application, vec![endpoint]).await?;
        let now = self.clock.now();
        // Of one that was deleted meanwhile there is none.
        let until = running.first().and_then(|(_, running)| running.paused_until);
        let Some(until) = until.filter(|until| *until > now) else {
            return Ok(None);
        };
        let attempts = self.newest_attempts((application, endpoint)).await?;
        // The answer whose wait ends where the pause does, but for the moment between answer and verdict.
        let causes = attempts.iter().filter_map(Cause::of);
        let apart = |cause: &Cause| {
            let ends = cause.at.after(cause.counts());
            ends.since(until).max(until.since(ends))
        };
        let cause = causes.min_by_key(apart).filter(|cause| apart(cause) <= NEARLY);
        Ok(Some(Pause { until, cause }))
    }

    /// Asks an endpoint's owner to end its pause, and for the deliveries that wait because their own attempts were answered with Retry-After.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn end_pause(&self, endpoint: &Endpoint) -> Result<(), Error> {
        self.end_pause_by(endpoint, RequestKind::EndPause).await
    }

    pub(super) async fn end_pause_by(
        &self,
        endpoint: &Endpoint,
        kind: RequestKind,
    ) -> Result<(), Error> {
        let place = (endpoint.application, endpoint.key);
        if self.pause_of(place).await?.is_some() {
            self.hurry_paused(place).await?;
        }
        self.ask_owner(endpoint, kind).await
    }

    /// Ends the wait of the deliveries whose own attempts were answered with Retry-After.
    pub(super) async fn hurry_paused(
        &self,
        (application, endpoint): (ApplicationKey, EndpointKey),
    ) -> Result<(), Error> {
        let (now, mut from) = (self.clock.now(), From::Start);
        for _ in 0..MOST_PAGES {
            let page = Page { from, limit: PAGE };
            let listed = self.ledger.attempts(application, endpoint, Default::default(), page);
            let listed = listed.await?;
            let mut found = false;
            for attempt in listed.entries {
                let waits = attempt.next_due.is_some_and(|due| due > now);
                if !waits || Cause::of(&attempt).is_none() {
                    continue;
                }
                found = true;
                match self.ledger.retry_now(attempt.key, now).await {
                    // It was settled or replayed, or is gone: then it does not wait.
                    Ok(_) | Err(store::Error::Refused(_) | store::Error::Missing(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            match listed.reached {
                Some(reached) if found && !listed.done => from = From::After(reached),
                Some(_) | None => break,
            }
        }
        Ok(())
    }

    async fn newest_attempts(
        &self,
        (application, endpoint): (ApplicationKey, EndpointKey),
    ) -> Result<Vec<AttemptEntry>, Error> {
        let page = Page { from: From::Start, limit: NEWEST };
        let listed = self.ledger.attempts(application, endpoint, Default::default(), page).await?;
        Ok(listed.entries)
    }
}
