/* admin/verbs.c - the table of verbs and options. */
#include "admin/verbs.h"

enum verb_set { RUN = 1, CHECK = 2, MIGRATE = 4, STATUS = 8, VERIFY = 16, RECOVER = 32, DEV = 64, ALL = 127 };

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
#define STATUS_HELP                                                                                          \
    "How it all stands, on one screen: the service, Redis, MySQL, what waits to be merged, the batches, "    \
    "and\n"                                                                                                  \
    "what is wrong with the next step. What cannot be told is shown as ? with the reason. Exits with 0 "     \
    "when all\n"                                                                                             \
    "is well, 1 when something is not, 69 when Redis or MySQL cannot be reached.\n"
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
    {"run", NULL, NULL, "run the service", RUN_HELP, verb_run},
    {"check", NULL, NULL, "list what keeps tallyd from running, with the mend", CHECK_HELP, verb_check},
    {"migrate", NULL, NULL, "make tallyd's tables in MySQL", MIGRATE_HELP, verb_migrate},
    {"status", NULL, NULL, "show how it all stands, and what is wrong", STATUS_HELP, verb_status},
    {"verify", NULL, NULL, "prove that the books balance", VERIFY_HELP, verb_verify},
    {"recover", NULL, NULL, "take over what dead tallyds left", RECOVER_HELP, verb_recover},
    {"dev", NULL, NULL, "try it: private Redis, MariaDB and tallyd", DEV_HELP, verb_dev},
};
const size_t verbs_n = sizeof(verbs) / sizeof(verbs[0]);

#define AT(member) offsetof(struct call, member)
const struct option options[] = {
    {"config", 'c', OPTION_FILE, "FILE", AT(conf_path), ALL, "the configuration"},
    {"tables", 0, OPTION_SWITCH, NULL, AT(tables), MIGRATE, "also the tables that the configuration names"},
    {"print", 0, OPTION_SWITCH, NULL, AT(print), MIGRATE, "only print the SQL; nothing is connected to"},
    {"json", 0, OPTION_SWITCH, NULL, AT(json), STATUS, "as JSON, for programs"},
    {"watch", 0, OPTION_SECONDS, "SECONDS", AT(watch_s), STATUS,
     "again and again, by default every 2 seconds, until Ctrl-C"},
    {"dry-run", 0, OPTION_SWITCH, NULL, AT(dry_run), RECOVER, "change nothing, name what would be done"},
    {"reject-unknown", 0, OPTION_SWITCH, NULL, AT(reject_unknown), RECOVER,
     "batches of counters that are not configured any more: their rows go to tally_rejects"},
    {"accept-rollback", 0, OPTION_SWITCH, NULL, AT(accept_rollback), RECOVER,
     "go on with a Redis that lost merged batches (what came back with it counts twice)"},
    {"dir", 0, OPTION_DIR, "DIR", AT(dir), DEV, "where its data lives, by default " DEV_DIR_DEFAULT},
    {"help", 'h', OPTION_SWITCH, NULL, AT(help), ALL, "this text"},
};
const size_t options_n = sizeof(options) / sizeof(options[0]);
