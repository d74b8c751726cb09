/* conf/parse.c - from YAML to struct conf. libyaml makes a tree in which every node has its place; the table of options
 * says what is allowed where. All problems are collected, so one `tallyd check` names them all. Only a text that is no
 * YAML ends the parsing at once. The table bounds the depth, so anchors that loop do no harm. */
#include "conf/conf.h"
#include "conf/value.h"

#include "base/heap.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <yaml.h>

#define PATH_BYTES 256
#define SHOWN_BYTES 40
#define COUNTERS_PATH "counters"
#define COUNTER_PATH "counters.*"
#define COLUMNS_PATH "counters.*.columns"
#define USERS_PATH "users"
#define USER_PATH "users.*"
#define NAME_BYTES_MAX 64
#define COUNTERS_WANTED                                                                                      \
    "expected a map with a counter's name at each (`tallyd suggest TABLE` prints what fits a table)"
#define MYSQL_NAME "a MySQL name of 1 to 64 letters, digits, '_' or '$'"
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define LETTERS LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

struct reader {
    yaml_document_t *doc;
    const char *file;
    const char *const *without; /* groups that are skipped, NULL after the last; NULL: none */
    struct conf *conf;
    struct buf *problems;
    size_t problems_n;
};

/* A place in the tree: as the table writes it, and as people do. */
struct spot {
    char path[PATH_BYTES];     /* "counters.*.sync" */
    char shown[PATH_BYTES];    /* "counters.unique_visitors.sync" */
    void *of;                  /* the struct conf, conf_counter or conf_user that it is about, */
    struct conf_place *places; /* and its places */
};

static struct conf_place mark_place(const yaml_mark_t *mark)
{
    return (struct conf_place){(uint32_t)mark->line + 1, (uint32_t)mark->column + 1};
}

static void problem(struct reader *r, struct conf_place at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void problem(struct reader *r, struct conf_place at, const char *fmt, ...)
{
    char text[900];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    buf_printf(r->problems, "%s:%u:%u: %s\n", r->file, at.line, at.column, text);
    r->problems_n++;
}

static struct slice scalar_of(const yaml_node_t *node)
{
    return slice_of((const char *)node->data.scalar.value, node->data.scalar.length);
}

static bool is_quoted(const yaml_node_t *node)
{
    return node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
}

static bool is_null(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE || is_quoted(node)) return false;
    struct slice text = scalar_of(node);
    return text.n == 0 || slice_eq(text, SLICE("~")) || slice_eq(text, SLICE("null"));
}

/* What the file has there, for an error about it. */
static void describe(const yaml_node_t *node, const struct conf_row *row, char *out, size_t size)
{
    char text[SHOWN_BYTES + 4];
    struct slice scalar = node->type == YAML_SCALAR_NODE ? scalar_of(node) : SLICE("");
    if (node->type == YAML_MAPPING_NODE)
        snprintf(out, size, "a map");
    else if (node->type == YAML_SEQUENCE_NODE)
        snprintf(out, size, "a list");
    else if (is_null(node))
        snprintf(out, size, "empty");
    else if (row == NULL || value_secret(row) || memmem(scalar.p, scalar.n, "://", 3) != NULL)
        snprintf(out, size, "another text (not shown)");
    else
        snprintf(out, size, is_quoted(node) ? "the text \"%s\"" : "%s",
                 slice_show(scalar, SHOWN_BYTES, text, sizeof(text)));
}

/* what: what is there instead; NULL: the node says it. */
static void problem_expected(struct reader *r, const struct conf_row *row, const struct spot *at,
                             const yaml_node_t *node, const char *what)
{
    struct buf expected = {0};
    char shown[128];
    if (what == NULL) describe(node, row, shown, sizeof(shown));
    conf_expected(row, &expected);
    problem(r, mark_place(&node->start_mark), "%s is %s, expected %.*s", at->shown,
            what != NULL ? what : shown, (int)expected.n, expected.p);
    buf_free(&expected);
}

