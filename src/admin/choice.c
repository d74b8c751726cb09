/* admin/choice.c - see choice.h. */
#include "admin/choice.h"

#include "base/heap.h"
#include "conf/near.h"

#define SHOWN 60

enum err choice_counter(const struct call *call, const struct setup *setup, const struct counter **out,
                        struct error *e)
{
    char shown[SHOWN + 4];
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
    slice_show(name, SHOWN, shown, sizeof(shown));
    if (nearest != NULL)
        return error_set(e, ERR_USAGE, "there is no counter \"%s\", did you mean \"%s\"?", shown, nearest);
    return error_set(e, ERR_USAGE, "there is no counter \"%s\"; `tallyd status` lists them", shown);
}

static void key_add(struct choice_keys *k, const struct counter *c, struct slice store)
{
    size_t begin = k->bytes.n;
    if (!counter_key(c, store, &k->bytes)) return;
    k->all[k->n] = slice_of(NULL, k->bytes.n - begin);
    k->counters[k->n++] = c;
}

enum err choice_keys(const struct call *call, const struct setup *setup, const struct counter *only,
                     struct choice_keys *out, struct error *e)
{
    const struct counters *cs = &setup->counters;
    char shown[SHOWN + 4];
    if (call->key != NULL && call->store != NULL)
        return error_set(e, ERR_USAGE, "give --store or --key, but only one of these");
    *out = (struct choice_keys){.all = heap_alloc(cs->n * sizeof(*out->all)),
                                .counters = heap_alloc(cs->n * sizeof(*out->counters))};
    const struct counter *named = call->key == NULL ? NULL : counters_match(cs, slice_str(call->key));
    if (named != NULL && (only == NULL || only == named)) {
        buf_put_slice(&out->bytes, slice_str(call->key));
        out->all[0] = slice_of(NULL, out->bytes.n), out->counters[0] = named, out->n = 1;
    }
    for (size_t i = 0; i < cs->n && call->store != NULL; i++)
        if (only == NULL || only == &cs->all[i]) key_add(out, &cs->all[i], slice_str(call->store));
    for (size_t i = 0, at = 0; i < out->n; at += out->all[i++].n)
        out->all[i].p = out->bytes.p + at; /* the buffer moves no more */
    if (out->n > 0) return ERR_NONE;
    choice_keys_close(out);
    if (call->key != NULL)
        return error_set(e, ERR_USAGE, "no counter%s%s has the key \"%s\"", only == NULL ? "" : " named ",
                         only == NULL ? "" : call->counter,
                         slice_show(slice_str(call->key), SHOWN, shown, sizeof(shown)));
    return error_set(e, ERR_USAGE, "no counter%s%s has a store such as \"%s\": write it as in the key",
                     only == NULL ? "" : " named ", only == NULL ? "" : call->counter,
                     slice_show(slice_str(call->store), SHOWN, shown, sizeof(shown)));
}

void choice_keys_close(struct choice_keys *k)
{
    buf_free(&k->bytes);
    heap_free(k->all);
    heap_free(k->counters);
    *k = (struct choice_keys){0};
}
