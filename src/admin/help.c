/* admin/help.c - what `--help` prints, from the tables of verbs.c and of the configuration. */
#include "admin/verbs.h"

#include <stdio.h>

static void option_help_put(const struct option *o, struct buf *out)
{
    if (o->letter != 0)
        buf_printf(out, "[-%c", o->letter);
    else
        buf_printf(out, "[--%s", o->name);
    if (o->kind == OPTION_SECONDS)
        buf_printf(out, " [%s]", o->argument);
    else if (o->argument != NULL)
        buf_printf(out, " %s", o->argument);
    buf_put_char(out, ']');
}

void usage_put(const struct verb *verb, struct buf *out)
{
    size_t begin = out->n;
    const char *words = verb->words;
    if (words != NULL) buf_printf(out, words[0] == '|' ? "[%s] " : "%s ", words + strspn(words, "|"));
    if (verb->further != NULL) buf_printf(out, "%s ", verb->further);
    for (size_t i = 0; i < options_n; i++) {
        if (!option_of(&options[i], (int)(verb - verbs)) || options[i].letter == 'h') continue;
        option_help_put(&options[i], out);
        buf_put_char(out, ' ');
    }
    if (out->n > begin) out->n--;
}

static void options_help(int verb, struct buf *out)
{
    for (size_t i = 0; i < options_n; i++) {
        const struct option *o = &options[i];
        char left[64], letter[8] = "    ";
        if (!option_of(o, verb)) continue;
        if (o->letter != 0) snprintf(letter, sizeof(letter), "-%c, ", o->letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->argument == NULL ? "" : " ",
                 o->argument == NULL ? "" : o->argument);
        bool dev = verb >= 0 && verbs[verb].run == verb_dev;
        buf_printf(out, "  %-22s %s%s\n", left, o->help,
                   o->letter != 'c' ? ""
                   : dev            ? "; by default none is needed"
                                    : ", by default " CONF_PATH_DEFAULT);
    }
}

void help_all(struct buf *out)
{
    buf_printf(out,
               "tallyd %s: counts hits in Redis and merges them into MySQL, each exactly once.\n\n"
               "usage: tallyd VERB [options]\n\n",
               TALLYD_VERSION);
    for (size_t i = 0; i < verbs_n; i++)
        buf_printf(out, "  %-10s %s\n", verbs[i].name, verbs[i].summary);
    BUF_LIT(
        out,
        "\n`tallyd VERB --help` tells more, `tallyd run --help` lists the options of the configuration, and\n"
        "`tallyd help OPTION` explains one. Exit status:\n");
#define X(code, status, text) buf_printf(out, "  %-10d %s\n", status, text);
    ERROR_CODES(X)
#undef X
}

void help_verb(const struct verb *verb, struct buf *out)
{
    buf_printf(out, "usage: tallyd %s ", verb->name);
    usage_put(verb, out);
    buf_printf(out, "\n\n%s\n", verb->help);
    options_help((int)(verb - verbs), out);
    if (verb->run != verb_run) return;
    BUF_LIT(out, "\nOptions of the configuration file, with their defaults:\n");
    conf_help(out);
}

static const struct verb *verb_named(const char *name)
{
    for (size_t i = 0; i < verbs_n; i++)
        if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
    return NULL;
}

enum err verb_help(const struct call *call)
{
    struct buf out = {0};
    struct error e;
    char shown[64];
    const char *nearest = NULL;
    const struct verb *verb = call->words_n == 0 ? NULL : verb_named(call->words[0]);
    if (call->words_n == 0)
        help_all(&out);
    else if (verb != NULL)
        help_verb(verb, &out);
    else if (!conf_help_of(slice_str(call->words[0]), &out, &nearest)) {
        slice_show(slice_str(call->words[0]), 40, shown, sizeof(shown));
        error_set(&e, ERR_USAGE, "there is no option or verb \"%s\"%s%s%s", shown,
                  nearest != NULL ? ", did you mean \"" : "; `tallyd run --help` lists the options",
                  nearest != NULL ? nearest : "", nearest != NULL ? "\"?" : "");
        return call_failed(&e);
    }
    return text_print(&out);
}
