/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/policy/selection.h"

#include "objects.h"
#include "unit.h"

#include <string.h>

#define R ENDPOINT_READY
#define S ENDPOINT_SERVING
#define T ENDPOINT_TERMINATING
#define MOST 12

enum class { READY, FALLBACK, NEITHER };

/* Every combination of conditions (docs/behaviour.md 3.1). */
static const struct {
    uint8_t flags;
    enum class class;
} truth[] = {
    {0, NEITHER}, {S, NEITHER},   {T, NEITHER},   {S | T, FALLBACK},
    {R, READY},   {R | S, READY}, {R | T, READY}, {R | S | T, READY},
};

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

/* ---------------------------------------------------------- words */

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

static size_t count(const char *text, const char *which)
{
    size_t n = 0;
    for (; *text; text++)
        n += strchr(which, *text) != NULL;
    return n;
}

/* @expected has a letter for each endpoint: C in the Cluster set, L in the Local set, B in both,
 * a dot in neither. */
static void expect_sets(const char *words, const char *expected, bool has_any)
{
    struct endpoint endpoints[MOST];
    uint8_t sets[MOST + 1];
    char text[MOST + 1] = "";
    size_t n = 0;
    memset(sets, 0xee, sizeof(sets));
    each_word(words, word) endpoints[n++] = read_endpoint(word);
    struct selection selection = select_endpoints(endpoints, n, &here, sets);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(sets[i] & ~(SET_CLUSTER | SET_LOCAL), 0);
        text[i] = ".CLB"[sets[i]];
        release_endpoint(&endpoints[i]);
    }
    ck_assert_msg(strcmp(text, expected) == 0, "%s: %s, not %s", words, text, expected);
    ck_assert_uint_eq(sets[n], 0xee);
    ck_assert_uint_eq(selection.cluster_size, count(text, "CB"));
    ck_assert_uint_eq(selection.local_size, count(text, "LB"));
    ck_assert_int_eq(selection.has_any, has_any);
}

struct expected {
    const char *words, *sets;
    bool has_any;
};

/* ---------------------------------------------------------- ready, serving, terminating */

TESTS(classes, 8)
{
    struct endpoint endpoint = {.flags = truth[_i].flags};
    enum class class = truth[_i].class;
    ck_assert_int_eq(endpoint_is_ready(&endpoint), class == READY);
    ck_assert_int_eq(endpoint_is_fallback(&endpoint), class == FALLBACK);
    for (int local = 0; local < 2; local++) {
        uint8_t set = 0xee;
        endpoint.node_name = local ? here.node_name : NULL;
        ck_assert_int_eq(endpoint_is_local(&endpoint, &here), local);
        struct selection selection = select_endpoints(&endpoint, 1, &here, &set);
        ck_assert_uint_eq(set, class == NEITHER ? 0 : SET_CLUSTER | (local ? SET_LOCAL : 0));
        ck_assert_int_eq(selection.has_any, class != NEITHER);
        ck_assert_uint_eq(selection.cluster_size, class != NEITHER);
        ck_assert_uint_eq(selection.local_size, local && class != NEITHER);
    }
}

static const struct expected terminating[] = {
    {"", "", false},
    {"rs rs@there rs", "CCC", true},
    {"rs@here rs@there rs@here", "BCB", true},
    /* A rolling update: the old pods still serve, but new connections go to the new ones. */
    {"st st rs", "..C", true},
    {"st@here st@there rs@there", "L.C", true},
    {"st@here rs@here rs@there", ".BC", true},
    /* The last pods terminate. */
    {"st s t st -", "C..C.", true},
    {"st@here s@here t@here st@there -", "B..C.", true},
    /* A terminating pod that fails its readiness probe gets nothing, not even as the last. */
    {"t t@here", "..", false},
    {"s s@here -", "...", false},
    {"t@here st@there", ".C", true},
    {"t@here rs@there", ".C", true},
    /* publishNotReadyAddresses. */
    {"rst rt st", "CC.", true},
    {"rt@here st@here", "B.", true},
};

TEST_ROWS(terminating_pods, terminating)
{
    expect_sets(row->words, row->sets, row->has_any);
}

/* ---------------------------------------------------------- topology */

static const struct expected topology[] = {
    /* Same node: all ready ones have a node hint, one names us. */
    {"rs~here rs~far", "C.", true},
    {"rs~far,here rs~here,far rs~far", "CC.", true},
    {"rs~far rs~far2", "CC", true},
    {"rs~here rs", "CC", true},
    {"rs~here rs^z", "CC", true},
    {"rs~here rs~z", "C.", true},
    /* Where an endpoint is does not matter, nor does a name that only begins like ours. */
    {"rs@here~far rs@far~here", "LC", true},
    {"rs~here2 rs~her", "CC", true},
    /* Same zone: likewise. */
    {"rs^z rs^y", "C.", true},
    {"rs^y,z rs^z,x rs^y", "CC.", true},
    {"rs^y rs^x", "CC", true},
    {"rs^z rs", "CC", true},
    {"rs^z rs~here", "CC", true},
    {"rs^here rs^z", ".C", true},
    /* A failed node step falls through to the zone step; one that holds goes first. */
    {"rs~far^z rs~far^y", "C.", true},
    {"rs~here^z rs^y", "C.", true},
    {"rs~here^y rs~far^z", "C.", true},
    {"rs~far^y rs~far^x", "CC", true},
    {"rs~far^z rs~far", "CC", true},
    /* Hints of those that are not ready are ignored, and that they have none. */
    {"rs~here rs~far st s -", "C....", true},
    {"rs~far rs~far st~here t~here", "CC..", true},
    {"rs^z rs^y st s", "C...", true},
    {"rs^y rs^y st^z s^z", "CC..", true},
    {"rs st~here", "C.", true},
    /* The fallback knows no hints. */
    {"st~here st~far st", "CCC", true},
    {"st^z st^y", "CC", true},
    {"t~here st~far", ".C", true},
    /* Nor does the Local set. */
    {"rs@here~far rs@here~here rs@far~here", "LBC", true},
    {"rs@here^y rs@far^z", "LC", true},
    {"st@here~far rs@far~far", "LC", true},
    /* publishNotReadyAddresses: ready is what counts. */
    {"rt~here rst~far", "C.", true},
};

