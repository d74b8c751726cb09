/* kept_command.h - one struct command for all executions of a target: to look its table up in users/grants.c costs more than
 * what an input does with it. Between two it is made as it was when it was new, all of it; what its buffers hold is given
 * back, and its only other memory, the arguments of a request, is written before it is read. */
#ifndef KEPT_COMMAND_H
#define KEPT_COMMAND_H

#include "fuzz.h"

#include "base/clock.h"
#include "command/inside.h"
#include "lib/zones.h"

/* As command_create(); of a service with the same limits each time. */
static struct command *command_again(const struct command_config *config)
{
    static struct command *kept, new;
    if (kept == NULL) {
        kept = command_create(config);
        new = *kept;
    }
    *kept = new;
    kept->config = *config;
    kept->started_ms = mono_ms();
    return kept;
}

/* When no session is open any more. */
static void command_rest(struct command *c)
{
    buf_free(&c->request.unquoted);
    buf_free(&c->scratch);
    buf_free(&c->exec);
    buf_free(&c->name);
    buf_free(&c->why);
}

#endif
