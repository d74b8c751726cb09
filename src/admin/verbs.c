/* admin/verbs.c - the table of verbs and options. */
#include "admin/verbs.h"

enum {
    RUN,
    CHECK,
    MIGRATE,
    STATUS,
    VERIFY,
    REJECTS,
    ADJUST,
    RECOVER,
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
    "Runs the service in the foreground until SIGTERM or SIGINT; it then takes no more, answers what is\n"   \
    "in flight and exits with 0. SIGHUP reads the configuration again and takes over what can be\n"          \
    "reloaded. Logs are logfmt on stderr.\n"
#define CHECK_HELP                                                                                           \
    "Looks at the configuration, at Redis and at MySQL, changes nothing, and lists every problem with\n"     \
    "what mends it. Exits with 0 when tallyd may run, 69 when Redis or MySQL cannot be reached, 78 when\n"   \
    "the configuration, a setting of theirs or the schema has to be changed.\n"
#define MIGRATE_HELP                                                                                         \
    "Brings tallyd's own tables (tally_...) to the version of this program, makes those again that were\n"   \
    "dropped, and says what is lost with them. Safe to repeat. Only the operator can say that\n"             \
    "tally_ledger is lost: an empty one knows of no batch in Redis that it was merged, and counts again\n"   \
    "what was. So:\n"                                                                                        \
    "    tallyd migrate                 refuses, and names those batches\n"                                  \
    "    tallyd migrate --ledger-lost   with every tallyd of this Redis stopped\n"                           \
    "    tallyd verify                  how much will be counted twice: the hits that are too many\n"
#define STATUS_HELP                                                                                          \
    "How it all stands, on one screen: the service, Redis, MySQL, what waits to be merged, the batches,\n"   \
    "and what is wrong with the next step. What cannot be told is shown as ? with the reason. Exits\n"       \
    "with 0 when all is well, 1 when something is not, 69 when Redis or MySQL cannot be reached.\n"
#define VERIFY_HELP                                                                                          \
    "Proves the books of every counter, or of one, also under traffic:\n"                                    \
    "    accepted = merged + rejected + pending + claimed and not yet in the ledger\n"                       \
    "With --store what can be proved of one store: that each of its counts stands in exactly one place\n"    \
    "(a row in MySQL, the pending hash, or a claimed hash whose chunk the ledger does not have), that\n"     \
    "what is pending is in the index of what is to be merged, that no field was lost since a claim, and\n"   \
    "that all are integers and of the counter's kind. Not that no hit is missing: accepted hits are\n"       \
    "summed by counter, not by store. Where several Redis are merged into one MySQL it proves the one of\n"  \
    "the configuration; --all names the others, with what is merged of each. Exits with 0 when all "         \
    "balance, 1 when one does not, and says\n"                                                               \
    "which, by how much, and the next step.\n"
#define REJECTS_HELP                                                                                         \
    "Rows that MySQL refused wait in tally_rejects, raw, with the reason. When the cause is mended:\n"       \
    "    list     those that wait, oldest first\n"                                                           \
    "    replay   puts them into the merchant's table, each exactly once; what is refused again stays\n"     \
    "    drop     gives them up for good; only says what it would drop, unless --yes\n"                      \
    "replay and drop want IDs, as list shows them, or --counter, --store or --all. The books balance\n"      \
    "all the while: a replayed row goes from rejected to merged, the sum of dropped ones stays in\n"         \
    "rejected. Exits with 1 when a row was refused again or an ID does not wait.\n"
#define ADJUST_HELP                                                                                          \
    "Corrects a stored count by hand, and keeps the reason: --by adds to it, --set makes it that figure.\n"  \
    "Hits that are not merged yet come on top. Exactly once: the same --id again changes\n"                  \
    "nothing, so what failed may be sent again. Without --id one is made and printed.\n"                     \
    "    tallyd adjust --counter product_views --store 12345 --field 42 --by -300 --reason \"crawler\"\n"    \
    "    tallyd adjust list    what was adjusted, the newest first\n"                                        \
    "`tallyd verify` shows the sum by counter as adjusted; the books balance without it. Exits with 1\n"     \
    "when MySQL refuses the new figure, or the id was used for another adjustment.\n"
#define RECOVER_HELP                                                                                         \
    "Takes over what dead tallyds left: batches of theirs, and claimed hashes that no batch knows.\n"        \
    "Through the running service when there is one, else by itself. Safe to repeat and to interrupt:\n"      \
    "what is merged is in the ledger, so nothing counts twice.\n"
#define HASH_HELP                                                                                            \
    "Reads a password, and prints the yescrypt hash that stands in the configuration under\n"                \
    "users.*.password. On a terminal it asks twice and shows nothing; else it reads one line of stdin.\n"    \
    "No password is ever an argument, where all users of a machine could see it:\n"                          \
    "    openssl rand -hex 24 | tee shop12345.password | tallyd hash\n"
#define DEV_HELP                                                                                             \
    "Everything for a first try, on this machine alone: a private redis-server and mariadbd on unix\n"       \
    "sockets under --dir, migrated, and tallyd as FILE says (by default with two counters:\n"                \
    "unique_visitors and product_views), but for listen, http, redis, mysql and instance, which dev sets\n"  \
    "itself. Prints how to connect. Ctrl-C stops all of them, nothing is lost; the next `tallyd dev` with\n" \
    "the same --dir goes on where it stopped. Their logs are files under --dir. With --cluster 3 Redis is\n" \
    "a cluster of three masters and three replicas on TCP ports of 127.0.0.1; one that is killed is\n"       \
    "started again after 20 s.\n"

#define COMPLETION_HELP                                                                                      \
    "Prints what that shell completes tallyd's command line by. Installed with tallyd; by hand, say:\n"      \
    "    tallyd completion bash > ~/.local/share/bash-completion/completions/tallyd\n"                       \
    "    tallyd completion fish > ~/.config/fish/completions/tallyd.fish\n"                                  \
    "    tallyd completion zsh > ~/.zfunc/_tallyd\n"
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
    [CHECK] = {"check", NULL, NULL, "list what keeps tallyd from running, with the mend", CHECK_HELP,
               verb_check},
    [MIGRATE] = {"migrate", NULL, NULL, "make tallyd's tables in MySQL", MIGRATE_HELP, verb_migrate},
    [STATUS] = {"status", NULL, NULL, "show how it all stands, and what is wrong", STATUS_HELP, verb_status},
    [VERIFY] = {"verify", NULL, NULL, "prove that the books balance", VERIFY_HELP, verb_verify},
    [REJECTS] = {"rejects", "list|replay|drop", "[ID ...]", "show, replay or give up rows that MySQL refused",
                 REJECTS_HELP, verb_rejects},
    [ADJUST] = {"adjust", "|list", NULL, "correct a stored count by hand, with a reason", ADJUST_HELP,
                verb_adjust},
    [RECOVER] = {"recover", NULL, NULL, "take over what dead tallyds left", RECOVER_HELP, verb_recover},
    [HASH] = {"hash", NULL, NULL, "make the hash of a user's password", HASH_HELP, verb_hash},
    [DEV] = {"dev", NULL, NULL, "try it: private Redis, MariaDB and tallyd", DEV_HELP, verb_dev},
    [COMPLETION] = {"completion", "bash|zsh|fish", NULL, "print a shell's completions", COMPLETION_HELP,
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
    {"print", 0, OPTION_SWITCH, NULL, AT(print), OF(MIGRATE), "only print the SQL; nothing is connected to"},
    {"ledger-lost", 0, OPTION_SWITCH, NULL, AT(ledger_lost), OF(MIGRATE),
     "make a tally_ledger that was dropped again, empty (what of the batches in Redis is merged counts "
     "twice)"},
    {"another-redis", 0, OPTION_SWITCH, NULL, AT(another_redis), OF(MIGRATE),
     "the Redis of this configuration is one more beside those that this MySQL counts for already"},
    {"json", 0, OPTION_SWITCH, NULL, AT(json), OF(STATUS) | OF(VERIFY) | OF(REJECTS) | OF(ADJUST),
     "as JSON, for programs"},
    {"watch", 0, OPTION_SECONDS, "SECONDS", AT(watch_s), OF(STATUS),
     "again and again, by default every 2 seconds, until Ctrl-C"},
    {"counter", 0, OPTION_COUNTER, "NAME", AT(counter), OF(VERIFY) | OF(REJECTS) | OF(ADJUST),
     "of this counter only"},
    {"store", 0, OPTION_TEXT, "STORE", AT(store), OF(VERIFY) | OF(REJECTS) | OF(ADJUST),
     "of this store only, as it stands in the key"},
    {"all", 0, OPTION_SWITCH, NULL, AT(all), OF(REJECTS) | OF(VERIFY),
     "all that wait; of verify: also what MySQL has of each other Redis"},
    {"field", 0, OPTION_TEXT, "FIELD", AT(field), OF(ADJUST), "the date, id or text that is counted by"},
    {"by", 0, OPTION_TEXT, "N", AT(by), OF(ADJUST), "add N, which may be negative"},
    {"set", 0, OPTION_TEXT, "N", AT(set), OF(ADJUST), "make the stored count N"},
    {"reason", 0, OPTION_TEXT, "TEXT", AT(reason), OF(ADJUST), "why, for those who look at the list"},
    {"id", 0, OPTION_TEXT, "ID", AT(id), OF(ADJUST),
     "of this adjustment: the same one again changes nothing"},
    {"limit", 0, OPTION_NUMBER, "N", AT(limit), OF(REJECTS) | OF(ADJUST),
     "list at most so many, by default 100"},
    {"yes", 0, OPTION_SWITCH, NULL, AT(yes), OF(REJECTS), "do drop"},
    {"dry-run", 0, OPTION_SWITCH, NULL, AT(dry_run), OF(RECOVER), "change nothing, name what would be done"},
    {"reject-unknown", 0, OPTION_SWITCH, NULL, AT(reject_unknown), OF(RECOVER),
     "batches of counters that are not configured any more: their rows go to tally_rejects"},
    {"accept-rollback", 0, OPTION_SWITCH, NULL, AT(accept_rollback), OF(RECOVER),
     "go on with a Redis that lost merged batches (what came back with it counts twice)"},
    {"dir", 0, OPTION_DIR, "DIR", AT(dir), OF(DEV), "where its data lives, by default " DEV_DIR_DEFAULT},
    {"cluster", 0, OPTION_NUMBER, "N", AT(cluster), OF(DEV),
     "a Redis Cluster of N masters (3 to 8) with a replica each"},
    {"help", 'h', OPTION_SWITCH, NULL, AT(help), OF_ALL, "this text"},
};
const size_t options_n = sizeof(options) / sizeof(options[0]);
