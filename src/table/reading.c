/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads all elements of a table but verdicts, in pieces, set by set, and records them as applied.
 *
 * For each 32 KiB of a dump the kernel walks a set from its beginning, so the work grows with the
 * square of the size: 800,000 elements take 20 s. By key it takes 4 microseconds for each. The keys
 * of frontends are known from what is desired, those of slots from the values in ports and
 * local_ports. Sending an element takes a third of that, and does nothing if the kernel has it: so
 * frontends that should lead where others were found to lead are sent. Whether these are all is
 * known from the kernel's count; if not, a dump follows.
 */
#include "plain.h"
#include "state.h"

#include <string.h>

/* Number of elements at which a dump takes as long as reading as many by key. */
#define DUMP_MOST 65536

/* Work (see ADOPTION_PIECE) of a request, of a key in one, and of an entry that is looked at. */
#define REQUEST_WORK 256
#define KEY_WORK 128
#define SENT_WORK 48
#define ENTRY_WORK 4

/* ---- keys ---- */

/* Entries looked at in a piece. */
#define ENTRIES_MOST 1024

/* The number of keys that @entry should have in a set. */
static uint32_t keys_of(const struct entry *entry, enum table_set set)
{
    if (set_owner(set) == OWNER_SLOTS)
        return entry->kind == ENTRY_PORT ? port_count(as_port(entry), part_of_set(set)) : 0;
    return entry->kind == ENTRY_FRONTEND && entry->desired;
}

/* While nothing is applied, all entries are dirty, unless they are quarantined. */
static const struct entry *entry_at(const struct ruleset *rs, size_t at)
{
    const size_t quarantined = rs->quarantine.all.n;
    if (at < quarantined)
        return rs->quarantine.all.v[at].entry;
    return at - quarantined < rs->dirty.n ? rs->dirty.v[at - quarantined] : NULL;
}

/* Sent in a transaction, below LARGE_BATCH bytes; of these, the kernel may reject some. */
#define SENT_MOST 448
#define REJECTIONS_MOST 8

/* Whether the element of a frontend may be sent unread: another one of its service port and class
 * leads where it should lead, so all that packets meet there is in place. Not with source ranges,
 * which must be there first. */
static bool is_sent(const struct adoption *a, const struct entry *entry)
{
    const struct frontend_entry *frontend =
        entry->kind == ENTRY_FRONTEND ? as_frontend(entry) : NULL;
    return a->set == SET_SERVICES && frontend && frontend->port &&
           !(frontend->class & CLASS_RESTRICTED) && !frontend_wants_count(frontend) &&
           !entry->quarantined && !frontend->port->entry.quarantined &&
           frontend->port->found_classes >> frontend->class & 1 && a->at >= a->requested &&
           !frontend->applied;
}

/* The next keys; returns whether others may follow. */
static bool next_keys(struct ruleset *rs, uint8_t bytes[NFT_KEYS_MOST * KEY_SIZE],
                      struct nft_keys *keys)
{
    struct adoption *a = &rs->adoption;
    const struct entry *entry = entry_at(rs, a->at);
    for (size_t left = ENTRIES_MOST;
         entry && left > 0 && keys->n < NFT_KEYS_MOST && a->sent.n < SENT_MOST; left--) {
        if (is_sent(a, entry)) {
            vec_push(&a->sent, rs->dirty.v[a->at - rs->quarantine.all.n]);
            entry = entry_at(rs, ++a->at);
            continue;
        }
        for (; a->slot < keys_of(entry, a->set) && keys->n < NFT_KEYS_MOST; a->slot++) {
            const struct key key = entry_key(a->set, entry, a->slot);
            keys->length = key.length;
            memcpy(bytes + keys->n++ * key.length, key.bytes, key.length);
        }
        if (a->slot < keys_of(entry, a->set))
            break;
        a->slot = 0;
        a->work += ENTRY_WORK;
        entry = entry_at(rs, ++a->at);
    }
    a->work += REQUEST_WORK + KEY_WORK * keys->n + SENT_WORK * a->sent.n;
    return entry != NULL;
}

/* ---- elements ---- */

/* That the frontend of @entry (may be NULL) leads as desired, by the counts that others use, too.
 */
static void note_class(const struct entry *entry)
{
    struct port_entry *port = entry ? as_frontend(entry)->port : NULL;
    if (port && !entry->quarantined && !value_is_counted(as_frontend(entry)->applied) &&
        as_frontend(entry)->applied == entry_desired(SET_SERVICES, entry))
        port->found_classes |= (uint8_t)(1U << as_frontend(entry)->class);
}

