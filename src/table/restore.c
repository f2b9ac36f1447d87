/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "restore.h"

#include "state.h"

bool restore_keeps(const struct entry *entry)
{
    if (!entry || !entry->desired || entry->kind == ENTRY_PLAIN)
        return false;
    return entry->quarantined || port_of_entry(entry)->entry.quarantined;
}

static struct restored *find(struct ruleset *rs, enum table_set set, const struct entry *entry,
                             uint32_t slot)
{
    vec_each (&rs->restored, it)
        if (it->set == set && it->entry == entry && it->slot == slot)
            return it;
    return NULL;
}

void restore_note(struct ruleset *rs, enum table_set set, const struct applied_element *applied,
                  bool there)
{
    const uint32_t slot = applied->element.slot;
    struct restored *known = find(rs, set, applied->entry, slot);
    const bool before = known ? known->there : applied->there;
    rs->stats.elements += (size_t)there - (size_t)before;
    if (known)
        known->there = there;
    else
        vec_push(&rs->restored, (struct restored){set, applied->entry, slot, there});
}

static void put_restored(struct ruleset *rs, const struct restored *it, enum nft_element_op op)
{
    const struct key key = entry_key(it->set, it->entry, it->slot);
    struct key value = {.length = 0};
    if (op == ELEMENT_ADD)
        value = entry_value(rs->family, it->set, it->entry, it->slot);
    nft_batch_element(&rs->batch, op, set_name(it->set), key.bytes, key.length,
                      value.length ? value.bytes : NULL, value.length);
}

void restore_encode(struct ruleset *rs)
{
    vec_each (&rs->restored, it) {
        rs->batch.together = true;
        if (it->there)
            put_restored(rs, it, ELEMENT_DELETE);
        if (entry_has(it->set, it->entry, it->slot))
            put_restored(rs, it, ELEMENT_ADD);
        rs->batch.together = false;
    }
    nft_batch_may_cut(&rs->batch);
}
