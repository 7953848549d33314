-- How much the endpoints of an application are that are not deleted: their number, the event types and
-- channels that they name, the bytes of what was set of them. Null until somebody needs it: the store
-- counts it then, and keeps it from then on.
alter table applications
    add column endpoints bigint,
    add column patterns bigint,
    add column bytes bigint;
