/* redis/reader.c - see reader.h. */
#include "redis/reader.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/outlet.h"
#include "base/slice.h"
#include <hiredis/hiredis.h>
#include <stdio.h>

/* --- requests (RESP2), straight into the buffer --- */

void request_array(struct buf *out, size_t n)
{
    put_head(out, '*', (int64_t)n);
}

void request_slice(struct buf *out, struct slice s)
{
    put_bulk(out, s);
}

void request_key(struct buf *out, struct slice tag, struct slice name)
{
    put_head(out, '$', (int64_t)(tag.n + name.n));
    buf_put_slice(out, tag);
    buf_put_slice(out, name);
    BUF_LIT(out, "\r\n");
}

void request_int(struct buf *out, int64_t v)
{
    char digits[21];
    request_slice(out, slice_of(digits, num_write(v, digits)));
}

void request_text(struct buf *out, const char *text)
{
    request_slice(out, slice_str(text));
}

void request_words(struct buf *out, const char *words)
{
    size_t n = 1;
    for (const char *p = words; *p != '\0'; p++)
        n += *p == ' ';
    request_array(out, n);
    for (const char *p = words; n > 0; n--) {
        size_t len = strcspn(p, " ");
        request_slice(out, slice_of(p, len));
        p += len + 1;
    }
}

void request_eval(struct buf *out, struct slice script, size_t keys_n, size_t args_n)
{
    request_array(out, 3 + keys_n + args_n);
    REQUEST_LIT(out, "EVAL");
    request_slice(out, script);
    request_int(out, (int64_t)keys_n);
}

/* --- questions that every operation asks of a reply. --- */

bool answer_is_ok(const struct redis_answer *r)
{
    return answer_is(r, REDIS_STATUS) && slice_eq(r->str, SLICE("OK"));
}

bool answer_error_is(const struct redis_answer *r, const char *prefix)
{
    struct slice word = slice_str(prefix);
    if (!answer_is(r, REDIS_ERROR) || !slice_starts(r->str, word)) return false;
    return r->str.n == word.n || r->str.p[word.n] == ' ';
}

bool answer_integer(const struct redis_answer *r, int64_t *out)
{
    if (answer_is(r, REDIS_STRING)) return num_parse(r->str, out);
    if (!answer_is(r, REDIS_INTEGER)) return false;
    *out = r->integer;
    return true;
}

void answer_why(const struct redis_answer *r, char *out, size_t size)
{
    if (r == NULL)
        snprintf(out, size, "the Redis link was lost");
    else if (r->type == REDIS_ERROR)
        slice_show(r->str, size - 1, out, size);
    else
        snprintf(out, size, "Redis gave an answer of an unexpected shape");
}

struct slice text_part(struct slice *text, char end)
{
    const char *at = text->n == 0 ? NULL : memchr(text->p, end, text->n);
    struct slice part = slice_of(text->p, at == NULL ? text->n : (size_t)(at - text->p));
    size_t used = part.n + (at != NULL);
    *text = slice_of(text->p + used, text->n - used);
    return part;
}

/* --- the arena for replies; hiredis' reader builds there. Blocks never move, since a reply that comes in several pieces is
 * pointed into while it grows. Compiles with hiredis 0.14 and 1.x, which differ in the type of an array's count and in object
 * functions for RESP3 types. Redis does not send those (we never say HELLO 3), so they answer NULL and the reply counts as
 * garbage. --- */

#define BLOCK_BYTES ((size_t)64 << 10)
#define KEEP_BYTES ((size_t)1 << 20) /* what an idle arena and an idle reader may keep */

struct block {
    struct block *next; /* filled before this one */
    size_t used, cap;
    _Alignas(16) char data[];
};

struct redis_reader {
    redisReader *hiredis;
    struct block *top;  /* the one being filled */
    struct block *kept; /* of a reply that outlives the next */
    size_t taken;       /* bytes in all blocks' data */
    size_t fed;         /* since the last whole reply */
    char unfit[200];    /* an error line about the server, for as long as the connection */
    bool lonely;        /* NOREPLICAS */
    bool of_cluster;
    char moved[300]; /* likewise */
    bool whole;      /* the arena holds a reply that was handed out, nothing half built */
};

static struct block *block_create(size_t cap, struct block *next)
{
    struct block *b = heap_alloc(sizeof *b + cap);
    b->next = next;
    b->used = 0;
    b->cap = cap;
    return b;
}

