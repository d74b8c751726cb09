/* mysql/database.c - see database.h. */
#include "mysql/database.h"

#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$"

enum err database_create(const struct db_config *c, struct error *e)
{
    char always_there[] = "information_schema";
    struct db_config server = *c; /* borrows its texts */
    struct buf sql = {0};
    size_t n = strlen(c->database); /* of a URL, so it may hold any byte */
    if (n < 1 || n > 64 || strspn(c->database, PLAIN) != n)
        return error_set(e, ERR_CONFIG,
                         "a database is not made under a name with other bytes than A-Z a-z 0-9 _ $");
    server.database = always_there;
    struct db *db = db_create(&server);
    buf_printf(&sql, "CREATE DATABASE IF NOT EXISTS `%s` CHARACTER SET utf8mb4", c->database);
    bool made = db_open(db) == CODE_OK && db_exec(db, buf_slice(&sql)) == CODE_OK;
    enum err code = made ? ERR_NONE : db_error(db, e);
    buf_free(&sql);
    db_destroy(&db);
    return code;
}
