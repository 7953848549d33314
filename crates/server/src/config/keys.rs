//! Every setting there is, as one table: its name, what is written there, its default, what it does.
//!
//! The table is what is read from, what errors choose the nearest name from, and what
//! docs/configuration.md shows. So none of them can know more than the others.

/// How the name of every environment variable of ours begins.
pub(super) const PREFIX: &str = "REDIAL_";

/// A setting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    /// Its name in the file.
    pub(super) name: &'static str,
    /// What is written there.
    pub(super) kind: &'static str,
    /// What holds without it.
    pub(super) default: &'static str,
    /// What it does.
    pub(super) text: &'static str,
}

const fn key(
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    text: &'static str,
) -> Key {
    Key { name, kind, default, text }
}

/// All settings, in the order in which they are listed to people.
pub(super) const KEYS: [Key; 54] = [
    key("listen", "address", "127.0.0.1:8071", "Where the API and the dashboard listen."),
    key("tls.listen", "address", "", "Where the API listens for HTTPS, besides `listen`."),
    key("tls.certificate", "path", "", "The certificate and those that vouch for it, as PEM."),
    key("tls.key", "path", "", "The certificate's private key, as PEM."),
    key("metrics.listen", "address", "", "Where `/metrics` is shown; nowhere without it."),
    key("data", "path", "./redial-data", "The data directory, if there is no `database`."),
    key(
        "sync_delay",
        "span",
        "",
        "For benchmarks: how much longer each commit's sync takes, where the store is a file.",
    ),
    key("database", "URL", "", "A PostgreSQL URL; nodes with the same one form a fleet."),
    key("database_listen", "URL", "", "Where to LISTEN, if `database` leads to a pooler."),
    key("database_connections", "number", "8", "Connections for reading and for the catalog."),
    key("role", "word", "all", "`all`, `api` (sends nothing) or `worker` (serves no API)."),
    key("public_url", "URL", "", "Under which URL people reach this server."),
    key("admin_token", "secret", "", "The admin token; without it the first start makes one."),
    key("encryption_key", "secret", "", "32 bytes in base64; needed with `database`."),
    key("policy", "preset or document", "redial", "The policy where nothing nearer sets one."),
    key(
        "signatures",
        "list of profiles",
        "standard-webhooks,svix",
        "How attempts are signed where neither the endpoint nor its policy says so.",
    ),
    key(
        "brand",
        "word",
        "Redial",
        "The brand of the profile `branded`, as in `X-Redial-Signature`.",
    ),
    key("allow_egress", "list of ranges", "", "Private ranges that endpoints may be in."),
    key("egress.plain_http", "yes or no", "no", "Whether endpoints may have `http` URLs."),
    key("egress.proxy", "host:port", "", "An HTTP proxy that all deliveries go through."),
    key("egress.proxy_trust", "yes or no", "no", "Whether that proxy vets addresses itself."),
    key("egress.own_names", "list of names", "", "Names of this server, refused as endpoints."),
    key("egress.extra_ports", "list of ports", "", "Ports below 1024 besides 80 and 443."),
    key("egress.nat64_prefixes", "list of ranges", "", "NAT64 prefixes of this network, refused."),
    key(
        "limits.body_bytes",
        "size",
        "1MiB",
        "The largest request body; of a batch, 16 times that.",
    ),
    key("limits.batch_messages", "number", "1000", "The most messages in one batch."),
    key("limits.batch_concurrency", "number", "256", "Messages of a batch accepted at a time."),
    key("limits.request_timeout", "span", "30s", "The longest an API request may take."),
    key("limits.header_timeout", "span", "10s", "The longest a client may take to send headers."),
    key("limits.connections", "number", "4096", "The most connections to the API at a time."),
    key(
        "limits.in_flight",
        "number",
        "1024",
        "The most attempts younger than a second; an eighth is for applications that hold few.",
    ),
    key("limits.hanging", "number", "4096", "The most beside these that run for over a second."),
    key("limits.lane_rows", "number", "16384", "The most rows that wait to be written, per lane."),
    key("limits.lane_bytes", "size", "64MiB", "The most bytes that wait to be written, per lane."),
    key(
        "limits.lane_wait",
        "span",
        "1s",
        "How long a message waits for room in a full lane before it is refused.",
    ),
    key(
        "limits.waiting_messages",
        "number",
        "16384",
        "The most messages that wait for that at a time; the others are refused at once.",
    ),
    key("limits.waiting_bytes", "size", "64MiB", "The most bytes of them."),
    key(
        "limits.payload_memory",
        "size",
        "64MiB",
        "The most payload bytes kept in memory; with what is in flight, twice as much.",
    ),
    key("limits.cached_tokens", "number", "10000", "The most tokens remembered in memory."),
    key("limits.cached_applications", "number", "10000", "The most applications remembered."),
    key(
        "limits.token_age",
        "span",
        "2s",
        "How long a token is trusted without asking the store, `2s` at the most.",
    ),
    key(
        "limits.configuration_rate",
        "number",
        "10",
        "Changes, replays and resends per second that tokens of one application may ask for; ten times that at once.",
    ),
    key(
        "limits.endpoints_per_application",
        "number",
        "5000",
        "The most endpoints of one application.",
    ),
    key(
        "limits.patterns_per_endpoint",
        "number",
        "500",
        "The most event types and channels in one endpoint's filters.",
    ),
    key(
        "limits.patterns_per_application",
        "number",
        "50000",
        "The most event types and channels in the filters of all endpoints of one application.",
    ),
    key(
        "limits.bytes_per_endpoint",
        "size",
        "128KiB",
        "The most bytes of one endpoint's settings: filters, headers, metadata and the rest, as JSON.",
    ),
    key(
        "limits.bytes_per_application",
        "size",
        "16MiB",
        "The most bytes of the settings of all endpoints of one application.",
    ),
    key(
        "limits.roster_memory",
        "size",
        "64MiB",
        "The most bytes that endpoints of applications without work take in memory.",
    ),
    key("limits.notice", "span", "1s", "How long a stopping server is not ready but answers."),
    key(
        "limits.shutdown",
        "span",
        "30s",
        "How long stopping may take, notice included; `5s` more than the longest timeout.",
    ),
    key(
        "retention.messages",
        "span",
        "30d",
        "How long messages and attempts are kept; `12h` or more.",
    ),
    key("retention.dead_letters", "span", "30d", "How long dead letters are kept."),
    key("log.format", "word", "text", "`text` or `json`."),
    key("log.filter", "text", "info", "What is logged, such as `info,redial=debug`."),
];

impl Key {
    /// Returns the name of its environment variable.
    pub(super) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_uppercase().replace('.', "_"))
    }
}

/// Finds a setting by its name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Tells whether settings have names that begin with this table.
pub(super) fn is_table(name: &str) -> bool {
    KEYS.iter().any(|key| key.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// Writes the table of docs/configuration.md.
#[must_use]
pub fn table() -> String {
    let mut text = String::from(
        "| key | variable | written as | default | what it does |\n|---|---|---|---|---|\n",
    );
    for key in &KEYS {
        let default =
            if key.default.is_empty() { "—".to_owned() } else { format!("`{}`", key.default) };
        let row = format!(
            "| `{}` | `{}` | {} | {default} | {} |\n",
            key.name,
            key.variable(),
            key.kind,
            key.text
        );
        text.push_str(&row);
    }
    text
}
