-- Which changes of an application every node has to take in. `revision` counts those that a fan-out
-- sees; the others that sending sees, such as a new secret, are counted apart. So `version` grows with
-- either, and also with what the version before changes.
ALTER TABLE applications ADD COLUMN other_changes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE applications ADD COLUMN changed_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE applications ADD COLUMN version INTEGER
    GENERATED ALWAYS AS (revision + other_changes) VIRTUAL;
CREATE INDEX applications_changed ON applications (changed_at);
