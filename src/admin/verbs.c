/* admin/verbs.c - the table of verbs and options, and what reads the command line by it. */
#include "admin/verbs.h"

#include "conf/near.h"

#include <stdio.h>

enum verb_set { RUN = 1, CHECK = 2, MIGRATE = 4, VERIFY = 8, RECOVER = 16, DEV = 32, ALL = 63 };

#define RUN_HELP                                                                                             \
    "Runs the service in the foreground until SIGTERM or SIGINT; it then takes no more, answers what is "    \
    "in\n"                                                                                                   \
    "flight and exits with 0. SIGHUP reads the configuration again and takes over what can be reloaded.\n"   \
    "Logs are logfmt on stderr.\n"
#define CHECK_HELP                                                                                           \
    "Looks at the configuration, at Redis and at MySQL, changes nothing, and lists every problem with "      \
    "what\n"                                                                                                 \
    "mends it. Exits with 0 when tallyd may run, 69 when Redis or MySQL cannot be reached, 78 when the\n"    \
    "configuration, a setting of theirs or the schema has to be changed.\n"
#define MIGRATE_HELP                                                                                         \
    "Brings tallyd's own tables (tally_...) to the version of this program. Safe to repeat.\n"
#define VERIFY_HELP                                                                                          \
    "Proves the books of every counter, also under traffic:\n"                                               \
    "    accepted = merged + rejected + pending + claimed and not yet in the ledger\n"                       \
    "Exits with 0 when all balance, 1 when one does not, and says which, by how much, and the next step.\n"
#define RECOVER_HELP                                                                                         \
    "Takes over what dead tallyds left: batches of theirs, and claimed hashes that no batch knows. Through " \
    "the\n"                                                                                                  \
    "running service when there is one, else by itself. Safe to repeat and to interrupt: what is merged is " \
    "in\n"                                                                                                   \
    "the ledger, so nothing counts twice.\n"
#define DEV_HELP                                                                                             \
    "Everything for a first try, on this machine alone: a private redis-server and mariadbd on unix "        \
    "sockets\n"                                                                                              \
    "under --dir, migrated, and tallyd with the configuration's counters (by default two: unique_visitors "  \
    "and\n"                                                                                                  \
    "product_views). Prints how to connect. Ctrl-C stops all three, nothing is lost; the next `tallyd dev` " \
    "with\n"                                                                                                 \
    "the same --dir goes on where it stopped. Their logs are files under --dir.\n"

const struct verb verbs[] = {
    {"run", "[-c FILE]", "run the service", RUN_HELP, verb_run},
    {"check", "[-c FILE]", "list what keeps tallyd from running, with the mend", CHECK_HELP, verb_check},
    {"migrate", "[-c FILE] [--tables] [--print]", "make tallyd's tables in MySQL", MIGRATE_HELP,
     verb_migrate},
    {"verify", "[-c FILE]", "prove that the books balance", VERIFY_HELP, verb_verify},
    {"recover", "[-c FILE] [--dry-run] [--reject-unknown] [--accept-rollback]",
     "take over what dead tallyds left", RECOVER_HELP, verb_recover},
    {"dev", "[--dir DIR] [-c FILE]", "try it: private Redis, MariaDB and tallyd", DEV_HELP, verb_dev},
};
const size_t verbs_n = sizeof(verbs) / sizeof(verbs[0]);

static const struct option {
    const char *name;
    char letter;          /* 0: none */
    const char *argument; /* NULL: a switch */
    size_t at;            /* in struct call: a const char * with an argument, else a bool */
    unsigned verbs;
    const char *help;
} options[] = {
    {"config", 'c', "FILE", offsetof(struct call, conf_path), ALL, "the configuration"},
    {"tables", 0, NULL, offsetof(struct call, tables), MIGRATE,
     "also the tables that the configuration names"},
    {"print", 0, NULL, offsetof(struct call, print), MIGRATE, "only print the SQL; nothing is connected to"},
    {"dry-run", 0, NULL, offsetof(struct call, dry_run), RECOVER, "change nothing, name what would be done"},
    {"reject-unknown", 0, NULL, offsetof(struct call, reject_unknown), RECOVER,
     "batches of counters that are not configured any more: their rows go to tally_rejects"},
    {"accept-rollback", 0, NULL, offsetof(struct call, accept_rollback), RECOVER,
     "go on with a Redis that lost merged batches (what came back with it counts twice)"},
    {"dir", 0, "DIR", offsetof(struct call, dir), DEV, "where its data lives, by default " DEV_DIR_DEFAULT},
    {"help", 'h', NULL, offsetof(struct call, help), ALL, "this text"},
};
#define OPTIONS (sizeof(options) / sizeof(options[0]))

/* Before the verb stands only --help. */
static bool takes(const struct option *o, int verb)
{
    return verb < 0 ? o->letter == 'h' : (o->verbs >> verb & 1) != 0;
}

