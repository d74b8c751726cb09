/* admin/admin.c - from the command line to its verb. */
#include "admin/admin.h"
#include "admin/verbs.h"
#include "base/log.h"
#include "base/slice.h"
#include "conf/conf.h"
#include <errno.h>
#include <stdio.h>

/* --- reads the command line as the table of verbs.c says. --- */

#define VERBS_MOST 16
#define OPTIONS_MOST 32
#define SECONDS_MOST 86400

/* Only --help may come before the verb. */
bool option_of(const struct option *o, int verb)
{
    return verb < 0 ? o->letter == 'h' : (o->verbs >> verb & 1) != 0;
}

static enum err unknown_verb(const char *word, struct error *e)
{
    const char *names[VERBS_MOST], *nearest;
    char shown[64];
    for (size_t i = 0; i < verbs_n; i++)
        names[i] = verbs[i].name;
    slice_show(slice_str(word), 40, shown, sizeof(shown));
    nearest = near_name(slice_str(word), names, verbs_n);
    if (nearest != NULL)
        return error_set(e, ERR_USAGE, "there is no verb \"%s\", did you mean \"%s\"?", shown, nearest);
    return error_set(e, ERR_USAGE, "there is no verb \"%s\"; `tallyd --help` lists them", shown);
}

static enum err unknown_option(const char *word, int verb, struct error *e)
{
    const char *names[OPTIONS_MOST], *nearest, *verb_name = verb < 0 ? "" : verbs[verb].name;
    char shown[64];
    size_t n = 0, dashes = strspn(word, "-");
    for (size_t i = 0; i < options_n; i++)
        if (option_of(&options[i], verb)) names[n++] = options[i].name;
    slice_show(slice_of(word, strcspn(word, "=")), 40, shown, sizeof(shown));
    nearest = near_name(slice_of(word + dashes, strcspn(word + dashes, "=")), names, n);
    if (nearest != NULL)
        return error_set(e, ERR_USAGE, "tallyd%s%s has no option %s, did you mean --%s?", verb < 0 ? "" : " ",
                         verb_name, shown, nearest);
    return error_set(e, ERR_USAGE, "tallyd%s%s has no option %s; `tallyd%s%s --help` lists them",
                     verb < 0 ? "" : " ", verb_name, shown, verb < 0 ? "" : " ", verb_name);
}

/* --name, --name=value, -c, -cvalue. *value is the value in the same word, or NULL. */
static const struct option *option_find(const char *word, int verb, const char **value)
{
    *value = NULL;
    for (size_t i = 0; i < options_n; i++) {
        const struct option *o = &options[i];
        size_t n = strlen(o->name);
        if (!option_of(o, verb)) continue;
        if (strncmp(word, "--", 2) == 0 && strncmp(word + 2, o->name, n) == 0 &&
            (word[2 + n] == '\0' || word[2 + n] == '=')) {
            *value = word[2 + n] == '=' ? word + 3 + n : NULL;
            return o;
        }
        if (o->letter != 0 && word[1] == o->letter && (word[2] == '\0' || o->argument != NULL)) {
            *value = word[2] == '\0' ? NULL : word + 2;
            return o;
        }
    }
    return NULL;
}

#define NUMBER_MOST 1000000

static enum err option_number_read(const struct option *o, const char *text, int64_t *out, struct error *e)
{
    bool seconds = o->kind == OPTION_SECONDS;
    int most = seconds ? SECONDS_MOST : NUMBER_MOST;
    if (num_parse(slice_str(text), out) && *out >= 1 && *out <= most) return ERR_NONE;
    return error_set(e, ERR_USAGE, "--%s takes a number%s from 1 to %d, not \"%.40s\"", o->name,
                     seconds ? " of seconds" : "", most, text);
}

/* The value in the same word, or the next word, which *at then moves on to; NULL: no value. A value of seconds may be
 * left out: the next word counts only when it is a number. */
static const char *argument_find(const struct option *o, const char *value, int argc, char **argv, int *at)
{
    bool seconds = o->kind == OPTION_SECONDS;
    if (value != NULL || *at + 1 >= argc) return value;
    if (seconds && (argv[*at + 1][0] < '0' || argv[*at + 1][0] > '9')) return NULL;
    return argv[++*at];
}

/* Stores one option; *at is its word's index, moved on to the argument's when that is the next word. */
static enum err call_option_read(int argc, char **argv, int *at, int verb, struct call *call, struct error *e)
{
    const char *value;
    const struct option *o = option_find(argv[*at], verb, &value);
    if (o == NULL) return unknown_option(argv[*at], verb, e);
    void *to = (char *)call + o->at;
    if (o->kind == OPTION_SWITCH) {
        if (value != NULL) return error_set(e, ERR_USAGE, "--%s takes no value", o->name);
        *(bool *)to = true;
        return ERR_NONE;
    }
    value = argument_find(o, value, argc, argv, at);
    if (o->kind == OPTION_SECONDS && value == NULL) return *(int64_t *)to = WATCH_S_DEFAULT, ERR_NONE;
    if (o->kind == OPTION_SECONDS) return option_number_read(o, value, to, e);
    if (value == NULL || value[0] == '\0')
        return error_set(e, ERR_USAGE, "--%s needs a value: --%s %s", o->name, o->name, o->argument);
    if (o->kind == OPTION_NUMBER) return option_number_read(o, value, to, e);
    if (o->kind == OPTION_TEXTS) {
        struct call_texts *texts = to;
        if (texts->n == CALL_TEXTS)
            return error_set(e, ERR_USAGE, "--%s may be given %d times", o->name, CALL_TEXTS);
        texts->all[texts->n++] = value;
        return ERR_NONE;
    }
    *(const char **)to = value;
    return ERR_NONE;
}

