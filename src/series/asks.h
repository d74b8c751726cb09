/* series/asks.h - requests of clients other than increments. A request is the session's memory from the call until done().
 * done() is called exactly once, on the loop, even when the client has gone meanwhile; it may be called from inside the
 * call that asked. */
#ifndef SERIES_ASKS_H
#define SERIES_ASKS_H

#include "base/slice.h"

/* One read of series, timeboxes, events or visitors, as data: command/ asks, redis/ answers. Times are seconds since
 * 1970 on Redis' clock, days YYYYMMDD. */

struct query_limits {   /* from the configuration */
    uint32_t most;      /* events of one EVENT.RANGE, windows of one EVENT.COUNT */
    uint32_t days;      /* of one UNIQ.COUNT */
    uint32_t texts_max; /* bytes of names or ids in one answer: a share of limits.memory */
};

enum query_kind {
    QUERY_SERIES,         /* slot, n: the samples of a precision that begin in from..to, ascending */
    QUERY_NAMES,          /* "<precision>:<name>" of every series, by bytes */
    QUERY_TIMEBOX_RECENT, /* bucket, hits: the newest bucket first */
    QUERY_TIMEBOX_TOP,    /* bucket, hits: the most hits first, of equal ones the newer */
    QUERY_TIMEBOX_BOTTOM, /* the other end, the other way round */
    QUERY_EVENTS,         /* id, second: from..to, by second, then by the id's bytes */
    QUERY_WINDOWS,        /* events in each of the last windows, oldest first; the last one is still open */
    QUERY_VISITORS,       /* different visitors in the days from..to, and "exact" or "estimated" */
};

struct query {
    enum query_kind kind;
    struct slice name, type; /* type: of events. The asker's until the answer */
    int64_t from, to;        /* inclusive */
    /* timeboxes, events: how many are skipped, at most how many come. limit < 0: all */
    int64_t offset, limit;
    uint32_t precision_s; /* series */
    int64_t window_s;
    uint32_t windows_n; /* 1..query_limits.most */
};

struct query_value {
    bool is_text;
    uint32_t text_n;
    size_t text_at; /* in query_answer.texts */
    int64_t number;
};

/* Values one after the other, in the order of the reply. */
struct query_answer {
    struct query_value *values;
    size_t n, cap;
    struct buf texts;
};

#define QUERY_TEXT(a, v) slice_of((a)->texts.p + (v)->text_at, (v)->text_n)

void query_put_number(struct query_answer *a, int64_t v);
void query_put_text(struct query_answer *a, struct slice text);
void query_answer_free(struct query_answer *a);

/* How an asynchronous request ended. */
enum ask_outcome {
    ASK_DONE,
    ASK_TRY_AGAIN,  /* -TRYAGAIN */
    ASK_MYSQL_DOWN, /* not without MySQL */
    ASK_REDIS_DOWN, /* coalesce_down_why() */
    ASK_HELD,       /* held back: an operator must look */
    ASK_FAILED,     /* `text` is the error line without '-' */
    ASK_UNBLOCKED,  /* likewise, of WAIT: the client's hits may not be on the primary of now */
};

struct pending_request {
    const void *who;  /* users take turns: only compared; NULL: full access */
    struct slice key; /* of a configured counter; the session's memory, too */
    enum ask_outcome outcome;
    const char *text; /* with ASK_FAILED; read inside done() only */
    /* field, value, field, value ...; a part of all that there are, from items_at on; read inside part() and done() only */
    const struct slice *items;
    size_t items_at, items_n, items_all;
    void (*part)(struct pending_request *r); /* in a loop turn each; the last part comes with done() */
    void (*done)(struct pending_request *r);
};

#define TOTAL_FIELDS_ASKED_MAX 1000

struct total_request {
    const void *who;  /* as above */
    struct slice key; /* of the counter; both are the session's memory, too */
    const struct counter *counter;
    const struct slice *fields; /* of the counter's kind, likewise; 1..TOTAL_FIELDS_ASKED_MAX */
    uint32_t fields_n;
    bool sums; /* one total of all fields, each of which is there once and a time */
    enum ask_outcome outcome;
    const char *text;
    const int64_t *totals; /* one a field, or their sum; read inside done() only */
    void (*done)(struct total_request *r);
};

struct sync_request {
    struct slice key; /* n = 0: ALL */
    enum ask_outcome outcome;
    const char *text;
    int64_t rows; /* merged */
    void (*done)(struct sync_request *r);
};

struct read_request {
    const void *who;    /* as above */
    struct query query; /* checked; its name and type are the session's memory, too */
    enum ask_outcome outcome;
    const char *text;
    const struct query_answer *answer; /* read inside done() only */
    void (*done)(struct read_request *r);
};

/* WAIT, and WAITAOF with `disk`. */
struct wait_request {
    bool disk;
    int64_t local, replicas; /* wanted; then how many there are */
    uint64_t timeout_ms;     /* 0: none */
    uint64_t since_ms;       /* mono: a change of the primary since then is not told yet */
    enum ask_outcome outcome;
    const char *text;
    bool (*left)(struct wait_request *r); /* nobody wants its answer */
    void (*done)(struct wait_request *r);
};

struct recover_request {
    bool dry_run;
    enum ask_outcome outcome;
    const char *text;
    int64_t adopted, rows_merged, rows_already;
    /* Of a dry run: "kind name" each, the reply is their array; read inside done() only. */
    const struct slice *lines;
    size_t lines_n;
    void (*done)(struct recover_request *r);
};

#endif
