/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kept.h"

#include "state.h"

#include <stdlib.h>

bool entry_is_kept(const struct entry *entry)
{
    if (!entry || !entry->desired || entry->kind == ENTRY_PLAIN)
        return false;
    return entry->quarantined || port_of_entry(entry)->entry.quarantined;
}

/* ---- single elements ---- */

static struct restored *find_restored(struct ruleset *rs, enum table_set set,
                                      const struct entry *entry, uint32_t slot)
{
    vec_each (&rs->keeping.restored, it)
        if (it->set == set && it->entry == entry && it->slot == slot)
            return it;
    return NULL;
}

void kept_differs(struct ruleset *rs, enum table_set set, const struct applied_element *applied,
                  bool there)
{
    const uint32_t slot = applied->element.slot;
    struct restored *known = find_restored(rs, set, applied->entry, slot);
    const bool before = known ? known->there : applied->there;
    rs->stats.elements += (size_t)there - (size_t)before;
    if (known)
        known->there = there;
    else
        vec_push(&rs->keeping.restored, (struct restored){set, applied->entry, slot, there});
}

bool kept_give_up(struct ruleset *rs, enum table_set set, struct entry *entry, uint32_t slot)
{
    const struct backend none = {.port = 0};
    struct restored *it = find_restored(rs, set, entry, slot);
    struct port_entry *port = NULL;
    if (!it)
        return false;
    if (set == SET_SERVICES)
        port = ruleset_port_of_number(rs, port_of_value(as_frontend(entry)->applied));
    if (!it->there || !entry_has(set, entry, slot))
        *it = rs->keeping.restored.v[--rs->keeping.restored.n];
    if (set_owner(set) == OWNER_SLOTS)
        slots_put(port_slots(as_port(entry), part_of_set(set)), slot, &none);
    else
        entry_set_applied(rs, set, entry, 0);
    ruleset_mark_dirty(rs, entry);
    if (port) /* something of it may be left */
        ruleset_mark_dirty(rs, &port->entry);
    return true;
}

/* ---- all of them ---- */

void kept_note(struct ruleset *rs, struct entry *entry)
{
    struct kept kept = {.entry = entry};
    if (!entry_is_kept(entry) || entry->dirty)
        return;
    for (enum table_set set = first_set(entry); set < end_of_sets(entry); set++)
        kept.applied[set] = entry_applied(set, entry);
    for (enum port_part which = 0; entry->kind == ENTRY_PORT && which < PARTS; which++) {
        const struct slot_table *slots = port_slots(as_port(entry), which);
        for (uint32_t i = 0; slots && i < slots->n_slots; i++)
            slots_put(&kept.parts[which], i, &slots->slots[i]);
    }
    if (entry->kind == ENTRY_PORT)
        source_lists_keep(rs, kept.applied[SET_SOURCE_LISTS]);
    vec_push(&rs->keeping.all, kept);
}

static void compare_values(struct ruleset *rs, const struct kept *kept)
{
    struct entry *entry = kept->entry;
    for (enum table_set set = first_set(entry); set < end_of_sets(entry); set++) {
        const uint32_t found = entry_applied(set, entry);
        if (found == kept->applied[set])
            continue;
        vec_push(&rs->keeping.restored, (struct restored){set, entry, 0, found != 0});
        entry_set_applied(rs, set, entry, kept->applied[set]);
    }
}

static void compare_slots(struct ruleset *rs, const struct kept *kept, enum port_part which)
{
    const struct backend none = {.port = 0};
    const struct slot_table *noted = &kept->parts[which];
    struct slot_table *slots = port_make_slots(as_port(kept->entry), which);
    const uint32_t n = slots->n_slots > noted->n_slots ? slots->n_slots : noted->n_slots;
    for (uint32_t i = 0; i < n; i++) {
        const struct backend *was = i < noted->n_slots ? &noted->slots[i] : &none;
        const struct backend *is = i < slots->n_slots ? &slots->slots[i] : &none;
        if (backend_equal(was, is))
            continue;
        vec_push(&rs->keeping.restored,
                 (struct restored){set_of_slots(which), kept->entry, i, !slot_is_empty(is)});
        slots_put(slots, i, was);
    }
}

/* Policy may have decided anew meanwhile: what is not kept any more is as it was read. */
void kept_compare(struct ruleset *rs)
{
    vec_each (&rs->keeping.all, kept) {
        if (!entry_is_kept(kept->entry))
            continue;
        compare_values(rs, kept);
        for (enum port_part which = 0; kept->entry->kind == ENTRY_PORT && which < PARTS; which++)
            compare_slots(rs, kept, which);
    }
}

void kept_forget(struct ruleset *rs)
{
    vec_each (&rs->keeping.all, kept)
        for (enum port_part which = 0; which < PARTS; which++)
            slots_clear(&kept->parts[which]);
    vec_free(&rs->keeping.all);
    source_lists_unkeep(rs);
    rs->keeping.complete = false;
}
