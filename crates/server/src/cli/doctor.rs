//! `redial doctor`: looks at what a server needs, changes nothing, and says what to do.
//!
//! It takes the options of `redial serve`, and looks at what a server with them would find. A server
//! that runs meanwhile is not disturbed: its store is only read, for a moment at a time.
//!
//! # Layout
//! - `store`: the store, its schema, its key, and the clocks; `egress`: the way out

mod egress;
mod store;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use clap::Args;
use http::Method;
use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};

use super::client::Client;
use super::serve;
use super::{Failure, Streams, token};
use crate::clock::SystemClock;
use crate::config::Configuration;
use crate::http::Secure;
use crate::process::files_wanted;
use crate::transport::PoolLimits;
use crate::words::grouped;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: serve::Arguments,
    /// A URL that an endpoint could have: says whether it is allowed, and sends nothing there
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found about one thing.
#[derive(Debug)]
struct Finding {
    subject: &'static str,
    state: State,
    text: String,
}

impl Finding {
    fn json(&self) -> Value {
        json!({ "subject": self.subject, "state": self.state.word(), "text": self.text })
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    Doubtful,
    Bad,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Doubtful => "warning",
            Self::Bad => "error",
        }
    }
}

pub(crate) fn run(arguments: &Arguments, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let configuration = arguments.server.configuration()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let findings = runtime.block_on(examine(&configuration, arguments.url.as_deref()));
    if arguments.json {
        writeln!(streams.out, "{:#}", Value::Array(findings.iter().map(Finding::json).collect()))?;
    } else {
        for Finding { subject, state, text } in &findings {
            writeln!(streams.out, "{:<8}{subject}: {text}", state.word())?;
        }
    }
    let bad = findings.iter().filter(|finding| finding.state == State::Bad).count();
    match bad {
        0 => Ok(()),
        1 => Err(Failure::Other(anyhow::anyhow!("one thing needs your attention"))),
        _ => Err(Failure::Other(anyhow::anyhow!("{bad} things need your attention"))),
    }
}

async fn examine(configuration: &Configuration, url: Option<&str>) -> Vec<Finding> {
    let clock = SystemClock::start();
    let mut findings = vec![read(configuration)];
    findings.extend(key_file(configuration));
    findings.extend(store::examine(configuration, clock).await);
    findings.extend(egress::examine(configuration, url, &clock).await);
    findings.extend([files(configuration), warnings(configuration)]);
    findings.push(server(configuration).await);
    findings.extend(damage(configuration).await);
    findings
}

fn found(subject: &'static str, state: State, text: impl Into<String>) -> Finding {
    Finding { subject, state, text: text.into() }
}

/// The configuration was read, or this would not be asked; what it names may be missing.
fn read(configuration: &Configuration) -> Finding {
    let subject = "configuration";
    match configuration.tls.as_ref().map(Secure::read) {
        Some(Err(error)) => {
            let text = format!("{error:#}; correct the path, or make the file readable");
            found(subject, State::Bad, text)
        }
        Some(Ok(_)) => found(subject, State::Good, "it makes sense; certificate and key fit"),
        None => found(subject, State::Good, "it makes sense"),
    }
}

/// Looks whether others may read the key file, if it is used.
fn key_file(configuration: &Configuration) -> Option<Finding> {
    let path: PathBuf = configuration.data.join("redial.key");
    if configuration.encryption_key.is_some() || configuration.database.is_some() {
        return Some(found("key file", State::Good, "not used; the key is configured"));
    }
    let mode = fs::metadata(&path).ok()?.permissions().mode();
    if mode & 0o077 == 0 {
        let text = format!("{}, for its owner only; keep a copy elsewhere", path.display());
        return Some(found("key file", State::Good, text));
    }
    let text = format!("{0} can be read by others; chmod 600 {0}", path.display());
    Some(found("key file", State::Bad, text))
}

fn files(configuration: &Configuration) -> Finding {
    let limits = &configuration.limits;
    let idle = PoolLimits::default().idle_overall;
    let wanted = files_wanted(limits.connections, idle, limits.in_flight, limits.hanging);
    // A server raises its own limit as far as it may.
    let allowed = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    if allowed >= wanted {
        let text = format!("{} allowed, {} wanted", grouped(allowed), grouped(wanted));
        return found("open files", State::Good, text);
    }
    let text = format!(
        "{} allowed, {} wanted by limits.connections, limits.in_flight and limits.hanging; raise it \
         (ulimit -Hn)",
        grouped(allowed),
        grouped(wanted)
    );
    found("open files", State::Doubtful, text)
}

fn warnings(configuration: &Configuration) -> Finding {
    let warnings = configuration.policy.policy.warnings();
    let name = &configuration.policy.policy.name;
    match warnings.first() {
        None => found("policy", State::Good, format!("{name}, nothing unwise about it")),
        Some(first) => found("policy", State::Doubtful, format!("{name}: {first}")),
    }
}

async fn server(configuration: &Configuration) -> Finding {
    let health = async {
        let client = Client::new(token::own_url(configuration)?, None)?;
        client.status_of(Method::GET, "/health", None).await
    };
    match health.await {
        Ok((status, _)) if status.is_success() => found("server", State::Good, "it is well"),
        Ok((status, health)) => {
            let text = format!("it answers {status}: {health}; its log says why");
            found("server", State::Bad, text)
        }
        Err(_) => {
            let text = format!(
                "nothing answers at {}; start it with redial serve, if it should run",
                configuration.listen
            );
            found("server", State::Doubtful, text)
        }
    }
}

/// Looks what a running server has found damaged, if it shows its figures.
async fn damage(configuration: &Configuration) -> Option<Finding> {
    let client = Client::new(token::url_at(configuration.metrics?).ok()?, None).ok()?;
    damaged_rows(&client.page("/metrics").await.ok()?).map(damaged)
}

/// Finds the number of damaged rows among a server's figures.
fn damaged_rows(figures: &str) -> Option<u64> {
    let mut lines = figures.lines();
    lines.find_map(|line| line.strip_prefix("redial_damaged_rows ")?.parse().ok())
}

fn damaged(rows: u64) -> Finding {
    let subject = "damaged rows";
    match rows {
        0 => found(subject, State::Good, "the server has met none"),
        _ => {
            let text = format!(
                "{} do not read as what they should be, and are passed over; the server's log \
                 names them: restore them from a backup",
                grouped(rows)
            );
            found(subject, State::Doubtful, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{Look, Metrics};

    #[test]
    fn damaged_rows_are_found_among_the_figures() {
        let figures = Metrics::new().page(Look { damaged: 2, ..Look::default() });
        assert_eq!(damaged_rows(&figures), Some(2));
        assert_eq!(damaged_rows("redial_commits_total 3\n"), None);
        assert_eq!(damaged(0).state, State::Good);
        let told = damaged(2);
        assert_eq!(told.state, State::Doubtful);
        assert!(told.text.starts_with("2 do not read"), "{told:?}");
    }
}
