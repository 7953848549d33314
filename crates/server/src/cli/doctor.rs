//! `redial doctor`: looks at what a server needs, changes nothing, and says what to do.
//!
//! It reads the configuration, the data directory from outside, the limits of this process, and the
//! health of the server if one runs. It does not open the store: that would migrate it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use http::Method;
use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};

use super::client::Client;
use super::{Failure, Streams, token};
use crate::config::Configuration;
use crate::words::grouped;

/// File descriptors that a server needs besides those of connections and attempts.
const FILES_OF_OUR_OWN: u64 = 64;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
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
    let configuration = token::configuration(arguments.config.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut findings = vec![store(&configuration), key(&configuration), files(&configuration)];
    findings.push(warnings(&configuration));
    findings.push(runtime.block_on(server(&configuration)));
    if arguments.json {
        writeln!(streams.out, "{:#}", Value::Array(findings.iter().map(Finding::json).collect()))?;
    } else {
        for Finding { subject, state, text } in &findings {
            writeln!(streams.out, "{:<8}{subject}: {text}", state.word())?;
        }
    }
    if findings.iter().any(|finding| finding.state == State::Bad) {
        return Err(Failure::Other(anyhow::anyhow!("something needs your attention")));
    }
    Ok(())
}

fn found(subject: &'static str, state: State, text: impl Into<String>) -> Finding {
    Finding { subject, state, text: text.into() }
}

fn store(configuration: &Configuration) -> Finding {
    let subject = "store";
    if configuration.database.is_some() {
        return found(
            subject,
            State::Good,
            "PostgreSQL; the server's health tells whether it answers",
        );
    }
    let directory = &configuration.data;
    let Ok(metadata) = fs::metadata(directory) else {
        let text = format!("{} is not there yet; the first start makes it", directory.display());
        return found(subject, State::Good, text);
    };
    if !metadata.is_dir() {
        return found(subject, State::Bad, format!("{} is no directory", directory.display()));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        let text = format!("{0} can be read by others; chmod 700 {0}", directory.display());
        return found(subject, State::Doubtful, text);
    }
    let size = fs::metadata(directory.join("redial.db")).map_or(0, |file| file.len());
    let text = format!("{}, {} bytes", directory.display(), grouped(size));
    found(subject, State::Good, text)
}

fn key(configuration: &Configuration) -> Finding {
    let subject = "encryption key";
    if configuration.encryption_key.is_some() {
        return found(subject, State::Good, "configured");
    }
    match readable_key(&configuration.data) {
        Some(path) => {
            let text = format!("{0} can be read by others; chmod 600 {0}", path.display());
            found(subject, State::Bad, text)
        }
        None => found(subject, State::Good, "in the data directory, for its owner only"),
    }
}

/// Returns the key file, if others may read it.
fn readable_key(directory: &Path) -> Option<PathBuf> {
    let path = directory.join("redial.key");
    let mode = fs::metadata(&path).ok()?.permissions().mode();
    (mode & 0o077 != 0).then_some(path)
}

fn files(configuration: &Configuration) -> Finding {
    let limits = &configuration.limits;
    let connections = u64::try_from(limits.connections).unwrap_or(u64::MAX);
    let wanted = connections.saturating_add(limits.in_flight.into()) + FILES_OF_OUR_OWN;
    // A server raises its own limit as far as it may.
    let allowed = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    if allowed >= wanted {
        let text = format!("{} allowed, {} wanted", grouped(allowed), grouped(wanted));
        return found("open files", State::Good, text);
    }
    let text = format!(
        "{} allowed, {} wanted by limits.connections and limits.in_flight; raise it (ulimit -Hn)",
        grouped(allowed),
        grouped(wanted)
    );
    found("open files", State::Doubtful, text)
}

fn warnings(configuration: &Configuration) -> Finding {
    let warnings = configuration.policy.policy.warnings();
    let name = &configuration.policy.name;
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
            found("server", State::Bad, format!("it answers {status}: {health}"))
        }
        Err(_) => {
            let text = format!("nothing answers at {}", configuration.listen);
            found("server", State::Doubtful, text)
        }
    }
}
