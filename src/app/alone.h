/* app/alone.h - `tallyd recover` when no service runs: a service without listeners, for this one recovery. */
#ifndef APP_ALONE_H
#define APP_ALONE_H

#include "admin/admin.h"

enum err recover_alone(void *arg, const struct conf *conf, const struct admin_recover *how,
                       struct admin_recovered *out, struct error *e);

#endif
