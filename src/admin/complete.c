/* admin/complete.c - `tallyd completion bash|zsh|fish`: a shell's completions, from the tables of verbs.c. Each shell
 * has its own form, but all offer the same: verbs, then the verb's first word and its options, and files or directories
 * where an option takes one. */
#include "admin/complete.h"

#include "admin/verbs.h"

static void one_of(const char *words, char between, struct buf *out)
{
    for (const char *p = words + strspn(words, "|"); *p != '\0'; p++)
        buf_put_char(out, *p == '|' ? between : *p);
}

static void option_word(void *arg, const struct conf_text *t)
{
    struct buf *words = arg;
    buf_printf(words, "%s%s", words->n > 0 ? "|" : "", t->path);
}

/* What the first word after the verb may be; for `help`: verbs and the options of the configuration. */
static void words_put(const struct verb *v, char between, struct buf *out)
{
    struct buf words = {0};
    if (v->words != NULL) {
        one_of(v->words, between, out);
        return;
    }
    for (size_t i = 0; i < verbs_n; i++)
        buf_printf(&words, "%s%s", i > 0 ? "|" : "", verbs[i].name);
    conf_describe(option_word, &words);
    buf_put_char(&words, '\0');
    one_of(words.p, between, out);
    buf_free(&words);
}

/* Inside single quotes; both bash and zsh end them for one of their own. */
static void quoted(const char *text, const char *quote, struct buf *out)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\'')
            buf_put_slice(out, slice_str(quote));
        else
            buf_put_char(out, *p);
    }
}

static bool verb_takes(size_t verb, const struct option *o)
{
    return option_of(o, (int)verb);
}

/* --- bash --- */

static void bash_verbs(char between, struct buf *out)
{
    for (size_t i = 0; i < verbs_n; i++) {
        if (i > 0) buf_put_char(out, between);
        buf_put_slice(out, slice_str(verbs[i].name));
    }
}

/* After an option that takes something, nothing else is offered. */
static void bash_arguments(struct buf *out)
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

static void bash_verb(size_t i, struct buf *out)
{
    buf_printf(out, "    %s) words=\"", verbs[i].name);
    for (size_t k = 0; k < options_n; k++)
        if (verb_takes(i, &options[k])) buf_printf(out, "--%s ", options[k].name);
    BUF_LIT(out, "\"\n");
    if (verbs[i].words != NULL || verbs[i].run == verb_help) {
        BUF_LIT(out, "        ((at + 1 == COMP_CWORD)) && words=\"");
        words_put(&verbs[i], ' ', out);
        BUF_LIT(out, " $words\"\n");
    }
    BUF_LIT(out, "        ;;\n");
}

static void bash_put(struct buf *out)
{
    BUF_LIT(out, "# tallyd(1) for bash: made by `tallyd completion bash`\n"
                 "_tallyd()\n{\n"
                 "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb= at words=\n"
                 "    COMPREPLY=()\n"
                 "    for ((at = 1; at < COMP_CWORD; at++)); do\n"
                 "        case ${COMP_WORDS[at]} in\n        ");
    bash_verbs('|', out);
    BUF_LIT(out, ") verb=${COMP_WORDS[at]}; break ;;\n        esac\n    done\n");
    bash_arguments(out);
    BUF_LIT(out, "    case $verb in\n    \"\") words=\"");
    bash_verbs(' ', out);
    BUF_LIT(out, " --help --version\" ;;\n");
    for (size_t i = 0; i < verbs_n; i++)
        bash_verb(i, out);
    BUF_LIT(
        out,
        "    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -F _tallyd tallyd\n");
}

/* --- zsh --- */

#define ZSH_QUOTE "'\\''"

/* Inside [...] of _arguments, and before the ':' of _describe. */
static void zsh_text(const char *text, struct buf *out)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '[' || *p == ']' || *p == ':' || *p == '\\') buf_put_char(out, '\\');
        quoted((const char[]){*p, '\0'}, ZSH_QUOTE, out);
    }
}

static void zsh_option(const struct option *o, struct buf *out)
{
    BUF_LIT(out, " \\\n            ");
    if (o->letter != 0)
        buf_printf(out, "'(-%c --%s)'{-%c,--%s}'", o->letter, o->name, o->letter, o->name);
    else
        buf_printf(out, "'--%s", o->name);
    buf_put_char(out, '[');
    zsh_text(o->help, out);
    buf_put_char(out, ']');
    if (o->argument != NULL)
        buf_printf(out, "%s:%s:%s", o->kind == OPTION_SECONDS ? ":" : "", o->argument,
                   o->kind == OPTION_FILE  ? "_files"
                   : o->kind == OPTION_DIR ? "_directories"
                                           : " ");
    buf_put_char(out, '\'');
}

