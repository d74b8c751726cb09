/* The command line: what is taken, what is refused and with which sentence, and that the help names
 * everything. */
#include "lib/unit.h"

#include "admin/verbs.h"

#include <stdio.h>

#define WORDS_MAX 16

struct line {
    struct call call;
    int verb;
    bool version;
    struct error e;
    enum err code;
};

/* Reads "check -c x" as main would get it, split at spaces. */
static struct line read_line(const char *text)
{
    static char words[200];
    static char *argv[WORDS_MAX + 2];
    char *rest = NULL;
    int argc = 1;
    struct line l = {.call = {.dir = "default"}};
    argv[0] = "tallyd";
    snprintf(words, sizeof(words), "%s", text);
    for (char *w = strtok_r(words, " ", &rest); w != NULL; w = strtok_r(NULL, " ", &rest))
        argv[argc++] = w;
    l.code = call_read(argc, argv, &l.call, &l.verb, &l.version, &l.e);
    return l;
}

static void refused(const char *text, const char *expected)
{
    struct line l = read_line(text);
    assert_int_equal(l.code, ERR_USAGE);
    assert_string_equal(l.e.text, expected);
    assert_int_equal(error_exit_status(l.code), 64);
}

UNIT(test_taken)
{
    struct line l = read_line("check -c a.yaml");
    assert_int_equal(l.code, ERR_NONE);
    assert_string_equal(verbs[l.verb].name, "check");
    assert_string_equal(l.call.conf_path, "a.yaml");
    assert_string_equal(read_line("check -ca.yaml").call.conf_path, "a.yaml");
    assert_string_equal(read_line("check --config=a.yaml").call.conf_path, "a.yaml");
    assert_string_equal(read_line("check --config a.yaml").call.conf_path, "a.yaml");
    assert_null(read_line("check").call.conf_path);
    l = read_line("recover --dry-run --reject-unknown --accept-rollback");
    assert_true(l.code == ERR_NONE && l.call.dry_run && l.call.reject_unknown && l.call.accept_rollback);
    l = read_line("recover");
    assert_false(l.call.dry_run || l.call.reject_unknown || l.call.accept_rollback);
    l = read_line("migrate --print --tables");
    assert_true(l.code == ERR_NONE && l.call.print && l.call.tables);
    assert_int_equal(read_line("status").call.watch_s, 0);
    assert_int_equal(read_line("status --watch").call.watch_s, WATCH_S_DEFAULT);
    assert_int_equal(read_line("status --watch 5").call.watch_s, 5);
    l = read_line("status --watch --json");
    assert_true(l.code == ERR_NONE && l.call.watch_s == WATCH_S_DEFAULT && l.call.json);
    l = read_line("rejects replay a -c x b --counter c d");
    assert_int_equal(l.code, ERR_NONE);
    assert_int_equal(l.call.words_n, 4);
    assert_string_equal(l.call.words[0], "replay");
    assert_string_equal(l.call.words[1], "a");
    assert_string_equal(l.call.words[2], "b");
    assert_string_equal(l.call.words[3], "d");
    assert_string_equal(l.call.counter, "c");
    l = read_line("suggest t --key a --counter c --key=b");
    assert_true(l.code == ERR_NONE && l.call.words_n == 1 && l.call.examples.n == 2 && l.call.key == NULL);
    assert_string_equal(l.call.words[0], "t");
    assert_string_equal(l.call.examples.all[1], "b");
    assert_string_equal(l.call.counter, "c");
    assert_int_equal(read_line("rejects list --limit 1000000").call.limit, 1000000);
    assert_string_equal(read_line("dev --dir here").call.dir, "here");
    assert_string_equal(read_line("dev").call.dir, "default");
}

UNIT(test_help_and_version)
{
    struct line l = read_line("--help");
    assert_true(l.code == ERR_NONE && l.call.help && l.verb == -1);
    l = read_line("-h");
    assert_true(l.code == ERR_NONE && l.call.help);
    l = read_line("verify --help");
    assert_true(l.code == ERR_NONE && l.call.help && strcmp(verbs[l.verb].name, "verify") == 0);
    l = read_line("--version");
    assert_true(l.code == ERR_NONE && l.version);
}

