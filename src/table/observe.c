/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compares what the kernel has under a key with the applied state, and marks differences dirty.
 * Apart from this, only commits change the applied state.
 */
#include "observe.h"

#include "plain.h"
#include "state.h"

#include <string.h>

/* ---- one element ---- */

static struct entry *get_entry(struct ruleset *rs, enum table_set set,
                               const struct applied_element *applied)
{
    if (applied->entry)
        return applied->entry;
    return set_owner(set) == OWNER_FRONTEND
               ? &ruleset_get_frontend(rs, &applied->element.frontend)->entry
               : &ruleset_get_port_of_number(rs, applied->element.port)->entry;
}

void ruleset_record(struct ruleset *rs, enum table_set set, const struct nft_element *from,
                    const struct applied_element *applied, bool there)
{
    const struct backend none = {.port = 0};
    const struct element *element = &applied->element;
    if (set_is_plain(set)) {
        const struct key key = key_of_bytes(from->key, from->key_length),
                         value = key_of_bytes(from->data, there ? from->data_length : 0);
        plain_observe(rs, set, &key, value.length ? &value : NULL, there);
        return;
    }
    struct entry *entry = get_entry(rs, set, applied);
    ruleset_mark_dirty(rs, entry); /* an undesired one is to be deleted */
    if (set_owner(set) == OWNER_SLOTS) {
        slots_put(port_make_slots(as_port(entry), part_of_set(set)), element->slot,
                  there ? &element->backend : &none);
        return;
    }
    if (set == SET_SERVICES && there)
        ruleset_adopt_number(rs, as_frontend(entry), port_of_value(element->number));
    entry_set_applied(rs, set, entry, there ? element->number : 0);
}

/* The applied slots of a port may be the only record of its desired backends: lists those, before
 * slots or counts change. */
static void list_desired(struct ruleset *rs, struct entry *entry)
{
    struct port_entry *port = entry && entry->kind == ENTRY_PORT ? as_port(entry) : NULL;
    if (entry && entry->kind == ENTRY_FRONTEND && value_is_counted(as_frontend(entry)->applied))
        port = ruleset_port_of_number(rs, port_of_value(as_frontend(entry)->applied));
    if (!port)
        return;
    port_list_desired(port);
    ruleset_mark_dirty(rs, &port->entry);
}

/* Records that the kernel has @from, or nothing under its key (@there is false). */
static enum observation observe(struct ruleset *rs, enum table_set set,
                                const struct nft_element *from, bool there,
                                struct recheck_result *result)
{
    struct applied_element applied = {.there = false};
    const bool ours = ruleset_find_applied(rs, set, from, &applied);
    if (ours && (there ? applied.same : !applied.there))
        return OBSERVED_SAME;
    result->missing += applied.there;
    result->strange += there;
    if (ours && entry_is_kept(applied.entry)) {
        kept_differs(rs, set, &applied, there);
        return OBSERVED_CHANGED;
    }
    /* Identifying a source list needs all of it. */
    if (!ours || set == SET_SOURCE_LISTS ||
        (there && !element_take_value(set, rs->family, from, &applied.element)))
        return OBSERVED_ALIEN;
    rs->stats.elements +=
        ((size_t)there - (size_t)applied.there) * kernel_elements(rs->family, set, from->key);
    list_desired(rs, applied.entry);
    ruleset_record(rs, set, from, &applied, there);
    return OBSERVED_CHANGED;
}

/* ---- changes by other programs ----
 *
 * An observed change may be outdated, so the kernel is queried for each element concerned.
 */

/* From this number on, a full read-back is no more work. */
#define MOST_RECHECKS 1000

/* Whether packets write the set: it has no desired elements. */
static bool is_of_packets(const struct ruleset *rs, const char *name)
{
    vec_each (&rs->base.sets, set)
        if (strcmp(set->name, name) == 0)
            return set->flags && strstr(set->flags, "dynamic");
    return false;
}

static void add_scope(struct ruleset *rs, enum recheck_scope scope)
{
    if (scope > rs->recheck_scope)
        rs->recheck_scope = scope;
}

void ruleset_recheck_element(struct ruleset *rs, const char *name, const struct nft_element *from)
{
    const enum table_set set = set_of_name(name);
    if (is_of_packets(rs, name))
        return;
    if (rules_map(rs, name)) {
        add_scope(rs, RECHECK_RULES);
        return;
    }
    if (set == TABLE_SETS || rs->rechecks.n >= MOST_RECHECKS || from->key_length > KEY_SIZE) {
        add_scope(rs, RECHECK_ALL);
        return;
    }
    vec_each (&rs->rechecks, it) /* one recheck covers a whole set of ranges */
        if (it->set == set && set_owner(set) == OWNER_RANGES)
            return;
    vec_push(&rs->rechecks,
             (struct recheck){set, key_of_bytes(from->key, from->key ? from->key_length : 0)});
}

void ruleset_recheck_all(struct ruleset *rs)
{
    add_scope(rs, RECHECK_ALL);
}

