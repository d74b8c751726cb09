/* coalesce/journal.c - see journal.h. Its own open-addressing table, by name; times of a name are a chain. */
#include "coalesce/journal.h"
#include "base/heap.h"
#include "base/log.h"

struct journal *journal_create(struct slice name, uint64_t age, uint64_t now_ms)
{
    struct journal *j = heap_zalloc(sizeof *j);
    list_init(&j->link);
    journal_begin(j, name, age, now_ms);
    return j;
}

void journal_destroy(struct journal *j)
{
    PRE(j->frames == 0);
    if (list_linked(&j->link)) list_remove(&j->link);
    buf_free(&j->name);
    buf_free(&j->texts);
    buf_free(&j->records);
    heap_free(j->ops);
    heap_free(j->events);
    heap_free(j->slots);
    heap_free(j);
}

void journal_begin(struct journal *j, struct slice name, uint64_t age, uint64_t now_ms)
{
    PRE(!list_linked(&j->link) && j->frames == 0);
    struct buf *bufs[] = {&j->name, &j->texts, &j->records};
    for (size_t i = 0; i < sizeof bufs / sizeof bufs[0]; i++)
        buf_reset(bufs[i]);
    if (j->slots != NULL) memset(j->slots, 0, j->slots_cap * sizeof *j->slots);
    j->ops_n = j->events_n = j->names_n = j->puts = j->from = j->pending = 0;
    j->opened = j->closed = j->looked = false;
    j->bytes = 0;
    j->age = age;
    j->begun_ms = now_ms;
    buf_put_slice(&j->name, name);
}

struct slice journal_name(const struct journal *j, const struct journal_op *op)
{
    return slice_of(j->texts.p + op->name_at, op->name_n);
}

struct slice journal_type(const struct journal *j, const struct journal_op *op)
{
    return slice_of(j->texts.p + op->type_at, op->type_n);
}

/* --- the table --- */

static uint32_t *journal_slot(const struct journal *j, uint64_t code, enum op_kind kind, struct slice name,
                              struct slice type)
{
    uint32_t i = (uint32_t)code & (j->slots_cap - 1);
    for (; j->slots[i] != 0; i = (i + 1) & (j->slots_cap - 1)) {
        const struct journal_op *op = &j->ops[j->slots[i] - 1];
        if (op->code == code && op->kind == kind && slice_eq(journal_name(j, op), name) &&
            slice_eq(journal_type(j, op), type))
            break;
    }
    return &j->slots[i];
}

uint32_t journal_first(const struct journal *j, uint64_t code, enum op_kind kind, struct slice name,
                       struct slice type)
{
    if (j->slots_cap == 0) return OP_END;
    uint32_t found = *journal_slot(j, code, kind, name, type);
    return found == 0 ? OP_END : found - 1;
}

static uint32_t journal_text_put(struct journal *j, struct slice text)
{
    PRE(j->texts.n + text.n <= UINT32_MAX);
    uint32_t at = (uint32_t)j->texts.n;
    buf_reserve(&j->texts, text.n + 1); /* also an empty text has a place in it */
    buf_put_slice(&j->texts, text);
    return at;
}

static void ops_grow(struct journal *j, uint32_t n)
{
    while (j->ops_cap < n)
        j->ops_cap = j->ops_cap == 0 ? 64 : 2 * j->ops_cap;
    j->ops = heap_realloc(j->ops, j->ops_cap * sizeof *j->ops);
    for (; j->ops_n < n; j->ops_n++)
        j->ops[j->ops_n] = (struct journal_op){.next = OP_END, .first_event = OP_END, .last_event = OP_END};
}

