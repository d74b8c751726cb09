/* http/exchange.c - see exchange.h. */
#include "http/inside.h"

#include "base/heap.h"
#include "base/json.h"
#include "base/log.h"
#include "base/slice.h"
#include "base/url.h"

#include <stdarg.h>
#include <stdio.h>

static const char *piece_add(struct target *t, struct slice text, struct target_piece *out)
{
    static const char *const faults[] = {
        [PERCENT_ESCAPE] = "has a % without two hexadecimal digits behind it",
        [PERCENT_NUL] = "has a NUL byte (%00)",
    };
    out->at = t->bytes.n;
    char *to = buf_reserve(&t->bytes, text.n + 1); /* so a piece without bytes has a place, too */
    const char *fault = faults[percent_decode(text, to, &out->n)];
    t->bytes.n += out->n;
    return fault;
}

const char *target_read_path(struct target *t, struct slice path)
{
    const char *fault = NULL;
    if (path.n == 0 || path.p[0] != '/') return "does not begin with /";
    if (path.n == 1) return NULL;
    for (size_t from = 1; fault == NULL && from <= path.n;) {
        const char *slash = memchr(path.p + from, '/', path.n - from);
        size_t end = slash == NULL ? path.n : (size_t)(slash - path.p);
        if (t->segments_n == TARGET_SEGMENTS_MAX) return "has too many segments";
        fault = piece_add(t, slice_of(path.p + from, end - from), &t->segments[t->segments_n++]);
        from = end + 1;
    }
    return fault;
}

const char *target_add_arg(struct target *t, struct slice name, struct slice value)
{
    if (t->args_n == TARGET_ARGS_MAX) return "has too many parameters";
    size_t i = t->args_n;
    const char *fault = piece_add(t, name, &t->names[i]);
    if (fault == NULL) fault = piece_add(t, value, &t->values[i]);
    if (fault != NULL) return fault;
    for (size_t k = 0; k < i; k++)
        if (slice_eq(target_arg_name(t, k), slice_of(t->bytes.p + t->names[i].at, t->names[i].n)))
            return "has a parameter twice";
    t->args_n++;
    return NULL;
}

void target_close(struct target *t)
{
    buf_free(&t->bytes);
    *t = (struct target){0};
}

struct slice target_segment(const struct target *t, size_t i)
{
    PRE(i < t->segments_n);
    return slice_of(t->bytes.p + t->segments[i].at, t->segments[i].n);
}

struct slice target_arg_name(const struct target *t, size_t i)
{
    PRE(i < t->args_n);
    return slice_of(t->bytes.p + t->names[i].at, t->names[i].n);
}

bool target_arg(const struct target *t, const char *name, struct slice *value)
{
    for (size_t i = 0; i < t->args_n; i++) {
        if (!slice_eq(target_arg_name(t, i), slice_str(name))) continue;
        *value = slice_of(t->bytes.p + t->values[i].at, t->values[i].n);
        return true;
    }
    return false;
}

static void cell_begin(struct csv *c)
{
    if (c->more) buf_put_char(c->out, ',');
    c->more = true;
}

/* Control bytes but TAB, CR and LF, which readers of CSV refuse. */
static void control_replace(struct buf *text, struct slice from)
{
    struct buf utf8 = {0};
    text_put_utf8(&utf8, from);
    for (size_t i = 0; i < utf8.n; i++) {
        char c = utf8.p[i];
        bool control = (c >= 0 && c < ' ' && c != '\t' && c != '\r' && c != '\n') || c == 0x7f;
        if (control)
            BUF_LIT(text, "\xEF\xBF\xBD");
        else
            buf_put_char(text, c);
    }
    buf_free(&utf8);
}

void csv_text(struct csv *c, struct slice text)
{
    struct buf clean = {0};
    cell_begin(c);
    /* Spreadsheets take these for the begin of a formula (OWASP, "CSV Injection"). */
    if (text.n > 0 && memchr("=+-@\t\r", text.p[0], 6) != NULL) buf_put_char(&clean, '\'');
    control_replace(&clean, text);
    bool quoted = false;
    for (size_t i = 0; i < clean.n; i++)
        quoted = quoted || memchr(",\"\r\n", clean.p[i], 4) != NULL;
    if (quoted) buf_put_char(c->out, '"');
    for (size_t i = 0; i < clean.n; i++) {
        if (clean.p[i] == '"') buf_put_char(c->out, '"');
        buf_put_char(c->out, clean.p[i]);
    }
    if (quoted) buf_put_char(c->out, '"');
    buf_free(&clean);
}