static enum err unknown_verb(const char *word, struct error *e)
{
    const char *names[16], *nearest;
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
    const char *names[OPTIONS], *nearest, *verb_name = verb < 0 ? "" : verbs[verb].name;
    char shown[64];
    size_t n = 0, dashes = strspn(word, "-");
    for (size_t i = 0; i < OPTIONS; i++)
        if (takes(&options[i], verb)) names[n++] = options[i].name;
    slice_show(slice_of(word, strcspn(word, "=")), 40, shown, sizeof(shown));
    nearest = near_name(slice_of(word + dashes, strcspn(word + dashes, "=")), names, n);
    if (nearest != NULL)
        return error_set(e, ERR_USAGE, "tallyd%s%s has no option %s, did you mean --%s?", verb < 0 ? "" : " ",
                         verb_name, shown, nearest);
    return error_set(e, ERR_USAGE, "tallyd%s%s has no option %s; `tallyd%s%s --help` lists them",
                     verb < 0 ? "" : " ", verb_name, shown, verb < 0 ? "" : " ", verb_name);
}

/* --name, --name=value, -c, -cvalue. *value is what stands in the same word, NULL: nothing. */
static const struct option *option_find(const char *word, int verb, const char **value)
{
    *value = NULL;
    for (size_t i = 0; i < OPTIONS; i++) {
        const struct option *o = &options[i];
        size_t n = strlen(o->name);
        if (!takes(o, verb)) continue;
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

/* Stores one option; *at is its word's index, moved on to the argument's when that is the next word. */
static enum err option_read(int argc, char **argv, int *at, int verb, struct call *call, struct error *e)
{
    const char *value;
    const struct option *o = option_find(argv[*at], verb, &value);
    if (o == NULL) return unknown_option(argv[*at], verb, e);
    void *to = (char *)call + o->at;
    if (o->argument == NULL) {
        if (value != NULL) return error_set(e, ERR_USAGE, "--%s takes no value", o->name);
        *(bool *)to = true;
        return ERR_NONE;
    }
    if (value == NULL && *at + 1 < argc) value = argv[++*at];
    if (value == NULL || value[0] == '\0')
        return error_set(e, ERR_USAGE, "--%s needs a value: --%s %s", o->name, o->name, o->argument);
    *(const char **)to = value;
    return ERR_NONE;
}

static int verb_find(const char *name)
{
    for (size_t i = 0; i < verbs_n; i++)
        if (strcmp(verbs[i].name, name) == 0) return (int)i;
    return -1;
}

enum err call_read(int argc, char **argv, struct call *call, int *verb, bool *version, struct error *e)
{
    *verb = -1;
    *version = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (*verb < 0 && (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)) {
            *version = true;
        } else if (word[0] == '-' && word[1] != '\0') {
            enum err code = option_read(argc, argv, &i, *verb, call, e);
            if (code != ERR_NONE) return code;
        } else if (*verb < 0) {
            *verb = verb_find(word);
            if (*verb < 0) return unknown_verb(word, e);
        } else {
            return error_set(e, ERR_USAGE, "tallyd %s takes options only; \"%.40s\" is none",
                             verbs[*verb].name, word);
        }
    }
    if (*verb < 0 && !call->help && !*version)
        return error_set(e, ERR_USAGE, "which verb? `tallyd --help` lists them, `tallyd dev` is a first try");
    return ERR_NONE;
}

static void options_help(int verb, struct buf *out)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        const struct option *o = &options[i];
        char left[64];
        if (!takes(o, verb)) continue;
        snprintf(left, sizeof(left), "%s--%s%s%s",
                 o->letter == 'c'   ? "-c, "
                 : o->letter == 'h' ? "-h, "
                                    : "    ",
                 o->name, o->argument == NULL ? "" : " ", o->argument == NULL ? "" : o->argument);
        bool file = o->letter == 'c';
        bool dev = verb >= 0 && verbs[verb].run == verb_dev;
        buf_printf(out, "  %-22s %s%s\n", left, o->help,
                   !file ? ""
                   : dev ? "; by default none is needed"
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
    BUF_LIT(out, "\n`tallyd VERB --help` tells more. Exit status:\n");
#define X(code, status, text) buf_printf(out, "  %-10d %s\n", status, text);
    ERROR_CODES(X)
#undef X
    BUF_LIT(out, "\nOptions of the configuration file, with their defaults:\n");
    conf_help(out);
}

void help_verb(const struct verb *verb, struct buf *out)
{
    buf_printf(out, "usage: tallyd %s %s\n\n%s\n", verb->name, verb->arguments, verb->help);
    options_help((int)(verb - verbs), out);
    if (verb->run != verb_run) return;
    BUF_LIT(out, "\nOptions of the configuration file, with their defaults:\n");
    conf_help(out);
}
