/* conf/load.c - loading from a file (conf.h), and what else is done with a whole configuration. */
#include "conf/conf.h"

#include "base/heap.h"
#include "conf/value.h"

#include <errno.h>
#include <stdio.h>

#define FILE_BYTES_MAX (1 << 20)

static const char default_text[] =
    "redis: \"redis://127.0.0.1:6379/0\"\n"
    "mysql: \"mysql://tally@127.0.0.1:3306/tally\"\n"
    "counters:\n"
    "  unique_visitors:\n"
    "    key: \"s<store>:unique_visitors:daily\"\n"
    "    lock: \"s<store>:unique_visitors:sync\"\n"
    "    field: date\n"
    "    sync: { hits: 50, every: 60s }\n"
    "    table: daily_visitors\n"
    "    columns: { store: store_id, field: day, count: visitors }\n"
    "  product_views:\n"
    "    key: \"s<store>:product_views\"\n"
    "    field: integer\n"
    "    sync: { hits: 50, every: 60s }\n"
    "    table: product_views\n"
    "    columns: { store: store_id, field: product_id, count: views }\n"
    "    feeds: { series: \"s<store>:views\" }\n"
    "uniques: { days: 0, name: \"s<store>:visitors\", feeds: { counter: unique_visitors } }\n";

/* The whole file into text. False: *why is what fopen or read said. */
static bool file_read(const char *path, struct buf *text, const char **why)
{
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        *why = strerror(errno);
        return false;
    }
    size_t n;
    do {
        n = fread(buf_reserve(text, 4096), 1, 4096, f);
        text->n += n;
    } while (n > 0 && text->n <= FILE_BYTES_MAX);
    *why = ferror(f) ? strerror(errno) : text->n > FILE_BYTES_MAX ? "it has more than 1 MiB" : NULL;
    fclose(f);
    return *why == NULL;
}

bool conf_load_all(const char *path, const char *const *without, struct conf *out, struct buf *problems)
{
    struct buf text = {0};
    const char *why;
    *out = (struct conf){0};
    bool loaded = file_read(path, &text, &why);
    if (!loaded)
        buf_printf(problems,
                   "%s: cannot be read (%s), expected the configuration: give its path with -c FILE\n", path,
                   why);
    else
        loaded = conf_parse(path, buf_slice(&text), without, out, problems);
    if (text.n > 0) explicit_bzero(text.p, text.n); /* URLs may hold passwords */
    buf_free(&text);
    return loaded;
}

enum err conf_load(const char *path, const char *const *without, struct conf *out, struct error *e)
{
    struct buf problems = {0};
    bool loaded = conf_load_all(path, without, out, &problems);
    if (!loaded) {
        const char *end = memchr(problems.p, '\n', problems.n);
        error_set(e, ERR_CONFIG, "%.*s", (int)(end - problems.p), problems.p);
    }
    buf_free(&problems);
    return loaded ? ERR_NONE : ERR_CONFIG;
}

void conf_default(struct conf *out)
{
    struct buf problems = {0};
    bool read = conf_parse("default", slice_str(default_text), NULL, out, &problems);
    INVARIANT(read);
    buf_free(&problems);
}

static void members_free(void *base, enum conf_owner owner)
{
    for (size_t i = 0; i < CONF_OPTION_COUNT; i++)
        if (conf_rows[i].owner == owner) value_free(&conf_rows[i], base);
}

void conf_free(struct conf *c)
{
    for (size_t i = 0; i < c->counters_n; i++) {
        members_free(&c->counters[i], OWNER_COUNTER);
        heap_free(c->counters[i].name);
    }
    heap_free(c->counters);
    for (size_t i = 0; i < c->users_n; i++) {
        members_free(&c->users[i], OWNER_USER);
        heap_free(c->users[i].name);
    }
    heap_free(c->users);
    members_free(c, OWNER_ALL);
    secret_free(c->redis_password);
    secret_free(c->sentinel_password);
    secret_free(c->mysql_password);
    bearers_free(&c->bearers);
    heap_free(c->file);
    *c = (struct conf){0};
}

bool conf_set(struct conf *c, enum conf_option option, const char *const *texts, size_t n)
{
    const struct conf_row *row = &conf_rows[option];
    struct conf fresh = {0};
    const char *why;
    bool good = n > 0 || (row->standard != NULL && row->standard[0] == '\0');
    PRE((unsigned)option < CONF_OPTION_COUNT && row->owner == OWNER_ALL && (n <= 1 || value_listed(row)));
    for (size_t i = 0; good && i < n; i++)
        good = value_read(row, slice_str(texts[i]), false, &fresh, &why);
    value_free(row, good ? c : &fresh);
    if (!good) return false;
    memcpy(conf_member(row, c), conf_member(row, &fresh), row->size);
    c->places[option] = (struct conf_place){0, 0};
    return true;
}

static const char *where_put(const struct conf *c, struct conf_place at, struct conf_place otherwise,
                             char *out, size_t size)
{
    if (at.line == 0) at = otherwise;
    if (at.line == 0)
        snprintf(out, size, "%s", c->file);
    else
        snprintf(out, size, "%s:%u:%u", c->file, at.line, at.column);
    return out;
}

char *conf_beside(const struct conf *c, const char *path)
{
    return secret_path(c->file, path);
}