UNIT(test_refused)
{
    refused("", "which verb? `tallyd --help` lists them; `tallyd dev` is a good start");
    refused("chekc", "there is no verb \"chekc\", did you mean \"check\"?");
    refused("frobnicate", "there is no verb \"frobnicate\"; `tallyd --help` lists them");
    refused("stauts", "there is no verb \"stauts\", did you mean \"status\"?");
    refused("rejects",
            "tallyd rejects needs one of list|export|replay|drop; `tallyd rejects --help` says what they do");
    refused("rejects lits", "tallyd rejects takes list|export|replay|drop, not \"lits\"");
    refused("rejects list --limit 0", "--limit takes a number from 1 to 1000000, not \"0\"");
    refused("rejects list --limit=1000001", "--limit takes a number from 1 to 1000000, not \"1000001\"");
    refused("rejects list --limit", "--limit needs a value: --limit N");
    refused("status --watch=0", "--watch takes a number of seconds from 1 to 86400, not \"0\"");
    refused("status --watch 86401", "--watch takes a number of seconds from 1 to 86400, not \"86401\"");
    refused("status --watch=", "--watch takes a number of seconds from 1 to 86400, not \"\"");
    refused("status --watch often", "tallyd status takes options only; \"often\" is not one");
    refused("run --dry-run", "tallyd run has no option --dry-run; `tallyd run --help` lists them");
    refused("recover --dryrun", "tallyd recover has no option --dryrun, did you mean --dry-run?");
    refused("recover --dry-run=yes", "--dry-run takes no value");
    refused("check --confg=x", "tallyd check has no option --confg, did you mean --config?");
    refused("check -c", "--config needs a value: --config FILE");
    refused("check --config=", "--config needs a value: --config FILE");
    refused("check a.yaml", "tallyd check takes options only; \"a.yaml\" is not one");
    refused("check -x", "tallyd check has no option -x; `tallyd check --help` lists them");
    refused("--tables migrate", "tallyd has no option --tables; `tallyd --help` lists them");
    refused("migrate --version",
            "tallyd migrate has no option --version; `tallyd migrate --help` lists them");
}

UNIT(test_help_texts)
{
    struct buf text = {0};
    help_all(&text);
    buf_put_char(&text, '\0');
    for (size_t i = 0; i < verbs_n; i++)
        assert_non_null(strstr(text.p, verbs[i].summary));
    assert_non_null(strstr(text.p, "\n  69 "));
    size_t lines = 0;
    for (const char *p = text.p; (p = strchr(p, '\n')) != NULL; p++)
        lines++;
    assert_true(lines <= 40); /* one screen */
    /* each verb's own help has the options that it takes, in its usage and in the list, and no other verb's */
    for (size_t i = 0; i < verbs_n; i++) {
        buf_reset(&text);
        help_verb(&verbs[i], &text);
        buf_put_char(&text, '\0');
        assert_non_null(strstr(text.p, verbs[i].help));
        for (size_t k = 0; k < options_n; k++) {
            char in_usage[40], in_list[40];
            bool takes = false; /* one of that name: --key and --counter are another thing to suggest */
            for (size_t j = 0; j < options_n; j++)
                takes |= strcmp(options[j].name, options[k].name) == 0 && option_of(&options[j], (int)i);
            snprintf(in_usage, sizeof(in_usage), "[--%s", options[k].name);
            snprintf(in_list, sizeof(in_list), "--%s", options[k].name);
            if (options[k].letter == 0) assert_int_equal(strstr(text.p, in_usage) != NULL, takes);
            assert_int_equal(strstr(strstr(text.p, verbs[i].help) + strlen(verbs[i].help), in_list) != NULL,
                             takes);
        }
    }
    buf_free(&text);
}
