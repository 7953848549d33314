-- What is remembered for a while, so that whatever comes again is recognised.

-- Steps of upkeep that would do more if they were done again. The moment comes first: what is old
-- lies together.
CREATE TABLE done_once (
    at INTEGER NOT NULL,
    id BLOB NOT NULL,
    PRIMARY KEY (at, id)
) STRICT, WITHOUT ROWID;

-- Answers to calls with an idempotency key, sealed.
CREATE TABLE answers (
    hash BLOB NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL,
    sealed BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX answers_at ON answers (at);

CREATE INDEX tokens_application ON tokens (application) WHERE application IS NOT NULL;
