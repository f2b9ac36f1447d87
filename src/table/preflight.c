/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Probes each feature with a table made of a piece of preflight.nft. The pieces are parsed and
 * encoded like the other templates, so the messages are the same.
 */
#include "kube-nftd/table.h"

#include "kube-nftd/host.h"
#include "template.h"

#include <errno.h>
#include <string.h>

/* All features build on the first; the last two are those that kernels lack most often. Flowtables
 * are probed only if asked for. */
static const struct feature {
    const char *piece; /* name prefix of its blocks in preflight.nft; "": an owned table */
    const char *name, *purpose;
    enum preflight_need need;
    const char *config, *config_ipv6; /* NULL: the same */
} features[] = {
    {"nf-tables", "nf_tables", "everything", NEED_ALWAYS, "CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4",
     "CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV6"},
    {"maps", "maps and verdict maps", "finding the service of a packet", NEED_ALWAYS,
     "CONFIG_NF_TABLES", NULL},
    {"meta", "packet mark and interface (meta)", "marking packets to masquerade", NEED_ALWAYS,
     "CONFIG_NF_TABLES", NULL},
    {"ranges", "sets of ranges", "ranges of pod and service addresses", NEED_ALWAYS,
     "CONFIG_NF_TABLES", NULL},
    {"ct", "connection tracking (ct)", "recognising new connections", NEED_ALWAYS,
     "CONFIG_NF_CONNTRACK, CONFIG_NFT_CT", NULL},
    {"nat", "chains that translate (nat)", "sending packets to endpoints", NEED_ALWAYS,
     "CONFIG_NF_NAT, CONFIG_NFT_NAT", NULL},
    {"dnat", "destinations from a map (dnat)", "sending packets to endpoints", NEED_ALWAYS,
     "CONFIG_NF_NAT, CONFIG_NFT_NAT", NULL},
    {"numgen", "random choice (numgen)", "picking an endpoint", NEED_ALWAYS, "CONFIG_NFT_NUMGEN",
     NULL},
    {"masquerade", "masquerade fully-random", "getting the replies back", NEED_ALWAYS,
     "CONFIG_NFT_MASQ", NULL},
    {"dynset", "elements made by packets (dynset)", "session affinity", NEED_ALWAYS, "Linux 5.4",
     NULL},
    {"counter", "counters of elements (counter)", "counting connections", NEED_COUNTERS,
     "CONFIG_NFT_COUNTER, CONFIG_NF_CONNTRACK_MARK", NULL},
    {"reject", "reject", "rejecting where no endpoint serves", NEED_REJECT,
     "Linux 5.9, CONFIG_NFT_REJECT_IPV4", "Linux 5.9, CONFIG_NFT_REJECT_IPV6"},
    {"fib", "type of an address (fib)", "recognising packets to this host", NEED_FIB,
     "CONFIG_NFT_FIB, CONFIG_NFT_FIB_IPV4", "CONFIG_NFT_FIB, CONFIG_NFT_FIB_IPV6"},
    {"", "tables that stay ours (owner)", "protection from other programs", NEED_OWNER, "Linux 6.9",
     NULL},
    {"flowtable", "flowtables (flow_offload)", "--flowtable-devices", NEED_FLOWTABLE,
     "Linux 5.14, CONFIG_NF_FLOW_TABLE, CONFIG_NFT_FLOW_OFFLOAD", NULL},
};
#define FEATURES (sizeof(features) / sizeof(features[0]))

static const char *const consequences[] = {
    [NEED_ALWAYS] = "the family cannot be proxied",
    [NEED_REJECT] = "packets are dropped instead of rejected, so clients wait",
    [NEED_OWNER] = "other programs can change the table: their changes are detected and repaired",
    [NEED_COUNTERS] = "--count-connections has no effect",
    [NEED_FLOWTABLE] = "--flowtable-devices has no effect",
    [NEED_FIB] = "this host itself reaches only its own endpoints under traffic policy Local",
};

/* ---- probing ---- */

static bool is_of(const struct feature *feature, const char *name)
{
    const size_t length = strlen(feature->piece);
    return length > 0 && strncmp(name, feature->piece, length) == 0 &&
           (name[length] == '\0' || name[length] == '-');
}

/* Adds a table with the pieces of @n features. */
static int add_features(const struct feature *from, size_t n, enum family family,
                        struct nft_batch *batch, struct error *err)
{
    const struct layout_vars vars = {.family = family, .mark = "0x4000"};
    struct layout all = {.sets = {0}}, used = {.sets = {0}};
    bool owned = false;
    if (layout_parse(&preflight_template, &vars, &all, err)) {
        layout_free(&all);
        return -1;
    }
    vec_push(&used.chains, all.chains.v[0]); /* others may jump to it */
    for (size_t i = 0; i < n; i++) {
        owned = owned || !*from[i].piece;
        if (is_of(&from[i], all.flowtable.name))
            used.flowtable = all.flowtable;
        vec_each (&all.sets, set)
            if (is_of(&from[i], set->name))
                vec_push(&used.sets, *set);
        vec_each (&all.chains, chain)
            if (is_of(&from[i], chain->name))
                vec_push(&used.chains, *chain);
    }
    nft_batch_set_family(batch, family);
    nft_batch_add_table(batch, owned, "forgotten at once");
    program_layout(&used, true, batch);
    vec_free(&used.sets);
    vec_free(&used.chains);
    layout_free(&all);
    return 0;
}

/* The kernel's answer to @n features together, in each of @families: 0, or an errno and its
 * message. */
