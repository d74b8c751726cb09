/* http/tokens.c - see tokens.h. */
#include "http/tokens.h"

#include "base/heap.h"
#include "conf/tokens.h"

struct token_set {
    struct conf_tokens tokens;
    struct token_set *before;
};

void token_sets_init(struct token_sets *s, const struct conf_tokens *first)
{
    *s = (struct token_sets){.now = first};
}

void token_sets_close(struct token_sets *s)
{
    while (s->last != NULL) {
        struct token_set *set = s->last;
        s->last = set->before;
        tokens_free(&set->tokens);
        heap_free(set);
    }
}

const struct conf_tokens *token_sets_now(const struct token_sets *s)
{
    return __atomic_load_n(&s->now, __ATOMIC_ACQUIRE);
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool token_sets_hold(const struct token_sets *s, const struct conf_token *token)
{
    const struct conf_tokens *now = token_sets_now(s);
    for (size_t i = 0; i < now->n; i++)
        if (same_text(now->all[i].secret, token->secret) && same_text(now->all[i].store, token->store))
            return true;
    return false;
}

static bool same_tokens(const struct conf_tokens *a, const struct conf_tokens *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = same_text(a->all[i].name, b->all[i].name) && same_text(a->all[i].secret, b->all[i].secret) &&
               same_text(a->all[i].store, b->all[i].store);
    return same;
}

void token_sets_take(struct token_sets *s, struct conf_tokens *tokens)
{
    if (same_tokens(s->now, tokens)) {
        tokens_free(tokens);
        return;
    }
    struct token_set *set = heap_alloc(sizeof *set);
    *set = (struct token_set){.tokens = *tokens, .before = s->last};
    *tokens = (struct conf_tokens){0};
    s->last = set;
    __atomic_store_n(&s->now, &set->tokens, __ATOMIC_RELEASE);
}
