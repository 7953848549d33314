//! What is said to the server: paths, JSON and names of metrics. Whoever changes the API finds
//! everything that the benchmark relies on here.

use serde_json::{Value, json};

/// What the server answers without looking at anything.
pub(super) const PING: &str = "/api/v1/health/ping";
/// What the server counts.
pub(super) const METRICS: &str = "/metrics";
/// Where applications are made.
pub(super) const APPLICATIONS: &str = "/api/v1/app";
/// The most messages that a batch may have.
pub(super) const LARGEST_BATCH: usize = 1_000;
/// The highest rate that an endpoint can be given through the API, per second. It is above what a
/// bare client reaches.
const HIGHEST_RATE: u32 = 65_535;

/// Returns where an application's endpoints are made.
pub(super) fn endpoints(application: &str) -> String {
    format!("{APPLICATIONS}/{application}/endpoint")
}

/// Returns where an application's messages are sent, one at a time. The SDKs do not want the
/// payload back either.
pub(super) fn messages(application: &str) -> String {
    format!("{APPLICATIONS}/{application}/msg?with_content=false")
}

/// Returns where an application's messages are sent in batches.
pub(super) fn batches(application: &str) -> String {
    format!("{APPLICATIONS}/{application}/msg/batch")
}

/// Returns where an endpoint is paused.
pub(super) fn pause(application: &str, endpoint: &str) -> String {
    format!("{}/{endpoint}/pause", endpoints(application))
}

/// Returns where a paused endpoint is resumed.
pub(super) fn resume(application: &str, endpoint: &str) -> String {
    format!("{}/{endpoint}/resume", endpoints(application))
}

/// Returns a new application.
pub(super) fn application(name: &str) -> Value {
    json!({ "name": name, "uid": name })
}

/// Returns a new endpoint whose rate is no limit, for the messages of some channels if any are
/// named.
pub(super) fn endpoint(url: &str, channels: &[&str]) -> Value {
    let mut endpoint = json!({ "url": url, "throttleRate": HIGHEST_RATE });
    if !channels.is_empty() {
        endpoint["channels"] = json!(channels);
    }
    endpoint
}

/// Returns a message around a payload.
pub(super) fn message(payload: &str, channel: Option<&str>) -> String {
    let channels = channel.map(|it| format!("\"channels\":[\"{it}\"],")).unwrap_or_default();
    format!("{{\"eventType\":\"bench.sent\",{channels}\"payload\":{payload}}}")
}

/// Returns a batch of messages.
pub(super) fn batch(messages: &[String]) -> String {
    format!("[{}]", messages.join(","))
}

/// Reads from the answer to a batch how many of its messages were accepted.
pub(super) fn accepted(answer: &[u8]) -> u64 {
    const COUNT: &[u8] = b"\"accepted\":";
    let place = answer.windows(COUNT.len()).position(|part| part == COUNT);
    let digits = place.and_then(|at| answer.get(at + COUNT.len()..)).unwrap_or_default();
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |count: u64, digit| count.saturating_mul(10) + u64::from(digit - b'0'))
}

/// Transactions that were committed.
pub(super) const METRIC_COMMITS: &str = "redial_commits_total";
/// Rows that were written or changed in them.
pub(super) const METRIC_ROWS: &str = "redial_committed_rows_total";
/// How often the disk was asked to sync; a database does not tell.
pub(super) const METRIC_SYNCS: &str = "redial_syncs_total";
/// Attempts that were made.
pub(super) const METRIC_ATTEMPTS: &str = "redial_attempts_total";
/// Rows of pending deliveries that were read back from the store.
pub(super) const METRIC_LOADED: &str = "redial_deliveries_loaded_total";
/// Deliveries that were written down as delivered.
pub(super) const METRIC_DELIVERED: &str = "redial_deliveries_delivered_total";
/// Dead letters, by their cause; nothing is shown before the first.
pub(super) const METRIC_DEAD: &str = "redial_deliveries_dead_total";
/// Endpoints with something pending.
pub(super) const METRIC_WAITING: &str = "redial_endpoints_waiting";
/// Where a server is told to show its metrics.
pub(super) const METRICS_SETTING: &str = "REDIAL_METRICS_LISTEN";
/// How long a server that is told to stop still answers.
const NOTICE_SETTING: &str = "REDIAL_LIMITS_NOTICE";

/// Returns the setting of a server that stops as soon as it can. Nobody asks it whether it is ready, so
/// nobody has to be given time to hear that it is not.
pub(super) fn without_notice() -> (&'static str, String) {
    (NOTICE_SETTING, "1ms".to_owned())
}

/// How many partitions each node of a fleet owns, for those who own some.
pub(super) const SHARES: &str =
    "select count(*) as owned from partitions where owner is not null group by owner";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_a_batch_says_how_much_of_it_was_accepted() {
        assert_eq!(accepted(b"{\"accepted\":257,\"refused\":743,\"results\":[]}"), 257);
        assert_eq!(accepted(b"{}"), 0);
    }
}
