-- The redirects that an attempt has followed, as a JSON list, and why the address guard refused one, for the
-- operator. Null where there is nothing to say.
alter table attempts add column hops text, add column refusal text;
