/* kept_command.h - one struct command for all executions of a target: to look its table up in users/users.c costs more than
 * what an input does with it. Between two it is made as it was when it was new, all of it; what its buffers hold is given
 * back, and its only other memory, the arguments of a request, is written before it is read. */
#ifndef KEPT_COMMAND_H
#define KEPT_COMMAND_H

#include "fuzz.h"

#include "base/clock.h"
#include "command/inside.h"
#include "lib/zones.h"

struct kept {
    struct command *command, new;
    uint64_t *codes; /* with several lanes */
};

/* No key's lane is known. */
static void codes_again(struct kept *k)
{
    struct command *c = k->command;
    size_t bytes = (c->codes.mask + 1) * sizeof *k->codes;
    if (k->codes == NULL) k->codes = memcpy(heap_alloc(bytes), c->codes.all, bytes);
    memcpy(c->codes.all, k->codes, bytes);
    for (uint32_t i = 1; i < c->config.lanes_n; i++)
        coalesce_codes_as(c->config.lanes[i], c->config.lanes[0]);
}

/* As command_create(); of a service with the same limits each time, and with as many lanes, unless it is one. */
static struct command *command_again(const struct command_config *config)
{
    static struct kept all[2];
    struct kept *k = &all[config->lanes_n > 1];
    if (k->command == NULL) {
        k->command = command_create(config);
        k->new = *k->command;
    }
    *k->command = k->new;
    k->command->config = *config;
    k->command->started_ms = k->command->now_ms = mono_ms();
    if (config->lanes_n > 1) codes_again(k);
    return k->command;
}

/* When no session is open any more. */
static void command_rest(struct command *c)
{
    buf_free(&c->request.unquoted);
    buf_free(&c->scratch);
    buf_free(&c->exec);
    buf_free(&c->today);
    buf_free(&c->name);
    buf_free(&c->why);
}

#endif
