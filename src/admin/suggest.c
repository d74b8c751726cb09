/* admin/suggest.c - `tallyd suggest`: the configuration that fits a table, with what was guessed and what is left as comments. */
#include "admin/guess.h"
#include "admin/verbs.h"

#include "base/slice.h"
#include "mysql/schema.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

struct suggesting { /* one run of the verb */
    const struct call *call;
    struct table table;
    struct guess guess;
    struct example examples[CALL_TEXTS];
    const struct guess_value *store; /* NULL: no value is a store */
    struct buf invented, out, notes;
};

static void note(struct suggesting *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct suggesting *s, const char *format, ...)
{
    char text[1500];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == ' ')
        n--;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ') text[i] = ' ';
    buf_printf(&s->notes, "    # %.*s\n", (int)n, text);
}

static void lower_put(struct slice name, struct buf *out)
{
    for (size_t i = 0; i < name.n; i++)
        buf_put_char(out, name.p[i] == '$' ? '_' : (char)tolower((unsigned char)name.p[i]));
}

/* --- key and field --- */

static bool is_store(const struct guess_value *v)
{
    char word[16];
    snprintf(word, sizeof word, SLICE_FMT, SLICE_ARG(v->word));
    if (v->in_field || v->time || v->columns_n != 1) return false;
    return strcmp(word, "s") == 0 || guess_affinity("store shop", word) == SAME_WORD ||
           guess_affinity("store shop", v->columns[0]->name) == SAME_WORD;
}

/* The placeholder's name: the column's without its id. */
static void place_put(const struct suggesting *s, const struct guess_value *v, struct buf *out)
{
    const char *name = v->columns[0]->name;
    size_t n = strlen(name), bare = n;
    if (v == s->store) {
        BUF_LIT(out, "store");
        return;
    }
    if (n > 2 && strncasecmp(name + n - 2, "id", 2) == 0) bare = n - 2;
    while (bare > 0 && bare < n && !isalnum((unsigned char)name[bare - 1]))
        bare--;
    struct slice shown = slice_of(name, bare == 0 ? n : bare);
    bool taken = slice_ieq(shown, SLICE("store")) || slice_ieq(shown, SLICE("field")) ||
                 slice_ieq(shown, SLICE("count"));
    lower_put(shown, out);
    if (taken) BUF_LIT(out, "_id");
}

static void places_show(struct suggesting *s, struct slice text, bool in_field)
{
    struct buf pattern = {0};
    const char *from = text.p;
    for (size_t i = 0; i < s->guess.values_n; i++) {
        const struct guess_value *v = &s->guess.values[i];
        if (v->in_field != in_field || v->columns_n == 0) continue;
        buf_put(&pattern, from, (size_t)(v->text.p - from));
        buf_put_char(&pattern, '<');
        place_put(s, v, &pattern);
        buf_put_char(&pattern, '>');
        from = v->text.p + v->text.n;
    }
    buf_put(&pattern, from, (size_t)(text.p + text.n - from));
    conf_quoted_put(buf_slice(&pattern), &s->out);
    buf_free(&pattern);
}

/* The field as one value; NULL: it is a pattern. */
static const struct guess_value *field_whole(const struct suggesting *s)
{
    if (s->guess.values_n == 0) return NULL;
    const struct guess_value *v = &s->guess.values[s->guess.values_n - 1];
    return slice_eq(v->text, s->examples[0].field) && v->in_field ? v : NULL;
}

static void field_put(struct suggesting *s)
{
    const struct guess_value *v = field_whole(s);
    BUF_LIT(&s->out, "    field: ");
    if (v != NULL)
        buf_printf(&s->out, "%s", v->kind);
    else if (s->guess.by_field || s->examples[0].field.n == 0)
        buf_printf(&s->out, "%s", s->guess.by_field ? "count" : "none");
    else
        places_show(s, s->examples[0].field, true);
    if (v != NULL && v->columns_n == 0)
        note(s,
             "no column for the field \"" SLICE_FMT "\": it has to be a part of what finds the row, as in "
             "HINCRBY product:views 42 1",
             SLICE_ARG(v->text));
}

