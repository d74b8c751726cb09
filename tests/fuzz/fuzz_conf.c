/* fuzz_conf.c - the configuration (conf/, and setup/setup.c, which makes the rooms' own structs of it) and the file of
 * tokens. Any bytes are read or refused; a refusal has a place in the file and one printable line a problem; what was
 * taken is written out as a file that reads back to the same; and what then names tables and columns in SQL is an
 * identifier. No file is opened: passwords and tokens come from below. */
#include "fuzz.h"

#include "conf/conf.h"
#include "conf/value.h"
#include "setup/setup.h"

#define NAME "fuzz"

/* ---- instead of conf/secret.c's (the linker's --wrap) ---- */

char *__wrap_secret_read_file(const char *conf_file, const char *path, struct error *e);
char *__wrap_secret_read_lines(const char *conf_file, const char *path, struct error *e);

char *__wrap_secret_read_file(const char *conf_file, const char *path, struct error *e)
{
    (void)conf_file;
    if (strlen(path) % 2 == 0) return heap_strdup("a password");
    error_set(e, ERR_CONFIG, "is a file that is not there, expected one");
    return NULL;
}

char *__wrap_secret_read_lines(const char *conf_file, const char *path, struct error *e)
{
    (void)conf_file, (void)path, (void)e;
    return heap_strdup("shop 0123456789abcdef 17\n");
}

/* ---- promises ---- */

static size_t digits_take(const char **at)
{
    size_t n = strspn(*at, "0123456789");
    *at += n;
    return n;
}

/* "fuzz:<line>:<column>: <text>", from 1. */
static void place_stands(const char *line)
{
    const char *at = line + strlen(NAME) + 1;
    MUST(strncmp(line, NAME ":", strlen(NAME) + 1) == 0);
    MUST(*at != '0' && digits_take(&at) > 0 && *at++ == ':');
    MUST(*at != '0' && digits_take(&at) > 0 && strncmp(at, ": ", 2) == 0);
    MUST(at[2] != '\0');
}

static void problems_are_lines(struct buf *problems)
{
    MUST(problems->n > 0 && problems->p[problems->n - 1] == '\n');
    for (size_t i = 0; i < problems->n; i++)
        MUST(problems->p[i] == '\n' || (problems->p[i] >= ' ' && problems->p[i] <= '~'));
    buf_put_char(problems, '\0');
    for (char *line = problems->p, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        *end = '\0';
        place_stands(line);
    }
}

static bool is_identifier(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$", s.p[i]) == NULL ||
            s.p[i] == '\0')
            return false;
    return s.n >= 1 && s.n <= 64;
}

static void setup_stands(const struct setup *s)
{
    size_t which;
    struct error e;
    MUST(s->counters.n > 0 && counters_validate(&s->counters, &which, &e) == ERR_NONE);
    for (size_t i = 0; i < s->counters.n; i++) {
        const struct counter *c = &s->counters.all[i];
        MUST(is_identifier(c->table) && is_identifier(c->column_field) && is_identifier(c->column_count));
        MUST(c->key.has_store ? is_identifier(c->column_store) : c->column_store.n == 0);
    }
}

static void setup_made(const struct conf *c)
{
    struct setup s;
    struct buf problems = {0};
    if (setup_init(&s, c, &problems)) {
        MUST(problems.n == 0);
        setup_stands(&s);
        setup_close(&s);
    } else {
        MUST(problems.n > 0 && problems.p[problems.n - 1] == '\n');
    }
    buf_free(&problems);
}

static void reads_back(const struct conf *c)
{
    struct conf again;
    struct buf text = {0}, twice = {0}, problems = {0}, restart = {0};
    conf_write(c, &text);
    bool read = conf_parse(NAME, buf_slice(&text), NULL, &again, &problems);
    MUST(read);
    conf_write(&again, &twice);
    MUST(slice_eq(buf_slice(&text), buf_slice(&twice)));
    MUST(conf_needs_restart(c, &again, &restart) == 0);
    conf_free(&again);
    buf_free(&text);
    buf_free(&twice);
    buf_free(&problems);
    buf_free(&restart);
}

static void conf_try(struct slice text)
{
    struct conf c;
    struct buf problems = {0};
    if (conf_parse(NAME, text, NULL, &c, &problems)) {
        MUST(problems.n == 0);
        reads_back(&c);
        setup_made(&c);
        conf_free(&c);
    } else {
        problems_are_lines(&problems);
    }
    buf_free(&problems);
}

static void tokens_try(struct slice text)
{
    struct conf_bearers tokens = {0};
    struct error e;
    if (!bearers_read(text, &tokens, &e)) {
        MUST(tokens.n == 0 && tokens.all == NULL);
        for (const char *p = e.text; *p != '\0'; p++)
            MUST(*p >= ' ' && *p <= '~');
    }
    for (size_t i = 0; i < tokens.n; i++) {
        size_t n = strlen(tokens.all[i].secret);
        MUST(n >= CONF_BEARER_LEAST && n <= CONF_BEARER_MOST && tokens.all[i].name[0] != '\0');
    }
    bearers_free(&tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size);
    conf_try(slice_of(text, size));
    tokens_try(slice_of(text, size));
    heap_free(text);
    return 0;
}