static void zsh_verb(size_t i, struct buf *out)
{
    buf_printf(out, "        (%s)\n            _arguments", verbs[i].name);
    for (size_t k = 0; k < options_n; k++)
        if (verb_takes(i, &options[k])) zsh_option(&options[k], out);
    if (verbs[i].words != NULL || verbs[i].run == verb_help) {
        BUF_LIT(out, " \\\n            '1:what:(");
        words_put(&verbs[i], ' ', out);
        BUF_LIT(out, ")'");
    }
    if (verbs[i].words != NULL && verbs[i].further != NULL) BUF_LIT(out, " '*:ID: '");
    BUF_LIT(out, "\n            ;;\n");
}

static void zsh_put(struct buf *out)
{
    BUF_LIT(out,
            "#compdef tallyd\n# tallyd(1) for zsh: made by `tallyd completion zsh`\n"
            "_tallyd() {\n    local curcontext=$curcontext state line\n    local -a verbs\n    verbs=(\n");
    for (size_t i = 0; i < verbs_n; i++) {
        buf_printf(out, "        '%s:", verbs[i].name);
        zsh_text(verbs[i].summary, out);
        BUF_LIT(out, "'\n");
    }
    BUF_LIT(out, "    )\n"
                 "    _arguments -C '(- *)'{-h,--help}'[this text]' '(- *)'{-V,--version}'[the version]' \\\n"
                 "        '1:verb:->verb' '*::argument:->rest' && return\n"
                 "    case $state in\n"
                 "    (verb) _describe verb verbs ;;\n"
                 "    (rest)\n        case $words[1] in\n");
    for (size_t i = 0; i < verbs_n; i++)
        zsh_verb(i, out);
    BUF_LIT(out, "        esac\n        ;;\n    esac\n}\n"
                 "if [[ $funcstack[1] == _tallyd ]]; then _tallyd \"$@\"; else compdef _tallyd tallyd; fi\n");
}

/* --- fish --- */

#define FISH_QUOTE "\\'"

static void fish_option(const struct option *o, struct buf *out)
{
    BUF_LIT(out, "complete -c tallyd -n '__fish_seen_subcommand_from");
    for (size_t i = 0; i < verbs_n; i++)
        if (verb_takes(i, o)) buf_printf(out, " %s", verbs[i].name);
    buf_put_char(out, '\'');
    if (o->letter != 0) buf_printf(out, " -s %c", o->letter);
    buf_printf(out, " -l %s", o->name);
    if (o->kind == OPTION_FILE) BUF_LIT(out, " -r -F");
    if (o->kind == OPTION_DIR) BUF_LIT(out, " -x -a '(__fish_complete_directories)'");
    if (o->kind == OPTION_TEXT || o->kind == OPTION_TEXTS || o->kind == OPTION_COUNTER ||
        o->kind == OPTION_NUMBER)
        BUF_LIT(out, " -x");
    BUF_LIT(out, " -d '");
    quoted(o->help, FISH_QUOTE, out);
    BUF_LIT(out, "'\n");
}

static void fish_verb(const struct verb *v, struct buf *out)
{
    buf_printf(out, "complete -c tallyd -n __fish_use_subcommand -a %s -d '", v->name);
    quoted(v->summary, FISH_QUOTE, out);
    BUF_LIT(out, "'\n");
    if (v->words == NULL && v->run != verb_help) return;
    buf_printf(out,
               "complete -c tallyd -n '__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from ",
               v->name);
    words_put(v, ' ', out);
    BUF_LIT(out, "' -a '");
    words_put(v, ' ', out);
    BUF_LIT(out, "'\n");
}

static void fish_put(struct buf *out)
{
    BUF_LIT(out, "# tallyd(1) for fish: made by `tallyd completion fish`\ncomplete -c tallyd -f\n"
                 "complete -c tallyd -n __fish_use_subcommand -s h -l help -d 'this text'\n"
                 "complete -c tallyd -n __fish_use_subcommand -s V -l version -d 'the version'\n");
    for (size_t i = 0; i < verbs_n; i++)
        fish_verb(&verbs[i], out);
    for (size_t i = 0; i < options_n; i++)
        fish_option(&options[i], out);
}

/* --- */

void completion_put(const char *shell, struct buf *out)
{
    if (strcmp(shell, "bash") == 0)
        bash_put(out);
    else if (strcmp(shell, "zsh") == 0)
        zsh_put(out);
    else
        fish_put(out);
}

enum err verb_completion(const struct call *call)
{
    struct buf out = {0};
    completion_put(call->words[0], &out);
    return text_print(&out);
}
