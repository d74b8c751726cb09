/* conf/conf.h - the configuration: a YAML file, read strictly, as one struct. Every option is a line of conf/options.h.
 * An error reads `file:line:column: what is there, expected what`, and never shows a password: nothing of URLs, of paths of
 * password files, or of names that could be misplaced URLs. struct conf owns its texts until conf_free and never changes (a
 * reload reads a new one), so threads may share it. */
#ifndef CONF_CONF_H
#define CONF_CONF_H

#include "base/address.h"
#include "base/log.h"
#include "base/slice.h"
#include "conf/options.h"

enum conf_log { CONF_LOG_DEBUG, CONF_LOG_INFO, CONF_LOG_WARN, CONF_LOG_ERROR }; /* as enum log_level */
enum conf_durability {
    CONF_DURABILITY_DISK,
    CONF_DURABILITY_REPLICAS,
    CONF_DURABILITY_NONE
}; /* as enum redis_keeps */
enum conf_mysql_durability { CONF_STRICT, CONF_RELAXED };
enum conf_switch { CONF_OFF, CONF_ON };
enum conf_local { CONF_LOCAL_OPEN, CONF_LOCAL_TOKEN };
enum conf_verify { CONF_VERIFY_ON, CONF_VERIFY_OFF };
enum conf_missing { CONF_MISSING_INSERT, CONF_MISSING_REJECT, CONF_MISSING_DROP }; /* as enum missing */
enum conf_store { CONF_STORE_INTEGER, CONF_STORE_TEXT };                           /* as enum store_kind */

struct conf_addresses {
    struct address *all;
    size_t n; /* >= 1; 0: not given */
};

#define CONF_BEARER_LEAST 16
#define CONF_BEARER_MOST 255
struct conf_bearer {
    char *name;   /* its name in the log */
    char *secret; /* CONF_BEARER_LEAST to CONF_BEARER_MOST bytes; never print it */
    char *store;  /* it sees only this one; NULL: all */
};

struct conf_bearers {
    struct conf_bearer *all;
    size_t n;
};

#define CONF_NUMBERS_MAX 16
struct conf_numbers {
    int64_t *all; /* different ones, as given */
    size_t n;     /* 1..CONF_NUMBERS_MAX */
};

#define CONF_TEXTS_MAX 64
struct conf_texts {
    char **all; /* different ones, as given */
    size_t n;   /* 1..CONF_TEXTS_MAX; 0: not given */
};

#define CONF_TIERS_MAX 16
struct conf_tier { /* windows of that size or smaller (down to the previous tier) are kept this long */
    int64_t window_s, keep_s;
};

struct conf_tiers {
    struct conf_tier *all; /* windows grow, keep_s does not shrink */
    size_t n;              /* 1..CONF_TIERS_MAX */
};

/* A table of the merchant's, its column that is searched and the one that is read; the row's `expect` has their names
 * in the file. */
#define CONF_LOOKUP_NAMES 3
struct conf_lookup {
    char *names[CONF_LOOKUP_NAMES]; /* all, or none: not given */
};

/* Names with a value each, in the order of the file; a list's items are parted by ','. */
#define CONF_MAP_MAX 16
struct conf_pair {
    char *name, *value; /* name: 1..64 letters, digits, '_' or '$' */
};
struct conf_map {
    struct conf_pair *all;
    size_t n; /* 0: not given */
};

/* The type of a kind's member. A URL may hold a password: never print it; the room that connects takes it apart. */
#define CONF_TYPE_ADDRESSES struct conf_addresses
#define CONF_TYPE_URL char *
#define CONF_TYPE_PATH char * /* NULL: not given */
#define CONF_TYPE_HASH char * /* of a password: never print it */
#define CONF_TYPE_TEXTS struct conf_texts
#define CONF_TYPE_INSTANCE char *
#define CONF_TYPE_PATTERN char *
#define CONF_TYPE_IDENTIFIER char * /* NULL: not given */
#define CONF_TYPE_LOOKUP struct conf_lookup
#define CONF_TYPE_MAP struct conf_map
#define CONF_TYPE_NUMBER int64_t
#define CONF_TYPE_MS int64_t
#define CONF_TYPE_SECONDS int64_t
#define CONF_TYPE_SIZE int64_t
#define CONF_TYPE_NUMBERS struct conf_numbers
#define CONF_TYPE_TIERS struct conf_tiers
#define CONF_TYPE_WORD int /* index among the words */

#define CONF_MEMBER(id, path, kind, member, ...) CONF_TYPE_##kind member;
#define CONF_NO_MEMBER(id, ...)
#define CONF_ID(id, ...) CONF_##id,