/* The column of each field of the examples. */
static void counts_put(struct suggesting *s)
{
    const struct example *all = s->examples;
    BUF_LIT(&s->out, "counts: { ");
    for (size_t i = 0, n = 0; i < s->guess.examples_n; i++) {
        const struct column *c = guess_count_of(&s->guess, all[i].field);
        bool again = c == NULL;
        for (size_t k = 0; k < i; k++)
            again |= slice_eq(all[k].field, all[i].field);
        if (again) continue;
        if (n++ > 0) BUF_LIT(&s->out, ", ");
        conf_quoted_put(all[i].field, &s->out);
        buf_printf(&s->out, ": %s", c->name);
    }
    BUF_LIT(&s->out, " } }\n");
}

static void suggested_columns_put(struct suggesting *s)
{
    BUF_LIT(&s->out, "\n    columns: { ");
    for (size_t i = 0; i < s->guess.values_n; i++) {
        const struct guess_value *v = &s->guess.values[i];
        if (v->columns_n == 0) continue;
        if (v == field_whole(s))
            BUF_LIT(&s->out, "field");
        else
            place_put(s, v, &s->out);
        for (size_t k = 0; k < v->columns_n; k++)
            buf_printf(&s->out, "%s%s", k > 0 ? ", " : v->columns_n > 1 ? ": [" : ": ", v->columns[k]->name);
        buf_printf(&s->out, "%s, ", v->columns_n > 1 ? "]" : "");
    }
    if (s->guess.by_field)
        counts_put(s);
    else
        buf_printf(&s->out, "count: %s }\n", s->guess.count->name);
}

static void kinds_put(struct suggesting *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->guess.values_n; i++) {
        const struct guess_value *v = &s->guess.values[i];
        if (v->columns_n == 0 || v == field_whole(s) || v == s->store || strcmp(v->kind, "integer") == 0)
            continue;
        buf_printf(&s->out, "%s", n++ == 0 ? "    kinds: { " : ", ");
        place_put(s, v, &s->out);
        buf_printf(&s->out, ": %s", v->kind);
    }
    if (n > 0) BUF_LIT(&s->out, " }\n");
    if (s->store != NULL && strcmp(s->store->kind, "text") == 0) BUF_LIT(&s->out, "    store: text\n");
}

/* --- other columns --- */

static void values_put(const struct column *c, struct buf *out)
{
    for (size_t at = 0; at < c->values.n; at += strlen(c->values.p + at) + 1)
        buf_printf(out, "%s%s", at > 0 ? ", " : "", c->values.p + at);
}

static void constant_put(const struct column *c, struct buf *out)
{
    struct slice value = c->values.n > 0 ? slice_str(c->values.p) : SLICE("1");
    buf_printf(out, "%s: ", c->name);
    if (c->form == FORM_INTEGER)
        buf_put_slice(out, value);
    else
        conf_quoted_put(value, out);
}

static void constants_put(struct suggesting *s)
{
    struct buf why = {0};
    for (size_t i = 0; i < s->table.columns_n; i++) {
        const struct column *c = &s->table.columns[i];
        if (!guess_in_key(&s->guess, c) || guess_value_of(&s->guess, c) != NULL) continue;
        buf_printf(&s->out, "%s", why.n == 0 ? "    constants: { " : ", ");
        constant_put(c, &s->out);
        buf_printf(&why, "; %s has %s", c->name, c->values.n == 0 ? "no rows: write what it shall be" : "");
        values_put(c, &why);
    }
    if (why.n > 0) BUF_LIT(&s->out, " }\n");
    if (why.n > 0) note(s, "no value of the key fits" SLICE_FMT, SLICE_ARG(buf_slice(&why)));
    buf_free(&why);
}

