/* admin/guess.c - see guess.h. */
#include "admin/guess.h"

#include "base/log.h"

#include <ctype.h>

/* --- names --- */

/* The next part of names such as page_views, articleId, products-viewed. */
static struct slice name_part(struct slice *rest)
{
    size_t at = 0, n;
    while (at < rest->n && !isalnum((unsigned char)rest->p[at]))
        at++;
    for (n = at; n < rest->n && isalnum((unsigned char)rest->p[n]); n++)
        if (n > at && isupper((unsigned char)rest->p[n]) && islower((unsigned char)rest->p[n - 1])) break;
    struct slice part = slice_of(rest->p + at, n - at);
    *rest = slice_of(rest->p + n, rest->n - n);
    if (part.n > 3 && (part.p[part.n - 1] | 32) == 's') part.n--;
    return part;
}

static unsigned part_affinity(struct slice a, struct slice b)
{
    size_t most = 0;
    if (a.n > 0 && slice_ieq(a, b)) return SAME_WORD;
    for (size_t i = 0; i < a.n; i++)
        for (size_t k = 0; k < b.n; k++) {
            size_t n = 0;
            while (i + n < a.n && k + n < b.n && (a.p[i + n] | 32) == (b.p[k + n] | 32))
                n++;
            most = n > most ? n : most;
        }
    return most < 3 ? 0 : 6 * (unsigned)(most < 9 ? most : 9);
}

static unsigned affinity(struct slice word, struct slice name)
{
    unsigned most = 0;
    for (struct slice part = name_part(&word); part.n > 0; part = name_part(&word)) {
        struct slice rest = name;
        for (struct slice other = name_part(&rest); other.n > 0; other = name_part(&rest)) {
            unsigned now = part_affinity(part, other);
            most = now > most ? now : most;
        }
    }
    return most;
}

unsigned guess_affinity(const char *word, const char *name)
{
    return affinity(slice_str(word), slice_str(name));
}

static bool name_has_part(const char *name, const char *words) /* words: "year yyyy y" */
{
    return guess_affinity(words, name) == SAME_WORD;
}

#define TIMES "date datum day daytime dt ymd period time month hour week year yyyy yy mm dd hh"
static const char *const pieces[] = {[PIECE_YEAR] = "year yyyy yy y",
                                     [PIECE_MONTH] = "month mm m",
                                     [PIECE_DAY] = "day dd d",
                                     [PIECE_HOUR] = "hour hh h"};

static bool form_is_time(enum column_form form)
{
    return form == FORM_DATE || form == FORM_DATETIME;
}

/* Has it, or such a name. */
static bool guess_is_time(const struct column *c)
{
    return form_is_time(c->form) || (c->form != FORM_NONE && guess_affinity(TIMES, c->name) >= 24);
}

/* --- the values of a key and a field --- */

static const char *const kinds[] = {"hour 2024-05-01 13",
                                    "hour 2024-05-01T13",
                                    "hour 2024-05-01-13",
                                    "date 2024-05-01",
                                    "month 2024-05",
                                    "hour",
                                    "date",
                                    "month",
                                    "date seconds",
                                    "hour seconds",
                                    "date milliseconds",
                                    "hour milliseconds",
                                    "integer"};
#define KINDS (sizeof kinds / sizeof *kinds)

/* How many bytes at the begin of s are such a value; a time is one of this century. 0: it is none. */
static size_t kind_bytes(const char *kind, struct slice s)
{
    struct value_type t;
    char digits[PLAIN_BYTES];
    struct slice plain;
    bool known = value_type_parse(slice_str(kind), &t);
    INVARIANT(known);
    const char *shape = value_shape(&t);
    size_t n = shape != NULL ? strlen(shape) : 0;
    while (shape == NULL && n < s.n && isdigit((unsigned char)s.p[n]))
        n++;
    if (n == 0 || n > s.n || (n < s.n && isalnum((unsigned char)s.p[n]))) return 0;
    if (!value_plain(&t, slice_of(s.p, n), digits, &plain)) return 0;
    return t.kind == VALUE_INTEGER || slice_starts(plain, SLICE("20")) ? n : 0;
}

