-- What an operator added to stored counts by hand (`tallyd adjust`), in the same transaction as the merchant's row. Of no realm:
-- it changes what MySQL has, and no Redis knows of it.
CREATE TABLE IF NOT EXISTS tally_adjustments (
    id           VARBINARY(64)  NOT NULL COMMENT 'given with the adjustment: the same one again changes nothing',
    counter      VARBINARY(64)  NOT NULL,
    pending_hash VARBINARY(512) NOT NULL COMMENT 'whose row it is, as its hits name it',
    field        VARBINARY(255) NOT NULL,
    delta        BIGINT         NOT NULL COMMENT 'what was added',
    set_to       BIGINT         NULL COMMENT 'the figure that was asked for; NULL: the delta was',
    reason       VARCHAR(300)   NOT NULL,
    adjusted_at  DATETIME(3)    NOT NULL COMMENT 'UTC',
    PRIMARY KEY (id),
    KEY counter (counter, adjusted_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 ROW_FORMAT=DYNAMIC;
