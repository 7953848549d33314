-- How many deliveries a replay task could not make, because their payload is gone.
ALTER TABLE replay_tasks ADD COLUMN skipped INTEGER NOT NULL DEFAULT 0;
