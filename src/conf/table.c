/* conf/table.c - see value.h; and `--help` of all options. */
#include "conf/value.h"

#include "conf/conf.h"

#define RELOAD true
#define RESTART false
/* clang-format off */
#define ROW(id, type, path_, kind_, member, standard_, least_, most_, reload_, owner_, expect_, help_)                      \
    [CONF_##id] = {.path = path_, .kind = KIND_##kind_, .at = offsetof(struct type, member),                                 \
                   .size = sizeof(((struct type *)0)->member), .standard = standard_, .least = least_, .most = most_,        \
                   .reload = reload_, .owner = owner_, .expect = expect_, .help = help_},
#define ROW_G(id, path, kind, member, standard, least, most, reload, expect, help)                                          \
    ROW(id, conf, path, kind, member, standard, least, most, reload, OWNER_ALL, expect, help)
#define ROW_C(id, path, kind, member, standard, least, most, reload, expect, help)                                          \
    ROW(id, conf_counter, path, kind, member, standard, least, most, reload, OWNER_COUNTER, expect, help)
#define ROW_U(id, path, kind, member, standard, least, most, reload, expect, help)                                          \
    ROW(id, conf_user, path, kind, member, standard, least, most, reload, OWNER_USER, expect, help)
/* clang-format on */

const struct conf_row conf_rows[CONF_OPTION_COUNT] = {CONF_OPTIONS(ROW_G, ROW_C, ROW_U)};

const char *conf_option_path(enum conf_option option)
{
    PRE((unsigned)option < CONF_OPTION_COUNT);
    return conf_rows[option].path;
}

const struct conf_row *conf_row_find(struct slice path)
{
    for (size_t i = 0; i < CONF_OPTION_COUNT; i++)
        if (slice_eq(slice_str(conf_rows[i].path), path)) return &conf_rows[i];
    return NULL;
}

/* The part of path below group, without the dot; p NULL when it is not below. */
static struct slice below(struct slice path, struct slice group)
{
    if (group.n == 0) return path;
    if (path.n <= group.n + 1 || path.p[group.n] != '.' || memcmp(path.p, group.p, group.n) != 0)
        return slice_of(NULL, 0);
    return slice_of(path.p + group.n + 1, path.n - group.n - 1);
}

bool conf_group_exists(struct slice path)
{
    for (size_t i = 0; i < CONF_OPTION_COUNT; i++)
        if (below(slice_str(conf_rows[i].path), path).p != NULL) return true;
    return false;
}

size_t conf_group_names(const char *group, const char *names[CONF_OPTION_COUNT], struct buf *pool)
{
    size_t n = 0;
    struct slice before = slice_of(NULL, 0);
    buf_reserve(pool, 4096); /* all names of the table fit, so none of them moves */
    for (size_t i = 0; i < CONF_OPTION_COUNT; i++) {
        struct slice rest = below(slice_str(conf_rows[i].path), slice_str(group));
        if (rest.p == NULL) continue;
        struct slice name = slice_of(rest.p, rest.n);
        const char *dot = memchr(rest.p, '.', rest.n);
        if (dot != NULL) name.n = (size_t)(dot - rest.p);
        if (before.p != NULL && slice_eq(name, before)) continue; /* a group's options are consecutive */
        before = name;
        names[n++] = pool->p + pool->n;
        INVARIANT(pool->n + name.n + 1 <= pool->cap);
        buf_put_slice(pool, name);
        buf_put_char(pool, '\0');
    }
    return n;
}

void conf_expected(const struct conf_row *row, struct buf *out)
{
    if (row->kind == KIND_LOOKUP) buf_put_slice(out, SLICE("three MySQL names as "));
    if (row->kind != KIND_WORD) {
        buf_put_slice(out, slice_str(row->expect));
        return;
    }
    BUF_LIT(out, "one of ");
    for (const char *p = row->expect; *p != '\0'; p++)
        if (*p == '|')
            BUF_LIT(out, ", ");
        else
            buf_put_char(out, *p);
}