/* How many bytes at the begin of s are a number or a time; 0: none. */
static size_t number_bytes(struct slice s, const char **kind)
{
    size_t n = 0;
    for (size_t i = 0; n == 0 && i < KINDS; i++)
        n = kind_bytes(*kind = kinds[i], s);
    return n;
}

static bool is_number(struct slice s)
{
    const char *kind;
    return s.n > 0 && number_bytes(s, &kind) == s.n;
}

static void guess_value_add(struct guess *g, struct slice text, const char *kind, bool in_field,
                            struct slice word)
{
    if (g->values_n == GUESS_VALUES) return;
    bool time = strcmp(kind, "integer") != 0 && strcmp(kind, "text") != 0;
    g->values[g->values_n++] = (struct guess_value){text, word, kind, in_field, time, {NULL}, 0};
}

static bool has_value(const struct column *c, struct slice text)
{
    for (size_t at = 0; at < c->values.n; at += strlen(c->values.p + at) + 1)
        if (slice_eq(slice_str(c->values.p + at), text)) return true;
    return false;
}

static struct slice segment_of(struct slice text, size_t which) /* p NULL: none */
{
    for (;; which--) {
        size_t n = 0;
        while (n < text.n && text.p[n] != ':')
            n++;
        if (which == 0) return slice_of(text.p, n);
        if (n == text.n) return slice_of(NULL, 0);
        text = slice_of(text.p + n + 1, text.n - n - 1);
    }
}

static bool word_is_known(const struct table *t, struct slice word) /* a text column has it */
{
    for (size_t i = 0; i < t->columns_n; i++) {
        enum column_form form = t->columns[i].form;
        if ((form == FORM_TEXT || form == FORM_BYTES) && has_value(&t->columns[i], word)) return true;
    }
    return false;
}

/* A word that is another in another example, or that the table has. */
static bool word_is_value(const struct guess *g, size_t which, struct slice word)
{
    for (size_t i = 1; i < g->examples_n; i++) {
        struct slice other = segment_of(g->examples[i].key, which);
        if (other.n > 0 && !slice_eq(other, word)) return true;
    }
    return word_is_known(g->table, word);
}

static void guess_word_add(struct guess *g, struct slice word)
{
    if (word.n > 0 && g->words_n < GUESS_WORDS) g->words[g->words_n++] = word;
}

static bool segment_begins(struct slice text, size_t at)
{
    return at == 0 || text.p[at - 1] == ':';
}

/* Numbers and times are values, and each segment of a field, and words that vary. How many bytes of one are at `at`? 0: none. */
static size_t guess_value_take(struct guess *g, struct slice text, size_t at, bool in_field,
                               struct slice word)
{
    struct slice rest = slice_of(text.p + at, text.n - at), whole = segment_of(rest, 0);
    const char *kind;
    size_t segment = 0;
    for (size_t i = 0; i < at; i++)
        segment += text.p[i] == ':';
    if (at > 0 && isdigit((unsigned char)text.p[at - 1])) return 0;
    size_t n = number_bytes(rest, &kind);
    if (n == 0 && segment_begins(text, at) && whole.n > 0 && (in_field || word_is_value(g, segment, whole))) {
        kind = "text";
        n = whole.n;
        guess_word_add(g, whole);
    }
    if (n > 0) guess_value_add(g, slice_of(rest.p, n), kind, in_field, word);
    return n;
}

static void text_split(struct guess *g, struct slice text, bool in_field)
{
    const struct slice none = {NULL, 0};
    struct slice word = none;
    for (size_t at = 0, n; at < text.n; at += n == 0 ? 1 : n) {
        n = guess_value_take(g, text, at, in_field, word);
        if (n > 0) word = none;
        if (n > 0 || text.p[at] == ':') continue;
        if (segment_begins(text, at)) guess_word_add(g, word), word = none;
        if (word.p == NULL) word.p = text.p + at;
        word.n = (size_t)(text.p + at + 1 - word.p);
    }
    if (!in_field) guess_word_add(g, word);
}