static bool made_of(struct slice name, size_t most, const char *letters)
{
    bool good = name.n >= 1 && name.n <= most;
    for (size_t i = 0; good && i < name.n; i++)
        good = name.p[i] != '\0' && strchr(letters, name.p[i]) != NULL;
    return good;
}

/* A name may be a URL with a password whose option is missing: only what looks like an option is shown. */
static const char *show_name(struct slice name, char *out, size_t size)
{
    if (made_of(name, SHOWN_BYTES, LETTERS DIGITS "_-."))
        snprintf(out, size, "\"%.*s\"", SLICE_ARG(name));
    else
        snprintf(out, size, "(not shown: it does not look like a name)");
    return out;
}

/* group + "." + name, the top's group being "". False: too long. */
static bool path_join(const char *group, struct slice name, char out[PATH_BYTES])
{
    size_t head = strlen(group), dot = head > 0 ? 1 : 0;
    if (head + dot + name.n >= PATH_BYTES) return false;
    memcpy(out, group, head);
    if (dot > 0) out[head] = '.';
    memcpy(out + head + dot, name.p, name.n);
    out[head + dot + name.n] = '\0';
    return true;
}

static void problem_unknown(struct reader *r, struct conf_place at, const struct spot *in, struct slice name)
{
    char shown[64];
    const char *names[CONF_OPTION_COUNT];
    struct buf pool = {0}, text = {0};
    size_t n = conf_group_names(in->path, names, &pool);
    buf_printf(&text, "unknown option %s", show_name(name, shown, sizeof(shown)));
    if (in->shown[0] != '\0') buf_printf(&text, " under %s", in->shown);
    const char *nearest = near_name(name, names, n);
    bool gone = in->path[0] == '\0' && slice_eq(name, SLICE("run_as")); /* older versions had it */
    if (gone)
        BUF_LIT(&text, "; start tallyd as that user instead (systemd: User=; else: setpriv --reuid)");
    else if (nearest != NULL)
        buf_printf(&text, ", expected \"%s\"?", nearest);
    else
        BUF_LIT(&text, ", expected one of ");
    for (size_t i = 0; !gone && nearest == NULL && i < n; i++)
        buf_printf(&text, "%s%s", i == 0 ? "" : ", ", names[i]);
    problem(r, at, "%.*s", (int)text.n, text.p);
    buf_free(&pool);
    buf_free(&text);
}

static void scalar_read(struct reader *r, const struct conf_row *row, const struct spot *at,
                        yaml_node_t *node)
{
    const char *why = NULL;
    bool scalar = node->type == YAML_SCALAR_NODE && !is_null(node);
    if (scalar && value_read(row, scalar_of(node), is_quoted(node), at->of, &why)) return;
    problem_expected(r, row, at, node, why);
}

/* The pair's key as a name; a key that is no text, or exists twice, is a problem. */
static bool name_read(struct reader *r, yaml_node_t *map, yaml_node_pair_t *pair, struct slice *name)
{
    yaml_node_t *key = yaml_document_get_node(r->doc, pair->key);
    if (key->type != YAML_SCALAR_NODE) {
        problem(r, mark_place(&key->start_mark), "there is a list or a map where a name was expected");
        return false;
    }
    *name = scalar_of(key);
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < pair; p++) {
        yaml_node_t *before = yaml_document_get_node(r->doc, p->key);
        if (before->type != YAML_SCALAR_NODE || !slice_eq(scalar_of(before), *name)) continue;
        char shown[64];
        problem(r, mark_place(&key->start_mark), "%s is given again here, expected once (first at line %u)",
                show_name(*name, shown, sizeof(shown)), mark_place(&before->start_mark).line);
        return false;
    }
    return true;
}

