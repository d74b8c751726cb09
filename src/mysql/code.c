/* mysql/code.c - numbers rather than the ER_ names, since each vendor's headers lack the other's codes. */
#include "mysql/code.h"

#include <stddef.h>

static const struct {
    unsigned first, last;
    enum code_class class;
} codes[] = {
    {0, 0, CODE_OK},
    {3, 3, CODE_WAIT},            /* error writing a file of its own: its disk is full (MySQL) */
    {20, 20, CODE_WAIT},          /* disk full, likewise */
    {1020, 1020, CODE_AGAIN},     /* record has changed since last read (MariaDB, snapshot isolation) */
    {1021, 1021, CODE_WAIT},      /* disk full (MariaDB) */
    {1030, 1030, CODE_WAIT},      /* error from the storage engine */
    {1036, 1036, CODE_AWAY},      /* table is read only: --innodb-read-only (MariaDB) */
    {1040, 1041, CODE_WAIT},      /* too many connections; server out of memory */
    {1047, 1047, CODE_AWAY},      /* this Galera node is not (yet) part of the cluster */
    {1048, 1048, CODE_POISON},    /* column cannot be null */
    {1053, 1053, CODE_LINK},      /* server shutdown in progress */
    {1062, 1062, CODE_DUPLICATE}, /* duplicate entry */
    {1105, 1105, CODE_FOREIGN},   /* unknown error: what a proxy says */
    {1114, 1114, CODE_WAIT},      /* table is full */
    {1153, 1153, CODE_SIZE},      /* packet bigger than max_allowed_packet */
    {1158, 1161, CODE_LINK},      /* network read, write and timeout errors */
    {1180, 1180, CODE_AGAIN},     /* error during COMMIT */
    {1197, 1197, CODE_SIZE},      /* transaction bigger than max_binlog_cache_size */
    {1203, 1203, CODE_WAIT},      /* too many connections of this user */
    {1205, 1206, CODE_AGAIN},     /* lock wait timeout; lock table full */
    {1213, 1213, CODE_AGAIN},     /* deadlock */
    {1226, 1226, CODE_WAIT},      /* resource limit of this user */
    {1264, 1264, CODE_POISON},    /* out of range for the column */
    {1267, 1267, CODE_POISON},    /* a text that the column's character set does not have */
    {1290, 1290, CODE_AWAY},      /* --read-only and its like */
    {1292, 1292, CODE_POISON},    /* truncated incorrect value */
    {1300, 1300, CODE_POISON},    /* a text that is not UTF-8 */
    {1317, 1317, CODE_AGAIN},     /* query interrupted (KILL QUERY) */
    {1366, 1366, CODE_POISON},    /* incorrect value for the column */
    {1406, 1406, CODE_POISON},    /* data too long */
    {1412, 1412, CODE_AGAIN},     /* table definition changed */
    {1452, 1452, CODE_POISON},    /* foreign key fails */
    {1526, 1526, CODE_POISON},    /* no partition for the value */
    {1614, 1615, CODE_AGAIN},     /* deferred rollback; prepared statement needs another prepare */
    {1644, 1644, CODE_POISON},    /* SIGNAL of a trigger */
    {1690, 1690, CODE_POISON},    /* n + VALUES(n) is out of range */
    {1792, 1792, CODE_AWAY},      /* read only transaction */
    {1836, 1836, CODE_AWAY},      /* read only mode */
    {1874, 1874, CODE_AWAY},      /* InnoDB is in read only mode */
    {1916, 1916, CODE_POISON},    /* a sum of rows does not fit (MariaDB) */
    {1927, 1927, CODE_LINK},      /* connection was killed (MariaDB) */
    {1969, 1969, CODE_AGAIN},     /* max_statement_time (MariaDB) */
    {2002, 2003, CODE_LINK},      /* cannot connect */
    {2005, 2005, CODE_WAIT},      /* unknown host: the resolver may come back */
    {2006, 2006, CODE_LINK},      /* server has gone away */
    {2008, 2008, CODE_WAIT},      /* client out of memory */
    {2012, 2014, CODE_LINK},      /* handshake cut; lost connection; commands out of sync */
    {2026, 2027, CODE_LINK},      /* TLS; malformed packet */
    {2055, 2055, CODE_LINK},      /* lost connection, extended */
    {3024, 3024, CODE_AGAIN},     /* max_execution_time (MySQL) */
    {3032, 3032, CODE_AWAY},      /* offline mode */
    {3100, 3100, CODE_WAIT},      /* replication hook refused */
    {3101, 3101, CODE_AGAIN},     /* transaction rolled back by the group */
    {3169, 3169, CODE_LINK},      /* session was killed (MySQL) */
    {3572, 3572, CODE_AGAIN},     /* NOWAIT */
    {3819, 3819, CODE_POISON},    /* CHECK (MySQL) */
    {4025, 4025, CODE_POISON},    /* CHECK (MariaDB) */
    {4031, 4031, CODE_LINK},      /* disconnected for inactivity (MySQL) */
    {8002, 8002, CODE_AGAIN},     /* TiDB: a locked row was written meanwhile */
    {8005, 8005, CODE_AGAIN},     /* TiDB: write conflict */
    {8022, 8022, CODE_AGAIN},     /* TiDB: COMMIT failed and was rolled back */
    {8028, 8028, CODE_AGAIN},     /* TiDB: the table was altered meanwhile */
    {9001, 9005, CODE_AWAY},      /* ProxySQL: no backend; TiDB: PD, TiKV or a region is away */
    {9007, 9007, CODE_AGAIN},     /* TiDB: write conflict */
};

enum code_class code_class(unsigned code)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (code >= codes[i].first && code <= codes[i].last) return codes[i].class;
    return code < 1000 || code >= 9000 ? CODE_FOREIGN : CODE_OPERATOR;
}
