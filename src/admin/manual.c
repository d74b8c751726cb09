/* admin/manual.c - `tallyd manual 1|5`: tallyd(1) and tallyd.yaml(5) as scdoc(5), from the tables of verbs.c, of the
 * configuration and of the exit statuses. */
#include "admin/verbs.h"

#include <stdio.h>

#define WIDTH 4 /* of the indentation that makes a line of a help text an example */

/* Bytes that scdoc could take for markup are escaped, all of them: it prints the next byte as it is. */
static void text_put(struct slice text, struct buf *out)
{
    for (size_t i = 0; i < text.n; i++) {
        if (strchr("\\*_[]|#;<>+-.~`", text.p[i]) != NULL) buf_put_char(out, '\\');
        buf_put_char(out, text.p[i]);
    }
}

static void string_put(const char *text, struct buf *out)
{
    text_put(slice_str(text), out);
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
            text_put(slice_of(p, n), out);
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
    text_put(buf_slice(&usage), out);
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
        text_put(buf_slice(&usage), out);
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
    text_put(t->expected, out);
    BUF_LIT(out, ").");
    if (t->reload) BUF_LIT(out, " A SIGHUP reloads it.");
    BUF_LIT(out, "\n\n");
}

static void example_put(struct buf *out)
{
    struct conf conf;
    conf_default(&conf);
    bool named =
        conf_set(&conf, CONF_INSTANCE, (const char *const[]){"shop-1"}, 1); /* not the builder's host */
    INVARIANT(named);
    BUF_LIT(out, "# EXAMPLE\n\n```\n");
    conf_write(&conf, out);
    BUF_LIT(out, "```\n\n");
    conf_free(&conf);
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
    example_put(out);
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