TEST_ROWS(topology_steps, topology)
{
    expect_sets(row->words, row->sets, row->has_any);
}

TEST(no_zone)
{
    intern_release(here.zone);
    here.zone = NULL;
    expect_sets("rs^z rs^y", "CC", true);
    expect_sets("rs~here^z rs~far^y", "C.", true);
    expect_sets("rs~far^z rs~far^y", "CC", true);
}

/* ---------------------------------------------------------- verdicts */

/* For each endpoint why it is or is not in the Cluster set, and in the Local set: used, not Ready,
 * Terminating, other Node, node Hint, zone hint (Z). Then the states of node and zone hints: none,
 * some, elsewhere, applied. */
static const struct {
    const char *words, *cluster, *local, *hints;
} reasons[] = {
    {"", "", "", "nn"},
    {"rs@here rs@far rs", "uuu", "uNN", "nn"},
    {"rs@here s@here - t@far", "uRRR", "uRRR", "nn"},
    {"rs@here st@here st@far", "uTT", "uTT", "nn"},
    {"st@here rs@far", "Tu", "uN", "nn"},
    {"st@here st@far", "uu", "uN", "nn"},
    {"rs~here rs@here~far st@here~here", "uHT", "NuT", "an"},
    {"rs@far^z rs@here^y", "uZ", "Nu", "na"},
    {"rs~far^z rs~far^y", "uZ", "NN", "ea"},
    {"rs~here^y rs~far^z", "uH", "NN", "aa"},
    {"rs^z rs", "uu", "NN", "ns"},
    {"rs^y rs^x", "uu", "NN", "ne"},
    {"rs~far rs", "uu", "NN", "sn"},
    {"st~here rs", "Tu", "NN", "nn"},
};

TEST_ROWS(verdicts, reasons)
{
    struct endpoint endpoints[MOST];
    char cluster[MOST + 1] = "", local[MOST + 1] = "";
    size_t n = 0;
    each_word(row->words, word) endpoints[n++] = read_endpoint(word);
    struct selection_basis basis = selection_basis(endpoints, n, &here);
    for (size_t i = 0; i < n; i++) {
        cluster[i] = "uRTNHZ"[endpoint_cluster_verdict(&endpoints[i], &here, &basis)];
        local[i] = "uRTNHZ"[endpoint_local_verdict(&endpoints[i], &here, &basis)];
        release_endpoint(&endpoints[i]);
    }
    ck_assert_str_eq(cluster, row->cluster);
    ck_assert_str_eq(local, row->local);
    ck_assert_int_eq("nsea"[basis.node_hints], row -> hints[0]);
    ck_assert_int_eq("nsea"[basis.zone_hints], row -> hints[1]);
}

/* ---------------------------------------------------------- by chance */

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

/* The rule once more, said the other way round: who is out, and why. */
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
    static const char *const hints[] = {"",        "~here",  "~far",         "~far,here", "^z",
                                        "^y",      "^y,z",   "^y,x",         "~here^z",   "~far^z",
                                        "~here^y", "~far^y", "~far,far2^x,y"};
    static const char *const nodes[] = {"@here", "@far", ""};
    char word[64];
    unsigned hint = hinted ? 4 + dice(chance, 9) : dice(chance, 13);
    snprintf(word, sizeof(word), "-%s%s", nodes[dice(chance, 3)], hints[hint]);
    struct endpoint endpoint = read_endpoint(word);
    endpoint.flags = truth[dice(chance, most)].flags;
    return endpoint;
}

TEST(by_chance)
{
    uint64_t chance = 20261121;
    for (int round = 0; round < unit_steps(20000); round++) {
        struct endpoint endpoints[MOST], before[MOST];
        uint8_t sets[MOST + 1];
        size_t n = dice(&chance, MOST + 1), cluster = 0, local = 0;
        unsigned most = dice(&chance, 3) ? 5 : 8;
        bool hinted = dice(&chance, 2);
        memset(endpoints, 0, sizeof(endpoints));
        for (size_t i = 0; i < n; i++)
            endpoints[i] = random_endpoint(&chance, most, hinted);
        struct counts counts = count_ready(endpoints, n);
        memcpy(before, endpoints, sizeof(before));
        memset(sets, 0xee, sizeof(sets));
        struct selection selection = select_endpoints(endpoints, n, &here, sets);
        for (size_t i = 0; i < n; i++) {
            bool in_cluster = !is_out(&endpoints[i], &counts, false);
            bool in_local = !is_out(&endpoints[i], &counts, true);
            ck_assert_uint_eq(sets[i], (in_cluster ? SET_CLUSTER : 0) | (in_local ? SET_LOCAL : 0));
            cluster += in_cluster;
            local += in_local;
        }
        ck_assert_uint_eq(sets[n], 0xee);
        ck_assert_uint_eq(selection.cluster_size, cluster);
        ck_assert_uint_eq(selection.local_size, local);
        ck_assert_int_eq(selection.has_any, cluster > 0);
        ck_assert_mem_eq(endpoints, before, sizeof(before));
        for (size_t i = 0; i < n; i++)
            release_endpoint(&endpoints[i]);
    }
}

UNIT_FIXTURE(set_up, tear_down)
