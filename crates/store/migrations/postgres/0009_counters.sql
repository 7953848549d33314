-- How often event types were changed: what they set applies to every application, so every node has to
-- read them again. And up to which moment of this server's clock each node has confirmed the changes of
-- the catalog; a node of an earlier version never does. Nodes have no column for it: to add one would
-- wait for all of their renewals.
create table counters (
    name text primary key,
    value bigint not null
);
insert into counters (name, value) values ('event_types', 0);
create table confirmations (
    node text primary key,
    heard_at bigint not null
);