const char *conf_where(const struct conf *c, size_t counter, enum conf_option option, char *out, size_t size)
{
    PRE(counter == CONF_GLOBAL || counter < c->counters_n);
    PRE((unsigned)option < CONF_OPTION_COUNT || (option == CONF_OPTION_COUNT && counter != CONF_GLOBAL));
    const struct conf_counter *of = counter == CONF_GLOBAL ? NULL : &c->counters[counter];
    struct conf_place at = {0};
    if (option < CONF_OPTION_COUNT) at = of == NULL ? c->places[option] : of->places[option];
    return where_put(c, at, of == NULL ? (struct conf_place){0} : of->place, out, size);
}

const char *conf_where_user(const struct conf *c, size_t user, enum conf_option option, char *out,
                            size_t size)
{
    PRE(user < c->users_n && (unsigned)option <= CONF_OPTION_COUNT);
    const struct conf_user *of = &c->users[user];
    struct conf_place at = option < CONF_OPTION_COUNT ? of->places[option] : of->place;
    return where_put(c, at, of->place, out, size);
}

static bool same_value(const struct conf_row *row, const void *a, const void *b)
{
    struct buf left = {0}, right = {0};
    bool given = value_write(row, a, &left);
    bool same = given == value_write(row, b, &right) && slice_eq(buf_slice(&left), buf_slice(&right));
    buf_free(&left);
    buf_free(&right);
    return same;
}

bool conf_same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool same_counters(const struct conf *a, const struct conf *b)
{
    if (a->counters_n != b->counters_n) return false;
    for (size_t i = 0; i < a->counters_n; i++) {
        if (strcmp(a->counters[i].name, b->counters[i].name) != 0) return false;
        for (size_t o = 0; o < CONF_OPTION_COUNT; o++)
            if (conf_rows[o].owner == OWNER_COUNTER &&
                !same_value(&conf_rows[o], &a->counters[i], &b->counters[i]))
                return false;
    }
    return true;
}

static void changed_add(struct buf *out, const char *name, size_t *n)
{
    buf_printf(out, "%s%s", *n == 0 ? "" : ", ", name);
    (*n)++;
}

size_t conf_needs_restart(const struct conf *now, const struct conf *wanted, struct buf *out)
{
    size_t n = 0;
    for (size_t i = 0; i < CONF_OPTION_COUNT; i++) {
        const struct conf_row *row = &conf_rows[i];
        if (row->owner == OWNER_ALL && !row->reload && !same_value(row, now, wanted))
            changed_add(out, row->path, &n);
    }
    if (!conf_same_text(now->redis_password, wanted->redis_password)) changed_add(out, "Redis' password", &n);
    if (!conf_same_text(now->sentinel_password, wanted->sentinel_password))
        changed_add(out, "the sentinels' password", &n);
    if (!conf_same_text(now->mysql_password, wanted->mysql_password))
        changed_add(out, "MySQL's password", &n);
    if (!same_counters(now, wanted)) changed_add(out, "counters", &n);
    return n;
}

/* The headings of path's groups, except those of the previous option (last); two spaces a level. Returns how deep path
 * is. */
static size_t headings_write(const char *path, const char *last, size_t from, struct buf *out)
{
    size_t level = 0;
    for (const char *p = path, *dot; (dot = strchr(p, '.')) != NULL; p = dot + 1, level++) {
        size_t n = (size_t)(dot - path) + 1;
        bool open = last != NULL && strncmp(last, path, n) == 0;
        if (level >= from && !open) buf_printf(out, "%*s%.*s:\n", (int)(2 * level), "", (int)(dot - p), p);
    }
    return level;
}

/* Of the map at "*" each name is a line in its group. */
static void lines_write(const struct conf_map *map, size_t depth, struct buf *out)
{
    for (size_t i = 0; i < map->n; i++) {
        buf_printf(out, "%*s", (int)(2 * depth), "");
        value_map_put(map, i, out);
        buf_put_char(out, '\n');
    }
}

static void options_write(const void *base, enum conf_owner owner, size_t from, struct buf *out)
{
    const char *last = NULL;
    for (size_t i = 0; i < CONF_OPTION_COUNT; i++) {
        const struct conf_row *row = &conf_rows[i];
        struct buf value = {0};
        if (row->owner == owner && value_write(row, base, &value)) {
            const char *dot = strrchr(row->path, '.');
            size_t depth = headings_write(row->path, last, from, out);
            if (dot != NULL && strcmp(dot, ".*") == 0)
                lines_write((const struct conf_map *)(const void *)((const char *)base + row->at), depth,
                            out);
            else
                buf_printf(out, "%*s%s: %.*s\n", (int)(2 * depth), "", dot == NULL ? row->path : dot + 1,
                           (int)value.n, value.p);
            last = row->path;
        }
        buf_free(&value);
    }
}

void conf_write(const struct conf *c, struct buf *out)
{
    options_write(c, OWNER_ALL, 0, out);
    BUF_LIT(out, "counters:\n");
    for (size_t i = 0; i < c->counters_n; i++) {
        buf_printf(out, "  %s:\n", c->counters[i].name);
        options_write(&c->counters[i], OWNER_COUNTER, 2, out);
    }
    if (c->users_n > 0) BUF_LIT(out, "users:\n");
    for (size_t i = 0; i < c->users_n; i++) {
        buf_printf(out, "  \"%s\":\n", c->users[i].name);
        options_write(&c->users[i], OWNER_USER, 2, out);
    }
}
