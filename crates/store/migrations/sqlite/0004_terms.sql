-- What a replay of missing deliveries has to know about a message. Both are empty for most of them,
-- and an empty column is in the row's head alone: it costs nothing that they come behind the payload.
ALTER TABLE messages ADD COLUMN deliver_at INTEGER;
ALTER TABLE messages ADD COLUMN only_endpoint INTEGER;

-- Deliveries that a replay has made after their message was accepted. The message's own `fan_out`
-- stays as it was: to change it would be to write the payload again.
CREATE TABLE added_deliveries (
    message INTEGER NOT NULL,
    endpoint INTEGER NOT NULL,
    PRIMARY KEY (message, endpoint)
) STRICT, WITHOUT ROWID;