static void *arena_take(struct redis_reader *r, size_t n)
{
    n = (n + 15) & ~(size_t)15;
    if (r->top->cap - r->top->used < n) {
        size_t cap = n > 2 * r->top->cap ? n : 2 * r->top->cap;
        r->top = block_create(cap, r->top);
        r->taken += cap;
    }
    void *p = r->top->data + r->top->used;
    r->top->used += n;
    return p;
}

static void blocks_drop(struct block **top)
{
    while (*top != NULL) {
        struct block *next = (*top)->next;
        heap_free(*top);
        *top = next;
    }
}

static void arena_begin(struct redis_reader *r, size_t cap)
{
    r->top = block_create(cap, NULL);
    r->taken = cap;
}

/* Empties it into one block: what was needed once fits the next time, unless it was exceptionally large. */
static void arena_reset(struct redis_reader *r)
{
    r->top->used = 0;
    if (r->top->next == NULL && r->taken <= KEEP_BYTES) return;
    size_t cap = r->taken <= KEEP_BYTES ? r->taken : BLOCK_BYTES;
    blocks_drop(&r->top);
    arena_begin(r, cap);
}

/* The place of this object: an element of its array, or a reply of its own. */
static struct redis_answer *object_place(const redisReadTask *task, enum redis_type type)
{
    struct redis_answer *o;
    if (task->parent != NULL) {
        struct redis_answer *above = task->parent->obj;
        o = &above->elements[task->idx];
    } else {
        o = arena_take(task->privdata, sizeof *o);
    }
    *o = (struct redis_answer){.type = type};
    return o;
}

/* When a key has moved, a script fails with an error text of its own; it reads and writes nothing of the slot after
 * that. */
static void astray_note(struct redis_reader *r, struct redis_answer *o)
{
    bool moved = answer_error_is(o, "MOVED");
    bool left = slice_starts(o->str, SLICE("ERR Script attempted to access a non local key"));
    if (!moved && !left && !answer_error_is(o, "ASK") && !answer_error_is(o, "TRYAGAIN")) return;
    if (moved && r->moved[0] == '\0') answer_why(o, r->moved, sizeof r->moved);
    o->str = SLICE(CLUSTER_ASTRAY);
}

/* Errors are rare, so this costs other replies nothing. The error of a refused EXEC repeats the reason. */
static void error_note(struct redis_reader *r, const struct redis_answer *o)
{
    static const char *const unfit[] = {"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN",
                                        "MOVED",    "ASK",     "REDIRECT"};
    static const struct slice aborted = SLICE("EXECABORT Transaction discarded because of: ");
    struct redis_answer e = *o;
    if (slice_starts(e.str, aborted)) e.str = slice_of(e.str.p + aborted.n, e.str.n - aborted.n);
    r->lonely |= answer_error_is(&e, "NOREPLICAS");
    for (size_t i = 0; i < sizeof unfit / sizeof unfit[0] && r->unfit[0] == '\0'; i++)
        if (answer_error_is(&e, unfit[i])) answer_why(&e, r->unfit, sizeof r->unfit);
}

static void *create_string(const redisReadTask *task, char *p, size_t n)
{
    enum redis_type type = REDIS_STRING;
    if (task->type == REDIS_REPLY_ERROR)
        type = REDIS_ERROR;
    else if (task->type == REDIS_REPLY_STATUS)
        type = REDIS_STATUS;
    else if (task->type != REDIS_REPLY_STRING)
        return NULL;
    struct redis_answer *o = object_place(task, type);
    char *copy = arena_take(task->privdata, n + 1);
    memcpy(copy, p, n);
    copy[n] = '\0';
    o->str = slice_of(copy, n);
    struct redis_reader *r = task->privdata;
    if (type == REDIS_ERROR && r->of_cluster) astray_note(r, o);
    if (type == REDIS_ERROR) error_note(r, o);
    return o;
}

static void *create_integer(const redisReadTask *task, long long v)
{
    struct redis_answer *o = object_place(task, REDIS_INTEGER);
    o->integer = v;
    return o;
}

static void *create_nil(const redisReadTask *task)
{
    return object_place(task, REDIS_NIL);
}

static void object_free(void *o)
{
    (void)o;
} /* the arena's */

#if HIREDIS_MAJOR >= 1
typedef size_t array_size;
#else
typedef int array_size;
#endif

