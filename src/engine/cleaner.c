/* engine/cleaner.c - see upkeep.h. A step may be done twice. A step without an answer because of a cut is repeated
 * when the link is back; one that Redis refuses costs the rest of its page, until the next pass. */
#include "base/heap.h"
#include "base/log.h"
#include "engine/upkeep.h"
#include "series/names.h"

#define FIRST_MS 1000
#define PASS_MS (CLEAN_PASS_S * UINT64_C(1000))
#define REST_LEAST_MS 1000 /* between two passes, however long the first one took */
#define REST_TIMES 3
#define RETRY_MS 1000
#define PAGE_NAMES 1000
/* Cached windows are gone through every hundredth of the shortest time that one is kept. That is at most each pass, and
 * at least once an hour. */
#define WINDOWS_PARTS 100
#define WINDOWS_MOST_S 3600

static void step_due(uv_timer_t *timer);

static void next_in(struct cleaner *c, uint64_t ms)
{
    uv_timer_start(&c->timer, step_due, ms, 0);
}

static void lists_clear(struct cleaner *c)
{
    heap_free(c->page.all);
    heap_free(c->windows.all);
    buf_free(&c->page.names);
    c->page.all = NULL;
    c->names = c->windows = (struct cleaner_list){0};
}

/* --- a pass --- */

static void stage_begin(struct cleaner *c, enum cleaner_stage stage)
{
    c->stage = stage;
    c->at_end = false;
    buf_reset(&c->after);
}

static bool windows_due(const struct cleaner *c)
{
    const struct op_limits *ops = c->core->config.counters->ops;
    int64_t every_s = ops->tiers[0].keep_s / WINDOWS_PARTS; /* the first tier keeps shortest */
    return clean_due(every_s < WINDOWS_MOST_S ? every_s : WINDOWS_MOST_S, c->pass_s, c->windows_s);
}

enum stepped { STEP_DONE, STEP_CUT, STEP_REFUSED };

static enum stepped step_end(struct cleaner *c, bool lost, const char *text)
{
    uint64_t took_us = mono_us() - c->step_us;
    enum stepped how = lost ? STEP_CUT : text[0] != '\0' ? STEP_REFUSED : STEP_DONE;
    c->busy = false;
    if (how == STEP_REFUSED && !c->told) log_event(LOG_WARN, "cleaner", "error=%s", LOGQ(text));
    c->told = c->told || how == STEP_REFUSED;
    uint64_t rest_ms = (REST_TIMES * took_us + 999) / 1000;
    next_in(c, lost ? RETRY_MS : rest_ms < PASS_MS ? rest_ms : PASS_MS);
    return how;
}

/* --- a page: what of it to clean --- */

/* Keeps the series of a page that are due. When the precision of the last one is not due, the next page begins after
 * all of that precision (';' is the byte after ':'). */
static void series_pick(struct cleaner *c)
{
    uint32_t picked = 0;
    for (uint32_t i = 0; i < c->page.n; i++) {
        struct slice name = c->page.all[i];
        int64_t precision_s = clean_precision(name);
        if (precision_s == 0) continue;
        bool due = clean_due(precision_s, c->pass_s, c->last_s);
        if (due) c->page.all[picked++] = name;
        if (due || i + 1 < c->page.n) continue;
        buf_reset(&c->after);
        buf_int(&c->after, precision_s);
        buf_put_char(&c->after, ';');
    }
    c->names = (struct cleaner_list){.kind = REDIS_CLEAN_SERIES, .all = c->page.all, .n = picked};
}

static void page_done(struct redis_page *page)
{
    struct cleaner *c = page->arg;
    enum stepped how = step_end(c, page->lost, page->text);
    if (how == STEP_REFUSED) c->at_end = true;
    if (how != STEP_DONE) return;
    c->at_end = page->at_end;
    if (page->n == 0) return;
    buf_reset(&c->after);
    buf_put_slice(&c->after, page->all[page->n - 1]);
    if (c->stage == CLEANER_SERIES)
        series_pick(c);
    else {
        /* All logs of a page, and those of their types that no earlier page had. */
        struct slice name, type;
        bool windows = windows_due(c);
        c->names = (struct cleaner_list){.kind = REDIS_CLEAN_EVENTS, .all = c->page.all, .n = c->page.n};
        c->windows = (struct cleaner_list){.kind = REDIS_CLEAN_WINDOWS};
        c->windows.all = heap_alloc((c->page.n + 1) * sizeof *c->windows.all);
        for (uint32_t i = 0; i < c->page.n && windows; i++)
            if (event_split(c->page.all[i], &name, &type) && map_put(&c->types, type, NULL))
                c->windows.all[c->windows.n++] = type;
    }
}

/* --- cleaning it --- */