static bool is_required(const struct column *c)
{
    return !c->nullable && !c->has_default && !c->auto_increment && !c->generated;
}

static const char *set_of(const struct column *c) /* NULL: no time that tallyd should set */
{
    bool time = c->form == FORM_DATE || c->form == FORM_DATETIME || strcmp(c->data_type, "timestamp") == 0 ||
                (c->form == FORM_INTEGER && guess_affinity("timestamp at", c->name) == SAME_WORD);
    if (!time || c->on_update || c->generated) return NULL;
    if (guess_affinity("updated modified last touched timestamp changed", c->name) >= 30) return "now";
    bool made = guess_affinity("created added inserted first", c->name) >= 30;
    return is_required(c) || (made && !c->has_default) ? "now at insert" : NULL;
}

static bool is_other(const struct suggesting *s, const struct column *c)
{
    return c != s->guess.count && guess_value_of(&s->guess, c) == NULL && !guess_in_key(&s->guess, c);
}

/* A column that only the shop's program can fill: rows are its own. NULL: tallyd can make rows. */
static const struct column *column_of_program(const struct suggesting *s)
{
    bool counted = false;
    for (size_t i = 0; i < s->table.columns_n; i++)
        counted |=
            s->table.columns[i].auto_increment && guess_value_of(&s->guess, &s->table.columns[i]) != NULL;
    for (size_t i = 0; i < s->table.columns_n; i++) {
        const struct column *c = &s->table.columns[i];
        bool text = c->form == FORM_TEXT || c->form == FORM_BYTES || c->form == FORM_NONE;
        if (is_other(s, c) && set_of(c) == NULL && (is_required(c) || (counted && text))) return c;
    }
    return NULL;
}

static void suggested_rows_put(struct suggesting *s)
{
    const struct column *own = column_of_program(s);
    size_t n = 0;
    if (own != NULL) {
        BUF_LIT(&s->out, "    missing: reject\n");
        note(
            s,
            "rows have %s, which the program fills, so no row is made; if one shall be, write `set` in place "
            "of `missing`",
            own->name);
        return;
    }
    for (size_t i = 0; i < s->table.columns_n; i++) {
        const struct column *c = &s->table.columns[i];
        const char *set = is_other(s, c) ? set_of(c) : NULL;
        if (set != NULL) buf_printf(&s->out, "%s%s: %s", n++ == 0 ? "    set: { " : ", ", c->name, set);
    }
    if (n > 0) BUF_LIT(&s->out, " }\n");
}

static void others_note(struct suggesting *s)
{
    struct buf counts = {0}, add = {0};
    for (size_t i = 0; i < s->table.columns_n; i++) {
        const struct column *c = &s->table.columns[i];
        if (!is_other(s, c)) continue;
        if (guess_could_count(&s->guess, c)) buf_printf(&counts, "%s%s", counts.n > 0 ? ", " : "", c->name);
        if (s->guess.unique != NULL || c->values.n == 0) continue;
        buf_printf(&add, "%s is in no key: if it tells rows of one key apart, add constants: { ", c->name);
        constant_put(c, &add);
        BUF_LIT(&add, " } (the table has ");
        values_put(c, &add);
        note(s, SLICE_FMT ")", SLICE_ARG(buf_slice(&add)));
        buf_reset(&add);
    }
    if (counts.n > 0) note(s, "the count could also be " SLICE_FMT, SLICE_ARG(buf_slice(&counts)));
    buf_free(&counts);
    buf_free(&add);
}

