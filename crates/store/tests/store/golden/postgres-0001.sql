-- A store of the first version with data in it, as pg_dump tells it. It is never changed.
CREATE TABLE applications (
    key bigint NOT NULL,
    id bytea NOT NULL,
    uid text COLLATE pg_catalog."C",
    revision bigint DEFAULT 1 NOT NULL,
    settings text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    deleted_at bigint
);
ALTER TABLE applications ALTER COLUMN key ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME applications_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE attempts (
    application bigint NOT NULL,
    endpoint bigint NOT NULL,
    id bytea NOT NULL,
    message bigint NOT NULL,
    number bigint NOT NULL,
    previous bytea,
    applied boolean NOT NULL,
    next_due bigint,
    began_at bigint NOT NULL,
    ended_at bigint NOT NULL,
    trigger smallint NOT NULL,
    outcome smallint NOT NULL,
    status integer,
    retry_after_seconds bigint,
    retry_after_at bigint,
    dns bigint,
    connect bigint,
    tls bigint,
    first_byte bigint,
    error text,
    request_headers text NOT NULL,
    response_headers text NOT NULL,
    response_body bytea NOT NULL
);
CREATE TABLE deliveries (
    application bigint NOT NULL,
    endpoint bigint NOT NULL,
    message bigint NOT NULL,
    partition smallint NOT NULL,
    ordering smallint NOT NULL,
    state smallint NOT NULL,
    cause smallint,
    due bigint NOT NULL,
    turn bigint NOT NULL,
    attempts bigint NOT NULL,
    ambiguous bigint NOT NULL,
    last_wait bigint NOT NULL,
    expires_at bigint,
    recorded bigint NOT NULL,
    last_attempt bytea,
    last_attempt_at bigint,
    last_status integer,
    settled_at bigint
)
WITH (fillfactor='80');
CREATE SEQUENCE endpoint_keys
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE endpoint_secrets (
    application bigint NOT NULL,
    endpoint bigint NOT NULL,
    number bigint NOT NULL,
    sealed bytea NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint
);
ALTER TABLE endpoint_secrets ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME endpoint_secrets_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE endpoint_state (
    application bigint NOT NULL,
    endpoint bigint NOT NULL,
    breaker smallint NOT NULL,
    failures bigint NOT NULL,
    open_until bigint,
    cooldown bigint,
    permanent_streak bigint NOT NULL,
    failing_since bigint,
    warned smallint,
    paused_until bigint
)
WITH (fillfactor='50');
CREATE TABLE endpoints (
    application bigint NOT NULL,
    key bigint NOT NULL,
    id bytea NOT NULL,
    uid text COLLATE pg_catalog."C",
    partition smallint NOT NULL,
    state smallint NOT NULL,
    reason smallint,
    ordering smallint NOT NULL,
    settings text NOT NULL,
    confidential bytea NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE event_types (
    name text NOT NULL COLLATE pg_catalog."C",
    settings text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE idempotency (
    application bigint NOT NULL,
    hash bytea NOT NULL,
    message bytea NOT NULL,
    received_at bigint NOT NULL
);
CREATE TABLE messages (
    application bigint NOT NULL,
    key bigint NOT NULL,
    id bytea NOT NULL,
    event_type text NOT NULL COLLATE pg_catalog."C",
    event_id text COLLATE pg_catalog."C",
    channels jsonb NOT NULL,
    content_type text,
    policy text,
    received_at bigint NOT NULL,
    retained_until bigint NOT NULL,
    idempotency bytea,
    fan_out bigint[] NOT NULL,
    payload bytea
);
CREATE TABLE meta (
    name text NOT NULL,
    value bytea NOT NULL
);
CREATE TABLE nodes (
    name text NOT NULL COLLATE pg_catalog."C",
    renewed_at bigint NOT NULL
)
WITH (fillfactor='20');
CREATE SEQUENCE numbers
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE partitions (
    number smallint NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    owner text COLLATE pg_catalog."C"
)
WITH (fillfactor='20');
CREATE TABLE replay_tasks (
    id bytea NOT NULL,
    application bigint NOT NULL,
    endpoint bigint,
    kind smallint NOT NULL,
    selection text NOT NULL,
    upper bigint NOT NULL,
    cursor bigint,
    replayed bigint NOT NULL,
    state smallint NOT NULL,
    started_by text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE requests (
    number bigint NOT NULL,
    partition smallint NOT NULL,
    application bigint NOT NULL,
    endpoint bigint NOT NULL,
    kind smallint NOT NULL,
    message bigint,
    asked_at bigint NOT NULL
);
ALTER TABLE requests ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME requests_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE rollups (
    kind smallint NOT NULL,
    subject bigint NOT NULL,
    minute bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    delivered bigint NOT NULL,
    dead bigint NOT NULL,
    latencies bigint[] NOT NULL
);
CREATE TABLE schema_versions (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE tokens (
    id text NOT NULL COLLATE pg_catalog."C",
    hash bytea NOT NULL,
    name text NOT NULL,
    application bytea,
    read_only boolean NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);
INSERT INTO applications OVERRIDING SYSTEM VALUE VALUES (1, '\x17d7840000010101010101010101010101010101', NULL, 4, '{"name":""}', 1800000000000000, 1800000000000000, NULL);
INSERT INTO attempts VALUES (1, 1, '\x17d7840000070000000000000005070707070707', 3, 1, NULL, true, NULL, 1800000000000000, 1800000001000000, 0, 0, 200, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[["webhook-id","msg_1"]]', '[]', '\x6f6b');
INSERT INTO attempts VALUES (1, 1, '\x17d7840000070000000000000007070707070707', 4, 1, NULL, true, 1800000030000000, 1800000000000000, 1800000001000000, 0, 0, 503, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[["webhook-id","msg_1"]]', '[]', '\x6f6b');
INSERT INTO attempts VALUES (1, 1, '\x17d7840000070000000000000008070707070707', 4, 2, '\x17d7840000070000000000000007070707070707', true, NULL, 1800000000000000, 1800000001000000, 0, 0, 503, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[["webhook-id","msg_1"]]', '[]', '\x6f6b');
INSERT INTO deliveries VALUES (1, 1, 1, 26, 0, 0, NULL, 1800000000000000, 1800000000000000, 0, 0, 0, 1800345600000000, 0, NULL, NULL, NULL, NULL);
INSERT INTO deliveries VALUES (1, 2, 1, 3, 1, 0, NULL, 1800000000000000, 2, 0, 0, 0, 1800345600000000, 0, NULL, NULL, NULL, NULL);
INSERT INTO deliveries VALUES (1, 1, 3, 26, 0, 1, NULL, 1800000000000000, 1800000000000000, 1, 0, 0, 1800345600000000, 1, '\x17d7840000070000000000000005070707070707', 1800000001000000, 200, 1800000001000000);
INSERT INTO deliveries VALUES (1, 1, 4, 26, 0, 2, 1, 1800000030000000, 1800000030000000, 2, 0, 0, 1800345600000000, 2, '\x17d7840000070000000000000008070707070707', 1800000001000000, 503, 1800000001000000);
INSERT INTO deliveries VALUES (1, 1, 5, 26, 0, 3, NULL, 1800000000000000, 1800000000000000, 0, 0, 0, 1800345600000000, 0, NULL, NULL, NULL, 1800000000000000);
INSERT INTO endpoint_secrets OVERRIDING SYSTEM VALUE VALUES (1, 2, 2, '\x04040404040404040404040404040404040404040404040456f61bf9027a833bb864060aead91d6342b7acc2f61015d06f', 1800000000000000, NULL);
INSERT INTO endpoint_secrets OVERRIDING SYSTEM VALUE VALUES (1, 1, 1, '\x020202020202020202020202020202020202020202020202add97399ebc258e92331163ac885e74528acd7b07ca983c849', 1800000000000000, 1800000900000000);
INSERT INTO endpoint_secrets OVERRIDING SYSTEM VALUE VALUES (1, 1, 3, '\x05050505050505050505050505050505050505050505050586d206887e28bd58b4acec096f7dfc44765574446775ebc8f4', 1800000000000000, NULL);
INSERT INTO endpoints VALUES (1, 1, '\x17d7840000070000000000000001070707070707', NULL, 26, 0, NULL, 0, '{"origin":"https://receiver.example"}', '\x010101010101010101010101010101010101010101010101ca56732cbd84b2fe538fc8f2526e25f4957db00acc1b64c4c220cb5a0b8c17724ecc32078a3888a792e972db14f8c2a5fa4dcc', 1800000000000000, 1800000000000000);
INSERT INTO endpoints VALUES (1, 2, '\x17d7840000070000000000000002070707070707', NULL, 3, 0, NULL, 1, '{"origin":"https://receiver.example"}', '\x030303030303030303030303030303030303030303030303ff243b7a0149999119741c8a32b4bc3008a052486b7a597ed96048624b414f87fd2efc9cf81b76de759a97198e23b3d02cbbe5', 1800000000000000, 1800000000000000);
INSERT INTO event_types VALUES ('invoice.paid', '{"description":"","archived":false,"deprecated":false}', 1800000000000000, 1800000000000000);
INSERT INTO idempotency VALUES (1, '\x0404040404040404040404040404040404040404040404040404040404040404', '\x17d7840000070000000000000003070707070707', 1800000050000000);
INSERT INTO messages VALUES (1, 1, '\x17d7840000070000000000000003070707070707', 'invoice.paid', 'e-1', '["c"]', NULL, '{}', 1800000050000000, 1807776000000000, '\x0404040404040404040404040404040404040404040404040404040404040404', '{1,2}', '\x7b2270616964223a747275657d');
INSERT INTO messages VALUES (1, 3, '\x17d7840000070000000000000004070707070707', 'invoice.paid', NULL, '[]', NULL, NULL, 1800000000000000, 1807776000000000, NULL, '{1}', '\x7b2270616964223a747275657d');
INSERT INTO messages VALUES (1, 4, '\x17d7840000070000000000000006070707070707', 'invoice.paid', NULL, '[]', NULL, NULL, 1800000000000000, 1807776000000000, NULL, '{1}', '\x7b2270616964223a747275657d');
INSERT INTO messages VALUES (1, 5, '\x17d7840000070000000000000009070707070707', 'invoice.paid', NULL, '[]', NULL, NULL, 1800000000000000, 1807776000000000, NULL, '{1}', '\x7b2270616964223a747275657d');
INSERT INTO meta VALUES ('canary', '\x00000000000000000000000000000000000000000000000044088be21d4847126b0fd356604f38fd0b070b8e2c713e444937331b');
INSERT INTO partitions VALUES (0, 1, 'first');
INSERT INTO partitions VALUES (1, 1, 'first');
INSERT INTO partitions VALUES (2, 1, 'first');
INSERT INTO partitions VALUES (3, 1, 'first');
INSERT INTO partitions VALUES (4, 1, 'first');
INSERT INTO partitions VALUES (5, 1, 'first');
INSERT INTO partitions VALUES (6, 1, 'first');
INSERT INTO partitions VALUES (7, 1, 'first');
INSERT INTO partitions VALUES (8, 1, 'first');
INSERT INTO partitions VALUES (9, 1, 'first');
INSERT INTO partitions VALUES (10, 1, 'first');
INSERT INTO partitions VALUES (11, 1, 'first');
INSERT INTO partitions VALUES (12, 1, 'first');
INSERT INTO partitions VALUES (13, 1, 'first');
INSERT INTO partitions VALUES (14, 1, 'first');
INSERT INTO partitions VALUES (15, 1, 'first');
INSERT INTO partitions VALUES (16, 1, 'first');
INSERT INTO partitions VALUES (17, 1, 'first');
INSERT INTO partitions VALUES (18, 1, 'first');
INSERT INTO partitions VALUES (19, 1, 'first');
INSERT INTO partitions VALUES (20, 1, 'first');
INSERT INTO partitions VALUES (21, 1, 'first');
INSERT INTO partitions VALUES (22, 1, 'first');
INSERT INTO partitions VALUES (23, 1, 'first');
INSERT INTO partitions VALUES (24, 1, 'first');
INSERT INTO partitions VALUES (25, 1, 'first');
INSERT INTO partitions VALUES (26, 1, 'first');
INSERT INTO partitions VALUES (27, 1, 'first');
INSERT INTO partitions VALUES (28, 1, 'first');
INSERT INTO partitions VALUES (29, 1, 'first');
INSERT INTO partitions VALUES (30, 1, 'first');
INSERT INTO partitions VALUES (31, 1, 'first');
INSERT INTO partitions VALUES (32, 1, 'first');
INSERT INTO partitions VALUES (33, 1, 'first');
INSERT INTO partitions VALUES (34, 1, 'first');
INSERT INTO partitions VALUES (35, 1, 'first');
INSERT INTO partitions VALUES (36, 1, 'first');
INSERT INTO partitions VALUES (37, 1, 'first');
INSERT INTO partitions VALUES (38, 1, 'first');
INSERT INTO partitions VALUES (39, 1, 'first');
INSERT INTO partitions VALUES (40, 1, 'first');
INSERT INTO partitions VALUES (41, 1, 'first');
INSERT INTO partitions VALUES (42, 1, 'first');
INSERT INTO partitions VALUES (43, 1, 'first');
INSERT INTO partitions VALUES (44, 1, 'first');
INSERT INTO partitions VALUES (45, 1, 'first');
INSERT INTO partitions VALUES (46, 1, 'first');
INSERT INTO partitions VALUES (47, 1, 'first');
INSERT INTO partitions VALUES (48, 1, 'first');
INSERT INTO partitions VALUES (49, 1, 'first');
INSERT INTO partitions VALUES (50, 1, 'first');
INSERT INTO partitions VALUES (51, 1, 'first');
INSERT INTO partitions VALUES (52, 1, 'first');
INSERT INTO partitions VALUES (53, 1, 'first');
INSERT INTO partitions VALUES (54, 1, 'first');
INSERT INTO partitions VALUES (55, 1, 'first');
INSERT INTO partitions VALUES (56, 1, 'first');
INSERT INTO partitions VALUES (57, 1, 'first');
INSERT INTO partitions VALUES (58, 1, 'first');
INSERT INTO partitions VALUES (59, 1, 'first');
INSERT INTO partitions VALUES (60, 1, 'first');
INSERT INTO partitions VALUES (61, 1, 'first');
INSERT INTO partitions VALUES (62, 1, 'first');
INSERT INTO partitions VALUES (63, 1, 'first');
INSERT INTO replay_tasks VALUES ('\x17d784000007000000000000000b070707070707', 1, 1, 0, '{"since":1}', 5, NULL, 0, 0, 'golden', 1800000000000000, 1800000000000000);
INSERT INTO requests OVERRIDING SYSTEM VALUE VALUES (1, 26, 1, 1, 3, 5, 1800000000000000);
INSERT INTO rollups VALUES (0, 0, 30000000, 2, 0, 1, 1, '{1,2}');
INSERT INTO schema_versions VALUES (1, 'first', 'e5bc5cd885e1231cc10671267ad2af3648e540a03deceeadb7ff68f9aab9264e', '2026-11-16 00:56:31.155733+00');
INSERT INTO tokens VALUES ('tok_1', '\x0303030303030303030303030303030303030303030303030303030303030303', 'golden', '\x17d7840000010101010101010101010101010101', true, 1800000000000000, NULL, NULL);
SELECT pg_catalog.setval('applications_key_seq', 1, true);
SELECT pg_catalog.setval('endpoint_keys', 2, true);
SELECT pg_catalog.setval('endpoint_secrets_number_seq', 3, true);
SELECT pg_catalog.setval('numbers', 5, true);
SELECT pg_catalog.setval('requests_number_seq', 1, true);
ALTER TABLE ONLY applications
    ADD CONSTRAINT applications_pkey PRIMARY KEY (key);
ALTER TABLE ONLY attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (application, endpoint, id);
ALTER TABLE ONLY deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (application, endpoint, message);
ALTER TABLE ONLY endpoint_secrets
    ADD CONSTRAINT endpoint_secrets_pkey PRIMARY KEY (application, endpoint, number);
ALTER TABLE ONLY endpoint_state
    ADD CONSTRAINT endpoint_state_pkey PRIMARY KEY (application, endpoint);
ALTER TABLE ONLY endpoints
    ADD CONSTRAINT endpoints_pkey PRIMARY KEY (application, key);
ALTER TABLE ONLY event_types
    ADD CONSTRAINT event_types_pkey PRIMARY KEY (name);
ALTER TABLE ONLY idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (application, hash);
ALTER TABLE ONLY messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (application, key);
ALTER TABLE ONLY meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (name);
ALTER TABLE ONLY nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (name);
ALTER TABLE ONLY partitions
    ADD CONSTRAINT partitions_pkey PRIMARY KEY (number);
ALTER TABLE ONLY replay_tasks
    ADD CONSTRAINT replay_tasks_pkey PRIMARY KEY (id);
ALTER TABLE ONLY requests
    ADD CONSTRAINT requests_pkey PRIMARY KEY (partition, number);
ALTER TABLE ONLY rollups
    ADD CONSTRAINT rollups_pkey PRIMARY KEY (kind, subject, minute);
ALTER TABLE ONLY schema_versions
    ADD CONSTRAINT schema_versions_pkey PRIMARY KEY (version);
ALTER TABLE ONLY tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);
CREATE INDEX applications_deleted ON applications USING btree (key) WHERE (deleted_at IS NOT NULL);
CREATE UNIQUE INDEX applications_id ON applications USING btree (id);
CREATE UNIQUE INDEX applications_uid ON applications USING btree (uid) WHERE (uid IS NOT NULL);
CREATE INDEX deliveries_dead ON deliveries USING btree (application, message, endpoint) WHERE (state = 2);
CREATE INDEX deliveries_pending ON deliveries USING btree (partition, endpoint, turn, message) WHERE (state = 0);
CREATE INDEX endpoint_secrets_expiring ON endpoint_secrets USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX endpoints_deleted ON endpoints USING btree (application, key) WHERE (state = 3);
CREATE UNIQUE INDEX endpoints_id ON endpoints USING btree (application, id);
CREATE UNIQUE INDEX endpoints_uid ON endpoints USING btree (application, uid) WHERE (uid IS NOT NULL);
CREATE UNIQUE INDEX messages_event_id ON messages USING btree (application, event_id) WHERE (event_id IS NOT NULL);
CREATE UNIQUE INDEX messages_id ON messages USING btree (application, id);
CREATE INDEX replay_tasks_application ON replay_tasks USING btree (application, id);
