-- The redirects that an attempt has followed, as a JSON list, and why the address guard refused one, for the
-- operator. Null where there is nothing to say.
ALTER TABLE attempts ADD COLUMN hops TEXT;
ALTER TABLE attempts ADD COLUMN refusal TEXT;