static void *create_array(const redisReadTask *task, array_size n)
{
    int depth = 0;
    for (const redisReadTask *t = task; t->parent != NULL; t = t->parent)
        depth++; /* hiredis 0.14 bounds it itself, 1.x does not */
    if (task->type != REDIS_REPLY_ARRAY || depth >= REDIS_DEPTH_MAX) return NULL;
    if ((int64_t)n < 0 || (size_t)n > REDIS_ELEMENTS_MAX) return NULL;
    struct redis_answer *o = object_place(task, REDIS_ARRAY);
    /* Not cleared: each is written before the reply is whole, and a count that a lying server claims is never
     * touched. */
    o->elements = arena_take(task->privdata, (size_t)n * sizeof *o);
    o->n = (size_t)n;
    return o;
}

#if HIREDIS_MAJOR >= 1
static void *create_double(const redisReadTask *task, double v, char *p, size_t n)
{
    (void)task, (void)v, (void)p, (void)n;
    return NULL;
}

static void *create_bool(const redisReadTask *task, int v)
{
    (void)task, (void)v;
    return NULL;
}
#endif

static redisReplyObjectFunctions object_functions = {
    .createString = create_string,
    .createArray = create_array,
    .createInteger = create_integer,
    .createNil = create_nil,
    .freeObject = object_free,
#if HIREDIS_MAJOR >= 1
    .createDouble = create_double,
    .createBool = create_bool,
#endif
};

static redisReader *hiredis_create(struct redis_reader *r)
{
    redisReader *h = redisReaderCreateWithFunctions(&object_functions);
    INVARIANT(h != NULL);
    h->privdata = r;
    h->maxbuf = KEEP_BYTES;
    return h;
}

struct redis_reader *redis_reader_create(void)
{
    struct redis_reader *r = heap_zalloc(sizeof *r);
    arena_begin(r, BLOCK_BYTES);
    r->hiredis = hiredis_create(r);
    return r;
}

void redis_reader_destroy(struct redis_reader **r)
{
    if (*r == NULL) return;
    redisReaderFree((*r)->hiredis);
    blocks_drop(&(*r)->top);
    blocks_drop(&(*r)->kept);
    heap_free(*r);
    *r = NULL;
}

void redis_reader_reset(struct redis_reader *r)
{
    redisReaderFree(r->hiredis);
    r->hiredis = hiredis_create(r);
    r->fed = 0;
    r->whole = r->lonely = false;
    r->unfit[0] = r->moved[0] = '\0';
    r->of_cluster = false;
    arena_reset(r);
}

const char *redis_reader_unfit(const struct redis_reader *r)
{
    return r->unfit[0] != '\0' ? r->unfit : NULL;
}

void redis_reader_of_cluster(struct redis_reader *r)
{
    r->of_cluster = true;
}

const char *redis_reader_moved(const struct redis_reader *r)
{
    return r->moved[0] != '\0' ? r->moved : NULL;
}

bool redis_reader_lonely(struct redis_reader *r)
{
    bool was = r->lonely;
    r->lonely = false;
    return was;
}

bool redis_reader_feed(struct redis_reader *r, const char *p, size_t n)
{
    r->fed += n;
    return r->fed <= REDIS_REPLY_BYTES_MAX && redisReaderFeed(r->hiredis, p, n) == REDIS_OK;
}

bool redis_reader_is_empty(const struct redis_reader *r)
{
    return r->hiredis->ridx < 0 && r->hiredis->pos == r->hiredis->len;
}

enum redis_read redis_reader_next(struct redis_reader *r, const struct redis_answer **out)
{
    void *reply = NULL;
    if (r->whole) arena_reset(r);
    r->whole = false;
    if (redisReaderGetReply(r->hiredis, &reply) != REDIS_OK) return READ_GARBAGE;
    if (reply == NULL) return READ_MORE;
    r->fed = 0;
    r->whole = true;
    *out = reply;
    return READ_REPLY;
}

void redis_reader_keep(struct redis_reader *r)
{
    PRE(r->whole);
    blocks_drop(&r->kept);
    r->kept = r->top;
    r->whole = false;
    arena_begin(r, BLOCK_BYTES);
}

/* --- INFO is lines of `key:value` and `# Section`, ended by CR LF (redis-doc: commands/info.md). --- */

bool info_get(struct slice info, const char *key, struct slice *value)
{
    struct slice name = slice_str(key);
    while (info.n > 0) {
        struct slice line = text_part(&info, '\n');
        if (line.n <= name.n || line.p[name.n] != ':' || !slice_starts(line, name)) continue;
        *value = slice_of(line.p + name.n + 1, line.n - name.n - 1);
        if (value->n > 0 && value->p[value->n - 1] == '\r') value->n--;
        return true;
    }
    return false;
}

bool info_is(struct slice info, const char *key, const char *value)
{
    struct slice got;
    return info_get(info, key, &got) && slice_eq(got, slice_str(value));
}
