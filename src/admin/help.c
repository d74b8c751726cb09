/* admin/help.c - what the tables of verbs.c and of the configuration become: help, completions, manual pages. */
#include "admin/verbs.h"
#include <stdio.h>

/* --- what `--help` prints, from the tables of verbs.c and of the configuration. --- */

/* Its words and options, without the verb. */
static void usage_put(const struct verb *verb, struct buf *out)
{
    size_t begin = out->n;
    const char *words = verb->words;
    if (words != NULL) buf_printf(out, words[0] == '|' ? "[%s] " : "%s ", words + strspn(words, "|"));
    if (verb->further != NULL) buf_printf(out, "%s ", verb->further);
    for (size_t i = 0; i < options_n; i++) {
        if (!option_of(&options[i], (int)(verb - verbs)) || options[i].letter == 'h') continue;
        const struct option *o = &options[i];
        if (o->letter != 0)
            buf_printf(out, "[-%c", o->letter);
        else
            buf_printf(out, "[--%s", o->name);
        if (o->kind == OPTION_SECONDS)
            buf_printf(out, " [%s]", o->argument);
        else if (o->argument != NULL)
            buf_printf(out, " %s", o->argument);
        buf_put_char(out, ']');
        buf_put_char(out, ' ');
    }
    if (out->n > begin) out->n--;
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
    for (size_t i = 0; i < options_n; i++) {
        const struct option *o = &options[i];
        char left[64], letter[8] = "    ";
        if (!option_of(o, (int)(verb - verbs))) continue;
        if (o->letter != 0) snprintf(letter, sizeof(letter), "-%c, ", o->letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->argument == NULL ? "" : " ",
                 o->argument == NULL ? "" : o->argument);
        buf_printf(out, "  %-22s %s%s\n", left, o->help,
                   o->letter != 'c'        ? ""
                   : verb->run == verb_dev ? "; by default none is needed"
                                           : ", by default " CONF_PATH_DEFAULT);
    }
    if (verb->run != verb_run) return;
    BUF_LIT(out, "\nOptions of the configuration file, with their defaults:\n");
    conf_help(out);
}

enum err verb_help(const struct call *call)
{
    struct buf out = {0};
    struct error e;
    char shown[64];
    const char *nearest = NULL;
    int verb = call->words_n == 0 ? -1 : verb_find(call->words[0]);
    if (call->words_n == 0)
        help_all(&out);
    else if (verb >= 0)
        help_verb(&verbs[verb], &out);
    else if (!conf_help_of(slice_str(call->words[0]), &out, &nearest)) {
        slice_show(slice_str(call->words[0]), 40, shown, sizeof(shown));
        error_set(&e, ERR_USAGE, "there is no option or verb \"%s\"%s%s%s", shown,
                  nearest != NULL ? ", did you mean \"" : "; `tallyd run --help` lists the options",
                  nearest != NULL ? nearest : "", nearest != NULL ? "\"?" : "");
        return call_failed(&e);
    }
    return text_print(&out);
}

/* --- `tallyd completion bash`: the shell's completions, from the tables of verbs.c. They offer verbs, then the verb's first word
 * and its options, and files or directories where an option takes one. --- */

static void option_word(void *arg, const struct conf_text *t)
{
    buf_printf(arg, " %s", t->path);
}

static void verbs_put(char between, struct buf *out)
{
    for (size_t i = 0; i < verbs_n; i++) {
        if (i > 0) buf_put_char(out, between);
        buf_put_slice(out, slice_str(verbs[i].name));
    }
}

/* After an option that takes something, nothing else is offered. */
static void arguments_put(struct buf *out)
{
    BUF_LIT(out, "    case $prev in\n");
    for (size_t i = 0; i < options_n; i++) {
        const struct option *o = &options[i];
        if (o->kind == OPTION_SWITCH || o->kind == OPTION_SECONDS) continue;
        if (i > 0 && strcmp(o->name, options[i - 1].name) == 0) continue; /* of another verb */
        BUF_LIT(out, "    ");
        if (o->letter != 0) buf_printf(out, "-%c|", o->letter);
        buf_printf(out, "--%s) ", o->name);
        if (o->kind == OPTION_FILE)
            BUF_LIT(out,
                    "compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); ");
        if (o->kind == OPTION_DIR)
            BUF_LIT(out,
                    "compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"); ");
        BUF_LIT(out, "return ;;\n");
    }
    BUF_LIT(out, "    esac\n");
}