#define HELP_COLUMNS 100
#define HELP_INDENT 6

/* Words of text, lines broken before column HELP_COLUMNS, each line indented. */
static void wrap(struct buf *out, const char *text)
{
    size_t column = 0;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column == 0 || column + 1 + word > HELP_COLUMNS) {
            if (column > 0) buf_put_char(out, '\n');
            buf_printf(out, "%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        } else {
            buf_put_char(out, ' ');
            column++;
        }
        buf_put(out, text, word);
        column += word;
        text += word + strspn(text + word, " ");
    }
    buf_put_char(out, '\n');
}

#define STRUCTURE(path_, help_) {.path = path_, .help = help_},
static const struct structure {
    const char *path, *help;
} structures[] = {CONF_STRUCTURES(STRUCTURE)};

/* The structure of which the row is a member; NULL: of none. */
static const struct structure *structure_of(const struct conf_row *row)
{
    for (size_t i = 0; i < sizeof(structures) / sizeof(*structures); i++)
        if (below(slice_str(row->path), slice_str(structures[i].path)).p != NULL) return &structures[i];
    return NULL;
}

/* "{ ca, cert, key, verify }" and the defaults that are not empty; returns the row after its last member. */
static size_t structure_put(const struct structure *s, size_t i, struct conf_text *t, struct buf *out)
{
    BUF_LIT(out, "{ ");
    for (size_t first = i; i < CONF_OPTION_COUNT && structure_of(&conf_rows[i]) == s; i++) {
        const struct conf_row *row = &conf_rows[i];
        const char *name = row->path + strlen(s->path) + 1;
        buf_printf(out, "%s%s", i == first ? "" : ", ", name[0] == '*' ? "placeholder" : name);
        if (row->standard == NULL)
            t->standard = NULL;
        else if (row->standard[0] != '\0')
            buf_printf(out, ": %s", row->standard);
        t->reload = row->reload;
    }
    BUF_LIT(out, " }");
    return i;
}

void conf_describe(void (*option)(void *arg, const struct conf_text *t), void *arg)
{
    struct buf expected = {0};
    for (size_t i = 0; i < CONF_OPTION_COUNT;) {
        const struct conf_row *row = &conf_rows[i];
        const struct structure *s = structure_of(row);
        struct conf_text t = {
            .path = row->path, .standard = row->standard, .help = row->help, .reload = row->reload};
        buf_reset(&expected);
        if (s != NULL) {
            t.path = s->path, t.help = s->help, t.standard = "";
            i = structure_put(s, i, &t, &expected);
        } else {
            conf_expected(row, &expected);
            i++;
        }
        t.expected = buf_slice(&expected);
        option(arg, &t);
    }
    buf_free(&expected);
}

struct help {
    struct buf *out;
    struct slice path, section; /* of conf_help_of; p NULL: all; and the section that came last */
    bool (*is_wanted)(const struct conf_text *t, struct slice path);
    bool found;
    const char *near[CONF_OPTION_COUNT];
    size_t near_n;
};

static void option_help(void *arg, const struct conf_text *t)
{
    struct help *h = arg;
    struct buf note = {0};
    struct slice section = slice_of(t->path, strcspn(t->path, "."));
    if (h->path.p == NULL && !slice_eq(section, h->section))
        buf_printf(h->out, "\n" SLICE_FMT ":\n", SLICE_ARG(section));
    h->section = section;
    buf_printf(&note, "%s (" SLICE_FMT ")", t->help, SLICE_ARG(t->expected));
    buf_put_char(&note, '\0');
    buf_printf(h->out, "  %s", t->path);
    if (t->standard == NULL)
        BUF_LIT(h->out, ", must be given");
    else if (t->standard[0] != '\0')
        buf_printf(h->out, " = %s", t->standard);
    if (t->reload) BUF_LIT(h->out, ", reloadable");
    buf_put_char(h->out, '\n');
    wrap(h->out, note.p);
    buf_free(&note);
}

void conf_help(struct buf *out)
{
    struct help h = {.out = out, .section = slice_of("", 0)};
    conf_describe(option_help, &h);
}