static void take_read_element(void *ctx, const struct nft_element *from)
{
    struct ruleset *rs = ctx;
    struct adoption *a = &rs->adoption;
    struct applied_element applied;
    if (set_owner(a->set) == OWNER_RANGES) {
        a->found.counted++;
        boundaries_take(&a->boundaries, rs->family, from);
        return;
    }
    if (!ruleset_find_applied(rs, a->set, from, &applied) ||
        !element_take_value(a->set, rs->family, from, &applied.element)) {
        a->found.foreign = true;
        return;
    }
    if (applied.there) {
        a->repeated++;
        return;
    }
    a->found.counted++;
    a->found.elements++;
    a->recorded++;
    ruleset_record(rs, a->set, from, &applied, true);
    if (a->set == SET_SERVICES)
        note_class(applied.entry);
    if (a->set == SET_SOURCE_LISTS)
        vec_push(&a->lists, applied.element.number);
}

/* The kernel stops at a missing element. */
static int read_keys(struct ruleset *rs, struct nft_socket *socket, struct nft_keys keys,
                     struct error *err)
{
    while (keys.n > 0) {
        size_t found;
        if (nft_socket_get_elements(socket, rs->family, RULESET_TABLE, set_name(rs->adoption.set),
                                    &keys, take_read_element, rs, &found, err))
            return -1;
        const size_t done = found < keys.n ? found + 1 : keys.n;
        keys.bytes += done * keys.length;
        keys.n -= done;
    }
    return 0;
}

static void record_sent(struct ruleset *rs)
{
    struct adoption *a = &rs->adoption;
    vec_each (&a->sent, entry)
        entry_set_applied(rs, a->set, *entry, entry_desired(a->set, *entry));
    a->found.counted += a->sent.n;
    a->found.elements += a->sent.n;
    a->recorded += a->sent.n;
}

/* Whether the kernel has what was to be sent; it may lack memory, or have another value. */
static bool send_some(struct ruleset *rs, struct nft_socket *socket)
{
    struct adoption *a = &rs->adoption;
    struct error err = {0};
    struct nft_batch batch;
    nft_batch_init(&batch, rs->family, RULESET_TABLE);
    vec_each (&a->sent, entry) {
        const struct key key = entry_key(a->set, *entry, 0);
        const uint32_t value = entry_desired(a->set, *entry);
        nft_batch_element(&batch, ELEMENT_ADD, set_name(a->set), key.bytes, key.length, &value,
                          sizeof(value));
    }
    const bool taken = a->sent.n == 0 || nft_socket_commit(socket, &batch, &err) == 0;
    if (taken)
        record_sent(rs);
    error_clear(&err);
    nft_batch_release(&batch);
    vec_clear(&a->sent);
    return taken;
}

static bool take_ranges(struct ruleset *rs)
{
    struct adoption *a = &rs->adoption;
    range_vec ranges = {0};
    const enum boundaries_verdict verdict = boundaries_pair(&a->boundaries, rs->family, &ranges);
    bool torn = verdict == BOUNDARIES_TORN;
    a->found.foreign = a->found.foreign || verdict == BOUNDARIES_FOREIGN;
    a->found.elements += ranges.n;
    vec_each (&ranges, range) {
        const struct key key = key_of_range(rs->family, range);
        torn = !plain_observe(rs, a->set, &key, NULL, true) || torn;
    }
    vec_free(&ranges);
    boundaries_clear(&a->boundaries);
    return !torn;
}

/* ---- sets ---- */

/* First, whose affinity records are there: service ports take numbers when their frontends are
 * read. */
#define FIRST_SET SET_AFFINITY_TIMEOUTS

static enum table_set set_after(enum table_set set)
{
    const enum table_set next = set == FIRST_SET ? 0 : set + 1;
    return next == FIRST_SET ? next + 1 : next;
}

static void begin_set(struct adoption *a, enum table_set set)
{
    a->set = set;
    a->recorded = a->repeated = a->at = 0;
    a->slot = 0;
    a->requested = a->rejections = 0;
    a->state = set < TABLE_SETS ? ADOPTION_COUNT : ADOPTION_RULES;
}

void reading_stop(struct ruleset *rs)
{
    struct adoption *a = &rs->adoption;
    element_dump_close(&a->dump);
    boundaries_clear(&a->boundaries);
    vec_free(&a->lists);
    vec_free(&a->sent);
    a->found = (struct table_contents){.elements = 0};
    a->set = FIRST_SET;
    a->recorded = a->repeated = a->at = 0;
    a->requested = a->rejections = 0;
    a->slot = 0;
}