enum conf_option { CONF_OPTIONS(CONF_ID, CONF_ID, CONF_ID) CONF_OPTION_COUNT };

struct conf_place { /* the option's place in the file, from 1; line 0: it is a default */
    uint32_t line, column;
};

struct conf_counter {
    char *name; /* [a-z0-9_]{1,64} */
    CONF_OPTIONS(CONF_NO_MEMBER, CONF_MEMBER, CONF_NO_MEMBER)
    struct conf_place place;                     /* of the name */
    struct conf_place places[CONF_OPTION_COUNT]; /* of its options */
};

struct conf_user {
    char *name; /* [A-Za-z0-9._@-]{1,64} */
    CONF_OPTIONS(CONF_NO_MEMBER, CONF_NO_MEMBER, CONF_MEMBER)
    struct conf_place place;
    struct conf_place places[CONF_OPTION_COUNT];
};

struct conf {
    char *file; /* as it is called in messages */
    CONF_OPTIONS(CONF_MEMBER, CONF_NO_MEMBER, CONF_NO_MEMBER)
    /* From the environment, else the password file; NULL: only the URL may have one. Never print them. */
    char *redis_password, *sentinel_password, *mysql_password;
    struct conf_bearers bearers;   /* of http.tokens */
    struct conf_counter *counters; /* in the order of the file, at least one */
    size_t counters_n;
    struct conf_user *users; /* in the order of the file; none: any client may do everything */
    size_t users_n;
    struct conf_place places[CONF_OPTION_COUNT];
};

/* Reads a file. The groups of `without` ("listen"; NULL ends them, NULL itself: none) are skipped, and none of their
 * options counts as missing: the caller sets them with conf_set. On an error out is empty (conf_free is allowed), the
 * code is ERR_CONFIG, and e has the first problem. */
enum err conf_load(const char *path, const char *const *without, struct conf *out,
                   struct error *e) MUST_CHECK;

/* The same with all problems, a line each, in the order of the file. False: there was one. */
bool conf_load_all(const char *path, const char *const *without, struct conf *out,
                   struct buf *problems) MUST_CHECK;

/* The same from a text; messages call it `file`. */
bool conf_parse(const char *file, struct slice text, const char *const *without, struct conf *out,
                struct buf *problems) MUST_CHECK;

/* Two counters and every default; for `tallyd dev`. Never fails. */
void conf_default(struct conf *out);
void conf_free(struct conf *c);

/* Sets an option of struct conf as if the file had given these n texts: one, several for a list, none to leave it out
 * (if that is allowed). False: one of them is not valid, and c is as before. */
bool conf_set(struct conf *c, enum conf_option option, const char *const *texts, size_t n) MUST_CHECK;

/* The path of a file as it is opened: a relative one begins at the directory of the configuration. Heap. */
char *conf_beside(const struct conf *c, const char *path);

/* `file:line:column` of an option, for errors that are found later (redis_url_parse, counters_validate). counter: its
 * index, CONF_GLOBAL for an option that is no counter's. An option that was not given: the place of the counter's name,
 * or the file alone. Returns out. */
#define CONF_GLOBAL SIZE_MAX
const char *conf_where(const struct conf *c, size_t counter, enum conf_option option, char *out, size_t size);

/* The same of a user's; CONF_OPTION_COUNT: of its name. */
const char *conf_where_user(const struct conf *c, size_t user, enum conf_option option, char *out,
                            size_t size);

/* The options that differ and need a restart: their names into out, ", " between them. Returns how many. */
size_t conf_needs_restart(const struct conf *now, const struct conf *wanted, struct buf *out);

/* All options with default, bounds and help, by section, as text of at most 100 columns. */
void conf_help(struct buf *out);
/* The help of one option, or of the options of a section. False: no such path; *nearest is a path that was perhaps
 * meant, or NULL. */
bool conf_help_of(struct slice path, struct buf *out, const char **nearest) MUST_CHECK;

struct conf_text { /* one option, or a structure with its members; texts for the call only */
    const char *path, *standard, *help; /* standard NULL: must be given; "": may be left out */
    struct slice expected;
    bool reload;
};
void conf_describe(void (*option)(void *arg, const struct conf_text *t), void *arg);

/* The configuration as a file that conf_load reads back to the same. It has the URLs as they were given, so it is as
 * secret as the file that was read. */
void conf_write(const struct conf *c, struct buf *out);

const char *conf_option_path(enum conf_option option); /* "listen.resp", "counters.*.key" */

#endif
