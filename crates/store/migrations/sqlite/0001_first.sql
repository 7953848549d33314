-- Times are microseconds since the Unix epoch, spans microseconds, states small numbers (see the
-- module `codec` of this backend). The tables of the hot path have no row number of their own:
-- each costs exactly one B-tree, and a list reads it in its order.

-- Single values: the vault's canary, the high-water mark of the sequence, how far pruning got.
CREATE TABLE meta (
    name TEXT NOT NULL PRIMARY KEY,
    value ANY
) STRICT, WITHOUT ROWID;

CREATE TABLE applications (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL,
    uid TEXT,
    revision INTEGER NOT NULL,
    settings TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER
) STRICT;
CREATE UNIQUE INDEX applications_id ON applications (id) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX applications_uid ON applications (uid) WHERE uid IS NOT NULL;
CREATE INDEX applications_deleted ON applications (key) WHERE deleted_at IS NOT NULL;

CREATE TABLE endpoints (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    application INTEGER NOT NULL,
    id BLOB NOT NULL,
    uid TEXT,
    partition INTEGER NOT NULL,
    state INTEGER NOT NULL,
    reason INTEGER,
    turn_order INTEGER NOT NULL,
    settings TEXT NOT NULL,
    confidential BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    -- Of a tombstone: nothing of it is pending any more.
    emptied INTEGER NOT NULL DEFAULT 0
) STRICT;
-- Tombstones are in it, too, so it is not unique.
CREATE INDEX endpoints_id ON endpoints (application, id);
CREATE UNIQUE INDEX endpoints_uid ON endpoints (application, uid) WHERE uid IS NOT NULL;
CREATE INDEX endpoints_deleted ON endpoints (key) WHERE state = 3 AND emptied = 0;

CREATE TABLE endpoint_secrets (
    endpoint INTEGER NOT NULL,
    number INTEGER NOT NULL,
    sealed BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (endpoint, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX endpoint_secrets_expiring ON endpoint_secrets (expires_at)
    WHERE expires_at IS NOT NULL;

-- What an endpoint's owner keeps about it while it runs.
CREATE TABLE endpoint_state (
    endpoint INTEGER NOT NULL PRIMARY KEY,
    breaker INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    open_until INTEGER,
    cooldown INTEGER,
    permanent_streak INTEGER NOT NULL,
    failing_since INTEGER,
    warned INTEGER,
    paused_until INTEGER
) STRICT;

CREATE TABLE messages (
    key INTEGER PRIMARY KEY,
    application INTEGER NOT NULL,
    id BLOB NOT NULL,
    event_type TEXT NOT NULL,
    event_id TEXT,
    channels TEXT,
    content_type TEXT,
    policy TEXT,
    idempotency BLOB,
    received_at INTEGER NOT NULL,
    retained_until INTEGER NOT NULL,
    -- The endpoints it went to, eight bytes each: its deliveries are point look-ups.
    fan_out BLOB NOT NULL,
    -- Last, so that lists without payloads do not read it.
    payload BLOB
) STRICT;
CREATE UNIQUE INDEX messages_id ON messages (application, id);
CREATE UNIQUE INDEX messages_event_id ON messages (application, event_id)
    WHERE event_id IS NOT NULL;

CREATE TABLE idempotency (
    application INTEGER NOT NULL,
    hash BLOB NOT NULL,
    message BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (application, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE deliveries (
    endpoint INTEGER NOT NULL,
    message INTEGER NOT NULL,
    application INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    turn_order INTEGER NOT NULL,
    state INTEGER NOT NULL,
    cause INTEGER,
    turn INTEGER NOT NULL,
    due INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    ambiguous INTEGER NOT NULL,
    last_wait INTEGER NOT NULL,
    expires_at INTEGER,
    recorded INTEGER NOT NULL,
    last_attempt BLOB,
    last_attempt_at INTEGER,
    last_status INTEGER,
    settled_at INTEGER,
    PRIMARY KEY (endpoint, message)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_pending ON deliveries (endpoint, turn, message) WHERE state = 0;
CREATE INDEX deliveries_dead ON deliveries (application, message, endpoint) WHERE state = 2;

-- By endpoint and time; those of one delivery are a chain from its last attempt backwards.
CREATE TABLE attempts (
    endpoint INTEGER NOT NULL,
    id BLOB NOT NULL,
    message INTEGER NOT NULL,
    number INTEGER NOT NULL,
    previous BLOB,
    -- Whether the settle that brought it moved the delivery.
    applied INTEGER NOT NULL,
    began_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    trigger INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    status INTEGER,
    retry_after INTEGER,
    retry_after_at INTEGER,
    next_due INTEGER,
    dns INTEGER,
    connect INTEGER,
    tls INTEGER,
    first_byte INTEGER,
    error TEXT,
    request_headers TEXT NOT NULL,
    response_headers TEXT NOT NULL,
    response_body BLOB NOT NULL,
    PRIMARY KEY (endpoint, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE replay_tasks (
    id BLOB NOT NULL PRIMARY KEY,
    application INTEGER NOT NULL,
    endpoint INTEGER,
    kind INTEGER NOT NULL,
    selection TEXT NOT NULL,
    upper INTEGER NOT NULL,
    cursor INTEGER,
    replayed INTEGER NOT NULL,
    state INTEGER NOT NULL,
    started_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX replay_tasks_application ON replay_tasks (application, id);

CREATE TABLE requests (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    application INTEGER NOT NULL,
    endpoint INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    message INTEGER,
    at INTEGER NOT NULL
) STRICT;

CREATE TABLE rollups (
    subject INTEGER NOT NULL,
    key INTEGER NOT NULL,
    minute INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    latencies BLOB NOT NULL,
    PRIMARY KEY (subject, key, minute)
) STRICT, WITHOUT ROWID;

-- Epochs only: which node owns what is forgotten with the process, the only one there is.
CREATE TABLE partitions (
    number INTEGER NOT NULL PRIMARY KEY,
    epoch INTEGER NOT NULL
) STRICT;

CREATE TABLE event_types (
    name TEXT NOT NULL PRIMARY KEY,
    settings TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
    id TEXT NOT NULL PRIMARY KEY,
    hash BLOB NOT NULL,
    name TEXT NOT NULL,
    application BLOB,
    read_only INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
