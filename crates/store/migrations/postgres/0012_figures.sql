-- What sums were lacking: what was accepted, first attempts, how long attempts took, and the causes of
-- dead letters, also of those that were buried without an attempt. Sums that are there already do not say.
-- Those of old minutes are added to those of their hour, which have a `kind` of their own: 3, 4 and 5 for
-- 0, 1 and 2.
alter table rollups
    add column accepted bigint not null default 0,
    add column dead_at_once bigint not null default 0,
    add column first_attempts bigint not null default 0,
    add column delivered_at_first bigint not null default 0,
    add column attempt_times bigint[] not null default '{}',
    add column causes bigint[] not null default '{}',
    add column buried bigint[] not null default '{}';
