-- The first schema. Times are microseconds since the Unix epoch, ids are 20 bytes, states and kinds
-- are the small numbers of codes.rs. Every tenant table's key begins with the application.

-- Message keys and FIFO turns come from one sequence: whatever is taken later is greater.
create sequence numbers as bigint cache 1;
create sequence endpoint_keys as bigint cache 1;

create table meta (
    name text primary key,
    value bytea not null
);

create table applications (
    key bigint generated always as identity primary key,
    id bytea not null,
    uid text collate "C",
    revision bigint not null default 1,
    settings text not null,
    created_at bigint not null,
    updated_at bigint not null,
    deleted_at bigint
);
create unique index applications_id on applications (id);
create unique index applications_uid on applications (uid) where uid is not null;
create index applications_deleted on applications (key) where deleted_at is not null;

create table endpoints (
    application bigint not null,
    key bigint not null,
    id bytea not null,
    uid text collate "C",
    partition smallint not null,
    state smallint not null,
    reason smallint,
    ordering smallint not null,
    settings text not null,
    confidential bytea not null,
    created_at bigint not null,
    updated_at bigint not null,
    primary key (application, key)
);
create unique index endpoints_id on endpoints (application, id);
create unique index endpoints_uid on endpoints (application, uid) where uid is not null;
create index endpoints_deleted on endpoints (application, key) where state = 3;

create table endpoint_secrets (
    application bigint not null,
    endpoint bigint not null,
    number bigint generated always as identity,
    sealed bytea not null,
    created_at bigint not null,
    expires_at bigint,
    primary key (application, endpoint, number)
);
create index endpoint_secrets_expiring on endpoint_secrets (expires_at) where expires_at is not null;

-- Written often, by the owner of the partition only, and never indexed otherwise: updates stay on
-- their page.
create table endpoint_state (
    application bigint not null,
    endpoint bigint not null,
    breaker smallint not null,
    failures bigint not null,
    open_until bigint,
    cooldown bigint,
    permanent_streak bigint not null,
    failing_since bigint,
    warned smallint,
    paused_until bigint,
    primary key (application, endpoint)
) with (fillfactor = 50);

-- `fan_out` lists the endpoints, so that the deliveries of a message are point look-ups;
-- `idempotency` repeats the hash, so that pruning finds the key by walking messages.
create table messages (
    application bigint not null,
    key bigint not null,
    id bytea not null,
    event_type text collate "C" not null,
    event_id text collate "C",
    channels jsonb not null,
    content_type text,
    policy text,
    received_at bigint not null,
    retained_until bigint not null,
    idempotency bytea,
    fan_out bigint[] not null,
    payload bytea,
    primary key (application, key)
);
create unique index messages_id on messages (application, id);
create unique index messages_event_id on messages (application, event_id) where event_id is not null;

create table idempotency (
    application bigint not null,
    hash bytea not null,
    message bytea not null,
    received_at bigint not null,
    primary key (application, hash)
);

create table deliveries (
    application bigint not null,
    endpoint bigint not null,
    message bigint not null,
    partition smallint not null,
    ordering smallint not null,
    state smallint not null,
    cause smallint,
    due bigint not null,
    turn bigint not null,
    attempts bigint not null,
    ambiguous bigint not null,
    last_wait bigint not null,
    expires_at bigint,
    recorded bigint not null,
    last_attempt bytea,
    last_attempt_at bigint,
    last_status integer,
    settled_at bigint,
    primary key (application, endpoint, message)
) with (fillfactor = 80);
create index deliveries_pending on deliveries (partition, endpoint, turn, message) where state = 0;
create index deliveries_dead on deliveries (application, message, endpoint) where state = 2;

-- `previous` chains the attempts of a delivery from its `last_attempt` backwards: one B-tree serves
-- both the endpoint's list and the delivery's.
create table attempts (
    application bigint not null,
    endpoint bigint not null,
    id bytea not null,
    message bigint not null,
    number bigint not null,
    previous bytea,
    applied boolean not null,
    next_due bigint,
    began_at bigint not null,
    ended_at bigint not null,
    trigger smallint not null,
    outcome smallint not null,
    status integer,
    retry_after_seconds bigint,
    retry_after_at bigint,
    dns bigint,
    connect bigint,
    tls bigint,
    first_byte bigint,
    error text,
    request_headers text not null,
    response_headers text not null,
    response_body bytea not null,
    primary key (application, endpoint, id)
);

create table requests (
    number bigint generated always as identity,
    partition smallint not null,
    application bigint not null,
    endpoint bigint not null,
    kind smallint not null,
    message bigint,
    asked_at bigint not null,
    primary key (partition, number)
);

create table replay_tasks (
    id bytea primary key,
    application bigint not null,
    endpoint bigint,
    kind smallint not null,
    selection text not null,
    upper bigint not null,
    cursor bigint,
    replayed bigint not null,
    state smallint not null,
    started_by text not null,
    created_at bigint not null,
    updated_at bigint not null
);
create index replay_tasks_application on replay_tasks (application, id);

create table rollups (
    kind smallint not null,
    subject bigint not null,
    minute bigint not null,
    succeeded bigint not null,
    failed bigint not null,
    delivered bigint not null,
    dead bigint not null,
    latencies bigint[] not null,
    primary key (kind, subject, minute)
);

create table nodes (
    name text collate "C" primary key,
    renewed_at bigint not null
) with (fillfactor = 20);

create table partitions (
    number smallint primary key,
    epoch bigint not null default 0,
    owner text collate "C"
) with (fillfactor = 20);
insert into partitions (number) select generate_series(0, 63);

create table event_types (
    name text collate "C" primary key,
    settings text not null,
    created_at bigint not null,
    updated_at bigint not null
);

create table tokens (
    id text collate "C" primary key,
    hash bytea not null,
    name text not null,
    application bytea,
    read_only boolean not null,
    created_at bigint not null,
    expires_at bigint,
    revoked_at bigint
);
