/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The slots of a large map, read by their keys, which the values in ports and local_ports tell. For
 * a dump the kernel counts off from the beginning of a map for each 32 KiB of it, so that half a
 * million slots take it 14 s, and 2 s by their keys.
 */
#include "record.h"

#include <string.h>

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

static int add(struct asking *asking, const struct key *key, struct error *err)
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
            if (add(asking, &key, err))
                return -1;
        }
    return ask(asking, err);
}

int ruleset_read_slots(const struct ruleset *rs, struct nft_socket *socket, enum table_set set,
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
