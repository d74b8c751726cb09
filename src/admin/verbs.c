/* admin/verbs.c - the table of verbs and options. */
#include "admin/verbs.h"

enum {
    RUN,
    CHECK,
    SUGGEST,
    MIGRATE,
    STATUS,
    VERIFY,
    REJECTS,
    ADJUST,
    RECOVER,
    MOVE,
    HASH,
    DEV,
    COMPLETION,
    MANUAL,
    HELP,
    VERBS
};

#define OF(verb) (1u << (verb))
#define OF_ALL (OF(VERBS) - 1)
#define OF_CONFIGURED (OF_ALL - OF(HASH) - OF(COMPLETION) - OF(MANUAL) - OF(HELP))

#define RUN_HELP                                                                                             \
    "Runs the service in the foreground until SIGTERM or SIGINT. It then accepts no more requests,\n"        \
    "answers those in flight and exits with 0. SIGHUP reads the configuration again and applies the\n"       \
    "options that can be reloaded. Logs are logfmt on stderr.\n"
#define CHECK_HELP                                                                                           \
    "Looks at the configuration, at Redis and at MySQL, changes nothing, and lists every problem with the\n" \
    "remedy. It tries rows in each counter's table, in a transaction that is rolled back. Exits with 0\n"    \
    "when tallyd can run, 69 when Redis or MySQL cannot be reached, 78 when the configuration, a setting\n"  \
    "of theirs or the schema has to be changed.\n"
#define SUGGEST_HELP                                                                                         \
    "Reads a table of the shop and examples of what its apps send, and prints the lines of the\n"            \
    "configuration that fit, for the place under `counters:`. Comments say what was guessed, and what\n"     \
    "`tallyd check` would ask for. Needs no counters in the configuration, and changes nothing:\n"           \
    "    tallyd suggest product_views --key 'HINCRBY store:1:product:42:views 20240501 1'\n"                 \
    "The more examples, the better it sees which words of a key vary. Exits with 78 when the table could\n"  \
    "be no counter's.\n"
#define MIGRATE_HELP                                                                                         \
    "Brings tallyd's own tables (tally_...) to the version of this program, makes those again that were\n"   \
    "dropped, and says what is lost with them. Safe to repeat. Only the operator can say that\n"             \
    "tally_ledger is lost: an empty one does not know which batches in Redis were merged, so their merged\n" \
    "parts count again. So:\n"                                                                               \
    "    tallyd migrate                 refuses, and names those batches\n"                                  \
    "    tallyd migrate --ledger-lost   with every tallyd of this Redis stopped\n"                           \
    "    tallyd verify                  how much will be counted twice: the hits that are too many\n"
#define STATUS_HELP                                                                                          \
    "Shows the state on one screen: the service, Redis, MySQL, the backlog, the batches, and each problem\n" \
    "with the next step. A ? is a figure that is unknown, with the reason. Exits with 0 when all is well,\n" \
    "1 when something is wrong, 69 when Redis or MySQL cannot be reached.\n"
#define VERIFY_HELP                                                                                          \
    "Proves the books of every counter, or of one, also under traffic:\n"                                    \
    "    accepted = merged + rejected + pending + claimed and not yet in the ledger\n"                       \
    "With --store it proves four things of one store. Each of its counts is in exactly one place (a\n"       \
    "row in MySQL, the pending hash, or a claimed hash whose chunk the ledger does not have). Pending\n"     \
    "hashes are in the index of what is to be merged. No field was lost since a claim. All values are\n"     \
    "integers, and the fields of the counter's kind. It does not prove that no hit is missing:\n"            \
    "accepted hits are summed by counter, not by store. Where several Redis are merged into one MySQL\n"     \
    "it proves the one of the configuration; --all names the others, with what is merged of each.\n"         \
    "Exits with 0 when all balance, and with 1 when one does not. Then it says which, by how much, and\n"    \
    "the next step.\n"
