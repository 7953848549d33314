//! An attempt under way: its requests, one after the other, all under one deadline.
//!
//! Most attempts are one request. Where redirects are followed there may be more, and each of them is
//! looked up, vetted, connected and written like the first one, and waits at the endpoint's gate as well:
//! the endpoint's rate counts requests, wherever they lead.

use std::time::Duration;

use domain::address::Guard;
use domain::rate::{FarEnd, ON_THE_WAY};
use domain::time::Timestamp;
use engine::protocol::effect::Sending;
use store::queue::{AttemptRecord, Hop};

use super::Transport;
use super::connect::{Leave, Target};
use super::exchange::{Ended, Outgoing, Progress, Terms, Wire, exchange};
use super::gates::{Closed, Gate, Passage};
use super::hops::{Redirect, Trip};
use super::outcome::Failure;
use super::pool::Site;
use crate::clock::Clock;

/// An attempt under way.
pub(super) struct Attempting<'a> {
    pub(super) transport: &'a Transport,
    pub(super) sending: &'a Sending,
    pub(super) guard: &'a Guard,
    /// Where each request waits until the endpoint's rate lets it be written.
    pub(super) gate: &'a Gate,
    pub(super) deadline: Deadline<'a>,
    pub(super) record: &'a mut AttemptRecord,
    pub(super) progress: &'a mut Progress,
}

/// When an attempt must have ended. What it waits for at the gate is our own doing, and comes on
/// top: the receiver has the same time as if it had been sent to at once.
pub(super) struct Deadline<'a> {
    pub(super) at: Timestamp,
    pub(super) clock: &'a dyn Clock,
}

impl Deadline<'_> {
    fn left(&self) -> Duration {
        self.at.since(self.clock.now())
    }

    /// Adds what has passed since then, and returns it.
    fn pause(&mut self, since: Timestamp) -> Duration {
        let paused = self.clock.now().since(since);
        self.at = self.at.after(paused);
        paused
    }
}

impl<'a> Attempting<'a> {
    /// Sends a request and reads its answer. Returns where that leads, if it is to be followed; otherwise
    /// the answer is in the progress.
    pub(super) async fn ask(
        &mut self,
        (target, site): (&Target, &Site),
        mut request: Outgoing,
        trip: Option<&Trip<'_>>,
    ) -> Result<Option<Redirect>, Failure> {
        let clock = self.deadline.clock;
        let read = self.sending.policy.timeouts.read();
        let kept = &self.sending.member.defaults.response_kept;
        let terms = Terms { read, kept, clock, trip };
        let mut waiting = self.transport.pool.take(site, clock.now());
        loop {
            let used_before = waiting.is_some();
            // What came for an earlier request, or on a connection of no use, is no part of this answer.
            (self.progress.phases.reused, self.progress.phases.first_byte) = (None, None);
            let wire = match waiting.take() {
                Some(wire) => wire,
                None => self.open(target).await?,
            };
            let (passage, waited) = self.pass(target.far_end(used_before)).await?;
            self.progress.phases.reused = Some(used_before);
            let exchanging = exchange(wire, request, terms, self.progress);
            let exchanged = tokio::time::timeout(self.deadline.left(), exchanging).await;
            drop(passage);
            match exchanged.unwrap_or_else(|_| self.out_of_time()) {
                Ended::Answered(wire) => {
                    self.keep(site, wire);
                    return Ok(None);
                }
                Ended::Redirected(redirect, wire) => {
                    self.keep(site, wire);
                    return Ok(Some(redirect));
                }
                Ended::Unsent(unsent) if used_before => request = *unsent,
                Ended::Unsent(_) if waited > ON_THE_WAY => return Err(Failure::closed_meanwhile()),
                Ended::Unsent(_) => return Err(Failure::closed_at_once()),
                Ended::Failed(failure) => return Err(failure),
            }
        }
    }

    /// Follows redirects to their end.
    pub(super) async fn follow(
        &mut self,
        mut redirect: Redirect,
        mut trip: Trip<'_>,
    ) -> Result<(), Failure> {
        loop {
            let Redirect { status, to } = redirect;
            let (target, request) = trip.follow(to)?;
            let origin = target.url.origin();
            self.record.hops.push(Hop { status, to: origin.to_owned() });
            let site = self.guard.pool_key(&target.url, target.application);
            let site = self.transport.pool.site(site);
            let asked = self.ask((&target, &site), request, Some(&trip)).await;
            match asked.map_err(|failure| failure.at_hop(origin))? {
                Some(next) => redirect = next,
                None => return Ok(()),
            }
        }
    }

    async fn open(&mut self, target: &Target) -> Result<Wire, Failure> {
        let clock = self.deadline.clock;
        let limit = self.sending.policy.timeouts.connect();
        let leave = Leave { guard: self.guard, limit, clock };
        // Boxed, because most attempts find a connection and need no room for this.
        let dialling = Box::pin(self.transport.dialler.open(target, leave, self.progress));
        let opened = tokio::time::timeout(self.deadline.left(), dialling).await;
        self.progress.end(clock);
        opened.map_err(|_| Failure::timed_out(self.progress.stage))?
    }

    /// Passes the endpoint's gate, and returns how long that took.
    async fn pass(&mut self, far_end: FarEnd) -> Result<(Passage<'a>, Duration), Failure> {
        let Deadline { clock, .. } = self.deadline;
        let came_at = clock.now();
        let passing = self.gate.pass(self.sending.member.rate(), far_end, clock);
        let whole = self.sending.policy.timeouts.whole();
        let passed = tokio::time::timeout(whole, passing).await;
        let passage = passed.map_err(|_| Failure::turn_did_not_come())?;
        let passage = passage.map_err(|Closed| Failure::stopped_waiting())?;
        let waited = self.deadline.pause(came_at);
        // Like the deadline, the time on record is the receiver's: as if it had begun later.
        self.record.began_at = self.record.began_at.after(waited);
        Ok((passage, waited))
    }

    /// Returns how an exchange ended that was cut off by the deadline.
    fn out_of_time(&self) -> Ended {
        match &self.progress.answer {
            Some(answer) if answer.has_enough() => Ended::Answered(None),
            Some(answer) => Ended::Failed(answer.stalled()),
            None => Ended::Failed(Failure::timed_out(self.progress.stage)),
        }
    }

    fn keep(&self, site: &Site, wire: Option<Wire>) {
        if let Some(wire) = wire {
            self.transport.pool.keep(site, wire, self.deadline.clock.now());
        }
    }
}
