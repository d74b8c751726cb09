/* admin/rejects.c - `tallyd rejects list|export|replay|drop`. The operator names what is replayed or dropped, one by one or by
 * what it has in common; nothing means "all" by default. */
#include "admin/choice.h"
#include "admin/human.h"
#include "status/status.h"

#include "base/heap.h"
#include "base/slice.h"

#include <inttypes.h>
#include <stdio.h>

#define LIMIT_DEFAULT 100
#define FIELD_SHOWN 40
#define KEY_SHOWN 120

struct rejects { /* one run of the verb */
    const struct call *call;
    const struct setup *setup;
    struct db *db;
    struct rejects_which which; /* without ids */
    struct reject_id *ids;      /* heap */
    size_t ids_n;
    struct bar bar;
    struct buf text; /* what goes to stdout */
    struct json json;
    uint64_t done, of; /* rows, for the bar; of the ids before the one under way */
    uint64_t replayed, refused, missing, dropped;
    bool unwritten; /* of an export */
};

/* --- which --- */

static enum err words_check(const struct call *call, struct error *e)
{
    bool drops = strcmp(call->words[0], "drop") == 0, exports = strcmp(call->words[0], "export") == 0;
    bool lists = exports || strcmp(call->words[0], "list") == 0;
    bool named = call->words_n > 1,
         chosen = call->counter != NULL || call->store != NULL || call->key != NULL || call->field != NULL;
    if (lists && (named || call->all))
        return error_set(e, ERR_USAGE,
                         "rejects %s takes --counter, --store, --key, --field%s, and shows all otherwise",
                         call->words[0], exports ? "" : ", --limit and --by");
    if (call->by != NULL && (!lists || exports || strcmp(call->by, "reason") != 0))
        return error_set(e, ERR_USAGE, "--by reason is for rejects list");
    if (exports && call->json) return error_set(e, ERR_USAGE, "rejects export prints CSV; list has --json");
    if ((!lists || exports) && call->limit > 0) return error_set(e, ERR_USAGE, "--limit is for rejects list");
    if (!drops && call->yes) return error_set(e, ERR_USAGE, "--yes is for rejects drop");
    if (named + chosen + call->all > 1)
        return error_set(
            e, ERR_USAGE,
            "give IDs, or --counter, --store, --key and --field, or --all, but only one of these");
    if (!lists && !named && !chosen && !call->all)
        return error_set(
            e, ERR_USAGE,
            "which rows? IDs as `tallyd rejects list` shows them, --counter NAME, --store STORE, --key KEY, "
            "--field FIELD, or --all");
    return ERR_NONE;
}

static enum err ids_read(struct rejects *r, struct error *e)
{
    r->ids = heap_alloc(r->call->words_n * sizeof(*r->ids));
    for (size_t i = 1; i < r->call->words_n; i++) {
        struct slice word = slice_str(r->call->words[i]);
        if (reject_id_read(word, &r->ids[r->ids_n++])) continue;
        return error_set(
            e, ERR_USAGE,
            "\"%s\" is not an ID: `tallyd rejects list` shows them, <32 hex digits>-<chunk>-<row>",
            SLICE_SHOW(word, 60));
    }
    return ERR_NONE;
}

/* Rows of a counter that is no longer configured may wait: such a name is valid if there are any. */
static enum err counter_choose(struct rejects *r, struct error *e)
{
    const struct counter *counter;
    uint64_t waiting = 0;
    struct error unread;
    if (r->call->counter == NULL) return ERR_NONE;
    r->which.counter = slice_str(r->call->counter);
    enum err code = choice_counter(r->call, r->setup, &counter, e);
    if (code == ERR_NONE) return code;
    if (rejects_count(r->db, &r->which, &waiting, &unread) != ERR_NONE) return *e = unread, unread.code;
    return waiting > 0 ? ERR_NONE : code;
}

static struct slice text_given(const char *text) /* p NULL: not */
{
    return text == NULL ? slice_of(NULL, 0) : slice_str(text);
}

