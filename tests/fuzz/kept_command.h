/* kept_command.h - one struct command for all executions of a target: to look its table up in users/grants.c costs more than
 * what an input does with it. Between two it is made as it was when it was new, all of it; what its buffers hold is given
 * back, and its only other memory, the arguments of a request, is written before it is read. */
#ifndef KEPT_COMMAND_H
#define KEPT_COMMAND_H

#include "fuzz.h"

#include "base/clock.h"
#include "command/inside.h"

/* As command_create(); of a service with the same limits each time. No session of the one before may be open. */
static struct command *command_again(const struct command_config *config)
{
    static struct command *kept, new;
    if (kept == NULL) {
        kept = command_create(config);
        new = *kept;
    }
    buf_free(&kept->request.unquoted);
    buf_free(&kept->scratch);
    buf_free(&kept->exec);
    buf_free(&kept->name);
    buf_free(&kept->why);
    *kept = new;
    kept->config = *config;
    kept->started_ms = mono_ms();
    return kept;
}

#endif
