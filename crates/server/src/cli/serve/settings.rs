//! What the parts of a server are told of its configuration.

use std::net::SocketAddr;
use std::time::Duration;

use engine::commit::{Bound, Limits, Weight};
use engine::roster::Read;
use sha2::{Digest as _, Sha256};

use store::sqlite;

use crate::app::Settings;
use crate::committer::Transactions;
use crate::config::{Configuration, Hidden, Role};
use crate::node::{self, Disk};
use crate::process::within_files;

/// The most deliveries that wait to be handed over from accepting to sending.
const HANDED_OVER: usize = 16_384;
/// What a stop needs beside the longest attempt: the notice before it, and the last steps after it.
const BESIDE_ATTEMPTS: Duration = Duration::from_secs(5);

/// Tells whether a stop may be over before an attempt that began just before it.
fn stops_before(timeout: Duration, shutdown: Duration) -> bool {
    timeout.saturating_add(BESIDE_ATTEMPTS) > shutdown
}

/// What the node is told.
pub(super) fn node_settings(configuration: &Configuration) -> node::Settings {
    let limits = &configuration.limits;
    let shared = configuration.database.is_some();
    let mut engine = engine::Settings::of(node::unique_name("redial"));
    // The rest is for clients, the store, and connections in waiting.
    engine.in_flight = within_files(limits.in_flight);
    engine.hanging = within_files(limits.hanging);
    if (engine.in_flight, engine.hanging) != (limits.in_flight, limits.hanging) {
        let (in_flight, hanging) = (engine.in_flight, engine.hanging);
        tracing::warn!(
            in_flight,
            hanging,
            "fewer attempts at a time: this process may open few files"
        );
    }
    let (timeout, shutdown) = (configuration.policy.policy.timeouts.whole(), limits.shutdown);
    if stops_before(timeout, shutdown) {
        tracing::warn!(
            ?timeout,
            ?shutdown,
            "a stop may interrupt attempts, which are sent again: raise limits.shutdown"
        );
    }
    engine.payload_bytes = limits.payload_memory;
    engine.roster_memory = limits.roster_memory;
    if shared {
        // They share statements, and another node may call with something for many endpoints.
        engine.loads = 32;
    } else {
        // Nobody else writes: what memory knows is what there is, unless a hand-over got lost.
        engine.walk_every = Duration::from_secs(30);
    }
    node::Settings {
        engine,
        lanes: Limits {
            lane: Weight { rows: limits.lane_rows, bytes: limits.lane_bytes },
            waiting: Bound { items: limits.waiting_messages, bytes: limits.waiting_bytes },
            wait: limits.lane_wait,
            ..Limits::default()
        },
        transactions: if shared { Transactions::Apart } else { Transactions::Together },
        policy: Read::from(&configuration.policy),
        sends: match configuration.role {
            Role::All | Role::Worker => true,
            Role::Api => false,
        },
        handed_over: HANDED_OVER,
        grace: limits.shutdown.saturating_sub(limits.notice()),
        disk: disk(configuration),
    }
}

/// Where the store's files are, if it has any, and the room that they need.
pub(in crate::cli) fn disk(configuration: &Configuration) -> Option<Disk> {
    let least = u64::try_from(configuration.limits.body_bytes).unwrap_or(u64::MAX);
    let in_file = configuration.database.is_none();
    in_file.then(|| Disk { directory: configuration.data.clone(), least })
}

/// What the app is told.
pub(super) fn app_settings(
    configuration: &Configuration,
    (address, local_token): (SocketAddr, Option<[u8; 32]>),
) -> Settings {
    let limits = &configuration.limits;
    let token = configuration.admin_token.as_ref();
    let public_url = configuration.public_url.as_ref().map(|url| url.as_str().to_owned());
    let public_url = public_url.unwrap_or_else(|| format!("http://{address}"));
    Settings {
        policy: configuration.policy.clone(),
        retention: configuration.retention.messages,
        admin_token: token.map(|Hidden(token)| Sha256::digest(token.as_bytes()).into()),
        local_token,
        public_url: public_url.trim_end_matches('/').to_owned(),
        batch_messages: limits.batch_messages,
        batch_concurrency: limits.batch_concurrency,
        shared: configuration.database.is_some(),
        token_age: limits.token_age,
        configuration_rate: limits.configuration_rate,
        caps: limits.caps,
        portal: configuration.portal,
        cached_tokens: limits.cached_tokens,
        cached_applications: limits.cached_applications,
        readers: configuration.database.as_ref().map_or(sqlite::READERS, |it| it.connections),
        waiting_requests: limits.waiting_requests,
        read_wait: limits.lane_wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_has_to_leave_time_for_the_notice_and_for_what_is_written() {
        let usual = Duration::from_secs(30);
        for (timeout, interrupts) in [(20, false), (25, false), (26, true), (60, true)] {
            let timeout = Duration::from_secs(timeout);
            assert_eq!(stops_before(timeout, usual), interrupts, "{timeout:?}");
        }
    }
}