static size_t pairs_of(const yaml_node_t *node) /* 0: an empty map, or none */
{
    if (node->type != YAML_MAPPING_NODE) return 0;
    return (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
}

static void lookup_pair_read(struct reader *r, const struct conf_row *row, const struct spot *at,
                             yaml_node_t *map, yaml_node_pair_t *pair, bool given[CONF_LOOKUP_NAMES])
{
    struct slice name;
    char shown[64], what[128];
    if (!name_read(r, map, pair, &name)) return;
    yaml_node_t *value = yaml_document_get_node(r->doc, pair->value);
    struct conf_place place = mark_place(&value->start_mark);
    size_t i = 0;
    while (i < CONF_LOOKUP_NAMES && !slice_eq(value_lookup_name(row, i), name))
        i++;
    if (i == CONF_LOOKUP_NAMES) {
        problem(r, mark_place(&yaml_document_get_node(r->doc, pair->key)->start_mark),
                "unknown option %s under %s, expected %s", show_name(name, shown, sizeof(shown)), at->shown,
                row->expect);
        return;
    }
    given[i] = true;
    if (value->type == YAML_SCALAR_NODE && value_lookup_set(row, i, scalar_of(value), at->of)) return;
    describe(value, row, what, sizeof(what));
    problem(r, place, "%s." SLICE_FMT " is %s, expected " MYSQL_NAME, at->shown, SLICE_ARG(name), what);
}

static void lookup_read(struct reader *r, const struct conf_row *row, const struct spot *at,
                        yaml_node_t *node)
{
    bool given[CONF_LOOKUP_NAMES] = {false};
    struct conf_place here = mark_place(&node->start_mark);
    if (node->type != YAML_MAPPING_NODE) {
        problem_expected(r, row, at, node, NULL);
        return;
    }
    for (size_t i = 0; i < pairs_of(node); i++)
        lookup_pair_read(r, row, at, node, &node->data.mapping.pairs.start[i], given);
    for (size_t i = 0; i < CONF_LOOKUP_NAMES; i++)
        if (!given[i])
            problem(r, here, "%s." SLICE_FMT " is missing, expected " MYSQL_NAME, at->shown,
                    SLICE_ARG(value_lookup_name(row, i)));
}

/* One name of a map, with a value or a list of them. */
static void named_read(struct reader *r, const struct conf_row *row, const struct spot *at, struct slice name,
                       yaml_node_t *value)
{
    yaml_node_t *one = value;
    yaml_node_item_t *item = NULL, *end = NULL;
    bool good = true;
    if (value->type == YAML_SEQUENCE_NODE)
        item = value->data.sequence.items.start, end = value->data.sequence.items.top;
    do {
        if (item != NULL) one = item < end ? yaml_document_get_node(r->doc, *item++) : NULL;
        good = one != NULL && one->type == YAML_SCALAR_NODE && !is_null(one) &&
               value_map_add(row, name, scalar_of(one), at->of);
    } while (good && item < end);
    if (good) return;
    char what[128], shown[64];
    describe(one == NULL ? value : one, row, what, sizeof(what));
    problem(r, mark_place(&value->start_mark), "%s of %s is %s, expected one of %s",
            show_name(name, shown, sizeof(shown)), at->shown, what, row->expect);
}

static void names_read(struct reader *r, const struct conf_row *row, const struct spot *at, yaml_node_t *node)
{
    struct slice name;
    if (node->type != YAML_MAPPING_NODE) {
        problem_expected(r, row, at, node, NULL);
        return;
    }
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++)
        if (name_read(r, node, p, &name))
            named_read(r, row, at, name, yaml_document_get_node(r->doc, p->value));
}

static void option_read(struct reader *r, const struct conf_row *row, const struct spot *at,
                        yaml_node_t *node)
{
    at->places[row - conf_rows] = mark_place(&node->start_mark);
    if (row->kind == KIND_LOOKUP) {
        lookup_read(r, row, at, node);
        return;
    }
    if (row->kind == KIND_MAP) {
        names_read(r, row, at, node);
        return;
    }
    if (!value_listed(row) || node->type != YAML_SEQUENCE_NODE) {
        scalar_read(r, row, at, node);
        return;
    }
    yaml_node_item_t *item = node->data.sequence.items.start, *end = node->data.sequence.items.top;
    if (item == end) problem_expected(r, row, at, node, "an empty list");
    for (; item < end; item++)
        scalar_read(r, row, at, yaml_document_get_node(r->doc, *item));
}

static void map_read(struct reader *r, const struct spot *in, yaml_node_t *node);

