//! Bodies of requests as they are received, and how much of them at a time.
//!
//! Each connection may send a body up to a limit, and there may be thousands of connections. So all
//! bodies that are on their way share one allowance of bytes, taken as they arrive: whoever only
//! announces a large body holds nothing. The beginning of every body has a part of the allowance to
//! itself, so that a few who stall in large ones do not keep usual messages out. The tokens of one
//! application hold an eighth of the beginnings and a third of the rest at the most, so that bodies which
//! stall cost that application alone. A body that finds the allowance, or its application's share of it,
//! used up waits, and is refused after a while. One that comes more slowly than its client may send is not
//! waited for.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use domain::ids::ApplicationId;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use tokio::sync::{Notify, Semaphore};

use super::Shared;
use crate::app::tokens::Reach;
use crate::app::{Caller, Error, RefusalKind};
use crate::config::{Limits, Pace};
use crate::problem::Problem;

/// How many times larger than another body that of a batch may be.
const BATCH: usize = 16;
/// How many bodies of batches at their largest are received at a time, besides beginnings.
const LARGE: usize = 3;
/// Which part of a usual body at its largest counts as its beginning.
const BEGINNING: usize = 16;
/// Which part of the beginnings one application's tokens may hold.
const OWN_BEGINNINGS: usize = 8;

/// Returns how large the body of a batch may be.
pub(super) fn most_of_batch(body_bytes: usize) -> usize {
    body_bytes.saturating_mul(BATCH)
}

/// What may still be received before something that is on its way has arrived.
pub(crate) struct Allowance {
    /// Up to where a body counts as its beginning.
    beginning: usize,
    beginnings: Semaphore,
    large: Semaphore,
    /// How long a body waits for a part of it.
    wait: Duration,
    /// How slowly a body may come.
    pace: Pace,
    /// The most that one application's tokens may hold.
    most_own: Held,
    /// What they hold.
    own: Mutex<BTreeMap<ApplicationId, Held>>,
    given_back: Notify,
}

/// Bytes of beginnings, and of what follows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Held {
    begun: usize,
    large: usize,
}

impl Held {
    fn part(&mut self, begins: bool) -> &mut usize {
        if begins { &mut self.begun } else { &mut self.large }
    }
}

impl Allowance {
    /// Makes the allowance for bodies up to a limit: four times the body of a batch in all.
    pub(super) fn new(limits: &Limits) -> Self {
        Self::of(limits.body_bytes, limits.lane_wait, limits.pace())
    }

    fn of(body_bytes: usize, wait: Duration, pace: Pace) -> Self {
        let batch = most_of_batch(body_bytes);
        let of = |bytes: usize| Semaphore::new(bytes.min(Semaphore::MAX_PERMITS));
        Self {
            beginning: body_bytes / BEGINNING,
            beginnings: of(batch),
            large: of(batch.saturating_mul(LARGE)),
            wait,
            pace,
            most_own: Held { begun: batch / OWN_BEGINNINGS, large: batch },
            own: Mutex::default(),
            given_back: Notify::new(),
        }
    }

    /// Waits until an application's share has room, and takes it.
    async fn take_own(&self, whose: ApplicationId, begins: bool, size: usize) {
        loop {
            // Asked for before the look, so that nothing that is given back in between is missed.
            let mut given_back = pin!(self.given_back.notified());
            given_back.as_mut().enable();
            let most = *self.most_own.clone().part(begins);
            {
                let mut own = self.own();
                let part = own.entry(whose).or_default().part(begins);
                if *part + size <= most {
                    *part += size;
                    return;
                }
            }
            given_back.await;
        }
    }

    /// Gives back a part of an application's share.
    fn give_back(&self, whose: ApplicationId, held: Held) {
        let mut own = self.own();
        if let Some(known) = own.get_mut(&whose) {
            known.begun = known.begun.saturating_sub(held.begun);
            known.large = known.large.saturating_sub(held.large);
            if *known == Held::default() {
                own.remove(&whose);
            }
        }
        drop(own);
        self.given_back.notify_waiters();
    }

    // Nothing panics while it is held.
    fn own(&self) -> MutexGuard<'_, BTreeMap<ApplicationId, Held>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one body has taken of the allowance, until it has arrived.
struct Share<'a> {
    allowance: &'a Allowance,
    /// Which application's token sends it; none for an operator's.
    whose: Option<ApplicationId>,
    held: Held,
}

