-- How many lanes the Redis of a realm has: 1, or on a Redis Cluster the hash slots that tallyd counts in. A lane takes only a
-- realm of its own number, so a cluster that lost everything cannot begin with another one. Realms that are here already
-- have 0; the next tallyd that merges for one writes its number.
SET @tally = IF(EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'tally_realms' AND COLUMN_NAME = 'lanes'), 'DO 0', 'ALTER TABLE tally_realms ADD COLUMN lanes INT UNSIGNED NOT NULL DEFAULT 0 COMMENT ''of its Redis; 0: not known yet''');
PREPARE tally FROM @tally;
EXECUTE tally;
DEALLOCATE PREPARE tally;
