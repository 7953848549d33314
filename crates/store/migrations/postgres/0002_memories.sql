-- What is remembered for a while, so that whatever comes again is recognised.

-- Steps of upkeep that would do more if they were done again. The moment comes first: what is old
-- lies together.
create table done_once (
    at bigint not null,
    id bytea not null,
    primary key (at, id)
);

-- Answers to calls with an idempotency key, sealed.
create table answers (
    hash bytea primary key,
    at bigint not null,
    sealed bytea not null
);
create index answers_at on answers (at);

create index tokens_application on tokens (application) where application is not null;
