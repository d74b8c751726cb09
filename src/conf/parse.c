/* conf/parse.c - from YAML to struct conf. libyaml makes a tree with the place of every node; the table of
 * options says what may stand where. All problems are collected, so one run of `tallyd check` names them all;
 * only a text that is no YAML ends the reading at once. Depth is bounded by the table, so anchors that loop
 * cannot make this loop. */
#include "conf/bearers.h"
#include "conf/near.h"
#include "conf/secret.h"
#include "conf/value.h"

#include "base/heap.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <yaml.h>

#define PATH_BYTES 256
#define SHOWN_BYTES 40
#define COUNTERS_PATH "counters"
#define COUNTER_PATH "counters.*"
#define USERS_PATH "users"
#define USER_PATH "users.*"

struct reader {
    yaml_document_t *doc;
    const char *file;
    const char *const *without; /* groups that are passed over, NULL behind the last; NULL: none */
    struct conf *conf;
    struct buf *problems;
    size_t problems_n;
};

/* Where in the tree: as the table writes it, and as people do. */
struct spot {
    char path[PATH_BYTES];     /* "counters.*.sync" */
    char shown[PATH_BYTES];    /* "counters.unique_visitors.sync" */
    void *of;                  /* the struct conf, conf_counter or conf_user that it is about, */
    struct conf_place *places; /* and its places */
};

static struct conf_place place_of(const yaml_mark_t *mark)
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

