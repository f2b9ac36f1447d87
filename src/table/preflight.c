/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each feature is probed by a table with a piece of what nft-templates/ has. The pieces go the same
 * way as the templates do, so they are made of the same messages.
 */
#include "kube-nftd/table.h"

#include "template.h"

#include <errno.h>
#include <string.h>

#define FRONTEND "${ip} daddr . meta l4proto . th dport"
#define FRONTEND_TYPE "${ip_addr} . inet_proto . inet_service"

static const struct feature {
    const char *name, *config[FAMILY_COUNT], *purpose;
    enum preflight_need need;
    const char *sets;  /* blocks of the table, under names of its own; NULL for none */
    bool owned;        /* the table has an owner */
    const char *lines; /* of its chain, which may go to the chain "other" */
} features[] = {
    /* The first one is what all others build on. */
    {.name = "nf_tables",
     .config = {"CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4",
                "CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV6"},
     .purpose = "everything",
     .lines = "type filter hook prerouting priority -110;\n"
              "drop\n"},
    {.name = "maps and verdict maps",
     .config = {"CONFIG_NF_TABLES", "CONFIG_NF_TABLES"},
     .purpose = "finding the service of a packet",
     .sets = "map services {\n"
             "type " FRONTEND_TYPE " : classid\n"
             "}\n"
             "map picks {\n"
             "type classid : verdict\n"
             "elements = { 1:1 : goto other }\n"
             "}\n"
             "set frontends {\n"
             "type " FRONTEND_TYPE "\n"
             "}\n"
             "set sources {\n"
             "type ${ip_addr} . classid\n"
             "}\n"
             "map clients {\n"
             "type classid . ${ip_addr} . inet_service : classid\n"
             "}\n",
     .lines = "meta priority set " FRONTEND " map @services meta priority vmap @picks\n"
              "meta priority set meta priority . ${ip} daddr . th dport map @clients\n"
              "meta priority set 0\n"
              "meta priority set meta priority and ffff:ff00 or 0:8 ${ip} saddr . meta priority "
              "@sources accept\n"
              "meta l4proto { tcp, udp, sctp } " FRONTEND " @frontends drop\n"
              "meta priority != 0 return\n"
              "jump other\n"
              "goto other\n"},
    {.name = "packet mark and interface (meta)",
     .config = {"CONFIG_NF_TABLES", "CONFIG_NF_TABLES"},
     .purpose = "marking packets to masquerade",
     .lines = "iifname \"cni0\" goto other\n"
              "iifname != \"cali*\" goto other\n"
              "meta l4proto tcp goto other\n"
              "meta mark set meta mark or ${mark}\n"
              "meta mark and ${mark} != 0 meta mark set meta mark xor ${mark}\n"},
    {.name = "sets of ranges",
     .config = {"CONFIG_NF_TABLES", "CONFIG_NF_TABLES"},
     .purpose = "ranges of pod and service addresses",
     .sets = "set ranges {\n"
             "type ${ip_addr}\n"
             "flags interval\n"
             "}\n",
     .lines = "${ip} saddr @ranges drop\n"
              "${ip} saddr != @ranges drop\n"},
    {.name = "connection tracking (ct)",
     .config = {"CONFIG_NF_CONNTRACK, CONFIG_NFT_CT", "CONFIG_NF_CONNTRACK, CONFIG_NFT_CT"},
     .purpose = "recognising new connections",
     .sets = "map numbers {\n"
             "type " FRONTEND_TYPE " : classid\n"
             "}\n",
     .lines = "ct state new ct status dnat jump other\n"
              "meta priority set ct original ${ip} daddr . meta l4proto . ct original proto-dst "
              "map @numbers\n"},
    {.name = "chains that translate (nat)",
     .config = {"CONFIG_NF_NAT, CONFIG_NFT_NAT", "CONFIG_NF_NAT, CONFIG_NFT_NAT"},
     .purpose = "sending packets to endpoints",
     .lines = "type nat hook prerouting priority -100;\n"},
    {.name = "destinations from a map (dnat)",
     .config = {"CONFIG_NF_NAT, CONFIG_NFT_NAT", "CONFIG_NF_NAT, CONFIG_NFT_NAT"},
     .purpose = "sending packets to endpoints",
     .sets = "map backends {\n"
             "type classid : ${ip_addr} . inet_service\n"
             "}\n",
     .lines = "meta l4proto { tcp, udp, sctp } dnat ${ip} to meta priority map @backends\n"},
    {.name = "random choice (numgen)",
     .config = {"CONFIG_NFT_NUMGEN", "CONFIG_NFT_NUMGEN"},
     .purpose = "picking an endpoint",
     .sets = "set slots {\n"
             "typeof " FRONTEND " . numgen random mod 1\n"
             "}\n",
     .lines = FRONTEND " . numgen random mod 3 @slots drop\n"},
    {.name = "masquerade fully-random",
     .config = {"CONFIG_NFT_MASQ", "CONFIG_NFT_MASQ"},
     .purpose = "getting the replies back",
     .lines = "masquerade fully-random\n"},
    {.name = "elements made by packets (dynset)",
     .config = {"Linux 5.4", "Linux 5.4"},
     .purpose = "session affinity",
     .sets = "map affinity {\n"
             "type ${ip_addr} . classid : classid\n"
             "size 1024\n"
             "flags dynamic,timeout\n"
             "}\n",
     .lines = "meta priority set ${ip} saddr . meta priority map @affinity\n"
              "update @affinity { ${ip} saddr . meta priority and ffff:0 timeout 10s : meta "
              "priority }\n"
              "delete @affinity { ${ip} saddr . meta priority and ffff:0 : meta priority }\n"},
    {.name = "counters of elements (counter)",
     .config = {"CONFIG_NFT_COUNTER", "CONFIG_NFT_COUNTER"},
     .purpose = "counting connections",
     .need = NEED_COUNTERS,
     .sets = "set counts {\n"
             "type ${ip_addr}\n"
             "flags dynamic\n"
             "}\n",
     .lines = "update @counts { ${ip} saddr counter }\n"},
    {.name = "reject",
     .config = {"CONFIG_NFT_REJECT, CONFIG_NFT_REJECT_IPV4",
                "CONFIG_NFT_REJECT, CONFIG_NFT_REJECT_IPV6"},
     .purpose = "rejecting where no endpoint serves",
     .need = NEED_REJECT,
     .lines = "reject\n"},
    {.name = "type of an address (fib)",
     .config = {"CONFIG_NFT_FIB, CONFIG_NFT_FIB_IPV4", "CONFIG_NFT_FIB, CONFIG_NFT_FIB_IPV6"},
     .purpose = "recognising packets to this host",
     .need = NEED_FIB,
     .lines = "fib saddr type local goto other\n"},
    /* The last one is what most kernels lack that lack anything. */
    {.name = "tables that stay ours (owner)",
     .config = {"Linux 6.9", "Linux 6.9"},
     .purpose = "protection from other programs",
     .need = NEED_OWNER,
     .owned = true,
     .lines = ""},
};
#define FEATURES (sizeof(features) / sizeof(features[0]))

