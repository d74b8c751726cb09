/* mysql/code.h - what a MySQL error code means for a merge: one table, code -> class. The codes of both
 * servers and of both client libraries share one number space (1000-1999 and 3000-4999 server, 2000-2999
 * client). 8000-9999 are TiDB's, 9001-9006 ProxySQL's too. */
#ifndef MYSQL_CODE_H
#define MYSQL_CODE_H

#include <stdbool.h>

enum code_class {
    CODE_OK,    /* 0 */
    CODE_AGAIN, /* ROLLBACK, then the whole transaction again, ledger row first */
    CODE_LINK,  /* the connection is lost; a COMMIT under way is in doubt: the ledger row decides */
    CODE_WAIT,  /* the server cannot take writes now: keep everything, back off */
    CODE_AWAY, /* writes belong to another server, or will: leave this one, look for the one that takes them */
    CODE_DUPLICATE, /* 1062: on the ledger row: this chunk is merged already; anywhere else our bug */
    CODE_POISON,    /* this row's value will never fit: bisect to it */
    CODE_SIZE,      /* the statement is too big: halve it */
    CODE_OPERATOR, /* schema, rights or our SQL: a person must look. Also each from 1000 to 8999 that no class names. */
    CODE_FOREIGN, /* of a proxy or a trigger, unknown: passes as CODE_AGAIN does, or one row is refused for it */
};

enum code_class code_class(unsigned code);
/* May another row have another answer? Only one row alone tells. */
static inline bool code_refuses(enum code_class class)
{
    return class == CODE_POISON || class == CODE_OPERATOR || class == CODE_DUPLICATE || class == CODE_FOREIGN;
}

#endif