/* Several values with a ':' between, if one is a number or a time and none is a sentence. */
static void field_split(struct guess *g, struct slice field)
{
    bool number = false, sentence = false;
    struct slice none = {NULL, 0}, part;
    for (size_t i = 0; (part = segment_of(field, i)).p != NULL; i++) {
        number |= is_number(part);
        sentence |= !is_number(part) && part.n > 0 && memchr(part.p, ' ', part.n) != NULL;
    }
    if (number && !sentence) {
        text_split(g, field, true);
        return;
    }
    guess_value_add(g, field, "text", true, none);
    guess_word_add(g, field);
}

/* --- the key, the count --- */

/* How many columns a unique key has; 0: only a surrogate, or the begin of a text. */
static size_t key_columns(const struct table *t, const char *key, const struct column **surrogate)
{
    size_t n = 0;
    bool prefix = false;
    const struct column *last = NULL;
    for (size_t i = 0; i < t->parts_n; i++) {
        if (strcmp(t->parts[i].key, key) != 0) continue;
        n++;
        prefix |= t->parts[i].prefix;
        last = table_column(t, slice_str(t->parts[i].column));
    }
    if (n != 1 || last == NULL || !(last->auto_increment || last->random_default)) return prefix ? 0 : n;
    *surrogate = last;
    return 0;
}

static void unique_choose(struct guess *g, const struct column **surrogate)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < g->table->parts_n; i++) {
        size_t n = key_columns(g->table, g->table->parts[i].key, surrogate);
        size_t far = n > g->values_n ? n - g->values_n : g->values_n - n;
        if (n == 0 || far >= best) continue;
        best = far;
        g->unique = g->table->parts[i].key;
    }
}

bool guess_in_key(const struct guess *g, const struct column *c)
{
    for (size_t i = 0; g->unique != NULL && i < g->table->parts_n; i++)
        if (strcmp(g->table->parts[i].key, g->unique) == 0 &&
            slice_ieq(slice_str(g->table->parts[i].column), slice_str(c->name)))
            return true;
    return false;
}

#define COUNTS "count counter cnt view viewed hit visit visitor impression download click total num nb read n"
#define NO_COUNTS                                                                                            \
    TIMES " id uid parent user status state sort order position pos price flag type rating processed "       \
          "active visible deleted rank attribute timestamp at"

static unsigned words_affinity(const struct guess *g, const char *name)
{
    unsigned most = 0;
    for (size_t i = 0; i < g->words_n; i++) {
        unsigned now = affinity(g->words[i], slice_str(name));
        most = now > most ? now : most;
    }
    return most;
}

bool guess_could_count(const struct guess *g, const struct column *c)
{
    return c->form == FORM_INTEGER && strcmp(c->data_type, "year") != 0 && !c->auto_increment &&
           !c->generated && !guess_in_key(g, c) && table_name_valid(slice_str(c->name)) &&
           !name_has_part(c->name, NO_COUNTS);
}

static void count_choose(struct guess *g)
{
    unsigned best = 0;
    for (size_t i = 0; i < g->table->columns_n; i++) {
        const struct column *c = &g->table->columns[i];
        if (!guess_could_count(g, c)) continue;
        unsigned now = 1 + words_affinity(g, c->name) + guess_affinity(COUNTS, c->name) / 2;
        if (now > best) g->count = c;
        best = now > best ? now : best;
    }
}

/* --- which column has a value --- */

const struct guess_value *guess_value_of(const struct guess *g, const struct column *c)
{
    for (size_t i = 0; i < g->values_n; i++)
        for (size_t k = 0; k < g->values[i].columns_n; k++)
            if (g->values[i].columns[k] == c) return &g->values[i];
    return NULL;
}

static bool has_room(const struct column *c, struct slice text)
{
    const char *open = strchr(c->type, '(');
    size_t n = 0, room = 0;
    for (size_t i = 0; i < text.n; i++)
        n += (text.p[i] & 0xc0) != 0x80;
    while (open != NULL && isdigit((unsigned char)*++open))
        room = room * 10 + (size_t)(*open - '0');
    return n <= room;
}