/* A group is a map of options; `redis: URL` is short for its option `url`. */
static void group_read(struct reader *r, struct spot *at, yaml_node_t *node)
{
    struct slice url = SLICE("url");
    char path[PATH_BYTES];
    const struct conf_row *row = path_join(at->path, url, path) ? conf_row_find(slice_str(path)) : NULL;
    if (row != NULL && node->type == YAML_SCALAR_NODE && !is_null(node)) {
        path_join(at->shown, url, path);
        memcpy(at->shown, path, sizeof(path));
        option_read(r, row, at, node);
    } else {
        map_read(r, at, node);
    }
}

/* The two maps whose keys are names. */
static const struct section {
    const char *path, *entry, *whose, *letters, *expected;
} counters_section = {COUNTERS_PATH, COUNTER_PATH, "a counter's", LOWER DIGITS "_",
                      "1 to 64 lower-case letters, digits or '_'"},
  users_section = {USERS_PATH, USER_PATH, "a user's", LETTERS DIGITS "._@-",
                   "1 to 64 letters, digits, '.', '_', '@' or '-'"};

static void entry_read(struct reader *r, const struct section *s, yaml_node_t *map, yaml_node_pair_t *pair)
{
    struct conf_place here = mark_place(&yaml_document_get_node(r->doc, pair->key)->start_mark);
    struct spot at = {.path = ""};
    struct slice name;
    char shown[64];
    if (!name_read(r, map, pair, &name)) return;
    if (!made_of(name, NAME_BYTES_MAX, s->letters)) {
        problem(r, here, "%s name is %s, expected %s", s->whose, show_name(name, shown, sizeof(shown)),
                s->expected);
        return;
    }
    if (s == &counters_section) {
        struct conf_counter *c = &r->conf->counters[r->conf->counters_n++];
        c->name = heap_strndup(name.p, name.n), c->place = here, at.of = c, at.places = c->places;
    } else {
        struct conf_user *u = &r->conf->users[r->conf->users_n++];
        u->name = heap_strndup(name.p, name.n), u->place = here, at.of = u, at.places = u->places;
    }
    strcpy(at.path, s->entry);
    path_join(s->path, name, at.shown);
    map_read(r, &at, yaml_document_get_node(r->doc, pair->value));
}

static void counters_read(struct reader *r, yaml_node_t *node)
{
    size_t n = pairs_of(node);
    if (n == 0) {
        char what[128];
        describe(node, NULL, what, sizeof(what));
        problem(r, mark_place(&node->start_mark), "counters is %s, " COUNTERS_WANTED,
                node->type == YAML_MAPPING_NODE ? "an empty map" : what);
        return;
    }
    r->conf->counters = heap_zalloc(n * sizeof(*r->conf->counters));
    for (size_t i = 0; i < n; i++)
        entry_read(r, &counters_section, node, &node->data.mapping.pairs.start[i]);
}

/* An empty map is refused: it seems to restrict clients, but would give all of them full access. */
static void users_read(struct reader *r, yaml_node_t *node)
{
    size_t n = pairs_of(node);
    if (n == 0) {
        problem(r, mark_place(&node->start_mark),
                "users is not a map or is empty, expected a map with a user's name at each; without users "
                "anyone who can connect has full access");
        return;
    }
    r->conf->users = heap_zalloc(n * sizeof(*r->conf->users));
    for (size_t i = 0; i < n; i++)
        entry_read(r, &users_section, node, &node->data.mapping.pairs.start[i]);
}

static bool is_skipped(const struct reader *r, const char *path)
{
    for (const char *const *group = r->without; group != NULL && *group != NULL; group++) {
        size_t n = strlen(*group);
        if (strncmp(path, *group, n) == 0 && (path[n] == '\0' || path[n] == '.')) return true;
    }
    return false;
}