static void verb_words_put(size_t i, struct buf *out)
{
    buf_printf(out, "    %s) words=\"", verbs[i].name);
    for (size_t k = 0; k < options_n; k++)
        if (option_of(&options[k], (int)i)) buf_printf(out, "--%s ", options[k].name);
    BUF_LIT(out, "\"\n");
    if (verbs[i].words != NULL || verbs[i].run == verb_help) {
        BUF_LIT(out, "        ((at + 1 == COMP_CWORD)) && words=\"");
        /* What the first word after the verb may be; for `help`: verbs and the options of the configuration. */
        for (const char *p = verbs[i].words; p != NULL && *p != '\0'; p++)
            buf_put_char(out, *p == '|' ? ' ' : *p);
        if (verbs[i].words == NULL) {
            verbs_put(' ', out);
            conf_describe(option_word, out);
        }
        BUF_LIT(out, " $words\"\n");
    }
    BUF_LIT(out, "        ;;\n");
}

enum err verb_completion(const struct call *call)
{
    struct buf text = {0}, *out = &text;
    (void)call;
    BUF_LIT(out, "# tallyd(1) for bash: made by `tallyd completion bash`\n"
                 "_tallyd()\n{\n"
                 "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb= at words=\n"
                 "    COMPREPLY=()\n"
                 "    for ((at = 1; at < COMP_CWORD; at++)); do\n"
                 "        case ${COMP_WORDS[at]} in\n        ");
    verbs_put('|', out);
    BUF_LIT(out, ") verb=${COMP_WORDS[at]}; break ;;\n        esac\n    done\n");
    arguments_put(out);
    BUF_LIT(out, "    case $verb in\n    \"\") words=\"");
    verbs_put(' ', out);
    BUF_LIT(out, " --help --version\" ;;\n");
    for (size_t i = 0; i < verbs_n; i++)
        verb_words_put(i, out);
    BUF_LIT(
        out,
        "    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -F _tallyd tallyd\n");
    return text_print(&text);
}

/* --- `tallyd manual 1|5`: tallyd(1) and tallyd.yaml(5) as scdoc(5), from the tables of verbs.c, of the configuration and of the
 * exit statuses. --- */

#define WIDTH 4 /* of the indentation that makes a line of a help text an example */

/* Bytes that scdoc could take for markup are escaped, all of them: it prints the next byte as it is. */
static void help_text_put(struct slice text, struct buf *out)
{
    for (size_t i = 0; i < text.n; i++) {
        if (strchr("\\*_[]|#;<>+-.~`", text.p[i]) != NULL) buf_put_char(out, '\\');
        buf_put_char(out, text.p[i]);
    }
}

static void string_put(const char *text, struct buf *out)
{
    help_text_put(slice_str(text), out);
}

static void fence(bool *inside, bool wanted, struct buf *out)
{
    if (*inside != wanted) BUF_LIT(out, "```\n");
    *inside = wanted;
}

/* A help text: its lines are one paragraph, save those that are indented. */
static void help_put(const char *help, struct buf *out)
{
    bool example = false;
    for (const char *p = help; *p != '\0';) {
        size_t n = strcspn(p, "\n");
        bool indented = strspn(p, " ") >= WIDTH;
        if (indented && !example) buf_put_char(out, '\n');
        fence(&example, indented, out);
        if (indented)
            buf_put(out, p, n);
        else
            help_text_put(slice_of(p, n), out);
        buf_put_char(out, '\n');
        p += n + (p[n] == '\n');
    }
    fence(&example, false, out);
    buf_put_char(out, '\n');
}

static void option_manual_put(const struct option *o, struct buf *out)
{
    if (o->letter != 0) buf_printf(out, "*-%c*, ", o->letter);
    buf_printf(out, "*--%s*", o->name);
    if (o->argument != NULL) buf_printf(out, o->kind == OPTION_SECONDS ? " [_%s_]" : " _%s_", o->argument);
    BUF_LIT(out, "\n\t");
    string_put(o->help, out);
    BUF_LIT(out, "\n\n");
}

static void verb_put(int verb, struct buf *out)
{
    const struct verb *v = &verbs[verb];
    struct buf usage = {0};
    usage_put(v, &usage);
    buf_printf(out, "## tallyd %s\n\n*tallyd %s* ", v->name, v->name);
    help_text_put(buf_slice(&usage), out);
    BUF_LIT(out, "\n\n");
    help_put(v->help, out);
    for (size_t i = 0; i < options_n; i++)
        if (option_of(&options[i], verb) && options[i].letter == 0) option_manual_put(&options[i], out);
    buf_free(&usage);
}

