/* mysql/db_tls.h - TLS by whichever client library this is; private to db.c. Off unless mysql.tls.use is on: what
 * libraries call "preferred" encrypts and proves nothing, and requiring TLS by default would break connections that
 * work. On means verified. */
#ifndef MYSQL_DB_TLS_H
#define MYSQL_DB_TLS_H

#include "mysql/db.h"

#include <mysql.h>

void db_tls_set(const struct db_config *c, MYSQL *mysql); /* before it connects */
const char *db_tls_advice(const char *said); /* what a person does about an error 2026 of this text */
bool db_tls_is_on(MYSQL *mysql);             /* the connection has it */

#endif
