/* redis/ask.c - see ask.h. */
#include "redis/ask.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/outlet.h"
#include "redis/link_in.h"
#include <stdarg.h>

/* --- requests --- */

/* The conversion behind a %; returns what follows it. */
static const char *conversion_put(struct buf *word, const char *f, va_list *args)
{
    int longs = 0;
    if (f[0] == '.') { /* .*s */
        int n = va_arg(*args, int);
        buf_put(word, va_arg(*args, const char *), (size_t)n);
        return f + 3;
    }
    if (f[0] == 's') {
        buf_put_slice(word, slice_str(va_arg(*args, const char *)));
        return f + 1;
    }
    for (; *f == 'l' || *f == 'z'; f++)
        longs++; /* a size_t is as long as a long */
    PRE(*f == 'd' || *f == 'u');
    bool is_signed = *f == 'd';
    if (longs == 0)
        buf_int(word, is_signed ? va_arg(*args, int) : (int64_t)va_arg(*args, unsigned));
    else if (longs == 1)
        buf_int(word, is_signed ? va_arg(*args, long) : (int64_t)va_arg(*args, unsigned long));
    else
        buf_int(word, is_signed ? va_arg(*args, long long) : (int64_t)va_arg(*args, unsigned long long));
    return f + 1;
}

/* Returns the end of the word in the format. */
static const char *word_put(struct buf *word, struct slice tag, const char *f, va_list *args)
{
    buf_reset(word);
    while (*f != '\0' && *f != ' ') {
        if (f[0] == '{' && f[1] == '}') {
            buf_put_slice(word, tag);
            f += 2;
        } else if (*f == '%') {
            f = conversion_put(word, f + 1, args);
        } else {
            buf_put_char(word, *f++);
        }
    }
    return f;
}

static void format_put(struct buf *out, struct slice tag, const char *format, va_list *args)
{
    bool more = strstr(format, " +%zu") != NULL;
    struct buf word = {0}, all = {0};
    size_t n = 1 - more;
    for (const char *p = format; *p != '\0'; p++)
        n += *p == ' ';
    for (size_t i = 0; i < n; i++) {
        format = word_put(&word, tag, format, args);
        format += *format == ' ';
        put_bulk(&all, buf_slice(&word));
    }
    request_array(out, n + (more ? va_arg(*args, size_t) : 0));
    buf_put_slice(out, buf_slice(&all));
    buf_free(&word);
    buf_free(&all);
}

void request_format(struct buf *out, struct slice tag, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    format_put(out, tag, format, &args);
    va_end(args);
}

struct buf *redis_write(struct redis_link *l, const char *format, ...)
{
    struct buf *out = redis_link_begin(l);
    va_list args;
    va_start(args, format);
    format_put(out, redis_tag(l), format, &args);
    va_end(args);
    return out;
}

/* --- blocking --- */

struct called {
    const struct redis_answer *answer;
    bool done;
};

static void call_answered(struct redis_link *l, void *arg, const struct redis_answer *r, uint32_t at)
{
    struct called *c = arg;
    (void)at;
    if (r != NULL) redis_reader_keep(l->reader);
    *c = (struct called){.answer = r, .done = true};
}

const struct redis_answer *redis_answered(struct redis_link *l)
{
    struct called c = {0};
    redis_link_ask(l, 1, call_answered, &c);
    redis_run_until(l, &c.done);
    return c.answer;
}

const struct redis_answer *redis_call(struct redis_link *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    format_put(redis_link_begin(l), redis_tag(l), format, &args);
    va_end(args);
    return redis_answered(l);
}

void redis_settle(struct redis_link *l)
{
    while (l->ring_n + l->refused_n > 0)
        uv_run(l->loop, UV_RUN_ONCE);
}

static void end_closed(struct redis_link *l)
{
    *(bool *)l->arg = true;
}

void redis_end(struct redis_link *l)
{
    bool closed = false;
    l->arg = &closed;
    redis_link_close(l, end_closed);
    redis_run_until(l, &closed);
}

/* --- answers --- */

/* Returns the rest of the shape; NULL: the answer does not have it. */
static const char *part_scan(const struct redis_answer *r, const char *shape, va_list *args)
{
    char what = *shape++;
    if (what == '(') {
        if (!answer_is(r, REDIS_ARRAY)) return NULL;
        size_t i = 0;
        while (*shape != ')' && i < r->n)
            if ((shape = part_scan(&r->elements[i++], shape, args)) == NULL) return NULL;
        return *shape == ')' && i == r->n ? shape + 1 : NULL;
    }
    if (what == 'i') return answer_integer(r, va_arg(*args, int64_t *)) ? shape : NULL;
    if (what == 's') {
        if (!answer_is(r, REDIS_STRING)) return NULL;
        *va_arg(*args, struct slice *) = r->str;
        return shape;
    }
    PRE(what == 'a' || what == '*');
    if (r == NULL || (what == 'a' && r->type != REDIS_ARRAY)) return NULL;
    *va_arg(*args, const struct redis_answer **) = r;
    return shape;
}

bool answer_scan(const struct redis_answer *r, const char *shape, ...)
{
    va_list args;
    va_start(args, shape);
    bool fits = part_scan(r, shape, &args) != NULL;
    va_end(args);
    return fits;
}

struct slice *answer_texts(const struct redis_answer *r, size_t step, struct buf *bytes)
{
    size_t n = 1; /* never none, so that there is memory to point into */
    struct slice *all = heap_alloc((r->n / step + 1) * sizeof *all);
    for (size_t i = 0; i < r->n; i += step)
        n += r->elements[i].str.n;
    buf_reserve(bytes, n); /* so that the slices stay good while it fills */
    for (size_t i = 0; i < r->n; i += step) {
        all[i / step] = slice_of(bytes->p + bytes->n, r->elements[i].str.n);
        buf_put_slice(bytes, r->elements[i].str);
    }
    return all;
}
