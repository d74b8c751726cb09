/* wire.h - a link of coalesce's that keeps what it was asked, one of each, and answers nothing: the target does, when it likes.
 * There are no claims. A target changes what is its own in a copy of wire_ports. */
#ifndef WIRE_H
#define WIRE_H

#include "fuzz.h"

#include "coalesce/coalesce.h"

static const struct life wire_life = {.instance = {"fuzz", 4}, .id = "0123456789abcdef"};
static struct wire {
    struct frame *frame, *values; /* asked for, not answered */
    bool kills, looks;            /* likewise */
    uint64_t mono_ms;
    int64_t redis_ms;
} wire;

static void wire_frame(void *arg, struct frame *f)
{
    (void)arg;
    MUST(wire.frame == NULL);
    wire.frame = f;
}
static void wire_claim(void *arg, struct claim *c)
{
    (void)arg, (void)c;
    UNREACHABLE();
}
static void wire_kill(void *arg, int64_t client_id)
{
    (void)arg, (void)client_id;
    wire.kills = true;
}
static void wire_look(void *arg, const struct link_look *l)
{
    (void)arg;
    MUST(l->claims_n == 0);
    wire.looks = true;
}
static void wire_journals_lost(void *arg)
{
    (void)arg;
}
static void wire_values(void *arg, struct frame *f)
{
    (void)arg;
    MUST(wire.values == NULL);
    wire.values = f;
}
static void wire_due(void *arg, const struct counter *c, struct slice key, enum due_why why)
{
    (void)arg, (void)c, (void)key, (void)why;
}
static void wire_outlet(void *arg, struct outlet *o)
{
    (void)arg, (void)o;
}
static void wire_fatal(void *arg, const char *text)
{
    (void)arg, (void)text;
    UNREACHABLE();
}
static uint64_t wire_mono_ms(void *arg)
{
    (void)arg;
    return wire.mono_ms;
}
static int64_t wire_redis_ms(void *arg)
{
    (void)arg;
    return wire.redis_ms;
}

static void wire_caught_up(void *arg)
{
    (void)arg;
}

static const struct coalesce_ports wire_ports = {.life = &wire_life,
                                                 .send_frame = wire_frame,
                                                 .send_claim = wire_claim,
                                                 .caught_up = wire_caught_up,
                                                 .kill = wire_kill,
                                                 .look = wire_look,
                                                 .journals_lost = wire_journals_lost,
                                                 .read_values = wire_values,
                                                 .due = wire_due,
                                                 .answered = wire_outlet,
                                                 .room = wire_outlet,
                                                 .fatal = wire_fatal,
                                                 .mono_ms = wire_mono_ms,
                                                 .mono_us = wire_mono_ms,
                                                 .redis_ms = wire_redis_ms};

#endif