/* "counters.key" for counters.*.key. */
static bool without_star(struct slice path, struct slice wanted)
{
    const char *star = memchr(path.p, '*', path.n);
    if (star == NULL || wanted.n + 2 != path.n) return false;
    size_t before = (size_t)(star - path.p);
    return memcmp(wanted.p, path.p, before) == 0 &&
           memcmp(wanted.p + before, star + 2, wanted.n - before) == 0;
}

/* Is it this option, one of its section, or the structure of which it is a member? */
static bool option_is_at(const struct conf_text *t, struct slice wanted)
{
    struct slice path = slice_str(t->path);
    bool member = conf_row_find(wanted) != NULL && below(wanted, path).p != NULL;
    return slice_eq(path, wanted) || without_star(path, wanted) || below(path, wanted).p != NULL || member;
}

static const char *option_last_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot == NULL ? path : dot + 1;
}

/* A last name alone, "clients". */
static bool option_is_named(const struct conf_text *t, struct slice wanted)
{
    return slice_eq(slice_str(option_last_name(t->path)), wanted);
}

static bool speaks_of(const struct conf_text *t, struct slice wanted)
{
    return wanted.n >= 3 && memmem(t->help, strlen(t->help), wanted.p, wanted.n) != NULL;
}

static void wanted_help(void *arg, const struct conf_text *t)
{
    struct help *h = arg;
    h->near[h->near_n++] = t->path;
    if (!h->is_wanted(t, h->path)) return;
    option_help(arg, t);
    h->found = true;
}

bool conf_help_of(struct slice path, struct buf *out, const char **nearest)
{
    static bool (*const ways[])(const struct conf_text *, struct slice) = {option_is_at, option_is_named,
                                                                           speaks_of};
    struct help h = {.out = out, .path = path, .section = slice_of("", 0)};
    for (size_t i = 0; !h.found && i < sizeof(ways) / sizeof(*ways); i++) {
        h.is_wanted = ways[i];
        h.near_n = 0;
        conf_describe(wanted_help, &h);
    }
    *nearest = h.found ? NULL : near_name(path, h.near, h.near_n);
    for (size_t i = 0; !h.found && i < h.near_n && *nearest == NULL; i++) {
        const char *last = option_last_name(h.near[i]);
        if (near_name(path, &last, 1) != NULL) *nearest = h.near[i];
    }
    return h.found;
}

/* Optimal string alignment distance over three rows of the table. */

#define WORD_MAX 64

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t near_distance(struct slice a, struct slice b)
{
    if (a.n > WORD_MAX || b.n > WORD_MAX) return SIZE_MAX;
    size_t rows[3][WORD_MAX + 1];
    for (size_t j = 0; j <= b.n; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        size_t *now = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            size_t changed = above[j - 1] + (a.p[i - 1] == b.p[j - 1] ? 0 : 1);
            now[j] = least(changed, least(above[j], now[j - 1]) + 1);
            bool swapped = i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1];
            if (swapped) now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return rows[a.n % 3][b.n];
}

/* Is word a whole part of name, as "busy" is of "busy_timeout"? */
static bool word_is_part(struct slice word, const char *name)
{
    size_t n = strlen(name);
    if (word.n == 0 || n <= word.n) return false;
    bool begins = memcmp(name, word.p, word.n) == 0 && name[word.n] == '_';
    bool ends = memcmp(name + n - word.n, word.p, word.n) == 0 && name[n - word.n - 1] == '_';
    return begins || ends;
}

const char *near_name(struct slice word, const char *const *names, size_t n)
{
    size_t best = SIZE_MAX, bound = word.n / 3 > 0 ? word.n / 3 : 1;
    const char *nearest = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t distance = near_distance(word, slice_str(names[i]));
        if (distance >= best || distance > bound) continue;
        best = distance;
        nearest = names[i];
    }
    for (size_t i = 0; nearest == NULL && i < n; i++)
        if (word_is_part(word, names[i])) nearest = names[i];
    return nearest;
}
