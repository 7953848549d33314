//! Bodies of requests as they are received, and how much of them at a time.
//!
//! Each connection may send a body up to a limit, and there may be thousands of connections. So all
//! bodies that are on their way share one allowance of bytes, taken as they arrive: whoever only
//! announces a large body holds nothing. The beginning of every body has a part of the allowance to
//! itself, so that a few who stall in large ones do not keep usual messages out.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::Shared;
use crate::app::{Error, RefusalKind};
use crate::problem::Problem;

/// How many times larger than another body that of a batch may be.
const BATCH: usize = 16;
/// How many bodies of batches at their largest are received at a time, besides beginnings.
const LARGE: usize = 3;
/// Which part of a usual body at its largest counts as its beginning.
const BEGINNING: usize = 16;

/// Returns how large the body of a batch may be.
pub(super) fn most_of_batch(body_bytes: usize) -> usize {
    body_bytes.saturating_mul(BATCH)
}

/// What may still be received before something that is on its way has arrived.
pub(crate) struct Allowance {
    /// Up to where a body counts as its beginning.
    beginning: usize,
    beginnings: AtomicUsize,
    large: AtomicUsize,
}

impl Allowance {
    /// Makes the allowance for bodies up to a limit: four times the body of a batch in all.
    pub(super) fn new(body_bytes: usize) -> Self {
        let batch = most_of_batch(body_bytes);
        Self {
            beginning: body_bytes / BEGINNING,
            beginnings: AtomicUsize::new(batch),
            large: AtomicUsize::new(batch.saturating_mul(LARGE)),
        }
    }
}

/// What one body has taken of the allowance, until it has arrived.
struct Share<'a> {
    allowance: &'a Allowance,
    begun: usize,
    large: usize,
}

impl Share<'_> {
    fn take(&mut self, size: usize) -> Result<(), Error> {
        let begins = self.large == 0 && self.begun + size <= self.allowance.beginning;
        let (left, taken) = if begins {
            (&self.allowance.beginnings, &mut self.begun)
        } else {
            (&self.allowance.large, &mut self.large)
        };
        let less = |left: usize| left.checked_sub(size);
        if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err() {
            let text = "too much is being received at the same time".to_owned();
            return Err(Error::Unavailable(text));
        }
        *taken += size;
        Ok(())
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.allowance.beginnings.fetch_add(self.begun, Ordering::Relaxed);
        self.allowance.large.fetch_add(self.large, Ordering::Relaxed);
    }
}

/// Receives a body up to a limit.
pub(super) async fn collect(shared: &Shared, body: Body, most: usize) -> Result<Bytes, Problem> {
    receive(&shared.allowance, body, most).await
}

async fn receive(allowance: &Allowance, body: Body, most: usize) -> Result<Bytes, Problem> {
    let mut body = Limited::new(body, most);
    let mut share = Share { allowance, begun: 0, large: 0 };
    // Nearly every body comes in one piece, which need not be copied.
    let (mut first, mut whole) = (Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                return Error::TooLarge(most);
            }
            Error::refused(RefusalKind::Generic, format!("the body broke off: {error}"))
        })?;
        // Trailers say nothing to us.
        let Ok(data) = frame.into_data() else { continue };
        share.take(data.len())?;
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
    use super::*;

    fn pieces(sizes: &[usize]) -> Body {
        let pieces: Vec<_> =
            sizes.iter().map(|size| Ok::<_, std::io::Error>(vec![b'x'; *size])).collect();
        Body::from_stream(futures_util::stream::iter(pieces))
    }

    fn left(allowance: &Allowance) -> (usize, usize) {
        let left = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        (left(&allowance.beginnings), left(&allowance.large))
    }

    #[tokio::test]
    async fn a_body_arrives_whole_and_gives_back_what_it_took() {
        let allowance = Allowance::new(160);
        for sizes in [&[][..], &[5], &[100], &[5, 5, 5, 100], &[0, 7, 0, 90]] {
            let body = receive(&allowance, pieces(sizes), 160).await.unwrap();
            assert_eq!(body.len(), sizes.iter().sum::<usize>(), "{sizes:?}");
            assert_eq!(left(&allowance), (2_560, 7_680), "{sizes:?}");
        }
        let refused = receive(&allowance, pieces(&[100, 100]), 160).await;
        assert!(matches!(refused, Err(Problem::App(Error::TooLarge(160)))));
        assert_eq!(left(&allowance), (2_560, 7_680));
    }

    #[tokio::test]
    async fn usual_bodies_arrive_while_large_ones_take_all_they_may() {
        let allowance = Allowance::new(160);
        let mut stalled = Share { allowance: &allowance, begun: 0, large: 0 };
        stalled.take(7_680).unwrap();
        let refused = receive(&allowance, pieces(&[100]), 160).await;
        assert!(matches!(refused, Err(Problem::App(Error::Unavailable(_)))));
        assert_eq!(receive(&allowance, pieces(&[10]), 160).await.unwrap().len(), 10);
        drop(stalled);
        assert_eq!(receive(&allowance, pieces(&[100]), 160).await.unwrap().len(), 100);
    }
}
