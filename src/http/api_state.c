/* http/api_state.c - how the service does: /api/status, /api/books, /healthz, /readyz. */
#include "base/clock.h"
#include "http/inside.h"
#include "http/route.h"
#include "status/proof.h"

#include <stdio.h>

void run_status(struct exchange *x, struct worker *w)
{
    struct status s;
    struct status_how how = {.service = door_link(&w->door), .books = true};
    status_probe(x->http->where, &how, &s);
    exchange_json(x);
    status_json(&x->body, &s);
    status_close(&s);
}

/* --- the books --- */

static void books_put(struct exchange *x, const struct sums *s)
{
    struct json j = exchange_json(x);
    json_open(&j, NULL, '{');
    json_bool(&j, "balanced", sums_unbalanced(s) == 0);
    json_int(&j, "as_of", wall_ms() / 1000);
    json_open(&j, "counters", '[');
    for (size_t i = 0; i < s->n; i++) {
        const struct sum *c = &s->all[i];
        json_open(&j, NULL, '{');
        json_text(&j, "counter", c->name);
        sum_columns_json(&j, c);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
}

void run_books(struct exchange *x, struct worker *w)
{
    struct ask ask;
    struct error e;
    struct sums sums;
    sums_init(&sums, x->http->where->counters);
    enum err code = ask_open_patiently(&ask, x->http->where, &e);
    if (code == ERR_NONE) {
        struct db *db = db_create(&w->panel.config);
        code =
            db_open(db) == CODE_OK ? proof_read(&ask, db, &proof_limits_verb, &sums, &e) : db_error(db, &e);
        db_destroy(&db);
        ask_close(&ask);
    }
    if (code == ERR_NONE)
        books_put(x, &sums);
    else
        exchange_refuse(x, 503, "see /api/status, and ask again; `tallyd verify` says more", "%s", e.text);
    sums_close(&sums);
}

/* --- for supervisors and load balancers --- */

static void text_answer(struct exchange *x, unsigned status, const char *text)
{
    x->answered = true;
    x->status = status;
    x->type = "text/plain; charset=utf-8";
    buf_printf(&x->body, "%s\n", text);
}

void run_healthz(struct exchange *x, struct worker *w)
{
    (void)w;
    bool turns = pulse_beat(&x->http->pulse).turns;
    text_answer(x, turns ? 200 : 503, turns ? "ok" : "the loop of tallyd has not turned for 2 s");
}

void run_readyz(struct exchange *x, struct worker *w)
{
    struct beat beat = pulse_beat(&x->http->pulse);
    (void)w;
    if (!beat.turns)
        text_answer(x, 503, "the loop of tallyd has not turned for 2 s");
    else if (!beat.asked)
        text_answer(x, 503, "tallyd has just started");
    else if (!beat.redis_up)
        text_answer(x, 503, "Redis is down: nothing can be counted");
    else if (beat.held[0] != '\0')
        text_answer(x, 503, beat.held);
    else
        text_answer(x, 200, "ready");
}
