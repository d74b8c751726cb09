/* admin/admin.c - from the command line to its verb. */
#include "admin/admin.h"

#include "admin/verbs.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>

enum err call_failed(const struct error *e)
{
    fprintf(stderr, "%stallyd: %s\n", log_priority(LOG_ERROR), e->text);
    return e->code;
}

static void lines_print(const struct buf *lines)
{
    for (size_t at = 0; at < lines->n;) {
        const char *line = lines->p + at, *end = memchr(line, '\n', lines->n - at);
        size_t n = end == NULL ? lines->n - at : (size_t)(end - line);
        fprintf(stderr, "%stallyd: %.*s\n", log_priority(LOG_ERROR), (int)n, line);
        at += n + 1;
    }
}

bool call_load_without(const struct call *call, const char *const *without, struct conf *conf,
                       struct setup *setup)
{
    struct buf problems = {0};
    bool loaded = conf_load_all(call->conf_path, without, conf, &problems);
    if (loaded && !setup_init(setup, conf, &problems)) {
        conf_free(conf);
        loaded = false;
    }
    lines_print(&problems);
    buf_free(&problems);
    return loaded;
}

bool call_load(const struct call *call, struct conf *conf, struct setup *setup)
{
    return call_load_without(call, NULL, conf, setup);
}

enum err verb_run(const struct call *call)
{
    struct conf conf;
    struct setup setup;
    if (!call_load(call, &conf, &setup)) return ERR_CONFIG;
    setup_close(&setup);
    struct error e;
    enum err code = call->ports->run(call->ports->arg, &conf, call->conf_path, &e);
    conf_free(&conf);
    return code == ERR_NONE ? code : call_failed(&e);
}

enum err text_print(struct buf *text)
{
    size_t written = text->n > 0 ? fwrite(text->p, 1, text->n, stdout) : 0;
    bool good = written == text->n && fflush(stdout) == 0;
    buf_free(text);
    if (good) return ERR_NONE;
    struct error e;
    error_set(&e, ERR_FAILED, "cannot write to stdout: %s", strerror(errno));
    return call_failed(&e);
}

static enum err help_print(int verb, bool version)
{
    struct buf text = {0};
    if (version)
        BUF_LIT(&text, "tallyd " TALLYD_VERSION "\n");
    else if (verb < 0)
        help_all(&text);
    else
        help_verb(&verbs[verb], &text);
    return text_print(&text);
}

int admin_main(int argc, char **argv, const struct admin_ports *ports)
{
    struct call call = {.ports = ports, .dir = DEV_DIR_DEFAULT};
    struct error e;
    int verb;
    bool version;
    enum err code = call_read(argc, argv, &call, &verb, &version, &e);
    if (code != ERR_NONE)
        code = call_failed(&e);
    else if (version || call.help)
        code = help_print(verb, version);
    else {
        if (call.conf_path == NULL && verbs[verb].run != verb_dev) call.conf_path = CONF_PATH_DEFAULT;
        log_set_level(
            LOG_ERROR); /* a verb speaks in sentences; `run` and `recover` set what their log shows */
        code = verbs[verb].run(&call);
    }
    if (fflush(stdout) != 0 && code == ERR_NONE) code = ERR_FAILED;
    return error_exit_status(code);
}
