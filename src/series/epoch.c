#include "series/epoch.h"

bool history_has(const struct history_read *h, const struct claim_gen *claim)
{
    if (claim->gen > h->gen) return false;
    for (uint32_t i = 0; i < h->gens_n; i++)
        if (h->gens[i].gen == claim->gen) return batch_id_same(&h->gens[i].id, &claim->id);
    return true;
}