impl Share<'_> {
    async fn take(&mut self, size: usize) -> Result<(), Error> {
        let Self { allowance, whose, held } = self;
        let begins = held.large == 0 && held.begun + size <= allowance.beginning;
        let left = if begins { &allowance.beginnings } else { &allowance.large };
        // No piece is larger than a body may be, and none of those has so many bytes.
        let permits = u32::try_from(size).unwrap_or(u32::MAX);
        let text = "too much is being received at the same time";
        let refused = || Error::Unavailable(text.to_owned());
        let mut own = Held::default();
        if let Some(whose) = *whose {
            let taking = allowance.take_own(whose, begins, size);
            tokio::time::timeout(allowance.wait, taking).await.map_err(|_| refused())?;
            *own.part(begins) = size;
        }
        let permit = match left.try_acquire_many(permits) {
            Ok(permit) => Some(permit),
            Err(_) => {
                let waited = tokio::time::timeout(allowance.wait, left.acquire_many(permits));
                waited.await.ok().and_then(Result::ok)
            }
        };
        let Some(permit) = permit else {
            if let Some(whose) = *whose {
                allowance.give_back(whose, own);
            }
            return Err(refused());
        };
        permit.forget();
        *held.part(begins) += size;
        Ok(())
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.allowance.beginnings.add_permits(self.held.begun);
        self.allowance.large.add_permits(self.held.large);
        if let Some(whose) = self.whose {
            self.allowance.give_back(whose, self.held);
        }
    }
}

/// Receives the body of a caller's request up to a limit.
pub(super) async fn collect(
    shared: &Shared,
    caller: Option<&Caller>,
    body: Body,
    most: usize,
) -> Result<Bytes, Problem> {
    let whose = match caller.map(|caller| caller.reach) {
        Some(Reach::Application(own)) => Some(own),
        Some(Reach::Everything) | None => None,
    };
    receive(&shared.allowance, whose, body, most).await
}

async fn receive(
    allowance: &Allowance,
    whose: Option<ApplicationId>,
    body: Body,
    most: usize,
) -> Result<Bytes, Problem> {
    // Before the first look at the body: that is what tells a client that waits for it to go on.
    if body.size_hint().lower() > u64::try_from(most).unwrap_or(u64::MAX) {
        return Err(Error::TooLarge(most).into());
    }
    let mut body = Limited::new(body, most);
    let mut share = Share { allowance, whose, held: Held::default() };
    // Nearly every body comes in one piece, which need not be copied.
    let (mut first, mut whole) = (Bytes::new(), Vec::new());
    let mut deadline = pin!(tokio::time::sleep(allowance.pace.grace));
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = deadline.as_mut() => return Err(Problem::TooSlow),
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                return Error::TooLarge(most);
            }
            Error::refused(RefusalKind::Generic, format!("the body broke off: {error}"))
        })?;
        // Trailers say nothing to us.
        let Ok(data) = frame.into_data() else { continue };
        share.take(data.len()).await?;
        if !body.is_end_stream() {
            let until = deadline.deadline() + allowance.pace.worth(data.len());
            deadline.as_mut().reset(until);
        }
        if first.is_empty() && whole.is_empty() {
            first = data;
        } else {
            whole.extend_from_slice(&std::mem::take(&mut first));
            whole.extend_from_slice(&data);
        }
    }
    Ok(if whole.is_empty() { first } else { Bytes::from(whole) })
}

#[cfg(test)]
mod tests {
    use hyper::body::{Body as HttpBody, Frame, SizeHint};

    use super::*;

    fn pieces(sizes: &[usize]) -> Body {
        let pieces: Vec<_> =
            sizes.iter().map(|size| Ok::<_, std::io::Error>(vec![b'x'; *size])).collect();
        Body::from_stream(futures_util::stream::iter(pieces))
    }

    fn left(allowance: &Allowance) -> (usize, usize) {
        (allowance.beginnings.available_permits(), allowance.large.available_permits())
    }

    #[tokio::test]
    async fn a_body_arrives_whole_and_gives_back_what_it_took() {
        let allowance = Allowance::of(160, WAIT, PACE);
        for sizes in [&[][..], &[5], &[100], &[5, 5, 5, 100], &[0, 7, 0, 90]] {
            let body = receive(&allowance, None, pieces(sizes), 160).await.unwrap();
            assert_eq!(body.len(), sizes.iter().sum::<usize>(), "{sizes:?}");
            assert_eq!(left(&allowance), (2_560, 7_680), "{sizes:?}");
        }
        let refused = receive(&allowance, None, pieces(&[100, 100]), 160).await;
        assert!(matches!(refused, Err(Problem::App(Error::TooLarge(160)))));
        assert_eq!(left(&allowance), (2_560, 7_680));
    }