void ruleset_recheck_rules(struct ruleset *rs)
{
    add_scope(rs, RECHECK_RULES);
    rs->flowtable.due = true;
}

bool ruleset_has_rechecks(const struct ruleset *rs)
{
    return rs->recheck_scope != RECHECK_ELEMENTS || rs->rechecks.n > 0;
}

/* ---- looking again ---- */

struct checking {
    struct ruleset *rs;
    enum table_set set;
    bool there;
    enum observation observation; /* the worst one */
    struct recheck_result *result;
};

static void note(struct checking *c, enum observation observation)
{
    if (observation > c->observation)
        c->observation = observation;
}

static void on_found(void *ctx, const struct nft_element *from)
{
    struct checking *c = ctx;
    c->there = true;
    note(c, observe(c->rs, c->set, from, true, c->result));
}

static void on_missing(struct checking *c, const uint8_t *key, size_t length)
{
    const struct nft_element nothing = {.key = key, .key_length = length};
    note(c, observe(c->rs, c->set, &nothing, false, c->result));
}

static int check_element(struct checking *c, struct nft_socket *socket, const struct key *key,
                         struct error *err)
{
    if (nft_socket_get_element(socket, c->rs->family, RULESET_TABLE, set_name(c->set), key->bytes,
                               key->length, on_found, c, err))
        return -1;
    if (!c->there)
        on_missing(c, key->bytes, key->length);
    return 0;
}

/* All of them: a look-up finds no range, but one of its ends. */
static int check_ranges(struct checking *c, struct nft_socket *socket, struct error *err)
{
    struct boundaries boundaries = {.family = c->rs->family};
    range_vec found = {0};
    enum boundaries_verdict verdict = BOUNDARIES_TORN;
    if (nft_socket_read_elements(socket, c->rs->family, RULESET_TABLE, set_name(c->set),
                                 boundaries_take, &boundaries, err) == 0)
        verdict = boundaries_pair(&boundaries, &found);
    c->result->strange += verdict == BOUNDARIES_FOREIGN; /* one, at least */
    if (verdict == BOUNDARIES_PAIRED) {
        ranges_each(c->rs->family, &found, on_found, c);
        hash_table_each (&c->rs->plains, struct plain, plain)
            if (plain_set(plain) == c->set && plain->applied &&
                !ranges_have(c->rs->family, &found, plain_key(plain)))
                on_missing(c, plain_key(plain), plain->key_length);
    }
    boundaries_clear(&boundaries);
    vec_free(&found);
    return verdict == BOUNDARIES_PAIRED ? 0 : -1;
}

static enum observation check(struct ruleset *rs, struct nft_socket *socket,
                              const struct recheck *recheck, struct recheck_result *result)
{
    struct error err = {0};
    struct checking c = {
        .rs = rs, .set = recheck->set, .observation = OBSERVED_SAME, .result = result};
    if (set_owner(recheck->set) == OWNER_RANGES ? check_ranges(&c, socket, &err)
                                                : check_element(&c, socket, &recheck->key, &err))
        c.observation = OBSERVED_ALIEN;
    error_clear(&err);
    return c.observation;
}

/* Reads no elements, and rewrites rules that differ. OBSERVED_ALIEN, too, if the table is no longer
 * ours. */
static enum observation check_rules(struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    struct rules_repaired done = {.bytes = 0};
    const bool alien = !ruleset_has_table(rs) || !ruleset_is_still_ours(rs, socket) ||
                       ruleset_repair_rules(rs, socket, &done, &err);
    if (err.text)
        log_warn("table", "family=%s reading the table back: %s", family_name(rs->family),
                 err.text);
    error_clear(&err);
    return alien ? OBSERVED_ALIEN : done.bytes > 0 ? OBSERVED_CHANGED : OBSERVED_SAME;
}

/* Stops at a difference that needs a read-back. */
static void check_all(struct ruleset *rs, struct nft_socket *socket, struct recheck_result *result)
{
    enum observation observation = OBSERVED_SAME;
    if (rs->recheck_scope == RECHECK_RULES) {
        observation = check_rules(rs, socket);
        result->differences += observation != OBSERVED_SAME;
    }
    for (size_t i = 0; i < rs->rechecks.n && observation != OBSERVED_ALIEN; i++) {
        observation = check(rs, socket, &rs->rechecks.v[i], result);
        result->differences += observation != OBSERVED_SAME;
    }
    result->all = observation == OBSERVED_ALIEN;
}

struct recheck_result ruleset_recheck(struct ruleset *rs, struct nft_socket *socket)
{
    const bool all = rs->recheck_scope == RECHECK_ALL;
    struct recheck_result result = {.differences = all, .all = all};
    if (!all && ruleset_knows_kernel(rs))
        check_all(rs, socket, &result);
    if (result.all && ruleset_knows_kernel(rs))
        ruleset_enter(rs, TABLE_UNKNOWN);
    ruleset_forget_rechecks(rs);
    return result;
}

void ruleset_forget_rechecks(struct ruleset *rs)
{
    rs->recheck_scope = RECHECK_ELEMENTS;
    vec_clear(&rs->rechecks);
}