/* 0: it does not fit. */
static unsigned column_score(const struct guess *g, const struct guess_value *v, const struct column *c)
{
    struct value_type t;
    bool text = c->form == FORM_TEXT || c->form == FORM_BYTES, known = has_value(c, v->text);
    if (!value_type_parse(slice_str(v->kind), &t) || (text && !has_room(c, v->text))) return 0;
    unsigned near = v->in_field ? words_affinity(g, c->name) : affinity(v->word, slice_str(c->name));
    if (form_is_time(c->form)) return v->time && column_fits(c->form, t.kind) ? 200 + near : 0;
    if (v->time && guess_is_time(c)) return 100 + near;
    bool digits = kind_bytes("integer", v->text) == v->text.n;
    if (c->form == FORM_INTEGER) return digits ? 20 + near + (known ? 5 : 0) : 0;
    return text ? 10 + near + (known ? 50 : 0) + (digits ? 0 : 10) : 0;
}

static bool is_candidate(const struct guess *g, const struct column *c, const struct column *surrogate)
{
    if (c == g->count || c->generated || !table_name_valid(slice_str(c->name))) return false;
    if (guess_value_of(g, c) != NULL) return false;
    return g->unique != NULL ? guess_in_key(g, c) : c == surrogate || !c->auto_increment;
}

static void column_give(struct guess_value *v, const struct column *c)
{
    v->columns[v->columns_n++] = c;
    if (v->time && v->columns_n == 1 && !guess_is_time(c))
        v->kind = kind_bytes("integer", v->text) == v->text.n ? "integer" : "text";
    v->time = v->time && guess_is_time(c);
}

/* The parts of a time into columns of the key that are called so. */
static void parts_give(struct guess *g, struct guess_value *v)
{
    const struct column *of[PIECES] = {NULL};
    size_t wanted = strncmp(v->kind, "hour", 4) == 0 ? PIECE_HOUR : PIECE_DAY;
    if (strncmp(v->kind, "month", 5) == 0) wanted = PIECE_MONTH;
    for (size_t i = 0; i < g->table->columns_n; i++)
        for (size_t p = PIECE_YEAR; p <= wanted; p++) {
            const struct column *c = &g->table->columns[i];
            if (c->form == FORM_INTEGER && is_candidate(g, c, NULL) && name_has_part(c->name, pieces[p]))
                of[p] = c;
        }
    for (size_t p = PIECE_YEAR; p <= wanted; p++)
        if (of[p] == NULL) return;
    for (size_t p = PIECE_YEAR; p <= wanted; p++)
        column_give(v, of[p]);
}

/* The best pair first. */
static void columns_give(struct guess *g, const struct column *surrogate)
{
    for (unsigned best = 1; best > 0;) {
        struct guess_value *of = NULL;
        const struct column *to = NULL;
        best = 0;
        for (size_t i = 0; i < g->values_n; i++)
            for (size_t k = 0; k < g->table->columns_n; k++) {
                const struct column *c = &g->table->columns[k];
                struct guess_value *v = &g->values[i];
                if (v->columns_n > 0 || !is_candidate(g, c, surrogate)) continue;
                unsigned now = column_score(g, v, c);
                if (now > 0 && c == surrogate) now += 25;
                if (now > best) best = now, of = v, to = c;
            }
        if (best > 0) column_give(of, to);
    }
}

static const char *key_of(const struct table *t, const struct column *c)
{
    for (size_t i = 0; i < t->parts_n; i++)
        if (strcmp(t->parts[i].column, c->name) == 0) return t->parts[i].key;
    return NULL;
}

/* A number alone is the id and not the slug, where no other key has numbers or times. */
static bool is_of_surrogate(const struct guess *g)
{
    for (size_t i = 0; i < g->table->columns_n; i++) {
        const struct column *c = &g->table->columns[i];
        if (guess_in_key(g, c) && c->form != FORM_TEXT && c->form != FORM_BYTES) return false;
    }
    return g->values_n == 1 && is_number(g->values[0].text);
}

