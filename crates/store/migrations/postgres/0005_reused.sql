-- Whether an attempt's connection had been used before. Nobody knows of those that are there already.
alter table attempts add column reused boolean;
