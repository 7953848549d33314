-- What a token for one application may do beside reading, and which session it was made for. A token of
-- before has none of it: what it may do is what the operator's setting says.
alter table tokens
    add column grants text,
    add column session text;
