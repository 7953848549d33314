-- What a replay of missing deliveries has to know about a message: when it was to be delivered, and
-- whether it is for one endpoint alone. Both are empty for most messages.
alter table messages add column deliver_at bigint, add column only_endpoint bigint;