#define REJECTS_HELP                                                                                         \
    "Rows that MySQL refused wait in tally_rejects, raw, with the reason. When the cause is mended:\n"       \
    "    list     shows those that wait, oldest first; --by reason: a line for each reason, with the "       \
    "count\n"                                                                                                \
    "    export   prints all of them as CSV\n"                                                               \
    "    replay   puts them into the merchant's table, each exactly once; a row refused again remains\n"     \
    "    drop     gives them up for good; only says what it would drop, unless --yes\n"                      \
    "replay and drop want IDs, as list shows them, or --counter, --store or --all. The books always\n"       \
    "balance: a replayed row moves from rejected to merged, the sum of dropped ones remains in rejected.\n"  \
    "Exits with 1 when MySQL refused a row again or an ID does not wait.\n"
#define ADJUST_HELP                                                                                          \
    "Corrects a stored count by hand, and keeps the reason: --by adds to it, --set makes it that figure.\n"  \
    "Hits that are not merged yet are added on top. The same --id again changes nothing, so a command\n"     \
    "that failed may be repeated. Without --id adjust makes one and prints it.\n"                            \
    "    tallyd adjust --counter product_views --store 12345 --field 42 --by -300 --reason \"crawler\"\n"    \
    "    tallyd adjust list    shows the adjustments, the newest first\n"                                    \
    "`tallyd verify` shows the sum by counter as adjusted; the books balance without it. Exits with 1\n"     \
    "when MySQL refuses the new figure, or the id was used for another adjustment.\n"
#define RECOVER_HELP                                                                                         \
    "Takes over what dead tallyds left: their batches, and claimed hashes that no batch knows. Asks the\n"   \
    "running service to do it, or does it itself when none runs. Safe to repeat and to interrupt: the\n"     \
    "ledger has what is merged, so nothing counts twice.\n"
#define MOVE_HELP                                                                                            \
    "Moves the counts of one Redis to a Redis Cluster. Each hit remains counted once:\n"                     \
    "    tallyd check -c cluster.yaml                      the new configuration\n"                          \
    "    tallyd migrate --another-redis -c cluster.yaml    MySQL counts for one Redis more\n"                \
    "    tallyd move --from tallyd.yaml -c cluster.yaml\n"                                                   \
    "    tallyd run -c cluster.yaml                        in place of the old tallyds\n"                    \
    "It copies series, timeboxes, events, visitors and tokens while the old tallyds count. Then they\n"      \
    "refuse hits with an error that says that nothing was counted, the rest is copied, and the cluster\n"    \
    "takes hits. Last it merges what waits in the old Redis. Safe to interrupt: run it again.\n"
#define HASH_HELP                                                                                            \
    "Reads a password, and prints the yescrypt hash for users.*.password in the configuration. On a\n"       \
    "terminal it asks twice and shows nothing; otherwise it reads one line of stdin. A password is never\n"  \
    "an argument, where all users of a machine could see it:\n"                                              \
    "    openssl rand -hex 24 | tee shop12345.password | tallyd hash\n"
#define DEV_HELP                                                                                             \
    "Runs everything for a first try on this machine: a private redis-server and mariadbd on unix sockets\n" \
    "under --dir, with tallyd's tables, and a tallyd configured by FILE (by default with two counters:\n"    \
    "unique_visitors and product_views). dev itself sets listen, http, redis, mysql and instance. It\n"      \
    "prints how to connect. Ctrl-C stops all of them, and nothing is lost; the next `tallyd dev` with the\n" \
    "same --dir goes on where it stopped. Their logs are files under --dir. With --cluster 3 Redis is a "    \
    "cluster of\n"                                                                                           \
    "three masters and three replicas on TCP ports of 127.0.0.1; dev starts a killed node again after 20 "   \
    "s.\n"

#define COMPLETION_HELP                                                                                      \
    "Prints the completions of tallyd's command line for bash. The package installs them; by hand:\n"        \
    "    tallyd completion bash > ~/.local/share/bash-completion/completions/tallyd\n"
