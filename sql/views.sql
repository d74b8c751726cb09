-- What people and panels read. There is also a view for each counter (tally_stored_<counter>: the merchant's columns,
-- and complete_until), whose text is made from the configuration (src/mysql/migrate.c). Applied by `tallyd migrate
-- --views`, safe to repeat, and of no version: nothing in tallyd reads them. Each statement ends with a semicolon at
-- the end of its line.

-- How far each counter is, over all Redis that are counted for: every hit before complete_until (UTC) is in its table.
-- Sums are modulo 2^64.
CREATE OR REPLACE VIEW tally_progress AS
SELECT CONVERT(counter USING utf8mb4) AS counter,
       CAST(MOD(MOD(SUM(merged), 18446744073709551616) + 27670116110564327424, 18446744073709551616)
            - 9223372036854775808 AS SIGNED) AS merged,
       CAST(MOD(MOD(SUM(rejected), 18446744073709551616) + 27670116110564327424, 18446744073709551616)
            - 9223372036854775808 AS SIGNED) AS rejected,
       IF(COUNT(*) = COUNT(complete_until), MIN(complete_until), NULL) AS complete_until,
       TIMESTAMPDIFF(SECOND, IF(COUNT(*) = COUNT(complete_until), MIN(complete_until), NULL), UTC_TIMESTAMP(3))
         AS behind_seconds
FROM tally_counters
GROUP BY counter;

-- Rows that MySQL refused and that were not replayed, readable for people.
CREATE OR REPLACE VIEW tally_rejects_waiting AS
SELECT LOWER(HEX(batch)) AS batch, chunk, seq, CONVERT(counter USING utf8mb4) AS counter,
       CONVERT(pending_hash USING utf8mb4) AS pending_hash, CONVERT(field USING utf8mb4) AS field,
       CONVERT(delta USING utf8mb4) AS delta, reason, rejected_at
FROM tally_rejects
WHERE replayed_at IS NULL;
