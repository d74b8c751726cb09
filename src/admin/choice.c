/* admin/choice.c - see choice.h. */
#include "admin/choice.h"
#include "base/heap.h"
#include "conf/conf.h"
#include "status/ask.h"

#define CHOICE_SHOWN 60

enum err choice_counter(const struct call *call, const struct setup *setup, const struct counter **out,
                        struct error *e)
{
    char shown[CHOICE_SHOWN + 4];
    *out = NULL;
    if (call->counter == NULL) return ERR_NONE;
    struct slice name = slice_str(call->counter);
    *out = counters_find(&setup->counters, name);
    if (*out != NULL) return ERR_NONE;
    const char **names = heap_alloc(setup->conf->counters_n * sizeof(*names));
    for (size_t i = 0; i < setup->conf->counters_n; i++)
        names[i] = setup->conf->counters[i].name;
    const char *nearest = near_name(name, names, setup->conf->counters_n);
    heap_free(names);
    slice_show(name, CHOICE_SHOWN, shown, sizeof(shown));
    if (nearest != NULL)
        return error_set(e, ERR_USAGE, "there is no counter \"%s\", did you mean \"%s\"?", shown, nearest);
    return error_set(e, ERR_USAGE, "there is no counter \"%s\"; `tallyd status` lists them", shown);
}

void choice_keys_add(struct choice_keys *k, const struct counter *c, struct slice key)
{
    k->all = heap_realloc(k->all, (k->n + 1) * sizeof *k->all);
    k->counters = heap_realloc(k->counters, (k->n + 1) * sizeof *k->counters);
    k->all[k->n] = slice_of(heap_strndup(key.p, key.n), key.n);
    k->counters[k->n++] = c;
}

enum err choice_no_store(const struct call *call, struct error *e)
{
    char shown[CHOICE_SHOWN + 4];
    bool one = call->counter != NULL, key = call->store == NULL;
    slice_show(slice_str(key ? call->key : call->store), CHOICE_SHOWN, shown, sizeof shown);
    return error_set(e, ERR_USAGE, "no counter%s%s has %s\"%s\"%s", one ? " named " : "",
                     one ? call->counter : "", key ? "the key " : "a store such as ", shown,
                     key ? "" : ": write it as in the key");
}

enum err choice_keys(const struct call *call, const struct setup *setup, const struct counter *only,
                     struct choice_keys *out, struct error *e)
{
    const struct counters *cs = &setup->counters;
    bool taken = false;
    *out = (struct choice_keys){0};
    if (call->key != NULL && call->store != NULL)
        return error_set(e, ERR_USAGE, "give --store or --key, but only one of these");
    const struct counter *named = call->key == NULL ? NULL : counters_match(cs, slice_str(call->key));
    if (named != NULL && (only == NULL || only == named)) choice_keys_add(out, named, slice_str(call->key));
    for (size_t i = 0; i < cs->n && call->store != NULL; i++) {
        const struct counter *c = &cs->all[i];
        struct buf key = {0};
        if (only != NULL && only != c) continue;
        taken |= counter_takes_store(c, slice_str(call->store));
        if (counter_key(c, slice_str(call->store), &key)) choice_keys_add(out, c, buf_slice(&key));
        buf_free(&key);
    }
    return out->n > 0 || taken ? ERR_NONE : choice_no_store(call, e);
}

void choice_keys_close(struct choice_keys *k)
{
    for (size_t i = 0; i < k->n; i++)
        heap_free((void *)(uintptr_t)k->all[i].p);
    heap_free(k->all);
    heap_free(k->counters);
    *k = (struct choice_keys){0};
}

enum err servers_open(struct servers *s, const struct source *where, struct error *e)
{
    enum err code = lanes_agree(where, false, e);
    if (code == ERR_NONE) code = ask_open_patiently(&s->ask, where, e);
    if (code != ERR_NONE) return code;
    s->reading = *where->mysql;
    s->reading.reads = true;
    s->db = db_create(&s->reading);
    if (db_open(s->db) == CODE_OK) return ERR_NONE;
    code = db_error(s->db, e);
    db_destroy(&s->db);
    ask_close(&s->ask);
    return code;
}

void servers_close(struct servers *s)
{
    db_destroy(&s->db);
    ask_close(&s->ask);
}
