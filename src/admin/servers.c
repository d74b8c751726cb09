/* admin/servers.c - see servers.h. */
#include "admin/servers.h"

#include "status/ask.h"

enum err servers_open(struct servers *s, const struct source *where, struct error *e)
{
    enum err code = lanes_agree(where, false, e);
    if (code == ERR_NONE) code = ask_open_patiently(&s->ask, where, e);
    if (code != ERR_NONE) return code;
    s->reading = *where->mysql;
    s->reading.reads = true;
    s->db = db_create(&s->reading);
    if (db_open(s->db) == CODE_OK) return ERR_NONE;
    code = db_error(s->db, e);
    db_destroy(&s->db);
    ask_close(&s->ask);
    return code;
}

void servers_close(struct servers *s)
{
    db_destroy(&s->db);
    ask_close(&s->ask);
}