static enum err names_choose(struct rejects *r, struct error *e)
{
    struct rejects_which *w = &r->which;
    w->key = text_given(r->call->key);
    w->field = text_given(r->call->field);
    w->store = text_given(r->call->store);
    w->counters = &r->setup->counters;
    const struct counter *only = counters_find(w->counters, w->counter); /* NULL also of one that is gone */
    for (size_t i = 0; i < w->counters->n && w->store.p != NULL; i++) {
        const struct counter *c = &w->counters->all[i];
        if (counter_takes_store(c, w->store) && (only == NULL || only == c)) return ERR_NONE;
    }
    return w->store.p == NULL ? ERR_NONE : choice_no_store(r->call, e);
}

/* --- list --- */

static void on_row(void *arg, const struct reject *row)
{
    struct rejects *r = arg;
    r->done++;
    if (r->call->json)
        reject_json(&r->json, row, &r->setup->counters);
    else {
        char id[REJECT_ID_BYTES];
        reject_id_write(&row->id, id);
        buf_printf(&r->text, "%s  %s  %s  %s  %s  %s\n    %s\n", id, human_time(row->rejected_ms, HUMAN),
                   SLICE_SHOW(row->counter, NAME_BYTES_MAX), SLICE_SHOW(row->pending_hash, KEY_SHOWN),
                   SLICE_SHOW(row->field, FIELD_SHOWN), SLICE_SHOW(row->delta, FIELD_SHOWN),
                   SLICE_SHOW(row->reason, 300));
    }
}

static void on_reason(void *arg, const struct reject_reason *one)
{
    struct rejects *r = arg;
    r->done += one->rows;
    if (r->call->json) {
        json_open(&r->json, NULL, '{');
        json_slice(&r->json, "counter", one->counter);
        json_slice(&r->json, "reason", one->reason);
        json_int(&r->json, "rows", (int64_t)one->rows);
        json_int(&r->json, "delta", one->delta);
        json_slice(&r->json, "key", one->key);
        json_int(&r->json, "rejected_at", one->newest_ms / 1000);
        json_close(&r->json, '}');
        return;
    }
    buf_printf(&r->text, "%s row%s of %s, the last %s, as %s\n    %s\n",
               human_count((int64_t)one->rows, HUMAN), one->rows == 1 ? "" : "s",
               SLICE_SHOW(one->counter, NAME_BYTES_MAX), human_time(one->newest_ms, HUMAN),
               SLICE_SHOW(one->key, KEY_SHOWN), SLICE_SHOW(one->reason, 300));
}

static void list_end(struct rejects *r)
{
    if (r->call->json) {
        json_close(&r->json, ']');
        json_int(&r->json, "waiting", (int64_t)r->of);
        json_close(&r->json, '}');
        buf_put_char(&r->text, '\n');
    } else if (r->of == 0) {
        BUF_LIT(&r->text, "No row waits.\n");
    } else if (r->done < r->of) {
        buf_printf(&r->text, "These are %s%" PRIu64 " of %s; --limit N shows more.\n",
                   r->call->by != NULL ? "" : "the oldest ", r->done, human_count((int64_t)r->of, HUMAN));
    }
}

static enum err list(struct rejects *r, struct error *e)
{
    bool by_reason = r->call->by != NULL;
    uint32_t limit = r->call->limit > 0 ? (uint32_t)r->call->limit : LIMIT_DEFAULT;
    enum err code = rejects_count(r->db, &r->which, &r->of, e);
    if (r->call->json) {
        json_open(&r->json, NULL, '{');
        json_open(&r->json, by_reason ? "reasons" : "rejects", '[');
    } else if (r->of > 0 && !by_reason) {
        BUF_LIT(&r->text, "ID, rejected at, counter, key, field, delta; reason\n");
    }
    if (code == ERR_NONE)
        code = by_reason ? rejects_reasons(r->db, &r->which, limit, on_reason, r, e)
                         : rejects_list(r->db, &r->which, limit, on_row, r, e);
    if (code == ERR_NONE) list_end(r);
    return code;
}