#define MANUAL_HELP                                                                                          \
    "Prints tallyd(1) or tallyd.yaml(5) for scdoc, which makes the page that man shows:\n"                   \
    "    tallyd manual 5 | scdoc > tallyd.yaml.5\n"

#define HELP_HELP                                                                                            \
    "Explains an option of the configuration, all options of a section, or a verb:\n"                        \
    "    tallyd help limits.memory\n"                                                                        \
    "    tallyd help redis\n"                                                                                \
    "    tallyd help migrate\n"

const struct verb verbs[VERBS] = {
    [RUN] = {"run", NULL, NULL, "run the service", RUN_HELP, verb_run},
    [CHECK] = {"check", NULL, NULL, "list what keeps tallyd from running, with the remedy", CHECK_HELP,
               verb_check},
    [SUGGEST] = {"suggest", NULL, "TABLE", "print the configuration that fits a table of the shop",
                 SUGGEST_HELP, verb_suggest},
    [MIGRATE] = {"migrate", NULL, NULL, "make tallyd's tables in MySQL", MIGRATE_HELP, verb_migrate},
    [STATUS] = {"status", NULL, NULL, "show the state, and each problem with the next step", STATUS_HELP,
                verb_status},
    [VERIFY] = {"verify", NULL, NULL, "prove that the books balance", VERIFY_HELP, verb_verify},
    [REJECTS] = {"rejects", "list|export|replay|drop", "[ID ...]",
                 "show, replay or give up rows that MySQL refused", REJECTS_HELP, verb_rejects},
    [ADJUST] = {"adjust", "|list", NULL, "correct a stored count by hand, with a reason", ADJUST_HELP,
                verb_adjust},
    [RECOVER] = {"recover", NULL, NULL, "take over what dead tallyds left", RECOVER_HELP, verb_recover},
    [MOVE] = {"move", NULL, NULL, "move the counts of one Redis to a Redis Cluster", MOVE_HELP, verb_move},
    [HASH] = {"hash", NULL, NULL, "make the hash of a user's password", HASH_HELP, verb_hash},
    [DEV] = {"dev", NULL, NULL, "try it: private Redis, MariaDB and tallyd", DEV_HELP, verb_dev},
    [COMPLETION] = {"completion", "bash", NULL, "print the completions for bash", COMPLETION_HELP,
                    verb_completion},
    [MANUAL] = {"manual", "1|5", NULL, "print the manual's pages, for scdoc", MANUAL_HELP, verb_manual},
    [HELP] = {"help", NULL, "[OPTION|VERB]", "explain an option of the configuration, or a verb", HELP_HELP,
              verb_help},
};
const size_t verbs_n = VERBS;