static void entry_put(struct suggesting *s)
{
    struct slice name = s->call->counter != NULL ? slice_str(s->call->counter) : s->table.name;
    BUF_LIT(&s->out, "  ");
    lower_put(name, &s->out);
    for (size_t i = 0; i < s->guess.values_n && s->store == NULL; i++)
        if (is_store(&s->guess.values[i])) s->store = &s->guess.values[i];
    BUF_LIT(&s->out, ":\n    key: ");
    places_show(s, s->examples[0].key, false);
    BUF_LIT(&s->out, "\n");
    field_put(s);
    buf_printf(&s->out, "\n    table: " SLICE_FMT, SLICE_ARG(s->table.name));
    suggested_columns_put(s);
    kinds_put(s);
    constants_put(s);
    suggested_rows_put(s);
    others_note(s);
}

/* --- what check says of it --- */

static void examples_judge(struct suggesting *s, const struct counter *c)
{
    struct table_row row;
    for (size_t i = 0; i < s->guess.examples_n; i++) {
        const struct example *one = &s->examples[i];
        if (counter_row(c, one->key, one->field.n > 0 ? one->field : FIELD_ONLY, &row) != ROW_FITS)
            note(s, "the example " SLICE_FMT " " SLICE_FMT " does not fit", SLICE_ARG(one->key),
                 SLICE_ARG(one->field));
    }
}

static enum err suggested_table_judge(struct suggesting *s, struct db *db, const struct setup *setup,
                                      struct error *e)
{
    const struct schema_rules rules = {.room = true, .lanes = 1};
    struct schema_report report = {0};
    enum err code = schema_check(db, &setup->counters, &rules, &report, e);
    for (size_t i = 0; i < report.n; i++) {
        const struct schema_finding *f = &report.all[i];
        if (f->counter == NULL) continue;
        note(s, "%s: %s", f->level == SCHEMA_REFUSE ? "left" : "warning", f->reason);
        if (f->mend != NULL) note(s, "  mend it with: %s", f->mend);
    }
    schema_report_close(&report);
    return code;
}

static enum err entry_judge(struct suggesting *s, struct db *db, struct error *e)
{
    struct buf text = {0}, problems = {0};
    struct conf conf;
    struct setup setup;
    enum err code = ERR_NONE;
    BUF_LIT(&text, "mysql: \"mysql://tally@localhost/shop\"\ncounters:\n");
    buf_put_slice(&text, buf_slice(&s->out));
    if (conf_parse("left", buf_slice(&text), NULL, &conf, &problems)) {
        if (setup_init(&setup, &conf, &problems)) {
            examples_judge(s, &setup.counters.all[0]);
            code = suggested_table_judge(s, db, &setup, e);
            setup_close(&setup);
        }
        conf_free(&conf);
    }
    for (char *line = problems.p, *end; problems.n > 0 && line < problems.p + problems.n; line = end + 1) {
        end = memchr(line, '\n', (size_t)(problems.p + problems.n - line));
        note(s, "%.*s", (int)(end - line), line);
    }
    buf_free(&text);
    buf_free(&problems);
    return code;
}

/* --- the verb --- */

static enum err no_counter(const struct suggesting *s, struct error *e)
{
    const char *why = "", *where = "";
    for (size_t i = 0; i < s->table.columns_n; i++) {
        const struct column *c = &s->table.columns[i];
        bool inside = strcmp(c->data_type, "json") == 0 || strstr(c->data_type, "text") != NULL;
        if (inside) why = "; tallyd adds nothing to what is inside ", where = c->name;
        if (where[0] == '\0' && set_of(c) != NULL) why = "; it seems to have a row for each hit";
    }
    return error_set(e, ERR_CONFIG,
                     "%s is no counter table: no column could be a count, which is an integer, no key and no "
                     "id%s%s",
                     s->call->words[0], why, where);
}

static enum err table_read(struct suggesting *s, struct db *db, struct error *e)
{
    const char *name = s->call->words[0];
    if (db_open(db) != CODE_OK || table_load(db, slice_str(name), &s->table) != CODE_OK)
        return db_error(db, e);
    if (!s->table.exists) return error_set(e, ERR_CONFIG, "there is no table %s", name);
    if (s->table.engine[0] == '\0')
        return error_set(e, ERR_CONFIG, "%s is a view: name the table itself", name);
    return table_sample(db, &s->table) == CODE_OK ? ERR_NONE : db_error(db, e);
}

