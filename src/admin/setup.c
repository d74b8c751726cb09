/* admin/setup.c - see setup.h. */
#include "admin/setup.h"

#include "base/heap.h"

#include <stdio.h>

#define WHERE_BYTES 512

/* counter: CONF_GLOBAL for an option that is no counter's. */
static void problem_add(const struct conf *conf, size_t counter, enum conf_option option,
                        const struct error *e, struct buf *problems)
{
    char where[WHERE_BYTES];
    buf_printf(problems, "%s: ", conf_where(conf, counter, option, where, sizeof(where)));
    if (counter == CONF_GLOBAL)
        buf_printf(problems, "%s: ", conf_option_path(option));
    else
        buf_printf(problems, "counters.%s%s: ", conf->counters[counter].name,
                   strrchr(conf_option_path(option), '.')); /* key or lock: right under the name */
    buf_printf(problems, "%s\n", e->text);
}

static struct slice text_or_none(const char *text)
{
    return text == NULL ? slice_of(NULL, 0) : slice_str(text);
}

static bool counter_init(struct setup *s, size_t i, struct buf *problems)
{
    const struct conf_counter *from = &s->conf->counters[i];
    struct counter *to = &s->counters.all[i];
    struct error e;
    *to = (struct counter){.name = slice_str(from->name),
                           .field = (enum field_kind)from->field,
                           .store = (enum store_kind)from->store,
                           .hits = from->hits,
                           .every_s = (uint32_t)from->every_s,
                           .table = slice_str(from->table),
                           .column_store = text_or_none(from->column_store),
                           .column_field = slice_str(from->column_field),
                           .column_count = slice_str(from->column_count)};
    bool key = pattern_parse(slice_str(from->key), &to->key, &e) == ERR_NONE;
    if (!key) problem_add(s->conf, i, CONF_COUNTER_KEY, &e, problems);
    bool lock = pattern_parse(slice_str(from->lock), &to->lock, &e) == ERR_NONE;
    if (!lock && key)
        problem_add(s->conf, i, CONF_COUNTER_LOCK, &e, problems); /* a bad key makes a bad lock */
    return key && lock;
}

static bool counters_init(struct setup *s, struct buf *problems)
{
    bool good = true;
    size_t which = 0;
    struct error e;
    s->counters.n = s->conf->counters_n;
    s->counters.all = heap_zalloc(s->counters.n * sizeof(*s->counters.all));
    for (size_t i = 0; i < s->counters.n; i++)
        good = counter_init(s, i, problems) && good;
    if (!good || counters_validate(&s->counters, &which, &e) == ERR_NONE) return good;
    problem_add(s->conf, which, CONF_COUNTER_KEY, &e, problems);
    return false;
}

static bool redis_init(struct setup *s, struct buf *problems)
{
    struct error e;
    if (redis_url_parse(slice_str(s->conf->redis_url), &s->redis, &e) != ERR_NONE) {
        problem_add(s->conf, CONF_GLOBAL, CONF_REDIS_URL, &e, problems);
        return false;
    }
    if (s->conf->redis_password != NULL)
        redis_url_set_password(&s->redis, slice_str(s->conf->redis_password));
    return true;
}

static bool mysql_init(struct setup *s, struct buf *problems)
{
    struct error e;
    db_config_init(&s->mysql);
    if (db_config_parse(slice_str(s->conf->mysql_url), &s->mysql, &e) != ERR_NONE) {
        problem_add(s->conf, CONF_GLOBAL, CONF_MYSQL_URL, &e, problems);
        return false;
    }
    if (s->conf->mysql_password != NULL)
        db_config_set_password(&s->mysql, slice_str(s->conf->mysql_password));
    s->mysql.read_timeout_s = (uint32_t)((s->conf->mysql_timeout_ms + 999) / 1000);
    s->mysql.write_timeout_s = s->mysql.read_timeout_s;
    return true;
}

bool setup_init(struct setup *out, const struct conf *conf, struct buf *problems)
{
    *out = (struct setup){.conf = conf};
    bool redis = redis_init(out, problems);
    bool mysql = mysql_init(out, problems);
    bool counters = counters_init(out, problems);
    if (redis && mysql && counters) return true;
    setup_close(out);
    return false;
}

void setup_close(struct setup *s)
{
    redis_url_close(&s->redis);
    db_config_close(&s->mysql);
    heap_free(s->counters.all);
    *s = (struct setup){0};
}