static const char *const consequences[] = {
    [NEED_ALWAYS] = "the family cannot be proxied",
    [NEED_REJECT] = "packets are dropped instead of rejected, so clients wait",
    [NEED_OWNER] = "other programs can change the table: their changes are detected and repaired",
    [NEED_COUNTERS] = "--count-connections has no effect",
    [NEED_FIB] = "this host itself reaches only its own endpoints under traffic policy Local",
};

/* ---- probing ---- */

/* Appends a table with the pieces of @n features, in the form of a template. */
static int add_features(const struct feature *from, size_t n, enum family family,
                        struct nft_batch *batch, struct error *err)
{
    char *text = NULL;
    size_t length = 0;
    bool owned = false;
    struct layout layout;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        alloc_failed();
    fputs("table ${ip} kube-nftd {\n", out);
    for (size_t i = 0; i < n; i++) {
        owned = owned || from[i].owned;
        fprintf(out, "%schain probe-%zu {\n%s}\n", from[i].sets ? from[i].sets : "", i,
                from[i].lines);
    }
    fputs("chain other {\n}\n}\n", out);
    if (fclose(out))
        alloc_failed();

    const struct template template = {"preflight", text};
    const struct layout_vars vars = {.family = family, .mark = "0x4000"};
    nft_batch_turn_to(batch, family);
    nft_batch_add_table(batch, owned, "forgotten at once");
    int result = layout_parse(&template, &vars, &layout, err);
    if (result == 0) {
        result = program_layout(&layout, true, batch, err);
        layout_free(&layout);
    }
    free(text);
    return result;
}

/* What the kernel says to @n features together, in each of @families: 0, or an errno and its words.
 */
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

/* How many of the features are known to work, from the first one on, after trying as many as
 * possible at once. */
static size_t probe_together(struct nft_socket *socket, const bool families[FAMILY_COUNT])
{
    for (size_t n = FEATURES; n + 1 >= FEATURES; n--) {
        struct error err = {0};
        const int why = probe(socket, families, features, n, &err);
        error_clear(&err);
        if (why == 0)
            return n;
    }
    return 0;
}

/* Whether a refusal says something about the kernel and us. What passes, like a lack of memory,
 * does not: then the commits, which are tried again, will tell. */
static bool speaks_against(int why)
{
    return why != 0 && why != ENOMEM && why != ENOBUFS && why != EINTR && why != EAGAIN &&
           why != EBUSY;
}

