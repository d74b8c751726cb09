/* admin/verbs.h - the one table of verbs and options. The command line is read (admin.c), helped (help.c), completed
 * (help.c) and described (help.c) from it; private to the room. */
#ifndef ADMIN_VERBS_H
#define ADMIN_VERBS_H

#include "admin/admin.h"
#include "setup/setup.h"

#define CALL_TEXTS 32
struct call_texts { /* of an option that may be given again and again */
    const char *all[CALL_TEXTS];
    size_t n;
};

struct call { /* one command line, read */
    const struct admin_ports *ports;
    const char *conf_path; /* -c, else the default; of `dev` NULL when not given */
    const char *dir;
    const char *from;                           /* of move; NULL: not given */
    const char *counter, *store, *key;          /* NULL: any */
    const char *field, *by, *set, *reason, *id; /* of adjust; NULL: not given */
    struct call_texts examples;                 /* of suggest */
    int64_t watch_s;                            /* 0: once */
    int64_t limit;                              /* 0: not given */
    int64_t cluster;                            /* 0: one Redis */
    bool tables, views, print, ledger_lost, another_redis, dry_run, try_rows, reject_unknown, accept_rollback,
        take_over, json, all, yes, help;
    char **words; /* after the verb; the first is one of verb->words */
    size_t words_n;
};

#define CONF_PATH_DEFAULT "/etc/tallyd/tallyd.yaml"
#define DEV_DIR_DEFAULT "./var"

/* What fails is said on stderr, with `tallyd: ` before it. Each returns the code that the process exits with.
 */
typedef enum err verb_fn(const struct call *call);
verb_fn verb_run, verb_check, verb_suggest, verb_migrate, verb_status, verb_verify, verb_rejects, verb_adjust,
    verb_recover, verb_move, verb_hash, verb_dev, verb_completion, verb_manual, verb_help;

/* Reads the configuration and what follows from it, and reports every problem. False: there was one; else the caller
 * closes both. */
bool call_load(const struct call *call, struct conf *conf, struct setup *setup) MUST_CHECK;
/* The same but for these groups (conf_load). */
bool call_load_without(const struct call *call, const char *const *without, struct conf *conf,
                       struct setup *setup) MUST_CHECK;
/* For a verb that needs no more: runs it with both, closes them, and returns what it returns; ERR_CONFIG: there was a problem. */
enum err call_configured(const struct call *call,
                         enum err (*run)(const struct call *call, const struct setup *setup));
/* `tallyd: <text>` on stderr; returns e->code. */
enum err call_failed(const struct error *e);
/* Writes text to stdout and frees it. ERR_FAILED: it could not be written (a full disk behind a redirection, say). */
enum err text_print(struct buf *text);

struct verb {
    const char *name;
    const char *
        words; /* what its first word may be, '|' between them, before the first: it may be left out; NULL: none */
    const char *further; /* what words may follow that one, for usage: "[ID ...]"; NULL: none */
    const char *summary, *help;
    verb_fn *run;
};
extern const struct verb verbs[];
extern const size_t verbs_n;
int verb_find(const char *name); /* its index; -1: there is none */

enum option_kind {
    OPTION_SWITCH,  /* a bool */
    OPTION_TEXT,    /* a const char *; with an argument */
    OPTION_TEXTS,   /* a struct call_texts; with an argument each */
    OPTION_FILE,    /* the same, the path of a file */
    OPTION_DIR,     /* the same, of a directory */
    OPTION_COUNTER, /* the same, a counter's name */
    OPTION_NUMBER,  /* an int64_t, from 1 to 1000000 */
    OPTION_SECONDS, /* an int64_t; its argument, a number from 1 to 86400, may be left out */
};

struct option {
    const char *name;
    char letter; /* 0: none */
    enum option_kind kind;
    const char *argument; /* as usage calls it; NULL: a switch */
    size_t at;            /* in struct call */
    unsigned verbs;       /* bit of the index of each that takes it */
    const char *help;
};
extern const struct option options[];
extern const size_t options_n;
#define WATCH_S_DEFAULT 2

/* Does the verb take it? verb -1: may it come before any verb? */
bool option_of(const struct option *o, int verb);

/* Reads argv by the table. ERR_USAGE: e says what is wrong and what was perhaps meant. *verb is the verb's index; -1:
 * none was given (--help, --version). call->words points into argv, in which this call moves the words together. */
enum err call_read(int argc, char **argv, struct call *call, int *verb, bool *version,
                   struct error *e) MUST_CHECK;

/* Of `tallyd status`: a look (status/status.h) as one screen of text; pure. */
struct status;
struct screen_style {
    bool colour;      /* escapes of a terminal around what is not well */
    size_t lines_max; /* batches and problems are cut so that it has no more; 0: no bound */
};
void screen_put(const struct status *s, const struct screen_style *style, struct buf *out);

void help_all(struct buf *out);
void help_verb(const struct verb *verb, struct buf *out);

#endif
