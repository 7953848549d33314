//! The configuration: a file, the environment, the command line, in this order of weight.
//!
//! It is read once, at the start, into structs that make sense; what does not is refused with the
//! place where it stands and what to write instead. Nobody else reads the environment.
//!
//! # Layout
//! - `keys`: every setting there is, as a table; `gather`: where they come from
//! - `values`: from what was written to what is meant

mod gather;
mod keys;
mod values;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::address::{Host, PlainHttp, Proxy, Proxying, Settings as Egress, UsablePort};
use domain::policy::{self, Preset};
use domain::signing::{Signing, Unusable};
use gather::Gathered;
pub use keys::table;
use signature::Brand;
use store::catalog::Size;

/// All that an operator can set.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// Where the API listens.
    pub listen: SocketAddr,
    /// Where it listens for TLS, if anywhere.
    pub tls: Option<Tls>,
    /// Where `/metrics` is, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// The data directory.
    pub data: PathBuf,
    /// How much longer each commit's sync of the file takes, for benchmarks.
    pub sync_delay: Option<Duration>,
    /// The database, if it is not a file in the data directory.
    pub database: Option<Database>,
    /// What this node does.
    pub role: Role,
    /// Under which URL people reach this server.
    pub public_url: Option<url::Url>,
    /// The admin token, if it is set from outside.
    pub admin_token: Option<Hidden<String>>,
    /// The master key, if it is set from outside.
    pub encryption_key: Option<Hidden<[u8; 32]>>,
    /// The policy where nothing nearer sets one, with what endpoints start with under it.
    pub policy: Preset,
    /// How attempts are signed where nothing nearer says so.
    pub signing: Signing,
    /// Where deliveries may go.
    pub egress: Egress,
    /// How much of everything there may be.
    pub limits: Limits,
    /// How long things are kept.
    pub retention: Retention,
    /// What is logged, and how.
    pub log: Log,
}

/// A listener whose connections are encrypted.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The certificate, with those that vouch for it, as PEM.
    pub certificate: PathBuf,
    /// Its key, as PEM.
    pub key: PathBuf,
}

/// A PostgreSQL database.
#[derive(Debug, Clone)]
pub struct Database {
    /// Where it is; the URL may hold a password.
    pub url: Hidden<String>,
    /// Where to listen for other nodes, if not there.
    pub listen_url: Option<Hidden<String>>,
    /// The most connections besides those of the lanes.
    pub connections: usize,
}

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    All,
    /// It accepts and answers, and sends nothing.
    Api,
    /// It sends, and serves no API but its health.
    Worker,
}

/// How much of everything there may be.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The largest request body; a batch may be sixteen times as large.
    pub body_bytes: usize,
    /// The most messages in one batch.
    pub batch_messages: usize,
    /// The most messages of one batch that are being accepted at a time.
    pub batch_concurrency: usize,
    /// The longest an API request may take.
    pub request_timeout: Duration,
    /// The longest a client may take to send its headers.
    pub header_timeout: Duration,
    /// The most connections to the API.
    pub connections: usize,
    /// The most attempts in flight on this node that do not hang.
    pub in_flight: u32,
    /// The most that do, beside them.
    pub hanging: u32,
    /// The most rows that wait to be written, per lane.
    pub lane_rows: u32,
    /// The most bytes that wait to be written, per lane.
    pub lane_bytes: u64,
    /// How long a message waits for room in a full lane.
    pub lane_wait: Duration,
    /// The most messages that wait for that.
    pub waiting_messages: usize,
    /// The most bytes of them.
    pub waiting_bytes: u64,
    /// The most payload bytes kept in memory; with what is in flight, twice as much.
    pub payload_memory: u64,
    /// The most tokens remembered in memory.
    pub cached_tokens: usize,
    /// The most applications remembered in memory.
    pub cached_applications: usize,
    /// How long a token is trusted without asking the store.
    pub token_age: Duration,
    /// How often in a second the tokens of one application may change its configuration.
    pub configuration_rate: u32,
    /// How much the owner of an application may set up.
    pub caps: Caps,
    /// The most bytes of rosters in memory.
    pub roster_memory: u64,
    /// How long a stopping server says that it is not ready before it stops taking requests.
    pub notice: Duration,
    /// How long stopping may take, all in all.
    pub shutdown: Duration,
}

