/* admin/hash.c - `tallyd hash`: a password from the terminal, unseen and twice, or a line of stdin, becomes the hash
 * for users.*.password. The memory that held it is wiped. */
#include "admin/verbs.h"

#include "users/prover.h"

#include <signal.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

/* One line of stdin without its end. False: no line, or it is too long for a password. */
static bool line_read(char out[PASSWORD_BYTES_MAX + 2])
{
    if (fgets(out, PASSWORD_BYTES_MAX + 2, stdin) == NULL) return false;
    size_t n = strcspn(out, "\r\n");
    bool whole = out[n] != '\0' || feof(stdin);
    out[n] = '\0';
    return whole && n > 0;
}

static const int endings[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
#define ENDINGS_N (sizeof endings / sizeof *endings)

static volatile sig_atomic_t ended_by; /* a signal; 0: none came */

static void on_ending(int number)
{
    ended_by = number;
}

/* What is typed is not shown. */
static bool silent_read(char out[PASSWORD_BYTES_MAX + 2])
{
    struct termios before, silent;
    if (tcgetattr(STDIN_FILENO, &before) != 0) return false;
    silent = before;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    bool read = ended_by == 0 && line_read(out);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    return read;
}

/* A signal ends the process only when the terminal is as before; otherwise it would show nothing from then on. */
static bool terminal_read(const char *prompt, char out[PASSWORD_BYTES_MAX + 2])
{
    struct sigaction later = {.sa_handler = on_ending}, before[ENDINGS_N];
    for (size_t i = 0; i < ENDINGS_N; i++)
        sigaction(endings[i], &later, &before[i]);
    fputs(prompt, stderr);
    bool read = silent_read(out);
    fputc('\n', stderr);
    for (size_t i = 0; i < ENDINGS_N; i++)
        sigaction(endings[i], &before[i], NULL);
    if (ended_by != 0) raise(ended_by);
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
    return same ? ERR_NONE : error_set(e, ERR_USAGE, "the two passwords differ; no hash was made");
}

enum err verb_hash(const struct call *call)
{
    char password[PASSWORD_BYTES_MAX + 2] = "", hash[PASSWORD_HASH_BYTES];
    struct error e;
    (void)call;
    setvbuf(stdin, NULL, _IONBF, 0); /* it keeps no copy */
    enum err code = password_read(password, &e);
    if (code == ERR_NONE) code = password_hash(slice_str(password), hash, &e);
    explicit_bzero(password, sizeof(password));
    if (code != ERR_NONE) return call_failed(&e);
    puts(hash);
    return ERR_NONE;
}
