//! What the operator is told of: what keeps us from sending, and costs no receiver anything.
//!
//! Such a trouble lasts, and all that waits for its end runs into it each second. So each is told
//! once in a while, and only so many of them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::address::{Guard, Proxying};
use domain::time::Timestamp;
use engine::roster::Member;
use store::keys::EndpointKey;

use super::outcome::{Failure, Trouble};

/// When a trouble that lasts is told again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// The most that are told in that time.
const MOST_TOLD: usize = 1_024;

/// Remembers what was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    at: Mutex<BTreeMap<Subject, Timestamp>>,
}

/// What was told about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Proxy,
    Endpoint(EndpointKey),
    Headers(EndpointKey),
}

impl Told {
    /// Tells the operator of a failure that is ours, unless that was done a moment ago.
    pub(super) fn tell(&self, failure: &Failure, member: &Member, guard: &Guard, now: Timestamp) {
        let reason = &*failure.text;
        let Some(trouble) = failure.trouble else { return };
        let subject = match trouble {
            Trouble::Proxy => Subject::Proxy,
            Trouble::Signing => Subject::Endpoint(member.key()),
        };
        if !self.is_news(subject, now) {
            return;
        }
        match (trouble, guard.proxying()) {
            (Trouble::Proxy, Proxying::Tunnel(proxy) | Proxying::Trust(proxy)) => tracing::error!(
                %proxy,
                reason,
                "nothing can be delivered; start the proxy, or correct egress.proxy"
            ),
            (Trouble::Proxy, Proxying::Off) => {}
            (Trouble::Signing, _) => tracing::error!(
                endpoint.id = %member.view.endpoint.id,
                reason,
                "an endpoint's messages cannot be signed; give it another secret, or save its \
                 signatures anew"
            ),
        }
    }

    /// Tells the operator of an endpoint's own headers that are not sent.
    pub(super) fn tell_left_out(&self, names: &[String], member: &Member, now: Timestamp) {
        if !names.is_empty() && self.is_news(Subject::Headers(member.key()), now) {
            tracing::warn!(
                endpoint.id = %member.view.endpoint.id,
                ?names,
                "headers of an endpoint are left out of its attempts, because a receiver could take \
                 them for the sender's own; rename or remove them"
            );
        }
    }

    /// Tells whether the operator does not know yet, and notes that it is told now.
    fn is_news(&self, subject: Subject, now: Timestamp) -> bool {
        let mut told = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let lately = |at: &Timestamp| now.since(*at) < AGAIN_AFTER;
        if told.get(&subject).is_some_and(lately) {
            return false;
        }
        if told.len() >= MOST_TOLD {
            told.retain(|_, at| lately(at));
        }
        let has_room = told.len() < MOST_TOLD;
        if has_room {
            told.insert(subject, now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

    fn endpoint(number: usize) -> Subject {
        Subject::Endpoint(EndpointKey(i64::try_from(number).unwrap()))
    }

    #[test]
    fn a_trouble_that_lasts_is_told_once_in_a_while() {
        let told = Told::default();
        assert!(told.is_news(Subject::Proxy, NOW));
        let second = Duration::from_secs(1);
        assert!(!told.is_news(Subject::Proxy, NOW.after(second)));
        assert!(told.is_news(endpoint(1), NOW.after(second)), "another is another");
        assert!(told.is_news(Subject::Proxy, NOW.after(AGAIN_AFTER)));
        assert!(!told.is_news(Subject::Proxy, NOW.after(AGAIN_AFTER + second)));
    }

    #[test]
    fn however_many_there_are_only_so_many_are_told() {
        let told = Told::default();
        let news = (0..2 * MOST_TOLD).filter(|number| told.is_news(endpoint(*number), NOW));
        assert_eq!(news.count(), MOST_TOLD);
        assert!(told.is_news(endpoint(2 * MOST_TOLD), NOW.after(AGAIN_AFTER)), "there is room");
    }
}
