//! Requests in progress: how many the tokens of one application have, and that their connections stay.
//!
//! A request counts from when its token was found good until its answer is handed over. One that finds its
//! application's share used up waits, and is refused after a while. So requests that stall, in the middle of
//! their body or because nobody reads their answer, leave room for others. An operator's are not counted.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use domain::ids::ApplicationId;
use hyper::body::Body as _;

use crate::app::tokens::Reach;
use crate::app::{Caller, Error};
use crate::config::Limits;
use crate::http::{Client, Holder, Pieces, Serving};
use crate::turns::{Bounds, Turn, Turns};

/// From so many bytes on, an answer counts until its client has read most of it. Smaller ones are in the
/// connection's buffers at once.
const LARGE: u64 = 64 << 10;

/// Which applications' requests are in progress.
#[derive(Clone)]
pub(crate) struct Running {
    turns: Arc<Turns<ApplicationId>>,
    wait: std::time::Duration,
}

/// A request in progress.
pub(super) struct Progress {
    /// Keeps its connection; none if it came without one.
    _serving: Option<Serving>,
    /// None for an operator's.
    own: Option<Turn<ApplicationId>>,
}

impl Running {
    pub(super) fn new(limits: &Limits) -> Self {
        let bounds = Bounds {
            // However few connections there are, others have half of them.
            each: limits.requests_per_application.min((limits.connections / 2).max(1)),
            all: usize::MAX,
            waiting: limits.waiting_requests,
        };
        Self { turns: Turns::new(bounds), wait: limits.lane_wait }
    }

    /// Begins a caller's request on a client's connection.
    pub(super) async fn begin(
        &self,
        caller: &Caller,
        client: Option<&Arc<Client>>,
    ) -> Result<Progress, Error> {
        let (holder, own) = match caller.reach {
            Reach::Everything => (Holder::Operator, None),
            Reach::Application(own) => (Holder::Application(own), Some(own)),
        };
        if let Some(client) = client {
            client.belongs_to(holder);
        }
        let own = match own {
            None => None,
            Some(own) => {
                let turn = self.turns.take_within(own, self.wait).await;
                Some(turn.map_err(|_| Error::TooManyReads)?)
            }
        };
        let serving = client.map(|client| {
            let text = "the connection is being closed in favour of another client's";
            client.serves().ok_or_else(|| Error::Unavailable(text.to_owned()))
        });
        Ok(Progress { _serving: serving.transpose()?, own })
    }
}

impl Progress {
    /// Ends with the request's answer: if that is large, when its client has read most of it.
    pub(super) fn end_with(self, answer: Response) -> Response {
        let Some(own) = self.own.filter(|_| answer.body().size_hint().lower() >= LARGE) else {
            return answer;
        };
        answer.map(|body| {
            let lasts = move || {
                let _own = &own;
            };
            Body::new(Pieces::new(body, lasts))
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::BodyExt as _;

    use super::*;

    fn progress(turns: &Arc<Turns<ApplicationId>>) -> Progress {
        use futures_util::FutureExt as _;
        let own = turns.take(ApplicationId::from_bytes([1; 20])).now_or_never().unwrap();
        Progress { _serving: None, own: Some(own.unwrap()) }
    }

    #[tokio::test]
    async fn a_large_answer_counts_until_it_is_handed_over_and_a_small_one_does_not() {
        let turns = Turns::new(Bounds { each: 1, all: 1, waiting: 0 });
        let small = progress(&turns).end_with(Response::new(Body::from("x")));
        let large = Bytes::from(vec![7; 100_000]);
        let answer = progress(&turns).end_with(Response::new(Body::from(large.clone())));
        let own = ApplicationId::from_bytes([1; 20]);
        assert!(turns.take(own).await.is_err(), "the large one is in progress");
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), large);
        drop(turns.take(own).await.unwrap());
        drop(small);
    }
}
