/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "walk.h"

#include "state.h"

#include <math.h>

/* Number of elements at which a dump takes as long as reading as many by key. */
#define DUMP_MOST 65536

/* Work (see ADOPTION_PIECE) of a request, and of a key in one. */
#define REQUEST_WORK 256
#define KEY_WORK 128

#define SHORTEST_REST 0.001

enum table_set walk_after(enum table_set set)
{
    const enum table_set next = set == WALK_FIRST ? 0 : set + 1;
    return next == WALK_FIRST ? next + 1 : next;
}

double walk_rest(double now, double spent, double share)
{
    return now + fmax(share * spent, SHORTEST_REST);
}

void walk_begin(struct walk *walk, enum table_set set)
{
    element_dump_close(&walk->dump);
    boundaries_clear(&walk->boundaries);
    vec_free(&walk->keys);
    walk->set = set;
    walk->state = WALK_COUNT;
    walk->at = walk->dumped = 0;
    walk->all_asked = false;
}

/* ---- the number of elements ---- */

static int count_elements(struct walk *walk, struct ruleset *rs, struct nft_socket *socket,
                          struct error *err)
{
    walk->work += REQUEST_WORK;
    return nft_socket_count_elements(socket, rs->family, RULESET_TABLE, set_name(walk->set),
                                     &walk->count, &walk->counted, err);
}

/* Not ranges, of which the kernel has the ends. A set of slots may have some that no count of a
 * service port reaches: those are not known. */
static bool is_read_by_keys(const struct walk *walk, const struct ruleset *rs)
{
    const uint64_t n = walk->count, most = rs->config.dump_most ? rs->config.dump_most : DUMP_MOST;
    if (!walk->counted || n <= most || set_owner(walk->set) == OWNER_RANGES)
        return false;
    const uint64_t known = walk->ops->known(walk->ctx, walk->set);
    return known > 0 && (set_owner(walk->set) != OWNER_SLOTS || known == n) && n * n > known * most;
}

static int count(struct walk *walk, struct ruleset *rs, struct nft_socket *socket,
                 struct error *err)
{
    if (count_elements(walk, rs, socket, err) ||
        (!walk->counted && nft_socket_generation(socket, &walk->generation, err)))
        return -1;
    walk->state = is_read_by_keys(walk, rs) ? WALK_KEYS : WALK_DUMP;
    return 0;
}

/* ---- keys ---- */

void walk_ask(struct walk *walk, const struct key *key)
{
    walk->key_length = key->length;
    vec_append(&walk->keys, key->bytes, key->length);
}

size_t walk_asked(const struct walk *walk)
{
    return walk->keys.n == 0 ? 0 : (walk->keys.n - walk->at) / walk->key_length;
}

/* Looks up a request's keys. The kernel stops at a missing element. */
static int look_up(struct walk *walk, struct ruleset *rs, struct nft_socket *socket,
                   struct error *err)
{
    const size_t left = walk_asked(walk);
    if (left == 0)
        return 0;
    struct nft_keys keys = {walk->keys.v + walk->at, walk->key_length,
                            left < NFT_KEYS_MOST ? left : NFT_KEYS_MOST};
    walk->work += REQUEST_WORK + KEY_WORK * keys.n;
    walk->at += keys.n * keys.length;
    while (keys.n > 0) {
        size_t found;
        if (nft_socket_get_elements(socket, rs->family, RULESET_TABLE, set_name(walk->set), &keys,
                                    walk->ops->take, walk->ctx, &found, err))
            return -1;
        const size_t done = found < keys.n ? found + 1 : keys.n;
        keys.bytes += done * keys.length;
        keys.n -= done;
    }
    if (walk->at == walk->keys.n) {
        vec_clear(&walk->keys);
        walk->at = 0;
    }
    return 0;
}

static bool has_all(const struct walk *walk)
{
    return walk->counted && walk->ops->found(walk->ctx, walk->set) == walk->count;
}

static enum walk_result by_keys(struct walk *walk, struct ruleset *rs, struct nft_socket *socket,
                                struct error *err)
{
    if (!walk->all_asked || walk_asked(walk) > 0) {
        if (!walk->all_asked && walk_asked(walk) < NFT_KEYS_MOST)
            walk->all_asked = !walk->ops->ask(walk->ctx);
        return look_up(walk, rs, socket, err) ? WALK_FAILED : WALK_GOES_ON;
    }
    if (count_elements(walk, rs, socket, err))
        return WALK_FAILED;
    if (has_all(walk))
        return WALK_ENDED;
    walk->state = WALK_DUMP; /* there are others */
    return WALK_GOES_ON;
}

/* ---- dumps ---- */

static void take_dumped(void *ctx, const struct nft_element *element)
{
    struct walk *walk = ctx;
    walk->dumped++;
    if (set_owner(walk->set) == OWNER_RANGES)
        boundaries_take(&walk->boundaries, element);
    else
        walk->ops->take(walk->ctx, element);
}

static enum walk_result take_ranges(struct walk *walk, struct error *err)
{
    range_vec ranges = {0};
    const enum boundaries_verdict verdict = boundaries_pair(&walk->boundaries, &ranges);
    if (verdict == BOUNDARIES_PAIRED)
        ranges_each(walk->boundaries.family, &ranges, walk->ops->take, walk->ctx);
    vec_free(&ranges);
    if (verdict == BOUNDARIES_TORN)
        error_set(err, "%s changed while it was read", set_name(walk->set));
    return verdict == BOUNDARIES_PAIRED ? WALK_ENDED
           : verdict == BOUNDARIES_TORN ? WALK_FAILED
                                        : WALK_FOREIGN;
}

static enum walk_result dump(struct walk *walk, struct ruleset *rs, struct error *err)
{
    walk->boundaries.family = rs->family;
    walk->work += REQUEST_WORK + walk->dumped; /* it walks from the beginning */
    switch (element_dump_step(&walk->dump, rs->family, RULESET_TABLE, set_name(walk->set),
                              take_dumped, walk, err)) {
    case DUMP_GOES_ON:
        if (!has_all(walk) || set_owner(walk->set) == OWNER_RANGES)
            return WALK_GOES_ON;
        element_dump_close(&walk->dump); /* the rest is known */
        return WALK_ENDED;
    case DUMP_ENDED:
        return set_owner(walk->set) == OWNER_RANGES ? take_ranges(walk, err) : WALK_ENDED;
    case DUMP_MISSING:
        error_clear(err);
        return WALK_MISSING;
    default:
        return WALK_FAILED;
    }
}

enum walk_result walk_step(struct walk *walk, struct ruleset *rs, struct nft_socket *socket,
                           struct error *err)
{
    if (walk->state == WALK_COUNT && count(walk, rs, socket, err))
        return WALK_FAILED;
    return walk->state == WALK_KEYS ? by_keys(walk, rs, socket, err) : dump(walk, rs, err);
}