    const WAIT: Duration = Duration::from_secs(1);
    const PACE: Pace = Pace { grace: Duration::from_secs(10), least: 10 };

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_or_drips_is_not_waited_for() {
        let allowance = Allowance::of(1_600, WAIT, PACE);
        // How many bytes come each second, how many in all, and whether that is fast enough.
        let table =
            [(0_usize, 1_usize, false), (9, 1_200, false), (10, 1_200, true), (100, 1_000, true)];
        for (each, all, fast) in table {
            let seconds = all.checked_div(each).unwrap_or(usize::MAX);
            let drops = futures_util::stream::unfold(0, move |second| async move {
                let pause = if each == 0 { 3_600 } else { 1 };
                tokio::time::sleep(Duration::from_secs(pause)).await;
                (second < seconds).then(|| (Ok::<_, std::io::Error>(vec![b'x'; each]), second + 1))
            });
            let received = receive(&allowance, None, Body::from_stream(drops), 1_600).await;
            match received {
                Ok(_) => assert!(fast, "{each} of {all}"),
                Err(problem) => assert!(!fast && matches!(problem, Problem::TooSlow), "{each}"),
            }
            assert_eq!(left(&allowance), (25_600, 76_800));
        }
    }

    #[tokio::test]
    async fn a_body_that_is_said_to_be_too_large_is_not_looked_at() {
        struct Announced;
        impl HttpBody for Announced {
            type Data = Bytes;
            type Error = std::io::Error;
            fn poll_frame(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
                panic!("it was looked at")
            }
            fn size_hint(&self) -> SizeHint {
                SizeHint::with_exact(161)
            }
        }
        let refused =
            receive(&Allowance::of(160, WAIT, PACE), None, Body::new(Announced), 160).await;
        assert!(matches!(refused, Err(Problem::App(Error::TooLarge(160)))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_for_what_others_give_back() {
        let allowance = Allowance::of(160, WAIT, PACE);
        let mut stalled = Share { allowance: &allowance, whose: None, held: Held::default() };
        stalled.take(7_680).await.unwrap();
        let waits = receive(&allowance, None, pieces(&[100]), 160);
        let gives_back = async {
            tokio::time::sleep(WAIT / 2).await;
            drop(stalled);
        };
        let (arrived, ()) = tokio::join!(waits, gives_back);
        assert_eq!(arrived.unwrap().len(), 100);
        assert_eq!(left(&allowance), (2_560, 7_680));
    }

    #[tokio::test(start_paused = true)]
    async fn usual_bodies_arrive_while_large_ones_take_all_they_may() {
        let allowance = Allowance::of(160, WAIT, PACE);
        let mut stalled = Share { allowance: &allowance, whose: None, held: Held::default() };
        stalled.take(7_680).await.unwrap();
        let refused = receive(&allowance, None, pieces(&[100]), 160).await;
        assert!(matches!(refused, Err(Problem::App(Error::Unavailable(_)))));
        assert_eq!(receive(&allowance, None, pieces(&[10]), 160).await.unwrap().len(), 10);
        drop(stalled);
        assert_eq!(receive(&allowance, None, pieces(&[100]), 160).await.unwrap().len(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_of_one_application_that_stall_keep_no_other_out() {
        let allowance = Allowance::of(160, WAIT, PACE);
        let [one, other] = [1, 2].map(|byte| Some(ApplicationId::from_bytes([byte; 20])));
        let stall = || Share { allowance: &allowance, whose: one, held: Held::default() };
        let mut stalled = Vec::new();
        for size in [10, 160] {
            for _ in 0..256 {
                let mut share = stall();
                if share.take(size).await.is_err() {
                    break;
                }
                stalled.push(share);
            }
        }
        assert_eq!(left(&allowance), (2_560 - 320, 7_680 - 2_560));
        for whose in [other, None] {
            for size in [10, 100] {
                let arrived = receive(&allowance, whose, pieces(&[size]), 160).await;
                assert_eq!(arrived.unwrap().len(), size);
            }
        }
        let own = receive(&allowance, one, pieces(&[10]), 160).await;
        assert!(matches!(own, Err(Problem::App(Error::Unavailable(_)))));
        stalled.clear();
        assert_eq!(left(&allowance), (2_560, 7_680));
        assert!(allowance.own().is_empty());
        let whole = receive(&allowance, one, pieces(&[2_560]), 2_560).await;
        assert_eq!(whole.unwrap().len(), 2_560, "the largest batch has room");
    }
}
