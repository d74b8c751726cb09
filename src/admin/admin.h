/* admin/admin.h - the command line: `tallyd VERB [options]`. One table of verbs and options (verbs.c) parses, helps and
 * dispatches. Through ports app/ provides what needs the whole service. Prints results on stdout, errors on stderr, as
 * sentences with the next step; the exit status is base/log.h's. */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include "base/log.h"
#include "conf/conf.h"

/* Of a Redis on which counting has ended. */
enum admin_drain {
    ADMIN_DRAIN_NOTHING,
    ADMIN_DRAIN_JOURNALS, /* bring journals to their keys; recover nothing, and ask no MySQL */
    ADMIN_DRAIN_ALL       /* recover, then that, and merge all that is pending */
};

struct admin_recover {   /* what `recover` asks for */
    bool dry_run;        /* change nothing, name what would be done */
    bool reject_unknown; /* batches of counters that are not configured go to tally_rejects */
    enum admin_drain drain;
    bool accept_rollback; /* a Redis that lost merged batches: go on with it */
    bool take_over; /* merge for this Redis, though a tallyd lives that merges for another one of its realm */
    /* Reports progress: how many batches and leftovers were found, and how many of them are finished. */
    void (*progress)(void *arg, uint64_t done, uint64_t total);
    /* Called for each thing found, in a dry run and for what is left as it is: "batch", "leftover", "dirty", "held",
     * "unknown" ...; name is bytes of Redis. */
    void (*found)(void *arg, const char *kind, struct slice name);
    void *arg;
};

struct admin_recovered {
    int64_t adopted, rows_merged, rows_already;
    int64_t unknown,
        held;          /* batches left standing: not known here; in conflict, or of a table that refuses */
    int64_t leftovers; /* hashes of other programs taken up as batches of their own */
    int64_t rejected;  /* rows moved to tally_rejects for reject_unknown */
};

struct admin_ports {
    void *arg;
    /* Runs the service until it is told to stop (SIGTERM, SIGINT), with its own signals and log. Not ERR_NONE: e says
     * why it could not start or go on. conf stays the caller's and outlives it; path is what a reload reads again. */
    enum err (*run)(void *arg, const struct conf *conf, const char *path, struct error *e);
    /* Recovers without a running service: Redis, MySQL and the sync machine wired for this one run. */
    enum err (*recover_alone)(void *arg, const struct conf *conf, const struct admin_recover *how,
                              struct admin_recovered *out, struct error *e);
};

/* The whole command line, `tallyd --help` and usage errors included. Returns the exit status. */
int admin_main(int argc, char **argv, const struct admin_ports *ports);

#endif
