-- How often event types were changed: what they set applies to every application, so every node has to
-- read them again. Nodes and what they have confirmed are in memory here.
CREATE TABLE counters (
    name TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters (name, value) VALUES ('event_types', 0);