static void pair_read(struct reader *r, const struct spot *in, yaml_node_t *map, yaml_node_pair_t *pair)
{
    struct slice name;
    if (!name_read(r, map, pair, &name)) return;
    yaml_node_t *key = yaml_document_get_node(r->doc, pair->key);
    yaml_node_t *value = yaml_document_get_node(r->doc, pair->value);
    struct spot at = {.of = in->of, .places = in->places};
    bool plain = name.n > 0 && memchr(name.p, '.', name.n) == NULL && memchr(name.p, '*', name.n) == NULL &&
                 memchr(name.p, '\0', name.n) == NULL && path_join(in->path, name, at.path) &&
                 path_join(in->shown, name, at.shown);
    const struct conf_row *row = plain ? conf_row_find(slice_str(at.path)) : NULL;
    if (plain && is_skipped(r, at.path)) return;
    /* Columns have names of the operator's own, and a field's may be a list. */
    bool own =
        plain && strcmp(in->path, COLUMNS_PATH) == 0 && (row == NULL || value->type == YAML_SEQUENCE_NODE);
    if (own) {
        at.places[CONF_COUNTER_COLUMN_MORE] = mark_place(&key->start_mark);
        named_read(r, &conf_rows[CONF_COUNTER_COLUMN_MORE], in, name, value);
    } else if (row != NULL)
        option_read(r, row, &at, value);
    else if (plain && strcmp(at.path, COUNTERS_PATH) == 0)
        counters_read(r, value);
    else if (plain && strcmp(at.path, USERS_PATH) == 0)
        users_read(r, value);
    else if (plain && conf_group_exists(slice_str(at.path)))
        group_read(r, &at, value);
    else
        problem_unknown(r, mark_place(&key->start_mark), in, name);
}

static void map_read(struct reader *r, const struct spot *in, yaml_node_t *node)
{
    struct conf_place at = mark_place(&node->start_mark);
    if (node->type != YAML_MAPPING_NODE && !is_null(node)) {
        char what[128];
        describe(node, NULL, what, sizeof(what));
        problem(r, at, "%s is %s, expected a map of options", in->shown[0] == '\0' ? "the file" : in->shown,
                what);
        return;
    }
    for (size_t i = 0; i < pairs_of(node); i++)
        pair_read(r, in, node, &node->data.mapping.pairs.start[i]);
    /* Options that must be given, directly under this map. */
    size_t group = strlen(in->path);
    for (size_t i = 0; i < CONF_OPTION_COUNT; i++) {
        const struct conf_row *row = &conf_rows[i];
        const char *dot = strrchr(row->path, '.');
        bool here =
            dot != NULL && (size_t)(dot - row->path) == group && memcmp(row->path, in->path, group) == 0;
        if (!here || row->standard != NULL || in->places[i].line > 0) continue;
        in->places[i] = at;
        char shown[PATH_BYTES];
        path_join(in->shown, slice_str(dot + 1), shown);
        problem(r, at, "%s is missing, expected %s", shown, row->expect);
    }
}

static void default_set(const struct conf_row *row, void *of, const struct conf_place *places)
{
    const char *why;
    if (places[row - conf_rows].line > 0 || row->standard == NULL || row->standard[0] == '\0') return;
    bool read = value_read(row, slice_str(row->standard), false, of, &why);
    INVARIANT(read);
}

/* Options that must be given, of groups that the file does not have. */
static void missing_group(struct reader *r, const struct conf_row *row, const struct conf_counter *counter)
{
    const struct conf_place *places = counter == NULL ? r->conf->places : counter->places;
    if (row->standard != NULL || places[row - conf_rows].line > 0 || is_skipped(r, row->path)) return;
    struct buf shown = {0};
    if (counter == NULL)
        buf_printf(&shown, "%s", row->path);
    else
        buf_printf(&shown, COUNTERS_PATH ".%s%s", counter->name, row->path + strlen(COUNTER_PATH));
    struct conf_place top = {1, 1};
    problem(r, counter == NULL ? top : counter->place, "%.*s is missing, expected %s", (int)shown.n, shown.p,
            row->expect);
    buf_free(&shown);
}

static bool map_has_name(const struct conf_map *map, const char *name)
{
    for (size_t i = 0; i < map->n; i++)
        if (strcmp(map->all[i].name, name) == 0) return true;
    return false;
}