/* --- export --- */

#define EXPORT_PIECE 65536

/* As RFC 4180 has it, every byte as it is. A text that a spreadsheet would run gets a ' before it. */
static void cell_put(struct buf *out, struct slice text)
{
    int64_t v;
    buf_put_char(out, '"');
    if (text.n > 0 && strchr("=+-@\t\r", text.p[0]) != NULL && !num_parse(text, &v)) buf_put_char(out, '\'');
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '"') buf_put_char(out, '"');
        buf_put_char(out, text.p[i]);
    }
    buf_put_char(out, '"');
}

static void on_export(void *arg, const struct reject *row)
{
    struct rejects *r = arg;
    char id[REJECT_ID_BYTES];
    const struct slice cells[] = {row->counter, row->pending_hash, row->field, row->delta, row->reason};
    reject_id_write(&row->id, id);
    buf_printf(&r->text, "%s,%" PRId64, id, row->rejected_ms / 1000);
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        buf_put_char(&r->text, ',');
        cell_put(&r->text, cells[i]);
    }
    BUF_LIT(&r->text, "\r\n");
    if (r->text.n < EXPORT_PIECE) return;
    r->unwritten |= fwrite(r->text.p, 1, r->text.n, stdout) != r->text.n;
    buf_reset(&r->text);
}

static enum err export_all(struct rejects *r, struct error *e)
{
    BUF_LIT(&r->text, "id,rejected_at,counter,key,field,delta,reason\r\n");
    enum err code = rejects_each(r->db, &r->which, on_export, r, e);
    if (code == ERR_NONE && r->unwritten)
        return error_set(e, ERR_FAILED, "the rows cannot be written to stdout");
    return code;
}

/* --- what has IDs is done one by one --- */

static void id_missing(struct rejects *r, const struct reject_id *id)
{
    char text[REJECT_ID_BYTES];
    reject_id_write(id, text);
    r->missing++;
    fprintf(stderr,
            "tallyd: no row %s waits: was it replayed or dropped already? `tallyd rejects list` shows the "
            "rows that wait\n",
            text);
}

static enum err each(struct rejects *r,
                     enum err (*act)(struct rejects *r, const struct rejects_which *which, uint64_t *rows,
                                     struct error *e),
                     struct error *e)
{
    enum err code = ERR_NONE;
    uint64_t rows;
    if (r->ids_n == 0) return act(r, &r->which, &rows, e);
    for (size_t i = 0; code == ERR_NONE && i < r->ids_n; i++) {
        const struct rejects_which one = {.id = &r->ids[i]};
        code = act(r, &one, &rows, e);
        r->done = i + 1;
        if (code == ERR_NONE && rows == 0) id_missing(r, &r->ids[i]);
    }
    return code;
}

/* --- replay --- */

static void replay_progress(void *arg, uint64_t done)
{
    struct rejects *r = arg;
    if (r->bar.terminal) bar_show(&r->bar, r->done + done, r->of);
}

static void on_refuse(void *arg, const struct reject_id *id, const char *reason)
{
    struct rejects *r = arg;
    char text[REJECT_ID_BYTES];
    reject_id_write(id, text);
    if (r->call->json) {
        json_open(&r->json, NULL, '{');
        json_text(&r->json, "id", text);
        json_text(&r->json, "reason", reason);
        json_close(&r->json, '}');
    } else {
        buf_printf(&r->text, "%s was refused again: %s\n", text, reason);
    }
}

static enum err replay_some(struct rejects *r, const struct rejects_which *which, uint64_t *rows,
                            struct error *e)
{
    struct rejects_replay run = {
        .counters = &r->setup->counters, .progress = replay_progress, .refuse = on_refuse, .arg = r};
    enum err code = rejects_replay(r->db, which, &run, e);
    r->replayed += run.replayed;
    r->refused += run.refused;
    *rows = run.replayed + run.refused;
    return code;
}