static void program_put(struct buf *out)
{
    BUF_LIT(out, "tallyd(1)\n\n# NAME\n\ntallyd - counts hits in Redis and merges them into MySQL, each "
                 "exactly once\n\n"
                 "# SYNOPSIS\n\n");
    for (size_t i = 0; i < verbs_n; i++) {
        struct buf usage = {0};
        usage_put(&verbs[i], &usage);
        buf_printf(out, "*tallyd %s* ", verbs[i].name);
        help_text_put(buf_slice(&usage), out);
        buf_printf(out, "%s\n", i + 1 < verbs_n ? "++" : "");
        buf_free(&usage);
    }
    BUF_LIT(out,
            "\n# DESCRIPTION\n\n"
            "A write\\-behind counter service. Programs send increments to its socket with any Redis client. "
            "It adds them up in Redis and merges them into MySQL in batches, each exactly once, whatever "
            "fails. Its configuration is *tallyd.yaml*(5).\n\n# VERBS\n\n");
    for (size_t i = 0; i < verbs_n; i++)
        verb_put((int)i, out);
}

static void common_put(struct buf *out)
{
    BUF_LIT(out, "# COMMON OPTIONS\n\n");
    for (size_t i = 0; i < options_n; i++)
        if (options[i].letter != 0) option_manual_put(&options[i], out);
    BUF_LIT(out, "# EXIT STATUS\n\n");
#define X(code, status, text)                                                                                \
    buf_printf(out, "*%d*\n\t", status);                                                                     \
    string_put(text, out);                                                                                   \
    BUF_LIT(out, "\n\n");
    ERROR_CODES(X)
#undef X
    BUF_LIT(out, "# ENVIRONMENT\n\n*TALLYD\\_REDIS\\_PASSWORD*, *TALLYD\\_MYSQL\\_PASSWORD*\n"
                 "\tPasswords; they override those of the configuration.\n\n"
                 "*TALLYD\\_INSTANCE*\n\tThe option *instance*, and <instance> in addresses.\n\n"
                 "*NO\\_COLOR*\n\tWhen set, *tallyd status* uses no colours on a terminal.\n\n"
                 "# FILES\n\n_" CONF_PATH_DEFAULT "_\n\tThe configuration, unless *-c* names another.\n\n"
                 "# SIGNALS\n\n*SIGTERM*, *SIGINT*\n\t*tallyd run* accepts no more requests, answers those "
                 "in flight, and exits.\n\n"
                 "*SIGHUP*\n\t*tallyd run* reads its configuration again and applies the options that can be "
                 "reloaded.\n\n"
                 "# SEE ALSO\n\n*tallyd.yaml*(5)\n");
}

static void conf_option_put(void *arg, const struct conf_text *t)
{
    struct buf *out = arg;
    BUF_LIT(out, "*");
    string_put(t->path, out);
    BUF_LIT(out, "*");
    if (t->standard == NULL) BUF_LIT(out, " (must be given)");
    if (t->standard != NULL && t->standard[0] != '\0') {
        BUF_LIT(out, " = ");
        string_put(t->standard, out);
    }
    BUF_LIT(out, "\n\t");
    string_put(t->help, out);
    BUF_LIT(out, " \\(");
    help_text_put(t->expected, out);
    BUF_LIT(out, ").");
    if (t->reload) BUF_LIT(out, " A SIGHUP reloads it.");
    BUF_LIT(out, "\n\n");
}

static void file_put(struct buf *out)
{
    BUF_LIT(out,
            "tallyd.yaml(5)\n\n# NAME\n\ntallyd.yaml - the configuration of tallyd\n\n# DESCRIPTION\n\n"
            "A YAML file, by default _" CONF_PATH_DEFAULT
            "_. tallyd reads it strictly: it refuses every other option than these, and says line and "
            "column. *tallyd check* lists all errors in it. A "
            "path such as *counters.\\*.sync.hits* stands for nested names, where *\\** is the name of a "
            "counter. Durations are numbers with ms, s, m, h or d.\n\n# OPTIONS\n\n");
    conf_describe(conf_option_put, out);
    struct conf conf;
    conf_default(&conf);
    bool named =
        conf_set(&conf, CONF_INSTANCE, (const char *const[]){"shop-1"}, 1); /* not the builder's host */
    INVARIANT(named);
    BUF_LIT(out, "# EXAMPLE\n\n```\n");
    conf_write(&conf, out);
    conf_free(&conf);
    BUF_LIT(out, "```\n\n");
    BUF_LIT(out, "# SEE ALSO\n\n*tallyd*(1)\n");
}

enum err verb_manual(const struct call *call)
{
    struct buf out = {0};
    if (call->words[0][0] == '1') {
        program_put(&out);
        common_put(&out);
    } else {
        file_put(&out);
    }
    return text_print(&out);
}
