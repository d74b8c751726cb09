/* admin/status.c - `tallyd status`: one look, or one after the other, as a screen or as JSON. */
#include "admin/screen.h"
#include "admin/verbs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define RATE_MS 300
#define HOME "\033[H\033[J"

static void problem_ignore(void *arg, const char *what, const char *next)
{
    (void)arg, (void)what, (void)next;
}

static struct screen_style style_of(bool watching)
{
    bool terminal = isatty(STDOUT_FILENO) == 1;
    struct winsize size;
    const char *no_colour = getenv("NO_COLOR"); /* not empty: none (no-color.org) */
    struct screen_style style = {.colour = terminal && (no_colour == NULL || no_colour[0] == '\0')};
    if (watching && terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1)
        style.lines_max = size.ws_row - 1u;
    return style;
}

static enum err look_print(const struct call *call, const struct status *s)
{
    struct buf text = {0};
    const struct screen_style style = style_of(call->watch_s > 0);
    if (call->watch_s > 0 && !call->json && isatty(STDOUT_FILENO) == 1) BUF_LIT(&text, HOME);
    if (call->json) {
        status_json(&text, s);
        buf_put_char(&text, '\n');
    } else {
        screen_put(s, &style, &text);
    }
    enum err code = text_print(&text);
    return code == ERR_NONE ? status_judge(s, problem_ignore, NULL) : code;
}

static enum err look_once(const struct call *call, const struct source *where)
{
    const struct status_how how = {.rate_ms = RATE_MS, .books = true};
    struct status s;
    status_probe(where, &how, &s);
    enum err code = look_print(call, &s);
    status_close(&s);
    return code;
}

/* Until SIGINT, SIGTERM, or the end of the reader of stdout; then the verdict of the last look. */
static enum err look_again_and_again(const struct call *call, const struct source *where)
{
    const struct timespec pause = {.tv_sec = call->watch_s};
    sigset_t stop;
    enum err code;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
    do
        code = look_once(call, where);
    while (!ferror(stdout) && sigtimedwait(&stop, NULL, &pause) < 0);
    return code;
}

enum err verb_status(const struct call *call)
{
    struct conf conf;
    struct setup setup;
    if (!call_load(call, &conf, &setup)) return ERR_CONFIG;
    const struct source where = setup_source(&setup);
    enum err code = call->watch_s > 0 ? look_again_and_again(call, &where) : look_once(call, &where);
    setup_close(&setup);
    conf_free(&conf);
    return code;
}