static int probe(struct nft_socket *socket, const bool families[FAMILY_COUNT],
                 const struct feature *from, size_t n, struct error *err)
{
    struct nft_batch batch;
    int why = 0, result = 0;
    nft_batch_init(&batch, FAMILY_IPV4, PREFLIGHT_TABLE);
    for (int i = 0; result == 0 && i < FAMILY_COUNT; i++)
        if (families[i])
            result = add_features(from, n, (enum family)i, &batch, err);
    if (result)
        why = EINVAL;
    else
        nft_socket_check(socket, &batch, &why, err);
    nft_batch_release(&batch);
    return why;
}

/* How many of the first @most features are known to work. Tries as many as possible at once. */
static size_t probe_together(struct nft_socket *socket, const bool families[FAMILY_COUNT],
                             size_t most)
{
    for (size_t n = most; n + 2 >= FEATURES; n--) {
        struct error err = {0};
        const int why = probe(socket, families, features, n, &err);
        error_clear(&err);
        if (why == 0)
            return n;
    }
    return 0;
}

/* Whether an error is about the feature. Transient ones, like a lack of memory, are not: commits
 * will show, and are retried. */
static bool speaks_against(int why)
{
    return why != 0 && why != EAGAIN && why != EBUSY && !netlink_is_transient(why);
}

/* Kernels before 5.14, which lack the setting, give an idle connection two minutes after it has
 * left the flowtable, whatever its time-out; then its next packet is nobody's. */
static bool forgets_idle_connections(void)
{
    return host_net_setting("netfilter/nf_flowtable_tcp_timeout") < 0;
}

/* Fills in @out with @most features, if the family is in use. The first @known of them work; 0:
 * they were not tested together. */
static void probe_family(struct nft_socket *socket, enum family family, size_t known, size_t most,
                         struct preflight *out)
{
    const bool alone[FAMILY_COUNT] = {
        [FAMILY_IPV4] = family == FAMILY_IPV4, [FAMILY_IPV6] = family == FAMILY_IPV6};
    struct error err = {0};
    known = known ? known : probe_together(socket, alone, most);
    out->n = most;
    out->results = xcalloc(most, sizeof(*out->results));
    for (size_t i = 0; i < most; i++) {
        const struct feature *feature = &features[i];
        struct preflight_result *result = &out->results[i];
        const bool tried = i == 0 || out->results[0].works;
        *result = (struct preflight_result){.feature = feature->name,
                                            .config = family == FAMILY_IPV6 && feature->config_ipv6
                                                          ? feature->config_ipv6
                                                          : feature->config,
                                            .purpose = feature->purpose,
                                            .need = feature->need};
        if (i >= known && tried)
            result->why = probe(socket, alone, feature, 1, &err);
        if (tried && result->why == 0 && feature->need == NEED_FLOWTABLE &&
            forgets_idle_connections())
            result->why = EOPNOTSUPP;
        result->works = tried && !speaks_against(result->why);
        result->error = err.text;
        err.text = NULL;
    }
}

/* The kernel takes about 20 ms to discard a batch, since it waits for packets: a third of the
 * startup of a daemon with little to program. So this tries all features of all families at once,
 * then those of one family, then single features after a rejection. */
void preflight_run(struct nft_socket *socket, const bool families[FAMILY_COUNT], bool flowtables,
                   struct preflight out[FAMILY_COUNT])
{
    const bool several = families[FAMILY_IPV4] && families[FAMILY_IPV6];
    const size_t most = FEATURES - !flowtables;
    const size_t known = several ? probe_together(socket, families, most) : 0;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        out[i] = (struct preflight){.family = (enum family)i};
        if (families[i])
            probe_family(socket, (enum family)i, known, most, &out[i]);
    }
}

void preflight_clear(struct preflight *preflight)
{
    for (size_t i = 0; i < preflight->n; i++)
        free(preflight->results[i].error);
    free(preflight->results);
    memset(preflight, 0, sizeof(*preflight));
}

/* ---- results ---- */

bool preflight_has(const struct preflight *preflight, enum preflight_need need)
{
    for (size_t i = 0; i < preflight->n; i++)
        if (preflight->results[i].need == need && !preflight->results[i].works)
            return false;
    return true;
}

bool preflight_passed(const struct preflight *preflight)
{
    return preflight_has(preflight, NEED_ALWAYS);
}

/* Whether a kernel without the feature returns this error. */
static bool means_missing(int why)
{
    return why == ENOENT || why == EOPNOTSUPP || why == EINVAL || why == EAFNOSUPPORT ||
           why == EPROTONOSUPPORT;
}

static bool was_rejected(const struct preflight_result *result)
{
    return !result->works && result->why != 0;
}

static const char *remedy(const struct preflight_result *result)
{
    return means_missing(result->why) ? result->config : result->error;
}

char *preflight_missing(const struct preflight *preflight)
{
    char *all = NULL;
    for (size_t i = 0; i < preflight->n; i++) {
        const struct preflight_result *result = &preflight->results[i];
        if (!was_rejected(result))
            continue;
        char *more = xasprintf("%s%s%s: %s", all ? all : "", all ? "; " : "", result->feature,
                               remedy(result));
        free(all);
        all = more;
    }
    return all;
}

char *preflight_answer(const struct preflight_result *result)
{
    if (result->works)
        return result->why ? xasprintf("unknown (%s)", strerror(result->why)) : xstrdup("ok");
    if (!was_rejected(result))
        return xstrdup("not tried");
    return means_missing(result->why) ? xstrdup("missing")
                                      : xasprintf("failed (%s)", strerror(result->why));
}

char *preflight_consequence(enum family family, const struct preflight_result *result)
{
    return was_rejected(result)
               ? xasprintf("%s without %s (%s): %s", family_name(family), result->feature,
                           remedy(result), consequences[result->need])
               : NULL;
}
