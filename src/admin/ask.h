/* admin/ask.h - a verb's own connection to Redis: a loop and a link for one question after the other. */
#ifndef ADMIN_ASK_H
#define ADMIN_ASK_H

#include "admin/setup.h"
#include "redis/link.h"

struct ask {
    uv_loop_t loop;
    struct life life;
    struct redis_link link;
    bool closed;
};

#define ASK_WAIT_MS 5000

/* Connected, not checked; setup is borrowed until ask_close. On an error (ERR_UNAVAILABLE, with what to do
 * next) nothing is left open. */
enum err ask_open(struct ask *a, const struct setup *setup, struct error *e) MUST_CHECK;
void ask_close(struct ask *a);

#endif