int verb_find(const char *name)
{
    for (size_t i = 0; i < verbs_n; i++)
        if (strcmp(verbs[i].name, name) == 0) return (int)i;
    return -1;
}

/* Is it the first of the words that verb->words names? */
static bool word_fits(const struct verb *v, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = v->words; at != NULL; at = strchr(at, '|')) {
        at += *at == '|' ? 1 : 0;
        if (strncmp(at, word, n) == 0 && (at[n] == '|' || at[n] == '\0')) return true;
    }
    return false;
}

static enum err verb_word_read(const struct verb *v, char *word, struct call *call, struct error *e)
{
    if (v->words == NULL && v->further != NULL && call->words_n == 0) {
        call->words[call->words_n++] = word;
        return ERR_NONE;
    }
    if (v->words == NULL)
        return error_set(e, ERR_USAGE, "tallyd %s takes options only; \"%.40s\" is not one", v->name, word);
    if (call->words_n == 0 && !word_fits(v, word))
        return error_set(e, ERR_USAGE, "tallyd %s takes %s, not \"%.40s\"", v->name,
                         v->words + strspn(v->words, "|"), word);
    if (call->words_n > 0 && v->further == NULL)
        return error_set(e, ERR_USAGE, "tallyd %s takes only one of %s; leave \"%.40s\" out", v->name,
                         v->words + strspn(v->words, "|"), word);
    call->words[call->words_n++] = word;
    return ERR_NONE;
}

enum err call_read(int argc, char **argv, struct call *call, int *verb, bool *version, struct error *e)
{
    *verb = -1;
    *version = false;
    call->words = argv; /* words only move to the front */
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        enum err code = ERR_NONE;
        if (*verb < 0 && (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)) {
            *version = true;
        } else if (word[0] == '-' && word[1] != '\0') {
            code = call_option_read(argc, argv, &i, *verb, call, e);
        } else if (*verb < 0) {
            *verb = verb_find(word);
            if (*verb < 0) code = unknown_verb(word, e);
        } else {
            code = verb_word_read(&verbs[*verb], argv[i], call, e);
        }
        if (code != ERR_NONE) return code;
    }
    if (call->help || *version) return ERR_NONE;
    if (*verb < 0)
        return error_set(e, ERR_USAGE,
                         "which verb? `tallyd --help` lists them; `tallyd dev` is a good start");
    const struct verb *v = &verbs[*verb];
    if (v->words != NULL && v->words[0] != '|' && call->words_n == 0)
        return error_set(e, ERR_USAGE, "tallyd %s needs one of %s; `tallyd %s --help` says what they do",
                         v->name, v->words, v->name);
    return ERR_NONE;
}

/* --- from the command line to its verb. --- */

enum err call_failed(const struct error *e)
{
    fprintf(stderr, "%stallyd: %s\n", log_priority(LOG_ERROR), e->text);
    return e->code;
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
    for (size_t at = 0; at < problems.n;) {
        const char *line = problems.p + at, *end = memchr(line, '\n', problems.n - at);
        size_t n = end == NULL ? problems.n - at : (size_t)(end - line);
        fprintf(stderr, "%stallyd: %.*s\n", log_priority(LOG_ERROR), (int)n, line);
        at += n + 1;
    }
    buf_free(&problems);
    return loaded;
}

bool call_load(const struct call *call, struct conf *conf, struct setup *setup)
{
    return call_load_without(call, NULL, conf, setup);
}

enum err call_configured(const struct call *call,
                         enum err (*run)(const struct call *call, const struct setup *setup))
{
    struct conf conf;
    struct setup setup;
    if (!call_load(call, &conf, &setup)) return ERR_CONFIG;
    enum err code = run(call, &setup);
    setup_close(&setup);
    conf_free(&conf);
    return code;
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

int admin_main(int argc, char **argv, const struct admin_ports *ports)
{
    struct call call = {.ports = ports, .dir = DEV_DIR_DEFAULT};
    struct error e;
    int verb;
    bool version;
    enum err code = call_read(argc, argv, &call, &verb, &version, &e);
    if (code != ERR_NONE)
        code = call_failed(&e);
    else if (version || call.help) {
        struct buf text = {0};
        if (version)
            BUF_LIT(&text, "tallyd " TALLYD_VERSION "\n");
        else if (verb < 0)
            help_all(&text);
        else
            help_verb(&verbs[verb], &text);
        code = text_print(&text);
    } else {
        if (call.conf_path == NULL && verbs[verb].run != verb_dev) call.conf_path = CONF_PATH_DEFAULT;
        log_set_level(
            LOG_ERROR); /* a verb speaks in sentences; `run` and `recover` set what their log shows */
        code = verbs[verb].run(&call);
    }
    if (fflush(stdout) != 0 && code == ERR_NONE) code = ERR_FAILED;
    return error_exit_status(code);
}