static void problem_expected(struct reader *r, struct conf_place at, const char *shown,
                             const struct conf_row *row, const char *what)
{
    struct buf expected = {0};
    conf_expected(row, &expected);
    problem(r, at, "%s is %s, expected %.*s", shown, what, (int)expected.n, expected.p);
    buf_free(&expected);
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

static bool misplaced_url(struct slice text)
{
    return text.n > 0 && memmem(text.p, text.n, "://", 3) != NULL;
}

/* What stands there, for an error about it. */
static void describe(const yaml_node_t *node, const struct conf_row *row, char *out, size_t size)
{
    char text[SHOWN_BYTES + 4];
    if (node->type == YAML_MAPPING_NODE)
        snprintf(out, size, "a map");
    else if (node->type == YAML_SEQUENCE_NODE)
        snprintf(out, size, "a list");
    else if (is_null(node))
        snprintf(out, size, "empty");
    else if (row == NULL || value_secret(row) || misplaced_url(scalar_of(node)))
        snprintf(out, size, "another text (not shown)");
    else
        snprintf(out, size, is_quoted(node) ? "the text \"%s\"" : "%s",
                 slice_show(scalar_of(node), SHOWN_BYTES, text, sizeof(text)));
}

/* A name may be a URL with a password that lost its option: only what looks like an option is shown. */
static const char *show_name(struct slice name, char *out, size_t size)
{
    bool plain = name.n > 0 && name.n <= SHOWN_BYTES;
    for (size_t i = 0; plain && i < name.n; i++)
        plain =
            strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.", name.p[i]) != NULL;
    if (plain)
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
    if (nearest != NULL)
        buf_printf(&text, ", expected \"%s\"?", nearest);
    else
        BUF_LIT(&text, ", expected one of ");
    for (size_t i = 0; nearest == NULL && i < n; i++)
        buf_printf(&text, "%s%s", i == 0 ? "" : ", ", names[i]);
    problem(r, at, "%.*s", (int)text.n, text.p);
    buf_free(&pool);
    buf_free(&text);
}

static void scalar_read(struct reader *r, const struct conf_row *row, const struct spot *at,
                        yaml_node_t *node)
{
    char what[128];
    const char *why = NULL;
    bool scalar = node->type == YAML_SCALAR_NODE && !is_null(node);
    if (scalar && value_read(row, scalar_of(node), is_quoted(node), at->of, &why)) return;
    describe(node, row, what, sizeof(what));
    problem_expected(r, place_of(&node->start_mark), at->shown, row, why != NULL ? why : what);
}

static void list_read(struct reader *r, const struct conf_row *row, const struct spot *at, yaml_node_t *node)
{
    yaml_node_item_t *item = node->data.sequence.items.start;
    if (item == node->data.sequence.items.top)
        problem_expected(r, place_of(&node->start_mark), at->shown, row, "an empty list");
    for (; item < node->data.sequence.items.top; item++)
        scalar_read(r, row, at, yaml_document_get_node(r->doc, *item));
}

static void option_read(struct reader *r, const struct conf_row *row, const struct spot *at,
                        yaml_node_t *node)
{
    at->places[row - conf_rows] = place_of(&node->start_mark);
    if (value_listed(row) && node->type == YAML_SEQUENCE_NODE)
        list_read(r, row, at, node);
    else
        scalar_read(r, row, at, node);
}

/* The node of pair's key as a name; a name that is no text, or stands there again, is a problem. */
static bool name_read(struct reader *r, yaml_node_t *map, yaml_node_pair_t *pair, struct slice *name)
{
    yaml_node_t *key = yaml_document_get_node(r->doc, pair->key);
    if (key->type != YAML_SCALAR_NODE) {
        problem(r, place_of(&key->start_mark), "a list or a map stands where a name was expected");
        return false;
    }
    *name = scalar_of(key);
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < pair; p++) {
        yaml_node_t *before = yaml_document_get_node(r->doc, p->key);
        if (before->type != YAML_SCALAR_NODE || !slice_eq(scalar_of(before), *name)) continue;
        char shown[64];
        problem(r, place_of(&key->start_mark), "%s stands here again, expected once (first at line %u)",
                show_name(*name, shown, sizeof(shown)), place_of(&before->start_mark).line);
        return false;
    }
    return true;
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

static bool counter_name_valid(struct slice name)
{
    bool valid = name.n >= 1 && name.n <= 64;
    for (size_t i = 0; valid && i < name.n; i++)
        valid = strchr("abcdefghijklmnopqrstuvwxyz0123456789_", name.p[i]) != NULL && name.p[i] != '\0';
    return valid;
}

static void counter_read(struct reader *r, yaml_node_t *map, yaml_node_pair_t *pair)
{
    yaml_node_t *key = yaml_document_get_node(r->doc, pair->key);
    struct conf_counter *c = &r->conf->counters[r->conf->counters_n];
    struct spot at = {.path = COUNTER_PATH, .of = c, .places = c->places};
    struct slice name;
    if (!name_read(r, map, pair, &name)) return;
    if (!counter_name_valid(name)) {
        char shown[64];
        problem(r, place_of(&key->start_mark),
                "a counter's name is %s, expected 1 to 64 lower-case letters, digits or '_'",
                show_name(name, shown, sizeof(shown)));
        return;
    }
    c->name = heap_strndup(name.p, name.n);
    c->place = place_of(&key->start_mark);
    r->conf->counters_n++;
    path_join(COUNTERS_PATH, name, at.shown);
    map_read(r, &at, yaml_document_get_node(r->doc, pair->value));
}

static void counters_read(struct reader *r, yaml_node_t *node)
{
    if (node->type != YAML_MAPPING_NODE || node->data.mapping.pairs.start == node->data.mapping.pairs.top) {
        char what[128];
        describe(node, NULL, what, sizeof(what));
        problem(r, place_of(&node->start_mark),
                "counters is %s, expected a map with a counter's name at each",
                node->type == YAML_MAPPING_NODE ? "an empty map" : what);
        return;
    }
    yaml_node_pair_t *first = node->data.mapping.pairs.start, *end = node->data.mapping.pairs.top;
    r->conf->counters = heap_zalloc((size_t)(end - first) * sizeof(*r->conf->counters));
    for (yaml_node_pair_t *pair = first; pair < end; pair++)
        counter_read(r, node, pair);
}

static bool user_name_valid(struct slice name)
{
    bool valid = name.n >= 1 && name.n <= 64;
    for (size_t i = 0; valid && i < name.n; i++)
        valid =
            name.p[i] != '\0' &&
            strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-", name.p[i]) != NULL;
    return valid;
}

static void user_read(struct reader *r, yaml_node_t *map, yaml_node_pair_t *pair)
{
    struct conf_place here = place_of(&yaml_document_get_node(r->doc, pair->key)->start_mark);
    struct conf_user *u = &r->conf->users[r->conf->users_n];
    struct spot at = {.path = USER_PATH, .of = u, .places = u->places};
    struct slice name;
    if (!name_read(r, map, pair, &name)) return;
    if (!user_name_valid(name)) {
        char shown[64];
        problem(r, here, "a user's name is %s, expected 1 to 64 letters, digits, '.', '_', '@' or '-'",
                show_name(name, shown, sizeof(shown)));
        return;
    }
    u->name = heap_strndup(name.p, name.n);
    u->place = here;
    r->conf->users_n++;
    path_join(USERS_PATH, name, at.shown);
    map_read(r, &at, yaml_document_get_node(r->doc, pair->value));
}

/* An empty map would leave the door open that it seems to close. */
static void users_read(struct reader *r, yaml_node_t *node)
{
    if (node->type != YAML_MAPPING_NODE || node->data.mapping.pairs.start == node->data.mapping.pairs.top) {
        problem(r, place_of(&node->start_mark),
                "users is no map or an empty one, expected a map with a user's "
                "name at each; leave it out, and whoever connects may everything");
        return;
    }
    yaml_node_pair_t *first = node->data.mapping.pairs.start, *end = node->data.mapping.pairs.top;
    r->conf->users = heap_zalloc((size_t)(end - first) * sizeof(*r->conf->users));
    for (yaml_node_pair_t *pair = first; pair < end; pair++)
        user_read(r, node, pair);
}

static bool passed_over(const struct reader *r, const char *path)
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
    if (plain && passed_over(r, at.path)) return;
    if (row != NULL)
        option_read(r, row, &at, value);
    else if (plain && strcmp(at.path, COUNTERS_PATH) == 0)
        counters_read(r, value);
    else if (plain && strcmp(at.path, USERS_PATH) == 0)
        users_read(r, value);
    else if (plain && conf_group_exists(slice_str(at.path)))
        group_read(r, &at, value);
    else
        problem_unknown(r, place_of(&key->start_mark), in, name);
}