/// How much the owner of an application may set up.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// Of all endpoints of one application.
    pub application: Size,
    /// Of one endpoint.
    pub endpoint: Size,
}

impl Limits {
    /// Returns the part of the time to stop in which requests are still taken: half of it at most.
    #[must_use]
    pub fn notice(&self) -> Duration {
        self.notice.min(self.shutdown / 2)
    }
}

/// How long things are kept.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Messages and attempts whose deliveries are settled.
    pub messages: Duration,
    /// Dead letters.
    pub dead_letters: Duration,
}

/// What is logged, and how.
#[derive(Debug, Clone)]
pub struct Log {
    /// In which form.
    pub format: LogFormat,
    /// Which events, as `tracing` filters them.
    pub filter: String,
}

/// In which form events are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// A value that does not show itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden<T>(pub T);

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(…)")
    }
}

/// What is wrong with the configuration, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {text}")]
pub struct Problem {
    origin: String,
    text: String,
}

impl Problem {
    fn new(origin: impl Into<String>, text: String) -> Self {
        Self { origin: origin.into(), text }
    }
}

/// Where a configuration is read from.
#[derive(Debug, Default)]
pub struct Sources {
    /// The file's name and text, if there is a file.
    pub file: Option<(String, String)>,
    /// The environment.
    pub environment: Vec<(String, String)>,
    /// The command line, as names and values.
    pub options: Vec<(String, String)>,
}

impl Sources {
    /// Reads the process's environment, and the file that the command line or the environment
    /// names; without a name `redial.toml`, if it is there.
    ///
    /// # Errors
    /// If a file was named and cannot be read.
    pub fn of_process(
        file: Option<PathBuf>,
        options: Vec<(String, String)>,
    ) -> Result<Self, Problem> {
        #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
        let environment: Vec<_> = std::env::vars().collect();
        let named = environment.iter().find(|(name, _)| name == "REDIAL_CONFIG");
        let named = file.or_else(|| named.map(|(_, path)| PathBuf::from(path)));
        let path = named.clone().unwrap_or_else(|| PathBuf::from("redial.toml"));
        let name = path.display().to_string();
        let file = match std::fs::read_to_string(&path) {
            Ok(text) => Some((name, text)),
            Err(_) if named.is_none() => None,
            Err(error) => return Err(Problem::new(name, format!("cannot be read: {error}"))),
        };
        Ok(Self { file, environment, options })
    }
}

impl Configuration {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Says which setting is wrong, where it stands, and what to write instead.
    pub fn read(sources: Sources) -> Result<Self, Problem> {
        let mut gathered = Gathered::default();
        if let Some((name, text)) = &sources.file {
            gathered.file(name, text)?;
        }
        gathered.environment(sources.environment)?;
        gathered.options(sources.options)?;
        let roles = [("all", Role::All), ("api", Role::Api), ("worker", Role::Worker)];
        let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
        let configuration = Self {
            listen: required(&gathered, "listen")?,
            tls: tls(&gathered)?,
            metrics: gathered.parsed("metrics.listen")?,
            data: required(&gathered, "data")?,
            sync_delay: gathered.span_if_any("sync_delay")?,
            database: database(&gathered)?,
            role: gathered.word("role", &roles)?,
            public_url: gathered.parsed("public_url")?,
            admin_token: admin_token(&gathered)?,
            encryption_key: encryption_key(&gathered)?,
            policy: server_policy(&gathered)?,
            signing: signing(&gathered)?,
            egress: egress(&gathered)?,
            limits: limits(&gathered)?,
            retention: retention(&gathered)?,
            log: Log {
                format: gathered.word("log.format", &formats)?,
                filter: gathered.text("log.filter")?.unwrap_or_default(),
            },
        };
        configuration.check(&gathered)
    }

