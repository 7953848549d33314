-- How long an attempt's Retry-After counts, if that is less than it asked for. Those that are there already
-- do not say.
alter table attempts add column retry_after_kept bigint;