/* Options that must be given, directly under this map. */
static void missing_check(struct reader *r, const struct spot *in, struct conf_place at)
{
    size_t group = strlen(in->path);
    for (size_t i = 0; i < CONF_OPTION_COUNT; i++) {
        const struct conf_row *row = &conf_rows[i];
        const char *dot = strrchr(row->path, '.');
        bool here =
            dot != NULL && (size_t)(dot - row->path) == group && memcmp(row->path, in->path, group) == 0;
        if (!here || row->standard != NULL) continue;
        struct conf_place *place = &in->places[i];
        if (place->line > 0) continue;
        *place = at;
        char shown[PATH_BYTES];
        path_join(in->shown, slice_str(dot + 1), shown);
        problem(r, at, "%s is missing, expected %s", shown, row->expect);
    }
}

static void map_read(struct reader *r, const struct spot *in, yaml_node_t *node)
{
    struct conf_place at = place_of(&node->start_mark);
    if (node->type == YAML_MAPPING_NODE) {
        for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top;
             pair++)
            pair_read(r, in, node, pair);
    } else if (!is_null(node)) {
        char what[128];
        describe(node, NULL, what, sizeof(what));
        problem(r, at, "%s is %s, expected a map of options", in->shown[0] == '\0' ? "the file" : in->shown,
                what);
        return;
    }
    missing_check(r, in, at);
}

static void default_set(const struct conf_row *row, void *of, const struct conf_place *places)
{
    const char *why;
    if (places[row - conf_rows].line > 0 || row->standard == NULL || row->standard[0] == '\0') return;
    bool read = value_read(row, slice_str(row->standard), false, of, &why);
    INVARIANT(read);
}

