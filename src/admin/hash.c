/* admin/hash.c - `tallyd hash`: a password from the terminal, unseen and twice, or a line of stdin, becomes the hash for
 * users.*.password. Where it was is wiped. */
#include "admin/verbs.h"

#include "users/password.h"

#include <stdio.h>
#include <termios.h>
#include <unistd.h>

/* One line of stdin without its end. False: there is none, or it is too long for a password. */
static bool line_read(char out[PASSWORD_BYTES_MAX + 2])
{
    if (fgets(out, PASSWORD_BYTES_MAX + 2, stdin) == NULL) return false;
    size_t n = strcspn(out, "\r\n");
    bool whole = out[n] != '\0' || feof(stdin);
    out[n] = '\0';
    return whole && n > 0;
}

/* What is typed is not shown. */
static bool terminal_read(const char *prompt, char out[PASSWORD_BYTES_MAX + 2])
{
    struct termios before, silent;
    if (tcgetattr(STDIN_FILENO, &before) != 0) return false;
    silent = before;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    fputs(prompt, stderr);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    bool read = line_read(out);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    fputc('\n', stderr);
    return read;
}

static enum err password_read(char out[PASSWORD_BYTES_MAX + 2], struct error *e)
{
    char again[PASSWORD_BYTES_MAX + 2];
    bool asks = isatty(STDIN_FILENO) == 1, read, same = true;
    read = asks ? terminal_read("password: ", out) : line_read(out);
    if (read && asks) same = terminal_read("again: ", again) && strcmp(again, out) == 0;
    explicit_bzero(again, sizeof(again));
    if (!read) return error_set(e, ERR_USAGE, "a password is a line of 1 to %d bytes", PASSWORD_BYTES_MAX);
    return same ? ERR_NONE : error_set(e, ERR_USAGE, "these were two different passwords; nothing was made");
}

enum err verb_hash(const struct call *call)
{
    char password[PASSWORD_BYTES_MAX + 2] = "", hash[PASSWORD_HASH_BYTES];
    struct error e;
    (void)call;
    enum err code = password_read(password, &e);
    if (code == ERR_NONE) code = password_hash(slice_str(password), hash, &e);
    explicit_bzero(password, sizeof(password));
    if (code != ERR_NONE) return call_failed(&e);
    puts(hash);
    return ERR_NONE;
}
