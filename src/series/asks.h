/* series/asks.h - requests of clients other than increments. A request is the session's memory from the call until done().
 * done() is called exactly once, on the loop, even when the client has gone meanwhile; it may be called from inside the
 * call that asked. */
#ifndef SERIES_ASKS_H
#define SERIES_ASKS_H

#include "series/query.h"

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
    const char *text;          /* with ASK_FAILED; read inside done() only */
    const struct slice *items; /* field, value, field, value ...; read inside done() only */
    size_t items_n;
    void (*done)(struct pending_request *r);
};

#define TOTAL_FIELDS_ASKED_MAX 1000

struct total_request {
    const void *who;  /* as above */
    struct slice key; /* of the counter; both are the session's memory, too */
    const struct counter *counter;
    const struct slice *fields; /* of the counter's kind, likewise; 1..TOTAL_FIELDS_ASKED_MAX */
    uint32_t fields_n;
    enum ask_outcome outcome;
    const char *text;
    const int64_t *totals; /* one a field; read inside done() only */
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
