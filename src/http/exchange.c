/* http/exchange.c - see exchange.h. */
#include "http/exchange.h"

#include "base/heap.h"
#include "base/slice.h"
#include "http/inside.h"
#include "http/route.h"

#include <stdarg.h>
#include <stdio.h>

#define FILE_PART_MAX 80 /* of the name of a file to be saved */

struct json exchange_json(struct exchange *x)
{
    x->answered = true;
    x->status = 200;
    x->type = "application/json";
    buf_reset(&x->body);
    return (struct json){.out = &x->body};
}

bool exchange_wants_csv(struct exchange *x, bool *csv)
{
    struct slice format = SLICE("json");
    char shown[40];
    target_arg(&x->target, "format", &format);
    *csv = slice_eq(format, SLICE("csv"));
    if (*csv || slice_eq(format, SLICE("json"))) return true;
    exchange_refuse(x, 400, "correct the parameter, or leave it out",
                    "format is \"%s\", expected json or csv", slice_show(format, 30, shown, sizeof shown));
    return false;
}

static void file_name_put(struct buf *name, struct slice part)
{
    for (size_t i = 0; i < part.n && i < FILE_PART_MAX; i++) {
        char c = part.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        buf_put_char(name, letter || c == '_' || c == '-' || (c == '.' && i > 0) ? c : '_');
    }
}

struct csv exchange_csv(struct exchange *x, struct slice a, struct slice b)
{
    struct buf name = {0};
    file_name_put(&name, a);
    BUF_LIT(&name, "-");
    file_name_put(&name, b);
    BUF_LIT(&name, ".csv");
    x->file = heap_strndup(name.p, name.n);
    buf_free(&name);
    x->answered = true;
    x->status = 200;
    x->type = "text/csv; charset=utf-8; header=present";
    buf_reset(&x->body);
    return (struct csv){.out = &x->body};
}

void exchange_refuse(struct exchange *x, unsigned status, const char *next, const char *fmt, ...)
{
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    struct json j = exchange_json(x);
    json_open(&j, NULL, '{');
    json_text(&j, "error", text);
    json_text(&j, "next", next);
    json_close(&j, '}');
    x->status = status;
}

void exchange_fixed(struct exchange *x, struct slice bytes, const char *type, const char *etag)
{
    const char *has = x->if_none_match;
    bool same = has != NULL && (strcmp(has, "*") == 0 || strstr(has, etag) != NULL);
    x->answered = true;
    x->type = type;
    x->etag = etag;
    x->status = same ? 304 : 200;
    x->fixed = x->status == 200 ? bytes : slice_of("", 0);
}

struct slice exchange_part(const struct exchange *x, size_t i)
{
    return target_segment(&x->target, route_variable(x->route, i));
}

bool exchange_number(struct exchange *x, const char *name, int64_t least, int64_t most, int64_t standard,
                     int64_t *out)
{
    struct slice text;
    char shown[40];
    *out = standard;
    if (!target_arg(&x->target, name, &text)) return true;
    if (num_parse(text, out) && *out >= least && *out <= most) return true;
    exchange_refuse(x, 400, "correct the parameter, or leave it out",
                    "%s is \"%s\", expected a whole number from %lld to %lld", name,
                    slice_show(text, 30, shown, sizeof shown), (long long)least, (long long)most);
    return false;
}

bool exchange_sees_store(struct exchange *x, struct slice store)
{
    struct slice bound = who_store(&x->who);
    if (bound.p == NULL || slice_eq(bound, store)) return true;
    exchange_refuse(x, 403, "ask for your own store, or with a token that is bound to none",
                    "this token sees another store only");
    return false;
}

bool exchange_sees_name(struct exchange *x, enum op_kind kind, struct slice name, struct slice type)
{
    struct slice bound = who_store(&x->who);
    if (bound.p == NULL || name_is_of(x->http->where->counters, kind, name, type, bound)) return true;
    exchange_refuse(x, 403, "see /api/counters for the names that belong to a store",
                    "this token sees one store only, and that name is not known to belong to it");
    return false;
}

/* Among the door's errors, only those about Redis, MySQL and the service are not the request's fault. */
static bool is_our_fault(const char *text)
{
    static const char *const begins[] = {"MASTERDOWN", "TRYAGAIN",   "BUSY",       "LOADING",
                                         "OOM",        "READONLY",   "MISCONF",    "NOREP",
                                         "ERR MySQL",  "ERR tallyd", "ERR merging"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(text, begins[i], strlen(begins[i])) == 0) return true;
    return false;
}

void exchange_refuse_reply(struct exchange *x, redisReply *reply)
{
    if (reply == NULL) {
        exchange_refuse(x, 503, "ask again in a second",
                        "tallyd does not answer: it is stopping, or very busy");
        return;
    }
    const char *text = reply->type == REDIS_REPLY_ERROR ? reply->str : "ERR not the reply that was expected";
    bool ours = is_our_fault(text);
    exchange_refuse(x, ours ? 503 : 400, ours ? "see /api/status, and ask again" : "correct the request",
                    "%s", strncmp(text, "ERR ", 4) == 0 ? text + 4 : text);
    freeReplyObject(reply);
}

redisReply *exchange_ask(struct exchange *x, struct worker *w, const struct slice *words, size_t n, int type)
{
    redisReply *reply = door_ask(&w->door, words, n);
    if (reply != NULL && reply->type == type) return reply;
    exchange_refuse_reply(x, reply);
    return NULL;
}
