/* conf/bearers.c - see bearers.h. */
#include "conf/bearers.h"

#include "base/heap.h"
#include "conf/secret.h"

#define NAME_MOST 64
#define STORE_MOST 255

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Takes the next word off line; n 0: no more words. */
static struct slice word_cut(struct slice *line)
{
    size_t from = 0, to;
    while (from < line->n && blank(line->p[from]))
        from++;
    for (to = from; to < line->n && !blank(line->p[to]);)
        to++;
    struct slice word = slice_of(line->p + from, to - from);
    *line = slice_of(line->p + to, line->n - to);
    return word;
}

static bool all_visible(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~') return false;
    return true;
}

/* What is wrong with it, NULL: nothing. */
static const char *fault_of(struct slice name, struct slice secret, struct slice store, struct slice rest)
{
    if (rest.n > 0) return "has more than a name, a token and a store";
    if (name.n > NAME_MOST || !all_visible(name)) return "does not begin with a name of at most 64 letters";
    if (secret.n < CONF_BEARER_LEAST || secret.n > CONF_BEARER_MOST || !all_visible(secret))
        return "has no token of 16 to 255 letters, digits or signs behind its name";
    return store.n > STORE_MOST ? "has a store of more than 255 bytes" : NULL;
}

static bool is_there(const struct conf_bearers *t, struct slice name, struct slice secret)
{
    for (size_t i = 0; i < t->n; i++)
        if (slice_eq(slice_str(t->all[i].name), name) || slice_eq(slice_str(t->all[i].secret), secret))
            return true;
    return false;
}

static const char *bearer_read(struct slice line, struct conf_bearers *out)
{
    struct slice name = word_cut(&line), secret = word_cut(&line), store = word_cut(&line);
    if (name.n == 0 || name.p[0] == '#') return NULL;
    const char *fault = fault_of(name, secret, store, word_cut(&line));
    if (fault == NULL && is_there(out, name, secret)) fault = "repeats a name or a token";
    if (fault != NULL) return fault;
    out->all = heap_realloc(out->all, (out->n + 1) * sizeof(*out->all));
    out->all[out->n++] = (struct conf_bearer){.name = heap_strndup(name.p, name.n),
                                              .secret = heap_strndup(secret.p, secret.n),
                                              .store = store.n > 0 ? heap_strndup(store.p, store.n) : NULL};
    return NULL;
}

bool bearers_read(struct slice lines, struct conf_bearers *out, struct error *e)
{
    const char *fault = NULL;
    unsigned number = 0;
    while (fault == NULL && lines.n > 0) {
        const char *end = memchr(lines.p, '\n', lines.n);
        size_t n = end == NULL ? lines.n : (size_t)(end - lines.p);
        number++;
        fault = bearer_read(slice_of(lines.p, n), out);
        lines = slice_of(lines.p + n + (end != NULL), lines.n - n - (end != NULL));
    }
    if (fault == NULL) return true;
    error_set(e, ERR_CONFIG, "is a file whose line %u %s, expected `name token` or `name token store`",
              number, fault);
    bearers_free(out);
    return false;
}

void bearers_free(struct conf_bearers *t)
{
    for (size_t i = 0; i < t->n; i++) {
        heap_free(t->all[i].name);
        heap_free(t->all[i].store);
        secret_free(t->all[i].secret);
    }
    heap_free(t->all);
    *t = (struct conf_bearers){0};
}
