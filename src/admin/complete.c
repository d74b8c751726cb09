/* admin/complete.c - `tallyd completion bash`: the shell's completions, from the tables of verbs.c. They offer verbs, then the
 * verb's first word and its options, and files or directories where an option takes one. */
#include "admin/verbs.h"

static void option_word(void *arg, const struct conf_text *t)
{
    buf_printf(arg, " %s", t->path);
}

/* What the first word after the verb may be; for `help`: verbs and the options of the configuration. */
static void words_put(const struct verb *v, struct buf *out)
{
    for (const char *p = v->words; p != NULL && *p != '\0'; p++)
        buf_put_char(out, *p == '|' ? ' ' : *p);
    if (v->words != NULL) return;
    for (size_t i = 0; i < verbs_n; i++)
        buf_printf(out, "%s%s", i > 0 ? " " : "", verbs[i].name);
    conf_describe(option_word, out);
}

static bool verb_takes(size_t verb, const struct option *o)
{
    return option_of(o, (int)verb);
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
        if (verb_takes(i, &options[k])) buf_printf(out, "--%s ", options[k].name);
    BUF_LIT(out, "\"\n");
    if (verbs[i].words != NULL || verbs[i].run == verb_help) {
        BUF_LIT(out, "        ((at + 1 == COMP_CWORD)) && words=\"");
        words_put(&verbs[i], out);
        BUF_LIT(out, " $words\"\n");
    }
    BUF_LIT(out, "        ;;\n");
}

static void completion_put(struct buf *out)
{
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
}

enum err verb_completion(const struct call *call)
{
    struct buf out = {0};
    (void)call;
    completion_put(&out);
    return text_print(&out);
}
