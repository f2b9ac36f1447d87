/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel's maps and sets hold, put into a ruleset. */
#include "record.h"

#include <string.h>

/* ---- slots by their keys ---- */

/*
 * The keys of the slots of a large map are told by the values in ports and local_ports. For a dump
 * the kernel counts off from the beginning of a map for each 32 KiB of it, so that half a million
 * slots take it 14 s, and 2 s by their keys.
 */

/* Where both take as long. */
#define DUMP_MOST 65536

/* Keys on their way to the kernel. */
struct asking {
    struct nft_socket *socket;
    enum family family;
    enum table_set set;
    nft_element_fn fn;
    void *ctx;
    uint8_t bytes[NFT_KEYS_MOST * KEY_SIZE];
    struct nft_keys keys;
    bool missing; /* one was not there: who asks has the wrong keys */
};

static uint32_t slots_of(const struct record *record, enum table_set set)
{
    const struct part *part = set_part(set, record);
    return part ? low_of_value(part->value.held) : 0;
}

static uint64_t count_slots(const struct ruleset *rs, enum table_set set)
{
    uint64_t n = 0;
    hash_table_each (&rs->ports, struct record, record)
        n += slots_of(record, set);
    return n;
}

static int ask(struct asking *asking, struct error *err)
{
    size_t found, n = asking->keys.n;
    asking->keys.n = 0;
    const struct nft_keys keys = {asking->bytes, asking->keys.length, n};
    if (n == 0)
        return 0;
    if (nft_socket_get_elements(asking->socket, asking->family, RULESET_TABLE,
                                set_name(asking->set), &keys, asking->fn, asking->ctx, &found, err))
        return -1;
    asking->missing = asking->missing || found != n;
    return 0;
}

static int ask_for(struct asking *asking, const struct key *key, struct error *err)
{
    asking->keys.length = key->length;
    memcpy(asking->bytes + asking->keys.n++ * key->length, key->bytes, key->length);
    return asking->keys.n < NFT_KEYS_MOST ? 0 : ask(asking, err);
}

static int ask_all(struct asking *asking, const struct ruleset *rs, struct error *err)
{
    hash_table_each (&rs->ports, struct record, record)
        for (uint32_t i = 0; i < slots_of(record, asking->set); i++) {
            struct key key = set_key(asking->set, record, i);
            if (ask_for(asking, &key, err))
                return -1;
        }
    return ask(asking, err);
}

/* @done: whether it did, and gave all of the map to @fn; it does only if they are many and the
 * kernel says that it has just as many. -1 also if some of them are not there. */
static int read_slots(const struct ruleset *rs, struct nft_socket *socket, enum table_set set,
                      nft_element_fn fn, void *ctx, bool *done, struct error *err)
{
    struct asking asking = {
        .socket = socket, .family = rs->family, .set = set, .fn = fn, .ctx = ctx};
    uint64_t expected = count_slots(rs, set);
    uint32_t held;
    bool told;
    *done = false;
    if (expected <= (rs->dump_most ? rs->dump_most : DUMP_MOST))
        return 0;
    if (nft_socket_count_elements(socket, rs->family, RULESET_TABLE, set_name(set), &held, &told,
                                  err))
        return -1;
    if (!told || held != expected)
        return 0;
    if (ask_all(&asking, rs, err))
        return -1;
    *done = true;
    return asking.missing ? error_set(err, "%s does not have the expected slots", set_name(set))
                          : 0;
}

/* ---- all of it ---- */

struct adoption {
    struct ruleset *ruleset;
    bool by_keys;    /* may be asked for slots by their keys */
    size_t elements; /* but for verdicts */
    size_t held;     /* all that the kernel gave */
    bool torn;       /* an element came twice: the kernel was moving them to a larger table, and may
                      * have left out others as well */
    bool foreign;    /* an element that we cannot have written */
    enum table_set set;           /* the one that is being read */
    struct boundaries boundaries; /* of a set of ranges, likewise */
};

static void on_element(void *ctx, const struct nft_element *element)
{
    struct adoption *a = ctx;
    a->held++;
    if (set_is_ranged(a->set))
        boundaries_take(&a->boundaries, a->ruleset->family, element);
    else if (held_adopt(a->ruleset, a->set, element, &a->torn))
        a->elements++;
    else
        a->foreign = true;
}

static void take_ranges(struct adoption *a)
{
    range_vec ranges = {0};
    enum boundaries_verdict verdict = boundaries_pair(&a->boundaries, a->ruleset->family, &ranges);
    a->torn = a->torn || verdict == BOUNDARIES_TORN;
    a->foreign = a->foreign || verdict == BOUNDARIES_FOREIGN;
    a->elements += ranges.n;
    held_adopt_ranges(a->ruleset, a->set, &ranges, &a->torn);
    vec_free(&ranges);
    boundaries_clear(&a->boundaries);
}

static int read_set(struct adoption *a, struct nft_socket *socket, struct error *err)
{
    bool done = false;
    if (a->by_keys && set_owner(a->set) == OWNER_SLOTS &&
        read_slots(a->ruleset, socket, a->set, on_element, a, &done, err))
        return -1;
    if (!done && nft_socket_read_elements(socket, a->ruleset->family, RULESET_TABLE,
                                          set_name(a->set), on_element, a, err))
        return -1;
    if (set_is_ranged(a->set))
        take_ranges(a);
    return 0;
}

static int read_all(struct adoption *a, struct nft_socket *socket, struct error *err)
{
    for (unsigned set = 0; set < TABLE_SETS; set++) {
        a->set = (enum table_set)set;
        if (read_set(a, socket, err))
            return -1;
    }
    return a->torn ? error_set(err, "the kernel returned elements twice") : 0;
}

int ruleset_read_back(struct ruleset *rs, struct nft_socket *socket, bool by_keys,
                      struct table_contents *found, struct error *err)
{
    struct adoption a = {.ruleset = rs, .by_keys = by_keys};
    int result = read_all(&a, socket, err);
    found->elements = a.elements;
    found->held = a.held;
    found->foreign = a.foreign;
    boundaries_clear(&a.boundaries);
    return result;
}
