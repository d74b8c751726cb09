/* conf/secret.c - see secret.h. */
#include "conf/secret.h"

#include "base/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET_BYTES_MAX 1024
#define LINES_BYTES_MAX 65536

static int open_beside(const char *conf_file, const char *path)
{
    const char *slash = strrchr(conf_file, '/');
    if (path[0] == '/' || slash == NULL) return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct buf full = {0};
    buf_put(&full, conf_file, (size_t)(slash - conf_file) + 1);
    buf_put(&full, path, strlen(path) + 1);
    int fd = open(full.p, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int why = errno;
    buf_free(&full);
    errno = why;
    return fd;
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
        error_set(
            e, ERR_CONFIG,
            "is a file that others than its owner may read or change (mode %03o), expected mode 600 or 400: "
            "run chmod 600 on it",
            (unsigned)(st.st_mode & 0777));
        return false;
    }
    return true;
}

/* Takes the newline off; false: not one line of text. */
static bool trim(char *text, size_t n)
{
    if (n > 0 && text[n - 1] == '\n') n--;
    if (n > 0 && text[n - 1] == '\r') n--;
    text[n] = '\0';
    return n > 0 && strlen(text) == n && strpbrk(text, "\r\n") == NULL;
}

static char *read_line(int fd, struct error *e)
{
    char *text = heap_alloc(SECRET_BYTES_MAX + 1);
    ssize_t n = read(fd, text, SECRET_BYTES_MAX);
    if (n > 0 && n < SECRET_BYTES_MAX && trim(text, (size_t)n)) return text;
    explicit_bzero(text, SECRET_BYTES_MAX);
    heap_free(text);
    error_set(e, ERR_CONFIG, "is a file without a password, expected one line of text of at most 1000 bytes");
    return NULL;
}

static char *read_lines(int fd, struct error *e)
{
    char *text = heap_alloc(LINES_BYTES_MAX + 1);
    ssize_t n = read(fd, text, LINES_BYTES_MAX);
    text[n > 0 ? n : 0] = '\0';
    if (n >= 0 && n < LINES_BYTES_MAX && strlen(text) == (size_t)n) return text;
    explicit_bzero(text, LINES_BYTES_MAX);
    heap_free(text);
    error_set(e, ERR_CONFIG, "is no file of text of at most 64 KiB");
    return NULL;
}

static char *read_with(const char *conf_file, const char *path, char *(*reader)(int fd, struct error *e),
                       struct error *e)
{
    int fd = open_beside(conf_file, path);
    if (fd < 0) {
        error_set(e, ERR_CONFIG,
                  "is a file that cannot be read (%s), expected one that tallyd's user may read",
                  strerror(errno));
        return NULL;
    }
    char *secret = fit_to_read(fd, e) ? reader(fd, e) : NULL;
    close(fd);
    return secret;
}

char *secret_read_file(const char *conf_file, const char *path, struct error *e)
{
    return read_with(conf_file, path, read_line, e);
}

char *secret_read_lines(const char *conf_file, const char *path, struct error *e)
{
    return read_with(conf_file, path, read_lines, e);
}

/* Nothing, or an empty line, which is what a unit says for a password that nobody gave. */
static bool is_blank(int fd)
{
    char begin[2];
    ssize_t n = pread(fd, begin, sizeof begin, 0);
    return n == 0 || (n == 1 && begin[0] == '\n');
}

char *secret_read_credential(const char *name, struct error *e)
{
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    *e = (struct error){0};
    if (directory == NULL || directory[0] != '/') return NULL;
    struct buf path = {0};
    buf_printf(&path, "%s/%s", directory, name);
    buf_put_char(&path, '\0');
    int fd = open(path.p, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int why = errno;
    buf_free(&path);
    if (fd < 0 && why != ENOENT)
        error_set(e, ERR_CONFIG,
                  "cannot be read from systemd's credentials (%s): see LoadCredential= in the unit",
                  strerror(why));
    if (fd < 0) return NULL;
    char *secret = is_blank(fd) ? NULL : read_line(fd, e);
    close(fd);
    return secret;
}

char *secret_read_env(const char *variable)
{
    const char *value = getenv(variable);
    return value == NULL || value[0] == '\0' ? NULL : heap_strdup(value);
}

void secret_free(char *secret)
{
    if (secret == NULL) return;
    explicit_bzero(secret, strlen(secret));
    heap_free(secret);
}