    /// What only makes sense together.
    fn check(self, gathered: &Gathered) -> Result<Self, Problem> {
        if self.role != Role::All && self.database.is_none() {
            let text = "needs `database`: a store in a file has one process, which does everything";
            return Err(gathered.wrong("role", text));
        }
        if self.database.is_some() && self.encryption_key.is_none() {
            let text = "is needed with `database`, the same for every node; make one with: \
                        head -c 32 /dev/urandom | base64";
            return Err(gathered.wrong("encryption_key", text));
        }
        let signed = self.signing.applicable(&[], &self.policy.endpoint).map_err(Unusable::from);
        signed.map_err(|refusal| gathered.wrong("policy", &refusal.to_string()))?;
        Ok(self)
    }
}

fn required<T: std::str::FromStr<Err: fmt::Display>>(
    gathered: &Gathered,
    name: &str,
) -> Result<T, Problem> {
    gathered.parsed(name)?.ok_or_else(|| gathered.wrong(name, "is missing"))
}

fn tls(gathered: &Gathered) -> Result<Option<Tls>, Problem> {
    let names = ["tls.listen", "tls.certificate", "tls.key"];
    if names.iter().all(|name| gathered.entry(name).is_none()) {
        return Ok(None);
    }
    Ok(Some(Tls {
        listen: required(gathered, "tls.listen")?,
        certificate: required(gathered, "tls.certificate")?,
        key: required(gathered, "tls.key")?,
    }))
}

fn database(gathered: &Gathered) -> Result<Option<Database>, Problem> {
    let connections = usize::try_from(gathered.number("database_connections")?).unwrap_or(8);
    let listen_url = gathered.text("database_listen")?.map(Hidden);
    let url = gathered.text("database")?;
    Ok(url.map(|url| Database { url: Hidden(url), listen_url, connections }))
}

fn admin_token(gathered: &Gathered) -> Result<Option<Hidden<String>>, Problem> {
    let token = gathered.text("admin_token")?;
    if token.as_ref().is_some_and(|token| token.len() < 16 || token.len() > 512) {
        return Err(gathered.wrong("admin_token", "must have 16 to 512 characters"));
    }
    Ok(token.map(Hidden))
}

fn encryption_key(gathered: &Gathered) -> Result<Option<Hidden<[u8; 32]>>, Problem> {
    let Some(text) = gathered.text("encryption_key")? else { return Ok(None) };
    let bytes = BASE64_STANDARD.decode(text.trim()).ok();
    let key = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    // The text itself is never shown.
    let key = key.ok_or_else(|| gathered.wrong("encryption_key", "must be 32 bytes in base64"))?;
    Ok(Some(Hidden(key)))
}

fn server_policy(gathered: &Gathered) -> Result<Preset, Problem> {
    let entry = gathered.entry("policy").unwrap_or_else(|| gather::Entry {
        origin: "policy".to_owned(),
        value: toml::Value::String("redial".to_owned()),
    });
    let document = toml::to_string(&entry.value).unwrap_or_default();
    let read = match entry.value.as_str() {
        Some(text) if text.trim_start().starts_with('{') => policy::read_json(text),
        Some(name) => {
            return match policy::preset(name) {
                Ok(preset) => Ok(preset.clone()),
                Err(unknown) => Err(Problem::new(entry.origin, unknown.to_string())),
            };
        }
        None => policy::read_toml(&document),
    };
    read.map_err(|error| Problem::new(entry.origin, error.to_string()))
}

fn signing(gathered: &Gathered) -> Result<Signing, Problem> {
    let brand: Brand = required(gathered, "brand")?;
    let texts: Vec<String> = gathered.list("signatures")?;
    let read = domain::signing::read(texts.iter().map(String::as_str));
    let branded = read.and_then(|profiles| Ok(profiles.with_brand(&brand)?));
    let profiles = branded.map_err(|refusal| gathered.wrong("signatures", &refusal.to_string()))?;
    Ok(Signing { brand, profiles })
}