const struct column *guess_count_of(const struct guess *g, struct slice field)
{
    for (size_t i = 0; i < g->table->columns_n; i++) {
        const struct column *c = &g->table->columns[i];
        if (guess_could_count(g, c) && affinity(field, slice_str(c->name)) == SAME_WORD) return c;
    }
    return NULL;
}

/* The field is no value of the row, but says which count: HINCRBY article:42 views. */
static void guess_counts_find(struct guess *g)
{
    struct slice field = g->examples[0].field;
    const struct guess_value *last = g->values_n > 0 ? &g->values[g->values_n - 1] : NULL;
    if (last == NULL || !last->in_field || strcmp(last->kind, "text") != 0 || !slice_eq(last->text, field))
        return;
    g->by_field = !word_is_known(g->table, field) && guess_count_of(g, field) != NULL;
    g->values_n -= g->by_field;
}

bool guess_make(struct guess *g)
{
    const struct column *surrogate = NULL;
    text_split(g, g->examples[0].key, false);
    if (g->examples[0].field.n > 0) field_split(g, g->examples[0].field);
    unique_choose(g, &surrogate);
    count_choose(g);
    guess_counts_find(g);
    if (g->unique != NULL && surrogate != NULL && is_of_surrogate(g)) g->unique = key_of(g->table, surrogate);
    if (g->unique != NULL || g->values_n > 1) surrogate = NULL;
    for (size_t i = 0; i < g->values_n; i++)
        if (g->values[i].time) parts_give(g, &g->values[i]);
    columns_give(g, surrogate);
    if (surrogate != NULL && guess_value_of(g, surrogate) != NULL) g->unique = key_of(g->table, surrogate);
    return g->count != NULL;
}

/* --- an example --- */

static bool is_piece(const struct column *c)
{
    bool is = false;
    for (size_t p = PIECE_YEAR; p < PIECES; p++)
        is |= c->form == FORM_INTEGER && name_has_part(c->name, pieces[p]);
    return is;
}

static void column_invent(const struct column *c, const char *text, struct buf *out)
{
    if (c != NULL) buf_printf(out, ":%s:%s", c->name, c->form == FORM_INTEGER ? "1" : text);
}

static const char *time_invent(const struct column *c, size_t pieces_n)
{
    static const char hour[] = "2024050113", date[] = "20240501", month[] = "202405";
    if (pieces_n > 1) return pieces_n == 4 ? hour : pieces_n == 3 ? date : month;
    if (c == NULL || c->form == FORM_DATETIME) return c == NULL ? NULL : hour;
    return c->form == FORM_DATE || c->form == FORM_INTEGER || has_room(c, SLICE(date)) ? date : month;
}

void guess_invent(const struct table *t, const char *text, struct buf *out)
{
    struct guess g = {.table = t};
    const struct column *surrogate = NULL, *last = NULL, *time = NULL;
    size_t pieces_n = 0;
    unique_choose(&g, &surrogate);
    count_choose(&g);
    buf_put_slice(out, t->name);
    for (size_t i = 0; i < t->columns_n; i++) {
        const struct column *c = &t->columns[i];
        bool no_key = surrogate != NULL ? c == surrogate : c->form == FORM_INTEGER || c->form == FORM_DATE;
        if (!is_candidate(&g, c, surrogate) || (g.unique == NULL && !no_key)) continue;
        pieces_n += is_piece(c);
        if (guess_is_time(c)) time = c;
        if (guess_is_time(c) || is_piece(c)) continue;
        column_invent(last, text, out);
        last = c;
    }
    const char *field = time_invent(time, pieces_n);
    if (field != NULL) column_invent(last, text, out);
    if (field == NULL) field = last != NULL && last->form == FORM_INTEGER ? "1" : text;
    buf_printf(out, ":%s%c%s%c", g.count != NULL ? g.count->name : "hits", '\0', field, '\0');
}
