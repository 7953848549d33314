//! The receiver of the lab: it works, or it is down, and both take a little time.

use std::time::Duration;

use domain::outcome::{Outcome, Unreachable};
use domain::policy::Timeouts;
use domain::time::Timestamp;

use super::scenario::{Answer, Outage};

/// How long an answer takes, good or bad.
pub(crate) const LATENCY: Duration = Duration::from_millis(50);
/// How long a closed port takes to say so.
const REFUSAL: Duration = Duration::from_millis(1);

/// What an attempt meets, and how long it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) outcome: Outcome,
    pub(super) after: Duration,
}

/// Returns what an attempt that begins now meets. What it meets is settled when it begins: an
/// attempt that set out before the recovery does not profit from it.
pub(super) fn respond(outage: &Outage, timeouts: &Timeouts, now: Timestamp) -> Response {
    if !outage.covers(now) {
        return Response { outcome: Outcome::answered(200), after: LATENCY };
    }
    match outage.answer {
        Answer::Unavailable => Response { outcome: Outcome::answered(503), after: LATENCY },
        Answer::Silent => Response { outcome: Outcome::TimedOut, after: timeouts.whole() },
        Answer::Refused => {
            Response { outcome: Outcome::Unreachable(Unreachable::Refused), after: REFUSAL }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respond_at(second: i64, answer: Answer) -> Response {
        let seconds = Duration::from_secs;
        let outage = Outage { starts: seconds(10), lasts: seconds(5), answer };
        let timeouts = Timeouts::new(seconds(5), None, seconds(20)).unwrap();
        respond(&outage, &timeouts, Timestamp::from_seconds(second))
    }

    #[test]
    fn it_says_200_outside_of_the_outage() {
        for second in [0, 9, 15, 1_000] {
            let response = respond_at(second, Answer::Refused);
            assert_eq!(response, Response { outcome: Outcome::answered(200), after: LATENCY });
        }
    }

    #[test]
    fn each_kind_of_outage_looks_like_itself() {
        let met = Answer::ALL.map(|answer| respond_at(12, answer));
        let refused = Outcome::Unreachable(Unreachable::Refused);
        assert_eq!(met.map(|it| it.outcome), [Outcome::answered(503), Outcome::TimedOut, refused]);
        assert_eq!(met[1].after, Duration::from_secs(20));
        assert!(met[2].after < met[0].after);
    }
}
