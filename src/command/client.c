/* command/client.c - what concerns one connection. */
#include "base/slice.h"
#include "command/inside.h"

#include <limits.h>

#define CLIENT_NAME_MAX 256 /* so that an idle client stays small */

enum taken run_ping(struct session *s, const struct request *r, struct buf *out)
{
    (void)s;
    if (r->args_n > 2)
        reply_error(out, "ERR wrong number of arguments for 'ping' command");
    else if (r->args_n == 2)
        reply_bulk(out, r->args[1]);
    else
        reply_simple(out, "PONG");
    return TAKEN;
}

enum taken run_echo(struct session *s, const struct request *r, struct buf *out)
{
    (void)s;
    reply_bulk(out, r->args[1]);
    return TAKEN;
}

enum taken run_select(struct session *s, const struct request *r, struct buf *out)
{
    (void)s;
    int64_t db;
    if (!num_parse(r->args[1], &db))
        reply_error(out, "ERR value is not an integer or out of range");
    else if (db < INT_MIN || db > INT_MAX)
        reply_error(out, "ERR value is out of range, value must between -2147483648 and 2147483647");
    else if (db != 0)
        reply_error(
            out,
            "ERR DB index is out of range: tallyd has database 0 alone; README, \"What differs from Redis\"");
    else
        reply_simple(out, "OK");
    return TAKEN;
}

enum taken run_quit(struct session *s, const struct request *r, struct buf *out)
{
    (void)r;
    reply_simple(out, "OK");
    s->last = true;
    return TAKEN;
}

enum taken run_reset(struct session *s, const struct request *r, struct buf *out)
{
    (void)r;
    multi_free(s);
    buf_free(&s->name);
    s->resp = 2;
    tracking_off(s);
    if (s->replies == REPLIES_OFF) s->replies = REPLIES_ON;
    guard_reset(s);
    reply_simple(out, "RESET");
    return TAKEN;
}

/* On keys that only increments change, an optimistic lock would be of no use. */
enum taken run_watch(struct session *s, const struct request *r, struct buf *out)
{
    (void)s, (void)r;
    reply_error(out, "ERR WATCH is not supported: increments need no optimistic lock, send MULTI without it");
    return TAKEN;
}

/* Libraries send it before they return a connection to their pool. */
enum taken run_unwatch(struct session *s, const struct request *r, struct buf *out)
{
    (void)s, (void)r;
    reply_simple(out, "OK");
    return TAKEN;
}

/* ---- names ---- */

static bool name_is_plain(struct slice text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] < '!' || text.p[i] > '~') return false;
    return true;
}

bool client_name_fits(struct slice name, struct buf *out)
{
    if (!name_is_plain(name))
        return reply_error(out, "ERR Client names cannot contain spaces, newlines or special characters.");
    if (name.n > CLIENT_NAME_MAX)
        return reply_error(out, "ERR Client names cannot be longer than 256 bytes.");
    return true;
}

void client_text_set(struct buf *b, struct slice text)
{
    buf_free(b);
    buf_put_slice(b, text);
}

static enum taken run_setname(struct session *s, const struct request *r, struct buf *out)
{
    if (!client_name_fits(r->args[2], out)) return TAKEN;
    client_text_set(&s->name, r->args[2]);
    reply_simple(out, "OK");
    return TAKEN;
}

static enum taken run_getname(struct session *s, const struct request *r, struct buf *out)
{
    (void)r;
    if (s->name.n > 0)
        reply_bulk(out, buf_slice(&s->name));
    else
        reply_null(out, s->resp);
    return TAKEN;
}

/* Redis 7.2; client libraries send it unasked. */
static enum taken run_setinfo(struct session *s, const struct request *r, struct buf *out)
{
    bool is_name = slice_ieq(r->args[2], SLICE("lib-name"));
    const char *what = is_name ? "lib-name" : "lib-ver";
    if (!is_name && !slice_ieq(r->args[2], SLICE("lib-ver")))
        reply_errorf(out, "ERR Unrecognized option '%s'", SLICE_SHOW(r->args[2], SHOWN_BYTES));
    else if (!name_is_plain(r->args[3]))
        reply_errorf(out, "ERR %s cannot contain spaces, newlines or special characters.", what);
    else if (r->args[3].n > CLIENT_NAME_MAX)
        reply_errorf(out, "ERR %s cannot be longer than 256 bytes.", what);
    else {
        client_text_set(is_name ? &s->lib_name : &s->lib_ver, r->args[3]);
        reply_simple(out, "OK");
    }
    return TAKEN;
}

static enum taken run_id(struct session *s, const struct request *r, struct buf *out)
{
    (void)r;
    reply_int(out, (int64_t)s->id);
    return TAKEN;
}

/* False: neither; the error is in out. */
static bool on_or_off(struct slice word, bool *on, struct buf *out)
{
    *on = slice_ieq(word, SLICE("on"));
    return *on || slice_ieq(word, SLICE("off")) || words_syntax(out);
}

/* tallyd never evicts a client, so ON and OFF are both true. */
static enum taken run_no_evict(struct session *s, const struct request *r, struct buf *out)
{
    bool on;
    if (!on_or_off(r->args[2], &on, out)) return TAKEN;
    s->no_evict = on;
    reply_simple(out, "OK");
    return TAKEN;
}

static enum taken run_reply(struct session *s, const struct request *r, struct buf *out)
{
    bool on;
    if (slice_ieq(r->args[2], SLICE("skip"))) {
        if (s->replies != REPLIES_OFF) s->replies = REPLIES_SKIP_NEXT;
        return TAKEN;
    }
    if (!on_or_off(r->args[2], &on, out)) return TAKEN;
    s->replies = on ? REPLIES_ON : REPLIES_OFF;
    if (on) reply_simple(out, "OK");
    return TAKEN;
}

const struct spec client_specs[] = {
    {"setname", 3, 0, run_setname, "connection", "Names this connection", NULL},
    {"getname", 2, 0, run_getname, "connection", "The name of this connection", NULL},
    {"setinfo", 4, 0, run_setinfo, "connection", "Says which library this client is", NULL},
    {"id", 2, 0, run_id, "connection", "The number of this connection", NULL},
    {"info", 2, 0, run_client_info, "connection", "One line about this connection", NULL},
    {"list", -2, SPEC_ADMIN, run_client_list, "connection",
     "A line about each connection [TYPE type | ID id [id ...]]", NULL},
    {"kill", -3, SPEC_ADMIN, run_client_kill, "connection",
     "Closes connections [addr:port | ID id, ADDR a, LADDR a, USER u, TYPE t, SKIPME yes|no]", NULL},
    {"reply", 3, 0, run_reply, "connection", "Whether requests are answered: ON, OFF, or SKIP the next",
     NULL},
    {"tracking", -3, 0, run_tracking, "connection",
     "Accepted: nothing that tallyd answers may be cached (ON|OFF [REDIRECT id] [OPTIN] [OPTOUT] [NOLOOP])",
     NULL},
    {"caching", 3, 0, run_caching, "connection",
     "Accepted with tracking: YES in OPTIN mode, NO in OPTOUT mode", NULL},
    {"getredir", 2, 0, run_getredir, "connection", "The client that CLIENT TRACKING named", NULL},
    {"trackinginfo", 2, 0, run_trackinginfo, "connection", "What CLIENT TRACKING said last", NULL},
    {"no-evict", 3, 0, run_no_evict, "connection", "Accepted: no client is ever evicted", NULL},
    {"help", 2, 0, run_help, "connection", "This text", NULL},
    {0},
};
