-- Names that nothing may have any more, because a path cannot say them: `.` and `..`, and of the event
-- ids the words that stand at their place in a path. Each gets another name that nothing has, and is
-- listed here until the server has told of it.
CREATE TABLE renamed (
    number INTEGER PRIMARY KEY,
    -- Whose name it is: 0 an application's, 1 an endpoint's, 2 a message's, 3 an event type's, 4 a token's.
    kind INTEGER NOT NULL,
    application INTEGER,
    key INTEGER,
    id BLOB NOT NULL,
    old TEXT NOT NULL,
    new TEXT NOT NULL
) STRICT;

INSERT INTO renamed (kind, application, key, id, old, new)
SELECT 0, it.key, it.key, it.id, it.uid, (
    WITH RECURSIVE tried (number, name) AS (
        SELECT 1, it.uid || '-renamed-' || it.key
        UNION ALL
        SELECT number + 1, it.uid || '-renamed-' || it.key || '-' || (number + 1) FROM tried
        WHERE EXISTS (SELECT 1 FROM applications AS other WHERE other.uid = tried.name)
    )
    SELECT name FROM tried ORDER BY number DESC LIMIT 1
)
FROM applications AS it WHERE it.uid IN ('.', '..');

INSERT INTO renamed (kind, application, key, id, old, new)
SELECT 1, it.application, it.key, it.id, it.uid, (
    WITH RECURSIVE tried (number, name) AS (
        SELECT 1, it.uid || '-renamed-' || it.key
        UNION ALL
        SELECT number + 1, it.uid || '-renamed-' || it.key || '-' || (number + 1) FROM tried
        WHERE EXISTS (
            SELECT 1 FROM endpoints AS other
            WHERE other.application = it.application AND other.uid = tried.name
        )
    )
    SELECT name FROM tried ORDER BY number DESC LIMIT 1
)
FROM endpoints AS it WHERE it.uid IN ('.', '..');

-- Of each application, because the index begins with it.
INSERT INTO renamed (kind, application, key, id, old, new)
SELECT 2, it.application, it.key, it.id, it.event_id, (
    WITH RECURSIVE tried (number, name) AS (
        SELECT 1, it.event_id || '-renamed-' || it.key
        UNION ALL
        SELECT number + 1, it.event_id || '-renamed-' || it.key || '-' || (number + 1) FROM tried
        WHERE EXISTS (
            SELECT 1 FROM messages AS other
            WHERE other.application = it.application AND other.event_id = tried.name
        )
    )
    SELECT name FROM tried ORDER BY number DESC LIMIT 1
)
FROM applications CROSS JOIN messages AS it
WHERE it.application = applications.key
    AND it.event_id IN ('.', '..', 'batch', 'bulk-expunge', 'expunge-all-contents');

INSERT INTO renamed (kind, id, old, new)
SELECT 3, x'', it.name, (
    WITH RECURSIVE tried (number, name) AS (
        SELECT 1, it.name || '-renamed'
        UNION ALL
        SELECT number + 1, it.name || '-renamed-' || (number + 1) FROM tried
        WHERE EXISTS (SELECT 1 FROM event_types AS other WHERE other.name = tried.name)
    )
    SELECT name FROM tried ORDER BY number DESC LIMIT 1
)
FROM event_types AS it WHERE it.name IN ('.', '..');

-- Names of tokens need not differ.
INSERT INTO renamed (kind, id, old, new)
SELECT 4, CAST(id AS BLOB), name, name || '-renamed' FROM tokens WHERE name IN ('.', '..');

UPDATE applications SET uid = renamed.new FROM renamed
WHERE renamed.kind = 0 AND renamed.key = applications.key;
UPDATE endpoints SET uid = renamed.new FROM renamed
WHERE renamed.kind = 1 AND renamed.key = endpoints.key;
UPDATE messages SET event_id = renamed.new FROM renamed
WHERE renamed.kind = 2 AND renamed.key = messages.key;
UPDATE event_types SET name = renamed.new FROM renamed
WHERE renamed.kind = 3 AND renamed.old = event_types.name;
UPDATE tokens SET name = renamed.new FROM renamed
WHERE renamed.kind = 4 AND renamed.id = CAST(tokens.id AS BLOB);

-- What is cached of these applications is not used again; that of their endpoints' filters neither.
UPDATE applications SET revision = revision + 1
WHERE key IN (SELECT application FROM renamed WHERE kind IN (0, 1))
    OR EXISTS (SELECT 1 FROM renamed WHERE kind = 3) AND key IN (
        SELECT application FROM endpoints
        WHERE settings LIKE '%"."%' OR settings LIKE '%".."%'
    );
UPDATE endpoints SET settings = json_set(settings, '$.event_types', json((
    SELECT json_group_array(coalesce(renamed.new, listed.value) ORDER BY listed.key)
    FROM json_each(endpoints.settings, '$.event_types') AS listed
    LEFT JOIN renamed ON renamed.kind = 3 AND renamed.old = listed.value
)))
WHERE EXISTS (SELECT 1 FROM renamed WHERE kind = 3)
    AND (settings LIKE '%"."%' OR settings LIKE '%".."%')
    AND CASE WHEN json_valid(settings) THEN json_type(settings, '$.event_types') = 'array' END;
