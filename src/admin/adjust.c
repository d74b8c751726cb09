/* admin/adjust.c - `tallyd adjust` and `tallyd adjust list`. */
#include "admin/choice.h"
#include "admin/human.h"
#include "status/status.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/slice.h"

#include <stdio.h>

#define LIMIT_DEFAULT 100
#define SHOWN 120

struct adjusting { /* one run of the verb */
    const struct call *call;
    const struct counter *counter; /* NULL: none was named */
    struct buf key;                /* the pending hash of --store; empty: any */
    struct db *db;
    struct buf text; /* what goes to stdout */
    struct json json;
};

static bool is_list(const struct call *call)
{
    return call->words_n > 0;
}

static enum err asked_right(const struct call *call, struct error *e)
{
    bool adjusts = call->field != NULL || call->by != NULL || call->set != NULL || call->reason != NULL ||
                   call->id != NULL;
    if (is_list(call) && adjusts)
        return error_set(e, ERR_USAGE, "adjust list takes --counter, --store, --limit and --json");
    if (is_list(call)) return ERR_NONE;
    if (call->limit > 0) return error_set(e, ERR_USAGE, "--limit is for adjust list");
    if (call->counter == NULL || call->field == NULL || call->reason == NULL)
        return error_set(
            e, ERR_USAGE,
            "adjust needs --counter, --field and --reason, and --store where the counter has stores");
    if ((call->by == NULL) == (call->set == NULL))
        return error_set(e, ERR_USAGE, "give either --by N to add, or --set N for the new figure");
    if (strlen(call->reason) > ADJUST_REASON_BYTES_MAX)
        return error_set(e, ERR_USAGE, "--reason takes at most %d bytes", ADJUST_REASON_BYTES_MAX);
    if (call->id != NULL && strlen(call->id) > ADJUST_ID_BYTES_MAX)
        return error_set(e, ERR_USAGE, "--id takes at most %d bytes", ADJUST_ID_BYTES_MAX);
    return ERR_NONE;
}

static enum err key_choose(struct adjusting *a, struct error *e)
{
    const struct call *call = a->call;
    const struct counter *c = a->counter;
    if (c == NULL && call->store == NULL && call->key == NULL) return ERR_NONE;
    if (c == NULL) return error_set(e, ERR_USAGE, "--store and --key need --counter");
    if (call->key != NULL && call->store != NULL)
        return error_set(e, ERR_USAGE, "give --store or --key, but only one of these");
    if (call->key != NULL && pattern_match(&c->key, c->store, slice_str(call->key), NULL))
        return buf_put_slice(&a->key, slice_str(call->key)), ERR_NONE;
    if (call->key != NULL)
        return error_set(e, ERR_USAGE, "\"%.200s\" is no key of counter %s", call->key, call->counter);
    if (c->key.places != NULL && !is_list(call))
        return error_set(e, ERR_USAGE, "the key of counter %s has several placeholders: give --key",
                         call->counter);
    if (!c->key.has_store && call->store != NULL)
        return error_set(e, ERR_USAGE, "counter %s has no stores: leave --store out", call->counter);
    if (!c->key.has_store) return pattern_put(&c->key, slice_of("", 0), &a->key), ERR_NONE;
    if (call->store == NULL)
        return is_list(call) ? ERR_NONE
                             : error_set(e, ERR_USAGE, "counter %s has stores: give --store", call->counter);
    if (counter_key(c, slice_str(call->store), &a->key)) return ERR_NONE;
    return error_set(e, ERR_USAGE, "counter %s has no store such as \"%.60s\": write it as in the key",
                     call->counter, call->store);
}

static enum err figure_read(const char *option, const char *text, int64_t *out, struct error *e)
{
    if (num_parse(slice_str(text), out) && *out >= -DELTA_MAX && *out <= DELTA_MAX) return ERR_NONE;
    return error_set(e, ERR_USAGE, "%s takes an integer, at most %lld either way, not \"%.40s\"", option,
                     (long long)DELTA_MAX, text);
}

/* --- list --- */

static void row_put(void *arg, const struct adjustment *row)
{
    struct adjusting *a = arg;
    char set[48] = "";
    if (row->sets) snprintf(set, sizeof set, ", set to %lld", (long long)row->set_to);
    buf_printf(&a->text, "%s  %s  %s  %s  %s  %+lld%s\n    %s\n", SLICE_SHOW(row->id, ADJUST_ID_BYTES_MAX),
               human_time(row->adjusted_ms, HUMAN), SLICE_SHOW(row->counter, NAME_BYTES_MAX),
               SLICE_SHOW(row->key, SHOWN), SLICE_SHOW(row->field, SHOWN), (long long)row->delta, set,
               SLICE_SHOW(row->reason, ADJUST_REASON_BYTES_MAX));
}

