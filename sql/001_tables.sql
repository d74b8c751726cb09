-- tallyd's own tables. Files here are applied in the order of their numbers by `tallyd migrate`, each until it is through:
-- every statement must be safe to run again, and ends with a semicolon at the end of its line. Names and forms are public:
-- people script against them. A file that was released never changes; what changes is a new file.

-- One row for each merged chunk of a batch. Its insert is the first statement of the chunk's transaction, so it is the mutex
-- and the memory of "exactly once". total = the integer deltas of the chunk, merged and rejected.
CREATE TABLE IF NOT EXISTS tally_ledger (
    batch       BINARY(16)      NOT NULL,
    chunk       INT UNSIGNED    NOT NULL,
    chunks      INT UNSIGNED    NOT NULL COMMENT 'of the whole batch',
    counter     VARBINARY(64)   NOT NULL,
    gen         BIGINT UNSIGNED NOT NULL COMMENT 'tally:gen of the claim',
    first_key   VARBINARY(1028) NOT NULL COMMENT 'of the first row: pending hash and field, each after its length as 16 bits',
    last_key    VARBINARY(1028) NOT NULL,
    digest      BINARY(16)      NOT NULL COMMENT 'XXH3-128 of the rows',
    rows_merged INT UNSIGNED    NOT NULL,
    total       BIGINT          NOT NULL,
    merged_at   DATETIME(3)     NOT NULL COMMENT 'UTC',
    PRIMARY KEY (batch, chunk),
    KEY gen (gen),
    KEY merged_at (merged_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 ROW_FORMAT=DYNAMIC;

-- The books of each counter, moved in the same transaction as its rows.
CREATE TABLE IF NOT EXISTS tally_counters (
    counter        VARBINARY(64) NOT NULL,
    merged         BIGINT        NOT NULL DEFAULT 0 COMMENT 'sum of all deltas in its table',
    rejected       BIGINT        NOT NULL DEFAULT 0 COMMENT 'sum of the counted deltas in tally_rejects that wait',
    complete_until DATETIME(3)   NULL COMMENT 'UTC: every hit before this is in the table',
    pruned_until   DATETIME(3)   NULL COMMENT 'UTC: ledger rows before this may be gone',
    PRIMARY KEY (counter)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 ROW_FORMAT=DYNAMIC;

-- Rows that MySQL or the counter's kind refused, raw, kept to be replayed.
CREATE TABLE IF NOT EXISTS tally_rejects (
    batch        BINARY(16)     NOT NULL,
    chunk        INT UNSIGNED   NOT NULL,
    seq          INT UNSIGNED   NOT NULL COMMENT 'place in the chunk',
    counter      VARBINARY(64)  NOT NULL,
    pending_hash VARBINARY(512) NOT NULL,
    field        LONGBLOB       NOT NULL,
    delta        LONGBLOB       NOT NULL,
    counted      TINYINT        NOT NULL COMMENT '1: its delta is part of tally_counters.rejected; 0: no integer, or past 64 bits',
    reason       VARCHAR(300)   NOT NULL,
    rejected_at  DATETIME(3)    NOT NULL COMMENT 'UTC',
    replayed_at  DATETIME(3)    NULL COMMENT 'UTC; NULL: waits',
    PRIMARY KEY (batch, chunk, seq),
    KEY waiting (replayed_at, rejected_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 ROW_FORMAT=DYNAMIC;

-- Which files of this directory were applied.
CREATE TABLE IF NOT EXISTS tally_schema (
    version    INT UNSIGNED NOT NULL,
    applied_at DATETIME(3)  NOT NULL COMMENT 'UTC',
    PRIMARY KEY (version)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 ROW_FORMAT=DYNAMIC;