#define AT(member) offsetof(struct call, member)
const struct option options[] = {
    {"config", 'c', OPTION_FILE, "FILE", AT(conf_path), OF_CONFIGURED, "the configuration"},
    {"tables", 0, OPTION_SWITCH, NULL, AT(tables), OF(MIGRATE),
     "also the tables that the configuration names"},
    {"views", 0, OPTION_SWITCH, NULL, AT(views), OF(MIGRATE),
     "also views with complete_until beside each figure, and the role tally_reader that reads them"},
    {"print", 0, OPTION_SWITCH, NULL, AT(print), OF(MIGRATE), "only print the SQL, and connect to nothing"},
    {"ledger-lost", 0, OPTION_SWITCH, NULL, AT(ledger_lost), OF(MIGRATE),
     "make a dropped tally_ledger again, empty (merged parts of the batches in Redis then count twice)"},
    {"another-redis", 0, OPTION_SWITCH, NULL, AT(another_redis), OF(MIGRATE),
     "the Redis of this configuration is one more beside those that this MySQL counts for already"},
    {"json", 0, OPTION_SWITCH, NULL, AT(json), OF(STATUS) | OF(VERIFY) | OF(REJECTS) | OF(ADJUST),
     "as JSON, for programs"},
    {"watch", 0, OPTION_SECONDS, "SECONDS", AT(watch_s), OF(STATUS),
     "again and again, by default every 2 seconds, until Ctrl-C"},
    {"counter", 0, OPTION_COUNTER, "NAME", AT(counter), OF(VERIFY) | OF(REJECTS) | OF(ADJUST),
     "of this counter only"},
    {"counter", 0, OPTION_TEXT, "NAME", AT(counter), OF(SUGGEST),
     "the counter's name, by default the table's"},
    {"store", 0, OPTION_TEXT, "STORE", AT(store), OF(VERIFY) | OF(REJECTS) | OF(ADJUST),
     "of this store only, written as in the key"},
    {"key", 0, OPTION_TEXT, "KEY", AT(key), OF(VERIFY) | OF(ADJUST), "of this key only, as the app sends it"},
    {"key", 0, OPTION_TEXT, "KEY", AT(key), OF(REJECTS),
     "of this key only, as the app sends it; * in it is any bytes"},
    {"key", 0, OPTION_TEXTS, "EXAMPLE", AT(examples), OF(SUGGEST),
     "a key and a field, or a whole HINCRBY or INCR, as an app sends it; may be given several times"},
    {"all", 0, OPTION_SWITCH, NULL, AT(all), OF(REJECTS), "all that wait"},
    {"all", 0, OPTION_SWITCH, NULL, AT(all), OF(VERIFY), "also what MySQL has of each other Redis"},
    {"field", 0, OPTION_TEXT, "FIELD", AT(field), OF(REJECTS),
     "the field: a date, an id or a text; * in it is any bytes"},
    {"field", 0, OPTION_TEXT, "FIELD", AT(field), OF(ADJUST), "the field: a date, an id or a text"},
    {"by", 0, OPTION_TEXT, "reason", AT(by), OF(REJECTS), "list one line for each reason, with the count"},
    {"by", 0, OPTION_TEXT, "N", AT(by), OF(ADJUST), "add N, which may be negative"},
    {"set", 0, OPTION_TEXT, "N", AT(set), OF(ADJUST), "make the stored count N"},
    {"reason", 0, OPTION_TEXT, "TEXT", AT(reason), OF(ADJUST), "the reason, as the list shows it"},
    {"id", 0, OPTION_TEXT, "ID", AT(id), OF(ADJUST),
     "of this adjustment: the same one again changes nothing"},
    {"limit", 0, OPTION_NUMBER, "N", AT(limit), OF(REJECTS) | OF(ADJUST), "list at most N, by default 100"},
    {"yes", 0, OPTION_SWITCH, NULL, AT(yes), OF(REJECTS), "do drop"},
    {"try", 0, OPTION_SWITCH, NULL, AT(try_rows), OF(CHECK),
     "try rows also where each uses up an id of an AUTO_INCREMENT column"},
    {"dry-run", 0, OPTION_SWITCH, NULL, AT(dry_run), OF(RECOVER), "change nothing, say what would be done"},
    {"reject-unknown", 0, OPTION_SWITCH, NULL, AT(reject_unknown), OF(RECOVER),
     "batches of counters that are not configured any more: their rows go to tally_rejects"},
    {"accept-rollback", 0, OPTION_SWITCH, NULL, AT(accept_rollback), OF(RECOVER),
     "go on with a Redis that lost merged batches (counts that came back with it count twice)"},
    {"take-over", 0, OPTION_SWITCH, NULL, AT(take_over), OF(RECOVER),
     "merge for this Redis from now on, not for the other one of its realm (of which it may be a copy)"},
    {"from", 0, OPTION_FILE, "FILE", AT(from), OF(MOVE), "the configuration with the old Redis"},
    {"dir", 0, OPTION_DIR, "DIR", AT(dir), OF(DEV),
     "the directory for its data, by default " DEV_DIR_DEFAULT},
    {"cluster", 0, OPTION_NUMBER, "N", AT(cluster), OF(DEV),
     "a Redis Cluster of N masters (3 to 8) with a replica each"},
    {"help", 'h', OPTION_SWITCH, NULL, AT(help), OF_ALL, "this text"},
};
const size_t options_n = sizeof(options) / sizeof(options[0]);
