/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which endpoints are in which set: cases/selection, and by chance. */
#include "policy/state.h"

#include "objects.h"
#include "script.h"

#define R ENDPOINT_READY
#define S ENDPOINT_SERVING
#define T ENDPOINT_TERMINATING
#define MOST 12

/* The node "here" in the zone "z". */
static struct location here;

static void set_up(void)
{
    here.node_name = intern("here");
    here.zone = intern("z");
}

static void tear_down(void)
{
    intern_release(here.node_name);
    intern_release(here.zone);
}

/* conditions@node~nodes^zones, all but the first may be left out */
static struct endpoint read_endpoint(const char *word)
{
    const char *node = strchr(word, '@');
    char *name = node ? xstrndup(node + 1, strcspn(node + 1, "~^")) : NULL;
    struct endpoint endpoint = {.flags = make_flags(word)};
    endpoint.node_name = intern(name);
    endpoint.hints = make_hints(word);
    free(name);
    return endpoint;
}

static void release_endpoint(struct endpoint *endpoint)
{
    const struct endpoint_hints *hints = endpoint->hints;
    for (int i = 0; hints && i < hints->n_nodes + hints->n_zones; i++)
        intern_release(hints->names[i]);
    free((void *)endpoint->hints);
    intern_release(endpoint->node_name);
}

/* Returns what select_endpoints() says, which agrees with itself. */
static struct selection select_all(const struct endpoint *endpoints, size_t n,
                                   uint8_t sets[MOST + 1])
{
    size_t cluster = 0, local = 0;
    memset(sets, 0xee, MOST + 1);
    struct selection selection = select_endpoints(endpoints, n, &here, sets);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(sets[i] & ~(BACKENDS_CLUSTER | BACKENDS_LOCAL), 0);
        cluster += (sets[i] & BACKENDS_CLUSTER) != 0;
        local += (sets[i] & BACKENDS_LOCAL) != 0;
    }
    ck_assert_uint_eq(sets[n], 0xee);
    ck_assert_uint_eq(selection.cluster_size, cluster);
    ck_assert_uint_eq(selection.local_size, local);
    ck_assert_int_eq(selection.has_any, cluster > 0);
    return selection;
}

/* ---- cases ---- */

COMMAND(no_zone)
{
    intern_release(here.zone);
    here.zone = NULL;
}

/* Ready, a fallback, or neither; a capital if it is here. */
static char class_of(const struct endpoint *endpoint)
{
    unsigned traits = endpoint_traits(endpoint->flags, endpoint->node_name, endpoint->hints, &here);
    bool ready = traits & 1 << SORT_READY, fallback = traits & 1 << SORT_FALLBACK;
    ck_assert(!(ready && fallback));
    return (traits & TRAIT_LOCAL ? "RFN" : "rfn")[ready ? 0 : fallback ? 1 : 2];
}

/* "ENDPOINTS": a letter for each, of its class; of its sets: C in the Cluster set, L in the Local
 * set, B in both, a dot in neither; of why it is or is not in the Cluster set and in the Local set:
 * used, not Ready, Terminating, other Node, node Hint, zone hint (Z), serVice address. Then the
 * states of node and zone hints: none, some, elsewhere, applied. */
COMMAND(select)
{
    struct endpoint endpoints[MOST];
    uint8_t sets[MOST + 1];
    char text[5][MOST + 1] = {0};
    size_t n = 0;
    each_word(words, word) endpoints[n++] = read_endpoint(word);
    const struct selection_basis basis = select_all(endpoints, n, sets).basis;
    for (size_t i = 0; i < n; i++) {
        text[0][i] = class_of(&endpoints[i]);
        text[1][i] = ".CLB"[sets[i]];
        enum endpoint_verdict cluster, local;
        endpoint_verdicts(&endpoints[i], &here, &basis, &cluster, &local);
        text[2][i] = "uRTNHZV"[cluster];
        text[3][i] = "uRTNHZV"[local];
        release_endpoint(&endpoints[i]);
    }
    text[4][0] = "nsea"[basis.node_hints];
    text[4][1] = "nsea"[basis.zone_hints];
    fprintf(out, "%s %s %s %s %s\n", text[0], text[1], text[2], text[3], text[4]);
}

