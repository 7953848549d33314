-- How long an attempt's Retry-After counts, if that is less than it asked for. Those that are there already
-- do not say.
ALTER TABLE attempts ADD COLUMN retry_after_kept INTEGER;
