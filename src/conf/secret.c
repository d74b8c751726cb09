/* conf/secret.c - see value.h. */
#include "conf/value.h"

#include "base/heap.h"
#include "conf/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET_BYTES_MAX 1024
#define LINES_BYTES_MAX 65536

char *secret_path(const char *conf_file, const char *path)
{
    const char *slash = strrchr(conf_file, '/');
    if (path[0] == '/' || slash == NULL) return heap_strdup(path);
    struct buf full = {0};
    buf_put(&full, conf_file, (size_t)(slash - conf_file) + 1);
    buf_put(&full, path, strlen(path) + 1);
    return full.p;
}

static bool fit_to_read(int fd, struct error *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        error_set(e, ERR_CONFIG,
                  "is not the path of a file, expected the path of a file that only its owner may read");
        return false;
    }
    if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        error_set(e, ERR_CONFIG,
                  "is a file that users other than its owner may read or change (mode %03o), expected mode "
                  "600 or 400: "
                  "run chmod 600 on it",
                  (unsigned)(st.st_mode & 0777));
        return false;
    }
    return true;
}

/* The text of fd; line: one line, whose end is taken off. NULL: e->text says what is wrong. */
static char *secret_text_read(int fd, bool line, struct error *e)
{
    size_t most = line ? SECRET_BYTES_MAX : LINES_BYTES_MAX;
    char *text = heap_alloc(most + 1);
    ssize_t n = read(fd, text, most);
    bool good = n >= 0 && (size_t)n < most;
    if (line && n > 0 && text[n - 1] == '\n') n--;
    if (line && n > 0 && text[n - 1] == '\r') n--;
    text[n > 0 ? n : 0] = '\0';
    good = good && strlen(text) == (size_t)n && (!line || (n > 0 && strpbrk(text, "\r\n") == NULL));
    if (good) return text;
    explicit_bzero(text, most);
    heap_free(text);
    error_set(e, ERR_CONFIG,
              line ? "is a file without a password, expected one line of text of at most 1000 bytes"
                   : "is not a file of text of at most 64 KiB");
    return NULL;
}

static char *secret_read(const char *conf_file, const char *path, bool line, struct error *e)
{
    char *full = secret_path(conf_file, path);
    int fd = open(full, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), why = errno;
    heap_free(full);
    if (fd < 0) {
        error_set(e, ERR_CONFIG,
                  "is a file that cannot be read (%s), expected one that tallyd's user may read",
                  strerror(why));
        return NULL;
    }
    char *secret = fit_to_read(fd, e) ? secret_text_read(fd, line, e) : NULL;
    close(fd);
    return secret;
}

char *secret_read_file(const char *conf_file, const char *path, struct error *e)
{
    return secret_read(conf_file, path, true, e);
}

char *secret_read_lines(const char *conf_file, const char *path, struct error *e)
{
    return secret_read(conf_file, path, false, e);
}

char *secret_read_credential(const char *name, struct error *e)
{
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    *e = (struct error){0};
    if (directory == NULL || directory[0] != '/') return NULL;
    struct buf path = {0};
    buf_printf(&path, "%s/%s", directory, name);
    buf_put_char(&path, '\0');
    int fd = open(path.p, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), why = errno;
    buf_free(&path);
    if (fd < 0 && why != ENOENT)
        error_set(e, ERR_CONFIG,
                  "cannot be read from systemd's credentials (%s): see LoadCredential= in the unit",
                  strerror(why));
    if (fd < 0) return NULL;
    char begin[2]; /* an empty line is what a unit passes for a password that was not set */
    ssize_t n = pread(fd, begin, sizeof begin, 0);
    char *secret = n == 0 || (n == 1 && begin[0] == '\n') ? NULL : secret_text_read(fd, true, e);
    close(fd);
    return secret;
}

void secret_free(char *secret)
{
    if (secret == NULL) return;
    explicit_bzero(secret, strlen(secret));
    heap_free(secret);
}

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