fn egress(gathered: &Gathered) -> Result<Egress, Problem> {
    let plain = gathered.flag("egress.plain_http")?;
    let mut extra_ports = Vec::new();
    for port in gathered.list::<u16>("egress.extra_ports")? {
        let usable = UsablePort::try_from(port);
        extra_ports
            .push(usable.map_err(|bad| gathered.wrong("egress.extra_ports", &bad.to_string()))?);
    }
    Ok(Egress {
        allowed: gathered.list("allow_egress")?,
        own_names: gathered.list("egress.own_names")?,
        extra_ports,
        nat64_prefixes: gathered.list("egress.nat64_prefixes")?,
        plain_http: if plain { PlainHttp::Allowed } else { PlainHttp::Refused },
        proxying: proxying(gathered)?,
    })
}

fn proxying(gathered: &Gathered) -> Result<Proxying, Problem> {
    let trusted = gathered.flag("egress.proxy_trust")?;
    let Some(text) = gathered.text("egress.proxy")? else {
        return if trusted {
            Err(gathered.wrong("egress.proxy_trust", "makes no sense without `egress.proxy`"))
        } else {
            Ok(Proxying::Off)
        };
    };
    let wrong = || gathered.wrong("egress.proxy", "must be host:port, such as proxy.local:3128");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = match host.parse() {
        Ok(address) => Host::Address(address),
        Err(_) => Host::Name(host.parse().map_err(|_| wrong())?),
    };
    let proxy = Proxy { host, port: port.parse().map_err(|_| wrong())? };
    Ok(if trusted { Proxying::Trust(proxy) } else { Proxying::Tunnel(proxy) })
}

fn retention(gathered: &Gathered) -> Result<Retention, Problem> {
    let messages = gathered.span("retention.messages")?;
    // An idempotency key goes with its message: after it the same call would be accepted again.
    if messages < store::limits::IDEMPOTENCY {
        let text = "must be 12h or more: so long a message is not accepted twice";
        return Err(gathered.wrong("retention.messages", text));
    }
    Ok(Retention { messages, dead_letters: gathered.span("retention.dead_letters")? })
}

fn limits(gathered: &Gathered) -> Result<Limits, Problem> {
    let count = |name| Ok(usize::try_from(gathered.number(name)?).unwrap_or(usize::MAX));
    Ok(Limits {
        body_bytes: usize::try_from(gathered.size("limits.body_bytes")?).unwrap_or(usize::MAX),
        batch_messages: count("limits.batch_messages")?,
        batch_concurrency: count("limits.batch_concurrency")?,
        request_timeout: gathered.span("limits.request_timeout")?,
        header_timeout: gathered.span("limits.header_timeout")?,
        connections: count("limits.connections")?,
        in_flight: gathered.number("limits.in_flight")?,
        hanging: gathered.number("limits.hanging")?,
        lane_rows: gathered.number("limits.lane_rows")?,
        lane_bytes: gathered.size("limits.lane_bytes")?,
        lane_wait: gathered.span("limits.lane_wait")?,
        waiting_messages: count("limits.waiting_messages")?,
        waiting_bytes: gathered.size("limits.waiting_bytes")?,
        payload_memory: gathered.size("limits.payload_memory")?,
        cached_tokens: count("limits.cached_tokens")?,
        cached_applications: count("limits.cached_applications")?,
        token_age: gathered.span("limits.token_age")?.min(Duration::from_secs(2)),
        configuration_rate: gathered.number("limits.configuration_rate")?,
        caps: caps(gathered)?,
        roster_memory: gathered.size("limits.roster_memory")?,
        notice: gathered.span("limits.notice")?,
        shutdown: gathered.span("limits.shutdown")?,
    })
}

fn caps(gathered: &Gathered) -> Result<Caps, Problem> {
    Ok(Caps {
        application: Size {
            endpoints: gathered.number("limits.endpoints_per_application")?.into(),
            patterns: gathered.number("limits.patterns_per_application")?.into(),
            bytes: gathered.size("limits.bytes_per_application")?,
        },
        endpoint: Size {
            endpoints: 1,
            patterns: gathered.number("limits.patterns_per_endpoint")?.into(),
            bytes: gathered.size("limits.bytes_per_endpoint")?,
        },
    })
}