static void counter_finish(struct reader *r, struct conf_counter *c)
{
    bool counts = c->field != NULL && strcmp(c->field, "count") == 0,
         none = c->field != NULL && strcmp(c->field, "none") == 0;
    if (c->field != NULL && !counts && !none && strchr(c->field, '<') == NULL && c->column_field == NULL &&
        !map_has_name(&c->columns, "field"))
        problem(r, c->place, "counters.%s.columns.field is missing, expected " MYSQL_NAME, c->name);
    if (!counts && c->column_count == NULL)
        problem(r, c->place, "counters.%s.columns.count is missing, expected " MYSQL_NAME, c->name);
    for (size_t i = 0; i < CONF_OPTION_COUNT; i++) {
        if (conf_rows[i].owner != OWNER_COUNTER) continue;
        missing_group(r, &conf_rows[i], c);
        default_set(&conf_rows[i], c, c->places);
    }
    if (c->key == NULL) return;
    bool store = strstr(c->key, "<store>") != NULL;
    bool other = !store && strchr(c->key, '<') != NULL; /* a wrong key: the parser of patterns reports it */
    if (!store && !other && c->column_store != NULL)
        problem(r, c->places[CONF_COUNTER_COLUMN_STORE],
                "counters.%s.columns.store is \"%s\" but the key has no <store>, expected no such column",
                c->name, c->column_store);
    if (store && c->places[CONF_COUNTER_COLUMN_STORE].line == 0)
        problem(r, c->place,
                "counters.%s.columns.store is missing, expected the column of the <store> in the key",
                c->name);
    if (c->places[CONF_COUNTER_LOCK].line > 0) return;
    struct buf lock = {0};
    /* What a text at the end stands for may end in anything. */
    size_t n = strlen(c->key);
    bool rest = n > 0 && c->key[n - 1] == '>' && !slice_ends(slice_of(c->key, n), SLICE("<store>"));
    buf_printf(&lock, rest ? "sync:%s" : "%s:sync", c->key);
    c->lock = heap_strndup(lock.p, lock.n);
    buf_free(&lock);
}

/* The host's name, with '-' for what an instance's name may not hold. */
static char *instance_default(void)
{
    char host[65] = "";
    if (gethostname(host, sizeof(host)) != 0 || host[0] == '\0') return heap_strdup("tallyd");
    host[sizeof(host) - 1] = '\0';
    for (char *p = host; *p != '\0'; p++)
        if (strchr(LETTERS DIGITS "._-", *p) == NULL) *p = '-';
    return heap_strdup(host);
}

/* From the environment, else systemd's credentials, else the option's file. NULL: nowhere. */
static char *conf_password_read(struct reader *r, const char *variable, const char *credential,
                                const char *path, enum conf_option option)
{
    struct error e = {0};
    const char *value = getenv(variable);
    if (value != NULL && value[0] != '\0') return heap_strdup(value);
    char *secret = secret_read_credential(credential, &e);
    if (secret != NULL || (path == NULL && e.code == ERR_NONE)) return secret;
    if (e.code == ERR_NONE) secret = secret_read_file(r->file, path, &e);
    if (secret == NULL) problem(r, r->conf->places[option], "%s %s", conf_rows[option].path, e.text);
    return secret;
}