/* The number of keys that are known of a set; 0: not all of them can be. */
static uint64_t known_keys(const struct ruleset *rs, enum table_set set)
{
    uint64_t n = 0;
    if (set_owner(set) == OWNER_FRONTEND)
        return rs->n_desired;
    if (set_owner(set) == OWNER_SLOTS)
        hash_table_each (&rs->ports, const struct port_entry, port)
            n += port_count(port, part_of_set(set));
    return n;
}

/* Slots without a count are beyond the known keys. */
static bool is_read_by_keys(const struct ruleset *rs)
{
    const struct adoption *a = &rs->adoption;
    const uint64_t dump_most = rs->config.dump_most ? rs->config.dump_most : DUMP_MOST,
                   known = a->counted && a->count > dump_most ? known_keys(rs, a->set) : 0;
    return known > 0 && (set_owner(a->set) != OWNER_SLOTS || known == a->count) &&
           (uint64_t)a->count * a->count > known * dump_most;
}

static int count_elements(struct ruleset *rs, struct nft_socket *socket, struct error *err)
{
    struct adoption *a = &rs->adoption;
    a->work += REQUEST_WORK;
    return nft_socket_count_elements(socket, rs->family, RULESET_TABLE, set_name(a->set), &a->count,
                                     &a->counted, err);
}

static int count(struct ruleset *rs, struct nft_socket *socket, struct error *err)
{
    struct adoption *a = &rs->adoption;
    if (count_elements(rs, socket, err) ||
        (!a->counted && nft_socket_generation(socket, &a->generation, err)))
        return -1;
    a->state = is_read_by_keys(rs) ? ADOPTION_KEYS : ADOPTION_DUMP;
    return 0;
}

static int by_keys(struct ruleset *rs, struct nft_socket *socket, struct error *err)
{
    struct adoption *a = &rs->adoption;
    uint8_t bytes[NFT_KEYS_MOST * KEY_SIZE];
    struct nft_keys keys = {bytes, 0, 0};
    const size_t from = a->at;
    const bool more = next_keys(rs, bytes, &keys);
    if (read_keys(rs, socket, keys, err))
        return -1;
    if (!send_some(rs, socket)) {
        a->requested = ++a->rejections < REJECTIONS_MOST ? a->at : SIZE_MAX;
        a->at = from;
        return 0;
    }
    if (!more && a->set == SET_SERVICES && count_elements(rs, socket, err))
        return -1; /* some that were sent may be new */
    if (!more && a->recorded == a->count)
        begin_set(a, set_after(a->set));
    else if (!more)
        a->state = ADOPTION_DUMP; /* there are others */
    return 0;
}

/* Whether a dump gave each element. The kernel may skip and repeat some while it resizes a set or
 * another program changes it. Without a count, any change in the network namespace is suspicious; a
 * last try does not look for them, since they may never end. */
static int check_dump(const struct ruleset *rs, struct nft_socket *socket, struct error *err)
{
    const struct adoption *a = &rs->adoption;
    uint32_t generation = a->generation;
    if (a->found.foreign)
        return 0;
    if (!a->counted && a->tries + 1 < ADOPTION_TRIES &&
        nft_socket_generation(socket, &generation, err))
        return -1;
    return (a->counted ? a->recorded != a->count && set_owner(a->set) != OWNER_RANGES
                       : a->repeated > 0) ||
                   generation != a->generation
               ? error_set(err, "%s changed while it was read", set_name(a->set))
               : 0;
}

static int dump(struct ruleset *rs, struct nft_socket *socket, struct error *err)
{
    struct adoption *a = &rs->adoption;
    a->work += REQUEST_WORK + a->recorded + a->repeated; /* it walks from the beginning */
    switch (element_dump_step(&a->dump, rs->family, RULESET_TABLE, set_name(a->set),
                              take_read_element, rs, err)) {
    case DUMP_GOES_ON:
        if (!a->counted || a->recorded != a->count || set_owner(a->set) == OWNER_RANGES)
            return 0;
        element_dump_close(&a->dump); /* the rest is known */
        break;
    case DUMP_FAILED:
        return -1;
    case DUMP_MISSING:
        error_clear(err);
        a->found.foreign = true;
        break;
    default:
        if (set_owner(a->set) == OWNER_RANGES && !take_ranges(rs))
            return error_set(err, "%s changed while it was read", set_name(a->set));
    }
    if (check_dump(rs, socket, err))
        return -1;
    begin_set(a, a->found.foreign ? TABLE_SETS : set_after(a->set));
    return 0;
}

int reading_step(struct ruleset *rs, struct nft_socket *socket, struct error *err)
{
    switch (rs->adoption.state) {
    case ADOPTION_COUNT:
        return count(rs, socket, err);
    case ADOPTION_KEYS:
        return by_keys(rs, socket, err);
    default:
        return dump(rs, socket, err);
    }
}
