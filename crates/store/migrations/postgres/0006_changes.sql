-- Which changes of an application every node has to take in. `revision` counts those that a fan-out
-- sees; the others that sending sees, such as a new secret, are counted apart. So `version` grows with
-- either, and also with what the version before changes.
alter table applications
    add column other_changes bigint not null default 0,
    add column changed_at bigint not null default 0;
alter table applications
    add column version bigint generated always as (revision + other_changes) stored;
create index applications_changed on applications (changed_at);