static void reader_finish(struct reader *r)
{
    struct conf *c = r->conf;
    for (size_t i = 0; i < CONF_OPTION_COUNT; i++) {
        if (conf_rows[i].owner != OWNER_ALL) continue;
        missing_group(r, &conf_rows[i], NULL);
        default_set(&conf_rows[i], c, c->places);
    }
    for (size_t i = 0; i < c->counters_n; i++)
        counter_finish(r, &c->counters[i]);
    for (size_t i = 0; i < c->users_n; i++)
        for (size_t o = 0; o < CONF_OPTION_COUNT; o++)
            if (conf_rows[o].owner == OWNER_USER)
                default_set(&conf_rows[o], &c->users[i], c->users[i].places);
    const char *named = getenv(CONF_INSTANCE_ENVIRONMENT);
    if (named != NULL && named[0] != '\0' && !conf_set(c, CONF_INSTANCE, &named, 1))
        problem(r, (struct conf_place){1, 1},
                CONF_INSTANCE_ENVIRONMENT " in the environment is \"%s\", expected %s", named,
                conf_rows[CONF_INSTANCE].expect);
    if (c->instance == NULL) c->instance = instance_default();
    c->redis_password = conf_password_read(r, "TALLYD_REDIS_PASSWORD", "redis.password",
                                           c->redis_password_file, CONF_REDIS_PASSWORD_FILE);
    c->sentinel_password =
        conf_password_read(r, "TALLYD_SENTINEL_PASSWORD", "sentinel.password",
                           c->redis_sentinel_password_file, CONF_REDIS_SENTINEL_PASSWORD_FILE);
    c->mysql_password = conf_password_read(r, "TALLYD_MYSQL_PASSWORD", "mysql.password",
                                           c->mysql_password_file, CONF_MYSQL_PASSWORD_FILE);
    struct error e;
    if (r->conf->http_tokens_file != NULL) {
        char *lines = secret_read_lines(r->file, r->conf->http_tokens_file, &e);
        if (lines == NULL || !bearers_read(slice_str(lines), &r->conf->bearers, &e))
            problem(r, r->conf->places[CONF_HTTP_TOKENS], "%s %s", conf_rows[CONF_HTTP_TOKENS].path, e.text);
        secret_free(lines);
    }
}

static void document_read(struct reader *r)
{
    struct spot top = {.path = "", .of = r->conf, .places = r->conf->places};
    yaml_node_t *root = yaml_document_get_root_node(r->doc);
    if (root == NULL || is_null(root)) {
        problem(r, (struct conf_place){1, 1}, "the file is empty, expected a map of options");
        return;
    }
    map_read(r, &top, root);
    if (root->type != YAML_MAPPING_NODE) return;
    bool counters = is_skipped(r, COUNTERS_PATH);
    for (size_t i = 0; i < pairs_of(root); i++) {
        yaml_node_t *key = yaml_document_get_node(r->doc, root->data.mapping.pairs.start[i].key);
        counters |= key->type == YAML_SCALAR_NODE && slice_eq(scalar_of(key), SLICE(COUNTERS_PATH));
    }
    if (!counters) problem(r, (struct conf_place){1, 1}, "counters is missing, " COUNTERS_WANTED);
    reader_finish(r);
}

static void syntax_problem(struct reader *r, const yaml_parser_t *parser)
{
    struct conf_place at = mark_place(&parser->problem_mark);
    if (parser->error == YAML_MEMORY_ERROR) heap_exhausted(0);
    if (parser->error == YAML_READER_ERROR)
        problem(r, mark_place(&parser->mark), "bytes that are not UTF-8 text, expected YAML");
    else
        problem(r, at, "%s, expected YAML (are the indents spaces, and the same in one map?)",
                parser->problem == NULL ? "this cannot be read" : parser->problem);
}

/* The one document of the parser. */
static void parser_read(struct reader *r, yaml_parser_t *parser)
{
    yaml_document_t document, second;
    if (!yaml_parser_load(parser, &document)) {
        syntax_problem(r, parser);
        return;
    }
    r->doc = &document;
    document_read(r);
    if (!yaml_parser_load(parser, &second)) {
        syntax_problem(r, parser);
    } else {
        yaml_node_t *root = yaml_document_get_root_node(&second);
        if (root != NULL)
            problem(r, mark_place(&second.start_mark), "a second document begins here, expected one");
        yaml_document_delete(&second);
    }
    yaml_document_delete(&document);
}

bool conf_parse(const char *file, struct slice text, const char *const *without, struct conf *out,
                struct buf *problems)
{
    *out = (struct conf){.file = heap_strdup(file)};
    struct reader r = {.file = out->file, .without = without, .conf = out, .problems = problems};
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) heap_exhausted(0);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.p, text.n);
    parser_read(&r, &parser);
    yaml_parser_delete(&parser);
    if (r.problems_n == 0) return true;
    conf_free(out);
    return false;
}
