-- Which Redis a row is of, and which tallyds may merge for it. Version 1 knew one Redis: its rows become one realm,
-- which the first tallyd takes for its Redis. For a server that has no ADD COLUMN IF NOT EXISTS each change is made
-- only if it is missing, so that this may run again.

-- A realm is one Redis with all servers that it fails over to. A tallyd needs its epoch to merge for it. A tallyd that
-- finds another primary takes a new epoch (src/sync/README.md). That ends the merging of all tallyds that still use the
-- old primary.
CREATE TABLE IF NOT EXISTS tally_realms (
    realm    BINARY(16)    NOT NULL COMMENT 'random; tally:realm in Redis',
    epoch    BINARY(16)    NOT NULL COMMENT 'random; also in tally_counters, where each chunk asks for it',
    run_id   VARBINARY(40) NOT NULL COMMENT 'the primary that the epoch is for',
    history  VARBINARY(40) NOT NULL COMMENT 'its master_replid; empty: free, taken by the next Redis without a realm',
    since    DATETIME(3)   NOT NULL COMMENT 'UTC',
    taken_by VARBINARY(64) NOT NULL COMMENT 'instance that took the epoch',
    PRIMARY KEY (realm)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 ROW_FORMAT=DYNAMIC;

-- Makes the realms that rows name, in case this table was dropped, and a free one if there is no realm at all.
SET @tally = IF(EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'tally_counters' AND COLUMN_NAME = 'realm'), 'INSERT IGNORE INTO tally_realms (realm, epoch, run_id, history, since, taken_by) SELECT DISTINCT realm, realm, '''', ''lost'', UTC_TIMESTAMP(3), '''' FROM tally_counters', 'DO 0');
PREPARE tally FROM @tally;
EXECUTE tally;
INSERT INTO tally_realms (realm, epoch, run_id, history, since, taken_by) SELECT UNHEX(LEFT(SHA2(CONCAT(UUID(), RAND()), 256), 32)), REPEAT(x'00', 16), '', '', UTC_TIMESTAMP(3), '' FROM (SELECT 1 AS one) o WHERE NOT EXISTS (SELECT 1 FROM tally_realms);

-- Existing rows get their realm as the default of the new column, so a large ledger is not rewritten. Then the default
-- is removed: an older tallyd, which names no realm, is refused.
SET @realm = (SELECT HEX(MIN(realm)) FROM tally_realms);
SET @tally = IF(EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'tally_ledger' AND COLUMN_NAME = 'realm'), 'DO 0', CONCAT('ALTER TABLE tally_ledger ADD COLUMN realm BINARY(16) NOT NULL DEFAULT x''', @realm, ''''));
PREPARE tally FROM @tally;
EXECUTE tally;
ALTER TABLE tally_ledger ALTER COLUMN realm DROP DEFAULT;

SET @tally = IF(EXISTS (SELECT 1 FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'tally_ledger' AND INDEX_NAME = 'realm_gen'), 'DO 0', 'ALTER TABLE tally_ledger ADD KEY realm_gen (realm, gen)');
PREPARE tally FROM @tally;
EXECUTE tally;

SET @tally = IF(EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'tally_rejects' AND COLUMN_NAME = 'realm'), 'DO 0', CONCAT('ALTER TABLE tally_rejects ADD COLUMN realm BINARY(16) NOT NULL DEFAULT x''', @realm, ''''));
PREPARE tally FROM @tally;
EXECUTE tally;
ALTER TABLE tally_rejects ALTER COLUMN realm DROP DEFAULT;

-- chunks makes each merge change the row, also one whose sum is 0: then an UPDATE that changes none says that the epoch is over.
SET @tally = IF(EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'tally_counters' AND COLUMN_NAME = 'realm'), 'DO 0', CONCAT('ALTER TABLE tally_counters ADD COLUMN realm BINARY(16) NOT NULL DEFAULT x''', @realm, ''', ADD COLUMN epoch BINARY(16) NOT NULL, ADD COLUMN chunks BIGINT UNSIGNED NOT NULL DEFAULT 0, DROP PRIMARY KEY, ADD PRIMARY KEY (counter, realm)'));
PREPARE tally FROM @tally;
EXECUTE tally;
ALTER TABLE tally_counters ALTER COLUMN realm DROP DEFAULT;
DEALLOCATE PREPARE tally;
