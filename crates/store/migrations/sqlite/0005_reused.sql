-- Whether an attempt's connection had been used before. Nobody knows of those that are there already.
ALTER TABLE attempts ADD COLUMN reused INTEGER;