static void row_json(void *arg, const struct adjustment *row)
{
    struct json *j = &((struct adjusting *)arg)->json;
    json_open(j, NULL, '{');
    json_slice(j, "id", row->id);
    json_slice(j, "counter", row->counter);
    json_slice(j, "key", row->key);
    json_slice(j, "field", row->field);
    json_int(j, "delta", row->delta);
    figure_json(j, "set_to", (struct figure){row->sets, row->set_to});
    json_slice(j, "reason", row->reason);
    json_int(j, "adjusted_at", row->adjusted_ms / 1000);
    json_close(j, '}');
}

static enum err adjustments_show(struct adjusting *a, struct error *e)
{
    uint32_t limit = a->call->limit > 0 ? (uint32_t)a->call->limit : LIMIT_DEFAULT;
    struct slice counter = a->counter != NULL ? a->counter->name : slice_of(NULL, 0);
    if (a->call->json) json_open(&a->json, NULL, '[');
    enum err code =
        adjustments_list(a->db, counter, buf_slice(&a->key), limit, a->call->json ? row_json : row_put, a, e);
    if (a->call->json) json_close(&a->json, ']');
    if (a->call->json) buf_put_char(&a->text, '\n');
    if (!a->call->json && a->text.n == 0) BUF_LIT(&a->text, "Nothing was adjusted.\n");
    return code;
}

/* --- one --- */

static void adjusted_put(struct adjusting *a, const struct adjustment *row, enum adjust_outcome outcome)
{
    if (a->call->json)
        row_json(a, row), buf_put_char(&a->text, '\n');
    else
        buf_printf(&a->text, "%s by %+lld; id " SLICE_FMT "\n",
                   outcome == ADJUST_KNOWN ? "This adjustment was made before," : "Adjusted",
                   (long long)row->delta, SLICE_ARG(row->id));
}

static enum err one(struct adjusting *a, struct error *e)
{
    const struct call *call = a->call;
    uint8_t random[16];
    char made[2 * sizeof random];
    enum adjust_outcome outcome;
    rand_bytes(random, sizeof random);
    hex_write(random, sizeof random, made);
    struct adjustment row = {.id = call->id != NULL ? slice_str(call->id) : slice_of(made, sizeof made),
                             .counter = a->counter->name,
                             .key = buf_slice(&a->key),
                             .field = slice_str(call->field),
                             .reason = slice_str(call->reason),
                             .sets = call->set != NULL};
    if (!counter_field_valid(a->counter, row.field))
        return error_set(e, ERR_USAGE, "\"%.60s\" is not a field of counter %s", call->field, call->counter);
    enum err code = row.sets ? figure_read("--set", call->set, &row.set_to, e)
                             : figure_read("--by", call->by, &row.delta, e);
    if (code == ERR_NONE) code = adjust(a->db, a->counter, &row, &outcome, e);
    if (code == ERR_UNAVAILABLE)
        fprintf(stderr,
                "tallyd: it is not known whether it was done; repeat the command with --id " SLICE_FMT "\n",
                SLICE_ARG(row.id));
    if (code != ERR_NONE) return code;
    if (outcome == ADJUST_OTHER)
        return error_set(e, ERR_FAILED,
                         "the id \"%.64s\" was used for another adjustment; `tallyd adjust list` shows it",
                         call->id);
    if (outcome == ADJUST_MISSING)
        return error_set(e, ERR_FAILED, "there is no such row, and counter %s makes none (missing)",
                         call->counter);
    if (outcome == ADJUST_FAR)
        return error_set(e, ERR_FAILED, "the stored count and --set are too far apart for 64 bits; use --by");
    adjusted_put(a, &row, outcome);
    return ERR_NONE;
}

static enum err adjusting_run(const struct call *call, const struct setup *setup)
{
    struct adjusting a = {.call = call};
    struct error e = {.code = ERR_NONE, .text = ""};
    a.json.out = &a.text;
    a.db = db_create(&setup->mysql);
    enum err code = choice_counter(call, setup, &a.counter, &e);
    if (code == ERR_NONE) code = key_choose(&a, &e);
    if (code == ERR_NONE) code = db_open(a.db) == CODE_OK ? ERR_NONE : db_error(a.db, &e);
    if (code == ERR_NONE) code = is_list(call) ? adjustments_show(&a, &e) : one(&a, &e);
    if (code != ERR_NONE) buf_reset(&a.text);
    enum err printed = text_print(&a.text);
    db_destroy(&a.db);
    buf_free(&a.key);
    return code != ERR_NONE ? call_failed(&e) : printed;
}

enum err verb_adjust(const struct call *call)
{
    struct error e;
    if (asked_right(call, &e) != ERR_NONE) return call_failed(&e);
    return call_configured(call, adjusting_run);
}
