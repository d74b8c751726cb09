-- A tallyd that did not have a realm's epoch asks here whether one lives that has it, and waits (src/sync/README.md, rule S49): the
-- other Redis may be a copy, and the first one go on. Who has the epoch answers.
SET @tally = IF(EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'tally_realms' AND COLUMN_NAME = 'asked_at'), 'DO 0', 'ALTER TABLE tally_realms ADD COLUMN asked_at DATETIME(3) NULL COMMENT ''UTC: when another tallyd asked whether one lives that has the epoch; NULL: nobody has''');
PREPARE tally FROM @tally;
EXECUTE tally;
SET @tally = IF(EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'tally_realms' AND COLUMN_NAME = 'alive_at'), 'DO 0', 'ALTER TABLE tally_realms ADD COLUMN alive_at DATETIME(3) NULL COMMENT ''UTC: when one that has it answered; NULL: none has''');
PREPARE tally FROM @tally;
EXECUTE tally;
DEALLOCATE PREPARE tally;
