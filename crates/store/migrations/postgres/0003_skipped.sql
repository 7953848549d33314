-- How many deliveries a replay task could not make, because their payload is gone.
alter table replay_tasks add column skipped bigint not null default 0;