static void examples_invent(struct suggesting *s)
{
    guess_invent(&s->table, "x", &s->invented);
    guess_invent(&s->table, "y", &s->invented);
    const char *at = s->invented.p;
    for (size_t i = 0; i < 2; i++) {
        s->examples[i].key = slice_str(at), at += strlen(at) + 1;
        s->examples[i].field = slice_str(at), at += strlen(at) + 1;
    }
    s->guess.examples_n = 2;
    note(s, "invented: no --key was given");
}

static enum err suggest_run(struct suggesting *s, struct db *db, struct error *e)
{
    enum err code = table_read(s, db, e);
    if (code != ERR_NONE) return code;
    s->guess.table = &s->table;
    s->guess.examples = s->examples;
    if (s->guess.examples_n == 0) examples_invent(s);
    if (s->call->counter != NULL) s->guess.words[s->guess.words_n++] = slice_str(s->call->counter);
    if (!guess_make(&s->guess)) return no_counter(s, e);
    entry_put(s);
    return entry_judge(s, db, e);
}

/* "HINCRBY key field 1", "key field", "INCR key", or "key". */
static bool example_read(const char *text, struct example *out)
{
    bool hash = strncasecmp(text, "HINCRBY ", 8) == 0, incr = strncasecmp(text, "INCR ", 5) == 0;
    int64_t delta;
    text += hash ? 8 : incr ? 5 : 0;
    size_t n = strcspn(text, " ");
    const char *field = text[n] == ' ' ? text + n + 1 : "", *last = strrchr(field, ' ');
    out->key = slice_of(text, n);
    out->field = hash && last != NULL ? slice_of(field, (size_t)(last - field)) : slice_str(field);
    if (hash) return n > 0 && out->field.n > 0 && last != NULL && num_parse(slice_str(last + 1), &delta);
    return n > 0 && (incr ? text[n] == '\0' : text[n] == '\0' || field[0] != '\0');
}

static enum err suggest_asked(struct suggesting *s, struct error *e)
{
    const struct call *call = s->call;
    const char *name = call->counter;
    if (call->words_n == 0) return error_set(e, ERR_USAGE, "which table? tallyd suggest TABLE");
    if (!table_name_valid(slice_str(call->words[0])))
        return error_set(e, ERR_USAGE, "\"%.64s\" is no name of a table", call->words[0]);
    if (name != NULL && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] != '\0')
        return error_set(e, ERR_USAGE, "\"%.64s\" is no name of a counter: a-z, 0-9 and _", name);
    for (size_t i = 0; i < call->examples.n; i++)
        if (!example_read(call->examples.all[i], &s->examples[i]))
            return error_set(
                e, ERR_USAGE,
                "give a key and a field, such as --key 'product:42:views 20240501', not \"%.60s\"",
                call->examples.all[i]);
    s->guess.examples_n = call->examples.n;
    return ERR_NONE;
}

static const char *const groups_of_counters[] = {"counters", "uniques", NULL};

enum err verb_suggest(const struct call *call)
{
    struct suggesting s = {.call = call};
    struct conf conf;
    struct setup setup;
    struct error e;
    if (suggest_asked(&s, &e) != ERR_NONE) return call_failed(&e);
    if (!call_load_without(call, groups_of_counters, &conf, &setup)) return ERR_CONFIG;
    struct db *db = db_create(&setup.mysql);
    enum err code = suggest_run(&s, db, &e);
    buf_put_slice(&s.out, buf_slice(&s.notes));
    code = code != ERR_NONE ? call_failed(&e) : text_print(&s.out);
    table_close(&s.table);
    buf_free(&s.out);
    buf_free(&s.notes);
    buf_free(&s.invented);
    db_destroy(&db);
    setup_close(&setup);
    conf_free(&conf);
    return code;
}
