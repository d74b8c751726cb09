-- A chunk may be merged in parts: what waits for a lock of the shop's stays out (src/sync/README.md, rule S48). Until the last part
-- is merged the digest is not that of the rows but each of its bits inverted: a tallyd that does not know this column leaves such a batch
-- alone.
SET @tally = IF(EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'tally_ledger' AND COLUMN_NAME = 'waiting'), 'DO 0', 'ALTER TABLE tally_ledger ADD COLUMN waiting LONGBLOB NULL COMMENT ''pending hashes of the chunk that are not merged yet, each after its length as 32 bits; NULL: none''');
PREPARE tally FROM @tally;
EXECUTE tally;
DEALLOCATE PREPARE tally;