/* Makes the op of that number, which is empty yet, the last one of its name. */
static void op_set(struct journal *j, uint32_t number, uint64_t code, const struct journal_record *of)
{
    if (2 * j->names_n >= j->slots_cap) {
        uint32_t *old = j->slots, old_cap = j->slots_cap;
        j->slots_cap = old_cap == 0 ? 256 : 2 * old_cap;
        j->slots = heap_zalloc(j->slots_cap * sizeof *j->slots);
        for (uint32_t i = 0; i < old_cap; i++) {
            if (old[i] == 0) continue;
            const struct journal_op *op = &j->ops[old[i] - 1];
            *journal_slot(j, op->code, op->kind, journal_name(j, op), journal_type(j, op)) = old[i];
        }
        heap_free(old);
    }
    uint32_t *slot = journal_slot(j, code, of->kind, of->name, of->type);
    struct journal_op op = {.kind = of->kind, .code = code, .which = of->at, .next = OP_END};
    op.first_event = op.last_event = OP_END;
    const struct journal_op *like = *slot == 0 ? NULL : &j->ops[*slot - 1];
    op.name_at = like != NULL ? like->name_at : journal_text_put(j, of->name);
    op.name_n = (uint32_t)of->name.n;
    op.type_at = like != NULL ? like->type_at : journal_text_put(j, of->type);
    op.type_n = (uint32_t)of->type.n;
    j->ops[number] = op;
    if (*slot == 0) {
        *slot = number + 1;
        j->names_n++;
        return;
    }
    uint32_t last = *slot - 1;
    while (j->ops[last].next != OP_END)
        last = j->ops[last].next;
    j->ops[last].next = number;
}

uint32_t journal_number(struct journal *j, uint64_t code, const struct journal_record *of)
{
    uint32_t i = journal_first(j, code, of->kind, of->name, of->type);
    for (uint32_t times = 0; i != OP_END; i = j->ops[i].next) {
        if (j->ops[i].which == of->at) return i;
        if (++times == JOURNAL_TIMES_MAX) return OP_END;
    }
    uint32_t number = j->ops_n;
    ops_grow(j, number + 1);
    op_set(j, number, code, of);
    return number;
}

/* --- in and out --- */

bool journal_fits(const struct journal *j, uint32_t number, int64_t n)
{
    int64_t sum;
    bool overflow = __builtin_add_overflow(j->ops[number].n, n, &sum);
    return !overflow && sum < JOURNAL_SUM_MAX && sum > -JOURNAL_SUM_MAX;
}

static void entry_count(struct journal *j, uint32_t number, int64_t n, uint32_t adds)
{
    struct journal_op *op = &j->ops[number];
    j->pending += op->adds == 0 && adds > 0;
    op->n += n;
    op->adds += adds;
    if (number < j->from) j->from = number;
}

static void tell(struct journal *j, uint32_t number)
{
    struct journal_op *op = &j->ops[number];
    if (!op->told)
        journal_put_op(&j->records, number, op->kind, op->which, journal_name(j, op), journal_type(j, op));
    op->told = true;
}

void journal_add(struct journal *j, uint32_t number, int64_t n)
{
    tell(j, number);
    journal_put_add(&j->records, number, n);
    entry_count(j, number, n, 1);
}

static void nothing_left(struct journal *j, uint32_t number)
{
    struct journal_op *op = &j->ops[number];
    j->pending -= op->adds > 0;
    op->n = 0;
    op->adds = 0;
}

/* --- events --- */

static void event_add(struct journal *j, uint32_t number, int64_t second, int64_t id, struct slice text)
{
    struct journal_op *op = &j->ops[number];
    HEAP_GROW(j->events, j->events_n, j->events_cap, 64);
    uint32_t i = j->events_n++;
    j->events[i] = (struct journal_event){.second = second, .id = id, .next = OP_END};
    if (id == 0) j->events[i].text_at = journal_text_put(j, text);
    if (id == 0) j->events[i].text_n = (uint32_t)text.n;
    if (op->adds == 0)
        op->first_event = i;
    else
        j->events[op->last_event].next = i;
    op->last_event = i;
    entry_count(j, number, 0, 1);
}