/* Fills in @out, unless the family is not in use. It is known that the first @known features work;
 * 0: they were not tried together. */
static void probe_family(struct nft_socket *socket, enum family family, size_t known,
                         struct preflight *out)
{
    const bool alone[FAMILY_COUNT] = {
        [FAMILY_IPV4] = family == FAMILY_IPV4, [FAMILY_IPV6] = family == FAMILY_IPV6};
    struct error err = {0};
    known = known ? known : probe_together(socket, alone);
    out->n = FEATURES;
    out->results = xcalloc(FEATURES, sizeof(*out->results));
    for (size_t i = 0; i < FEATURES; i++) {
        const struct feature *feature = &features[i];
        struct preflight_result *result = &out->results[i];
        const bool tried = i == 0 || out->results[0].works;
        *result = (struct preflight_result){.feature = feature->name,
                                            .config = feature->config[family],
                                            .purpose = feature->purpose,
                                            .need = feature->need};
        if (i >= known && tried)
            result->why = probe(socket, alone, feature, 1, &err);
        result->works = tried && !speaks_against(result->why);
        result->error = err.text;
        err.text = NULL;
    }
}

/* The kernel takes some 20 ms to forget a batch, since it waits for packets: that is a third of the
 * start of a daemon with little to program. So everything is tried together first, then all of a
 * family, and only what is refused feature by feature. */
void preflight_run(struct nft_socket *socket, const bool families[FAMILY_COUNT],
                   struct preflight out[FAMILY_COUNT])
{
    const bool several = families[FAMILY_IPV4] && families[FAMILY_IPV6];
    const size_t known = several ? probe_together(socket, families) : 0;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        out[i] = (struct preflight){.family = (enum family)i};
        if (families[i])
            probe_family(socket, (enum family)i, known, &out[i]);
    }
}

void preflight_clear(struct preflight *preflight)
{
    for (size_t i = 0; i < preflight->n; i++)
        free(preflight->results[i].error);
    free(preflight->results);
    memset(preflight, 0, sizeof(*preflight));
}

/* ---- the verdict ---- */

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

/* Whether a kernel without the feature says so. */
static bool means_missing(int why)
{
    return why == ENOENT || why == EOPNOTSUPP || why == EINVAL || why == EAFNOSUPPORT ||
           why == EPROTONOSUPPORT;
}

static bool was_refused(const struct preflight_result *result)
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
        if (!was_refused(result))
            continue;
        char *more = xasprintf("%s%s%s: %s", all ? all : "", all ? "; " : "", result->feature,
                               remedy(result));
        free(all);
        all = more;
    }
    return all;
}

static void print_result(const struct preflight_result *result, FILE *out)
{
    if (result->works && result->why)
        fprintf(out, "unknown (%s)\n", strerror(result->why));
    else if (result->works)
        fputs("ok\n", out);
    else if (!was_refused(result))
        fputs("not tried\n", out);
    else
        fprintf(out, "%s (%s)\n", means_missing(result->why) ? "missing" : "failed",
                strerror(result->why));
}

static void print_table(const struct preflight *preflight, FILE *out)
{
    enum { COLUMNS = 4 };
    const char *rows[FEATURES + 1][COLUMNS] = {{"FAMILY", "FEATURE", "KERNEL NEEDS", "NEEDED FOR"}};
    size_t widths[COLUMNS] = {0};
    for (size_t i = 0; i <= preflight->n; i++) {
        const struct preflight_result *result = i ? &preflight->results[i - 1] : NULL;
        if (result)
            memcpy(rows[i],
                   ((const char *[]){family_name(preflight->family), result->feature,
                                     result->config, result->purpose}),
                   sizeof(rows[i]));
        for (size_t column = 0; column < COLUMNS; column++)
            if (widths[column] < strlen(rows[i][column]))
                widths[column] = strlen(rows[i][column]);
    }
    for (size_t i = 0; i <= preflight->n; i++) {
        for (size_t column = 0; column < COLUMNS; column++)
            fprintf(out, "%-*s  ", (int)widths[column], rows[i][column]);
        if (i)
            print_result(&preflight->results[i - 1], out);
        else
            fputs("RESULT\n", out);
    }
}

void preflight_print(const struct preflight *preflight, FILE *out)
{
    const char *family = family_name(preflight->family);
    bool complete = true;
    print_table(preflight, out);
    fputc('\n', out);
    for (size_t i = 0; i < preflight->n; i++) {
        const struct preflight_result *result = &preflight->results[i];
        if (!was_refused(result))
            continue;
        fprintf(out, "%s without %s (%s): %s\n", family, result->feature, remedy(result),
                consequences[result->need]);
        complete = false;
    }
    if (complete)
        fprintf(out, "%s: everything needed is available\n", family);
}
