-- What sums were lacking: what was accepted, first attempts, how long attempts took, and the causes of
-- dead letters, also of those that were buried without an attempt. Sums that are there already do not say.
-- Those of old minutes are added to those of their hour, which have a `subject` of their own: 3, 4 and 5
-- for 0, 1 and 2.
ALTER TABLE rollups ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rollups ADD COLUMN dead_at_once INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rollups ADD COLUMN first_attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rollups ADD COLUMN delivered_at_first INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rollups ADD COLUMN attempt_times BLOB NOT NULL DEFAULT x'';
ALTER TABLE rollups ADD COLUMN causes BLOB NOT NULL DEFAULT x'';
ALTER TABLE rollups ADD COLUMN buried BLOB NOT NULL DEFAULT x'';