/* A group that stands nowhere cannot have said that something in it is missing. */
static void missing_group(struct reader *r, const struct conf_row *row, const struct conf_counter *counter)
{
    const struct conf_place *places = counter == NULL ? r->conf->places : counter->places;
    if (row->standard != NULL || places[row - conf_rows].line > 0 || passed_over(r, row->path)) return;
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

static void counter_finish(struct reader *r, struct conf_counter *c)
{
    for (size_t i = 0; i < CONF_OPTION_COUNT; i++) {
        if (conf_rows[i].owner != OWNER_COUNTER) continue;
        missing_group(r, &conf_rows[i], c);
        default_set(&conf_rows[i], c, c->places);
    }
    if (c->key == NULL) return;
    bool store = strstr(c->key, "<store>") != NULL;
    bool other = !store && strchr(c->key, '<') != NULL; /* a fault of the key's own, named by who parses it */
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
    buf_printf(&lock, "%s:sync", c->key);
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
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *p) == NULL) *p = '-';
    return heap_strdup(host);
}

static char *password_read(struct reader *r, const char *variable, const char *credential, const char *path,
                           enum conf_option option)
{
    struct error e = {0};
    char *secret = secret_read_env(variable);
    if (secret == NULL) secret = secret_read_credential(credential, &e);
    if (secret != NULL || (path == NULL && e.code == ERR_NONE)) return secret;
    if (e.code == ERR_NONE) secret = secret_read_file(r->file, path, &e);
    if (secret == NULL) problem(r, r->conf->places[option], "%s %s", conf_rows[option].path, e.text);
    return secret;
}

static void bearers_load(struct reader *r)
{
    struct error e;
    if (r->conf->http_tokens_file == NULL) return;
    char *lines = secret_read_lines(r->file, r->conf->http_tokens_file, &e);
    if (lines == NULL || !bearers_read(slice_str(lines), &r->conf->bearers, &e))
        problem(r, r->conf->places[CONF_HTTP_TOKENS], "%s %s", conf_rows[CONF_HTTP_TOKENS].path, e.text);
    secret_free(lines);
}

static void finish(struct reader *r)
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
    if (c->instance == NULL) c->instance = instance_default();
    c->redis_password = password_read(r, "TALLYD_REDIS_PASSWORD", "redis.password", c->redis_password_file,
                                      CONF_REDIS_PASSWORD_FILE);
    c->mysql_password = password_read(r, "TALLYD_MYSQL_PASSWORD", "mysql.password", c->mysql_password_file,
                                      CONF_MYSQL_PASSWORD_FILE);
    bearers_load(r);
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
    bool counters = false;
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top; p++) {
        yaml_node_t *key = yaml_document_get_node(r->doc, p->key);
        counters =
            counters || (key->type == YAML_SCALAR_NODE && slice_eq(scalar_of(key), SLICE(COUNTERS_PATH)));
    }
    if (!counters)
        problem(r, (struct conf_place){1, 1},
                "counters is missing, expected a map with a counter's name at each");
    finish(r);
}

static void syntax_problem(struct reader *r, const yaml_parser_t *parser)
{
    struct conf_place at = place_of(&parser->problem_mark);
    if (parser->error == YAML_MEMORY_ERROR) heap_exhausted(0);
    if (parser->error == YAML_READER_ERROR)
        problem(r, place_of(&parser->mark), "bytes that are no UTF-8 text, expected YAML");
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
            problem(r, place_of(&second.start_mark), "a second document begins here, expected one");
        yaml_document_delete(&second);
    }
    yaml_document_delete(&document);
}

bool conf_parse(const char *file, struct slice text, struct conf *out, struct buf *problems)
{
    return conf_parse_without(file, text, NULL, out, problems);
}

bool conf_parse_without(const char *file, struct slice text, const char *const *groups, struct conf *out,
                        struct buf *problems)
{
    *out = (struct conf){.file = heap_strdup(file)};
    struct reader r = {.file = out->file, .without = groups, .conf = out, .problems = problems};
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) heap_exhausted(0);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.p, text.n);
    parser_read(&r, &parser);
    yaml_parser_delete(&parser);
    if (r.problems_n == 0) return true;
    conf_free(out);
    return false;
}