static void replay_end(struct rejects *r)
{
    if (r->call->json) {
        json_close(&r->json, ']');
        json_int(&r->json, "replayed", (int64_t)r->replayed);
        json_int(&r->json, "missing", (int64_t)r->missing);
        json_close(&r->json, '}');
        buf_put_char(&r->text, '\n');
        return;
    }
    buf_printf(&r->text, "%s row%s replayed, %s refused again\n", human_count((int64_t)r->replayed, HUMAN),
               r->replayed == 1 ? "" : "s", human_count((int64_t)r->refused, HUMAN));
}

static enum err replay(struct rejects *r, struct error *e)
{
    if (r->call->json) {
        json_open(&r->json, NULL, '{');
        json_open(&r->json, "refused", '[');
    }
    r->of = r->ids_n;
    enum err code = r->ids_n > 0 ? ERR_NONE : rejects_count(r->db, &r->which, &r->of, e);
    bar_init(&r->bar, stderr, "replaying");
    if (code == ERR_NONE) code = each(r, replay_some, e);
    bar_end(&r->bar);
    replay_end(r); /* also after an error: what is done is done */
    if (code != ERR_NONE) return code;
    return r->refused + r->missing > 0 ? ERR_FAILED : ERR_NONE;
}

/* --- drop --- */

static enum err drop_some(struct rejects *r, const struct rejects_which *which, uint64_t *rows,
                          struct error *e)
{
    enum err code = r->call->yes ? rejects_drop(r->db, which, rows, e) : rejects_count(r->db, which, rows, e);
    r->dropped += *rows;
    return code;
}

static enum err drop(struct rejects *r, struct error *e)
{
    enum err code = each(r, drop_some, e);
    if (r->call->json) {
        json_open(&r->json, NULL, '{');
        json_int(&r->json, r->call->yes ? "dropped" : "would_drop", (int64_t)r->dropped);
        json_int(&r->json, "missing", (int64_t)r->missing);
        json_close(&r->json, '}');
        buf_put_char(&r->text, '\n');
    } else if (r->call->yes) {
        buf_printf(&r->text, "%s row%s dropped\n", human_count((int64_t)r->dropped, HUMAN),
                   r->dropped == 1 ? "" : "s");
    } else {
        buf_printf(&r->text, "%s row%s would be dropped for good. Nothing was dropped: --yes does it\n",
                   human_count((int64_t)r->dropped, HUMAN), r->dropped == 1 ? "" : "s");
    }
    if (code != ERR_NONE) return code;
    return r->missing > 0 ? ERR_FAILED : ERR_NONE;
}

/* --- */

static enum err act(struct rejects *r, struct error *e)
{
    enum err code = db_open(r->db) == CODE_OK ? counter_choose(r, e) : db_error(r->db, e);
    if (code == ERR_NONE) code = names_choose(r, e);
    if (code != ERR_NONE) return code;
    switch (r->call->words[0][0]) { /* call_read took no other word */
    case 'l':
        return list(r, e);
    case 'e':
        return export_all(r, e);
    case 'r':
        return replay(r, e);
    default:
        return drop(r, e);
    }
}

static enum err rejects_run(const struct call *call, const struct setup *setup)
{
    struct rejects r = {.call = call, .setup = setup};
    struct error e = {.code = ERR_NONE, .text = ""};
    r.json.out = &r.text;
    r.db = db_create(&setup->mysql);
    enum err code = ids_read(&r, &e);
    if (code == ERR_NONE) code = act(&r, &e);
    enum err printed = text_print(&r.text);
    db_destroy(&r.db);
    heap_free(r.ids);
    if (code != ERR_NONE && e.code == code) return call_failed(&e);
    return code != ERR_NONE ? code : printed;
}

enum err verb_rejects(const struct call *call)
{
    struct error e;
    if (words_check(call, &e) != ERR_NONE) return call_failed(&e);
    return call_configured(call, rejects_run);
}