void journal_add_event(struct journal *j, uint32_t number, int64_t second, int64_t id, struct slice text)
{
    tell(j, number);
    journal_put_event(&j->records, number, second, id, text);
    event_add(j, number, second, id, text);
}

static uint32_t event_behind(const struct journal *j, uint32_t first, uint32_t n)
{
    while (n-- > 0)
        first = j->events[first].next;
    return first;
}

static void events_leave(struct journal *j, uint32_t number, uint32_t n)
{
    struct journal_op *op = &j->ops[number];
    op->first_event = event_behind(j, op->first_event, n);
    op->adds -= n;
    j->pending -= op->adds == 0;
}

void journal_take(struct journal *j, uint32_t number, uint32_t adds)
{
    PRE(adds > 0 && adds <= j->ops[number].adds);
    if (journal_has_events(&j->ops[number])) {
        journal_put_gone(&j->records, number, adds);
        events_leave(j, number, adds);
    } else {
        journal_put_done(&j->records, number);
        nothing_left(j, number);
    }
}

/* --- of a frame that did not run --- */

void journal_undo_add(struct journal *j, uint32_t number, int64_t n, uint32_t adds, bool was_told)
{
    struct journal_op *op = &j->ops[number];
    INVARIANT(adds > 0 && op->adds >= adds);
    op->told = was_told;
    op->n -= n;
    op->adds -= adds;
    j->pending -= op->adds == 0;
    if (journal_has_events(op) && op->adds > 0) {
        op->last_event = event_behind(j, op->first_event, op->adds - 1);
        j->events[op->last_event].next = OP_END;
    }
}

void journal_undo_take(struct journal *j, uint32_t number, int64_t n, uint32_t adds, uint32_t first_event)
{
    struct journal_op *op = &j->ops[number];
    if (journal_has_events(op)) {
        uint32_t last = event_behind(j, first_event, adds - 1);
        j->events[last].next = op->adds > 0 ? op->first_event : OP_END;
        if (op->adds == 0) op->last_event = last;
        op->first_event = first_event;
    }
    entry_count(j, number, n, adds);
}

/* --- another process' journal --- */

static bool read_record(struct journal *j, const struct journal_record *r, uint64_t code)
{
    if (r->mark == JOURNAL_OP) {
        /* A number's OP record comes again when the frame that had it first was refused. */
        if (r->number >= JOURNAL_NUMBERS_MAX) return false;
        if (r->number >= j->ops_n) ops_grow(j, r->number + 1);
        if (!j->ops[r->number].told) op_set(j, r->number, code, r);
        j->ops[r->number].told = true;
        return true;
    }
    if (r->number >= j->ops_n || !j->ops[r->number].told) return false;
    const struct journal_op *op = &j->ops[r->number];
    bool of_events = r->mark == JOURNAL_EVENT || r->mark == JOURNAL_GONE;
    if (of_events != journal_has_events(op)) return false;
    if (r->mark == JOURNAL_GONE && r->n > op->adds) return false;
    if (r->mark == JOURNAL_ADD && !journal_fits(j, r->number, r->n)) return false;
    if (r->mark == JOURNAL_ADD) entry_count(j, r->number, r->n, 1);
    if (r->mark == JOURNAL_DONE) nothing_left(j, r->number);
    if (r->mark == JOURNAL_EVENT) event_add(j, r->number, r->at, r->n, r->name);
    if (r->mark == JOURNAL_GONE) events_leave(j, r->number, (uint32_t)r->n);
    return true;
}

bool journal_read(struct journal *j, struct slice bytes,
                  uint64_t (*code)(void *arg, const struct journal_record *of), void *arg)
{
    struct journal_record r;
    bool good = true;
    j->bytes = bytes.n;
    while (good && journal_next(&bytes, &r))
        good = read_record(j, &r, r.mark == JOURNAL_OP ? code(arg, &r) : 0);
    return good && bytes.n == 0;
}