CASES("selection")

/* ---- by chance ---- */

static bool names(const struct endpoint *endpoint, bool zone)
{
    const struct endpoint_hints *hints = endpoint->hints;
    for (int i = 0; hints && i < hints->n_nodes + hints->n_zones; i++)
        if ((i >= hints->n_nodes) == zone && strcmp(hints->names[i], zone ? "z" : "here") == 0)
            return true;
    return false;
}

/* How many ready endpoints there are that have node hints, have zone hints, name our node, name our
 * zone; and without regard to hints, here and anywhere. */
struct counts {
    size_t ready, local_ready, nodes, zones, our_node, our_zone;
};

static struct counts count_ready(const struct endpoint *endpoints, size_t n)
{
    struct counts counts = {0};
    for (size_t i = 0; i < n; i++) {
        const struct endpoint *it = &endpoints[i];
        if (!(it->flags & R))
            continue;
        counts.ready++;
        counts.local_ready += it->node_name && strcmp(it->node_name, "here") == 0;
        counts.nodes += it->hints && it->hints->n_nodes;
        counts.zones += it->hints && it->hints->n_zones;
        counts.our_node += names(it, false);
        counts.our_zone += names(it, true);
    }
    return counts;
}

/* The rule once more, the other way round: who is out, and why. */
static bool is_out(const struct endpoint *it, const struct counts *counts, bool local)
{
    if (local && (!it->node_name || strcmp(it->node_name, "here") != 0))
        return true;
    if ((it->flags & (R | S)) == 0 || (it->flags & (R | T)) == 0)
        return true;
    if (!(it->flags & R))
        return (local ? counts->local_ready : counts->ready) > 0;
    if (local)
        return false;
    if (counts->nodes == counts->ready && counts->our_node > 0)
        return !names(it, false);
    if (counts->zones == counts->ready && counts->our_zone > 0)
        return !names(it, true);
    return false;
}

/* Mostly with hints, mostly without ready ones: else the rare ways would hardly ever come up. */
static struct endpoint random_endpoint(uint64_t *chance, unsigned most, bool hinted)
{
    static const uint8_t flags[] = {0, S, T, S | T, R, R | S, R | T, R | S | T};
    static const char *const hints[] = {"",        "~here",  "~far",         "~far,here", "^z",
                                        "^y",      "^y,z",   "^y,x",         "~here^z",   "~far^z",
                                        "~here^y", "~far^y", "~far,far2^x,y"};
    static const char *const nodes[] = {"@here", "@far", ""};
    char word[64];
    unsigned hint = hinted ? 4 + dice(chance, 9) : dice(chance, 13);
    snprintf(word, sizeof(word), "-%s%s", nodes[dice(chance, 3)], hints[hint]);
    struct endpoint endpoint = read_endpoint(word);
    endpoint.flags = flags[dice(chance, most)];
    return endpoint;
}

TEST(by_chance)
{
    uint64_t chance = 20261121;
    for (int round = 0; round < unit_steps(20000); round++) {
        struct endpoint endpoints[MOST], before[MOST];
        uint8_t sets[MOST + 1];
        size_t n = dice(&chance, MOST + 1);
        unsigned most = dice(&chance, 3) ? 5 : 8;
        bool hinted = dice(&chance, 2);
        memset(endpoints, 0, sizeof(endpoints));
        for (size_t i = 0; i < n; i++)
            endpoints[i] = random_endpoint(&chance, most, hinted);
        struct counts counts = count_ready(endpoints, n);
        memcpy(before, endpoints, sizeof(before));
        select_all(endpoints, n, sets);
        for (size_t i = 0; i < n; i++)
            ck_assert_uint_eq(sets[i],
                              (is_out(&endpoints[i], &counts, false) ? 0 : BACKENDS_CLUSTER) |
                                  (is_out(&endpoints[i], &counts, true) ? 0 : BACKENDS_LOCAL));
        ck_assert_mem_eq(endpoints, before, sizeof(before));
        for (size_t i = 0; i < n; i++)
            release_endpoint(&endpoints[i]);
    }
}

UNIT_FIXTURE(set_up, tear_down)