void csv_int(struct csv *c, int64_t v)
{
    cell_begin(c);
    buf_int(c->out, v);
}

void csv_figure(struct csv *c, struct figure f)
{
    cell_begin(c);
    if (f.known) buf_int(c->out, f.value);
}

void csv_end(struct csv *c)
{
    BUF_LIT(c->out, "\r\n");
    c->more = false;
}

#define FILE_PART_MAX 80 /* of the name of a file to be saved */

struct json exchange_json(struct exchange *x, char bracket)
{
    x->answered = true;
    x->status = 200;
    x->type = "application/json";
    buf_reset(&x->body);
    struct json j = {.out = &x->body};
    if (bracket != 0) json_open(&j, NULL, bracket);
    return j;
}

bool exchange_wants_csv(struct exchange *x, bool *csv)
{
    struct slice format = SLICE("json");
    target_arg(&x->target, "format", &format);
    *csv = slice_eq(format, SLICE("csv"));
    if (*csv || slice_eq(format, SLICE("json"))) return true;
    return exchange_refuse(x, 400, "correct the parameter, or leave it out",
                           "format is \"%s\", expected json or csv", SLICE_SHOW(format, 30));
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

bool exchange_refuse(struct exchange *x, unsigned status, const char *next, const char *fmt, ...)
{
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    struct json j = exchange_json(x, '{');
    json_text(&j, "error", text);
    json_text(&j, "next", next);
    json_close(&j, '}');
    x->status = status;
    return false;
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
    *out = standard;
    if (!target_arg(&x->target, name, &text)) return true;
    if (num_parse(text, out) && *out >= least && *out <= most) return true;
    return exchange_refuse(x, 400, "correct the parameter, or leave it out",
                           "%s is \"%s\", expected a whole number from %lld to %lld", name,
                           SLICE_SHOW(text, 30), (long long)least, (long long)most);
}

bool exchange_sees_store(struct exchange *x, struct slice store)
{
    struct slice bound = who_store(&x->who);
    if (bound.p == NULL || slice_eq(bound, store)) return true;
    return exchange_refuse(x, 403, "ask for your own store, or with a token that is bound to none",
                           "this token sees another store only");
}

bool exchange_sees_name(struct exchange *x, enum op_kind kind, struct slice name, struct slice type)
{
    struct slice bound = who_store(&x->who);
    if (bound.p == NULL || name_is_of(x->http->where->counters, kind, name, type, bound)) return true;
    return exchange_refuse(x, 403, "see /api/counters for the names that belong to a store",
                           "this token sees one store only, and that name is not known to belong to it");
}

void exchange_refuse_reply(struct exchange *x, redisReply *reply)
{
    /* Only errors about Redis, MySQL and the service are not the request's fault. */
    static const char *const begins[] = {"MASTERDOWN", "TRYAGAIN",   "BUSY",       "LOADING",
                                         "OOM",        "READONLY",   "MISCONF",    "NOREP",
                                         "ERR MySQL",  "ERR tallyd", "ERR merging"};
    if (reply == NULL) {
        exchange_refuse(x, 503, "ask again in a second",
                        "tallyd does not answer: it is stopping, or very busy");
        return;
    }
    const char *text = reply->type == REDIS_REPLY_ERROR ? reply->str : "ERR not the reply that was expected";
    bool ours = false;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        ours = ours || strncmp(text, begins[i], strlen(begins[i])) == 0;
    exchange_refuse(x, ours ? 503 : 400, ours ? "see tallyd status, and ask again" : "correct the request",
                    "%s", strncmp(text, "ERR ", 4) == 0 ? text + 4 : text);
    freeReplyObject(reply);
}

redisReply *exchange_ask(struct exchange *x, struct worker *w, const struct slice *words, size_t n)
{
    redisReply *reply = door_ask(&w->door, words, n);
    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY) return reply;
    exchange_refuse_reply(x, reply);
    return NULL;
}