static void cleaner_cleaned(struct redis_clean *done)
{
    struct cleaner *c = done->arg;
    struct cleaner_list *list = done->kind == REDIS_CLEAN_WINDOWS ? &c->windows : &c->names;
    enum stepped how = step_end(c, done->lost, done->text);
    if (how == STEP_REFUSED) {
        list->done = list->n;
        done->cursor[0] = '\0';
    }
    if (how != STEP_DONE) return;
    list->done += done->finished;
    c->removed[done->kind] += done->removed;
    c->gone += done->gone;
    c->odd += done->odd;
}

/* Keeps the cursor: it is of the first name that is not done. */
static void clean_ask(struct cleaner *c, const struct cleaner_list *list)
{
    struct redis_clean *clean = &c->clean;
    uint32_t left = list->n - list->done;
    clean->kind = list->kind;
    clean->limits = c->core->config.counters->ops;
    clean->names = list->all + list->done;
    clean->names_n = left < REDIS_CLEAN_NAMES_MAX ? left : REDIS_CLEAN_NAMES_MAX;
    clean->now_most_s = c->now_s;
    clean->done = cleaner_cleaned;
    clean->arg = c;
    redis_clean(&c->link, clean);
}

static void step(struct cleaner *c)
{
    const struct cleaner_list *list = c->names.done < c->names.n       ? &c->names
                                      : c->windows.done < c->windows.n ? &c->windows
                                                                       : NULL;
    if (list == NULL && c->at_end) {
        if (c->stage == CLEANER_EVENTS) {
            uint64_t took_ms = mono_ms() - c->pass_ms;
            log_event(LOG_DEBUG, "cleaned",
                      "samples=%llu events=%llu windows=%llu gone=%llu odd=%llu took_ms=%llu",
                      (unsigned long long)c->removed[REDIS_CLEAN_SERIES],
                      (unsigned long long)c->removed[REDIS_CLEAN_EVENTS],
                      (unsigned long long)c->removed[REDIS_CLEAN_WINDOWS], (unsigned long long)c->gone,
                      (unsigned long long)c->odd, (unsigned long long)took_ms);
            if (windows_due(c)) c->windows_s = c->pass_s;
            c->last_s = c->pass_s;
            map_close(&c->types);
            map_init(&c->types);
            c->stage = CLEANER_RESTS;
            next_in(c, took_ms + REST_LEAST_MS < PASS_MS ? PASS_MS - took_ms : REST_LEAST_MS);
            return;
        }
        stage_begin(c, CLEANER_EVENTS);
    }
    c->busy = true;
    c->step_us = mono_us();
    if (list != NULL)
        clean_ask(c, list);
    else {
        lists_clear(c);
        c->page = (struct redis_page){
            .key = c->stage == CLEANER_SERIES ? SLICE(KEY_KNOWN) : SLICE(KEY_EVENTS),
            .after = buf_slice(&c->after),
            .limit = PAGE_NAMES,
            .done = page_done,
            .arg = c,
        };
        redis_page(&c->link, &c->page);
    }
}

static void step_due(uv_timer_t *timer)
{
    struct cleaner *c = timer->data;
    if (c->core->stage != STAGE_RUNNING) return;
    if (!redis_link_is_up(&c->link)) {
        next_in(c, RETRY_MS);
        return;
    }
    c->now_s = steady_ms(&c->clock, redis_time_ms(&c->link), mono_ms()) / 1000;
    if (c->stage == CLEANER_RESTS) {
        c->pass_ms = mono_ms();
        c->pass_s = c->now_s;
        c->told = false;
        memset(c->removed, 0, sizeof c->removed);
        c->gone = c->odd = 0;
        stage_begin(c, CLEANER_SERIES);
    }
    step(c);
}

/* --- begin and end --- */

void cleaner_init(struct cleaner *c, struct core *core)
{
    *c = (struct cleaner){.core = core, .last_s = -1, .windows_s = -1};
    core_link_init(core, &c->link, "clean");
    c->link.arg = c; /* the next step sees its ups and downs */
    map_init(&c->types);
    uv_timer_init(core->loop, &c->timer);
    c->timer.data = c;
}

void cleaner_begin(struct cleaner *c)
{
    redis_link_start(&c->link);
    next_in(c, FIRST_MS);
}

static void timer_closed(uv_handle_t *timer)
{
    struct cleaner *c = timer->data;
    lists_clear(c);
    buf_free(&c->after);
    map_close(&c->types);
    c->closed(c);
}

static void link_closed(struct redis_link *l)
{
    uv_close((uv_handle_t *)&((struct cleaner *)l->arg)->timer, timer_closed);
}

void cleaner_close(struct cleaner *c, void (*closed)(struct cleaner *c))
{
    c->closed = closed;
    redis_link_close(&c->link, link_closed);
}
