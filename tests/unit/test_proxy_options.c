/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From flags to the proxy's configuration, and what kernels that lack something leave of it. */
#include "kube-nftd/proxy_options.h"

#include "objects.h"
#include "unit.h"

#define MOST_FLAGS 8

/* ---- flags ---- */

static const char *const detectors[] = {
    [DETECT_NONE] = "none",
    [DETECT_CIDRS] = "cidrs",
    [DETECT_INTERFACE] = "interface",
    [DETECT_INTERFACE_PREFIX] = "prefix",
};

static void write_family(FILE *out, const struct proxy_config *config, enum family family)
{
    const struct ruleset_config *ruleset = &config->rulesets[family];
    fprintf(out, "%s%s", family == FAMILY_IPV4 ? "" : "; ", detectors[ruleset->detector]);
    if (ruleset->interface)
        fprintf(out, " %s", ruleset->interface);
    if (config->node.has_cluster_cidr[family]) {
        fputs(" pods=", out);
        write_cidr(out, family, &config->node.cluster_cidr[family]);
    }
    if (config->node.has_bind_address[family]) {
        fputs(" bind=", out);
        write_address(out, family, &config->node.bind_address[family]);
    }
    vec_each (&config->node.node_port_addresses.cidrs[family], cidr) {
        fputs(" ports=", out);
        write_cidr(out, family, cidr);
    }
    if (ruleset->masquerade_all)
        fputs(" all", out);
}

/* That of IPv4, then that of IPv6, then what both have. */
static char *config_text(const struct proxy_config *config)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    write_family(out, config, FAMILY_IPV4);
    write_family(out, config, FAMILY_IPV6);
    fprintf(out, "%s%s%s", config->node.follow_pod_cidrs ? " follow" : "",
            config->node.node_port_addresses.primary ? " primary" : "",
            config->node.required ? " node" : "");
    fclose(out);
    return text;
}

/* @flags as main() takes them from the command line, without the name of the program. */
static void parse(const char *flags, struct options *options)
{
    char program[] = "kube-nftd", *argv[MOST_FLAGS + 1] = {program};
    int argc = 1;
    struct error err = {0};
    each_word(flags, word)
    {
        ck_assert_int_le(argc, MOST_FLAGS);
        argv[argc++] = xstrdup(word);
    }
    int result = options_parse(argc, argv, options, &err);
    ck_assert_msg(result == 0, "%s: %s", flags, err.text);
    while (--argc > 0)
        free(argv[argc]);
}

static const struct {
    const char *flags, *expected;
} cases[] = {
    {"", "none; none primary node"},
    {"--manifests=x", "none; none primary"},

    /* ClusterCIDR: by family, whatever the order */
    {"--cluster-cidr=10.244.0.0/16", "cidrs pods=10.244.0.0/16; none primary node"},
    {"--cluster-cidr=fd00:1::/48", "none; cidrs pods=fd00:1::/48 primary node"},
    {"--cluster-cidr=fd00:1::/48,10.244.0.0/16",
     "cidrs pods=10.244.0.0/16; cidrs pods=fd00:1::/48 primary node"},
    {"--detect-local-mode=ClusterCIDR --cluster-cidr=10.244.0.0/16",
     "cidrs pods=10.244.0.0/16; none primary node"},

    /* the other modes want nothing of it */
    {"--detect-local-mode=NodeCIDR", "cidrs; cidrs follow primary node"},
    {"--detect-local-mode=NodeCIDR --cluster-cidr=10.244.0.0/16",
     "cidrs; cidrs follow primary node"},
    {"--detect-local-mode=BridgeInterface --pod-bridge-interface=cni0",
     "interface cni0; interface cni0 primary node"},
    {"--detect-local-mode=InterfaceNamePrefix --pod-interface-name-prefix=veth",
     "prefix veth; prefix veth primary node"},
    {"--detect-local-mode=InterfaceNamePrefix --pod-interface-name-prefix=veth "
     "--pod-bridge-interface=cni0 --cluster-cidr=10.244.0.0/16",
     "prefix veth; prefix veth primary node"},
    {"--pod-bridge-interface=cni0 --pod-interface-name-prefix=veth", "none; none primary node"},

    /* the node's own address */
    {"--bind-address=192.0.2.7", "none bind=192.0.2.7; none primary node"},
    {"--bind-address=fd00::7", "none; none bind=fd00::7 primary node"},
    {"--bind-address=0.0.0.0", "none; none primary node"},
    {"--bind-address=::", "none; none primary node"},

    {"--nodeport-addresses=10.0.0.0/8,fd00::/8,192.0.2.0/24",
     "none ports=10.0.0.0/8 ports=192.0.2.0/24; none ports=fd00::/8 node"},
    {"--nodeport-addresses=primary", "none; none primary node"},
    {"--masquerade-all", "none all; none all primary node"},
    {"--masquerade-all --cluster-cidr=10.244.0.0/16",
     "cidrs pods=10.244.0.0/16 all; none all primary node"},
};

TESTS(applied, COUNT(cases))
{
    struct options options;
    struct proxy_config config = {.families = {true, false}, .node.assume_held = _i % 2};
    parse(cases[_i].flags, &options);
    proxy_options_apply(&options, "n1", &config);
    expect_text(config_text(&config), cases[_i].expected);
    ck_assert_str_eq(config.node.name, "n1");
    for (int family = 0; family < FAMILY_COUNT; family++)
        ck_assert_uint_eq(config.rulesets[family].mark, 0x4000);
    ck_assert_double_eq(config.sync_period, 30);
    ck_assert(!config.no_external_ips);
    /* what was there for other reasons */
    ck_assert(config.families[FAMILY_IPV4] && !config.families[FAMILY_IPV6]);
    ck_assert(config.node.assume_held == (_i % 2));
    options_clear(&options);
}

TEST(bit_period_and_gate)
{
    struct options options;
    struct proxy_config config = {.families = {true, true}};
    parse("--iptables-masquerade-bit=31 --iptables-sync-period=1m "
          "--feature-gates=AllowServiceExternalIPs=false",
          &options);
    proxy_options_apply(&options, "n1", &config);
    for (int family = 0; family < FAMILY_COUNT; family++)
        ck_assert_uint_eq(config.rulesets[family].mark, 0x80000000);
    ck_assert_double_eq(config.sync_period, 60);
    ck_assert(config.no_external_ips);
    options_clear(&options);
}

/* Of which families CIDRs are given, and which are in use. */
TEST(cluster_cidr_of_families)
{
    static const struct {
        const char *flags, *error;
        bool ipv4, ipv6;
    } rows[] = {
        {"", NULL, true, false},
        {"--cluster-cidr=10.0.0.0/8", NULL, true, false},
        {"--cluster-cidr=10.0.0.0/8", NULL, true, true},
        {"--cluster-cidr=fd00::/8", NULL, true, true},
        {"--cluster-cidr=fd00::/8,10.0.0.0/8", NULL, true, false},
        {"--cluster-cidr=fd00::/8 --detect-local-mode=NodeCIDR", NULL, true, false},
        {"--cluster-cidr=fd00::/8",
         "clusterCIDR (--cluster-cidr) has no CIDR of IPv4, the only family in use", true, false},
        {"--cluster-cidr=10.0.0.0/8",
         "clusterCIDR (--cluster-cidr) has no CIDR of IPv6, the only family in use", false, true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct options options;
        struct error err = {0};
        const struct proxy_config config = {.families = {rows[i].ipv4, rows[i].ipv6}};
        parse(rows[i].flags, &options);
        int result = proxy_options_check_cluster_cidr(&options, &config, &err);
        ck_assert_int_eq(result, rows[i].error ? -1 : 0);
        ck_assert_pstr_eq(err.text, rows[i].error);
        error_clear(&err);
        options_clear(&options);
    }
}

/* What the kernel lacks may be known before the flags are. */
TEST(flags_leave_the_kernel_alone)
{
    struct options options;
    struct proxy_config config = {.rulesets = {{.no_fib = true}, {.no_reject = true}}};
    parse("--masquerade-all", &options);
    proxy_options_apply(&options, "n1", &config);
    ck_assert(config.rulesets[FAMILY_IPV4].no_fib && !config.rulesets[FAMILY_IPV4].no_reject);
    ck_assert(!config.rulesets[FAMILY_IPV6].no_fib && config.rulesets[FAMILY_IPV6].no_reject);
    options_clear(&options);
}

/* An owner takes a kernel that can, and a flag that does not forbid it. */
TEST(owner_of_the_tables)
{
    static const struct {
        const char *flags;
        bool can, owned;
    } rows[] = {{"", true, true},
                {"", false, false},
                {"--table-owner=auto", true, true},
                {"--table-owner=off", true, false},
                {"--table-owner=off", false, false}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct options options;
        struct proxy_config config = {.rulesets[FAMILY_IPV6].owned = rows[i].can};
        parse(rows[i].flags, &options);
        proxy_options_apply(&options, "n1", &config);
        ck_assert_int_eq(config.rulesets[FAMILY_IPV6].owned, rows[i].owned);
        ck_assert(!config.rulesets[FAMILY_IPV4].owned);
        options_clear(&options);
    }
}

/* Counting takes a kernel that can, and says so once of a family that cannot. */
TEST(what_is_counted)
{
    static const struct {
        const char *flags;
        bool cannot;
        enum connection_counting counting;
    } rows[] = {{"", false, COUNT_NOTHING},
                {"", true, COUNT_NOTHING},
                {"--count-connections=services", false, COUNT_SERVICES},
                {"--count-connections=endpoints", false, COUNT_ENDPOINTS},
                {"--count-connections=endpoints", true, COUNT_NOTHING}};
    size_t said = 0;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct options options;
        struct proxy_config config = {.rulesets[FAMILY_IPV6].no_counters = rows[i].cannot};
        parse(rows[i].flags, &options);
        proxy_options_apply(&options, "n1", &config);
        ck_assert_int_eq(config.rulesets[FAMILY_IPV6].counting, rows[i].counting);
        said += rows[i].cannot && *rows[i].flags;
        ck_assert_uint_eq(logged_with("family=IPv6 this kernel cannot count"), said);
        options_clear(&options);
    }
}

/* ---- kernels ---- */

/* What the kernel lacks of a family: f fib, r reject, o an owner of tables, x something that nobody
 * can do without. */
static const char *lacks[FAMILY_COUNT];
static unsigned runs[FAMILY_COUNT], cleared;
static struct nft_socket *const the_socket = (struct nft_socket *)(void *)lacks;

/* In place of src/ruleset/preflight.c. */
void preflight_run(struct nft_socket *socket, const bool families[FAMILY_COUNT],
                   struct preflight out[FAMILY_COUNT])
{
    ck_assert_ptr_eq(socket, the_socket);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        runs[i] += families[i];
        out[i] = (struct preflight){.family = (enum family)i};
    }
}

void preflight_clear(struct preflight *preflight)
{
    cleared++;
}

bool preflight_passed(const struct preflight *preflight)
{
    return !strchr(lacks[preflight->family], 'x');
}

bool preflight_has(const struct preflight *preflight, enum preflight_need need)
{
    static const char letters[] = {
        [NEED_FIB] = 'f', [NEED_REJECT] = 'r', [NEED_OWNER] = 'o', [NEED_COUNTERS] = 'c'};
    ck_assert(need != NEED_ALWAYS);
    return !strchr(lacks[preflight->family], letters[need]);
}

char *preflight_missing(const struct preflight *preflight)
{
    return xasprintf("X of %s", family_name(preflight->family));
}

static void set_up(void)
{
    memset(runs, 0, sizeof(runs));
    cleared = 0;
}

static void tear_down(void)
{
}

static const struct {
    const char *ipv4, *ipv6; /* what is lacking; NULL: the family is not in use before */
    const char *expected;    /* families left, with what they do without */
} kernels[] = {
    {"", "", "IPv4 IPv6"},    {"", NULL, "IPv4"},       {"f", "", "IPv4-f IPv6"},
    {"", "f", "IPv4 IPv6-f"}, {"r", "", "IPv4-r IPv6"}, {"rf", "r", "IPv4-fr IPv6-r"},
    {"x", "", "IPv6"},        {"x", "r", "IPv6-r"},     {"", "x", "IPv4"},
    {"f", "xfr", "IPv4-f"},   {"o", "", "IPv4-o IPv6"}, {"", "ro", "IPv4 IPv6-ro"},
    {"c", "", "IPv4-c IPv6"},
};

static char *left_text(const struct proxy_config *config)
{
    char *text = xstrdup("");
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct ruleset_config *ruleset = &config->rulesets[i];
        bool less =
            ruleset->no_fib || ruleset->no_reject || !ruleset->owned || ruleset->no_counters;
        if (!config->families[i])
            continue;
        char *more =
            xasprintf("%s%s%s%s%s%s%s%s", text, *text ? " " : "", family_name((enum family)i),
                      less ? "-" : "", ruleset->no_fib ? "f" : "", ruleset->no_reject ? "r" : "",
                      ruleset->owned ? "" : "o", ruleset->no_counters ? "c" : "");
        free(text);
        text = more;
    }
    return text;
}

/* A line for each thing that is missing, in a family that is in use; no more. */
static void expect_lines(enum family family)
{
    const char *missing = lacks[family];
    char *fib = xasprintf("family=%s this kernel has no fib expression (CONFIG_NFT_FIB_%s)",
                          family_name(family), family == FAMILY_IPV4 ? "IPV4" : "IPV6");
    char *reject = xasprintf("family=%s this kernel cannot reject", family_name(family));
    char *gone = xasprintf("family=%s is not proxied, this kernel lacks: X of %s",
                           family_name(family), family_name(family));
    bool passed = missing && !strchr(missing, 'x');
    ck_assert_uint_eq(logged_with(fib), passed && strchr(missing, 'f'));
    ck_assert_uint_eq(logged_with(reject), passed && strchr(missing, 'r'));
    ck_assert_uint_eq(logged_with(gone), missing && !passed);
    free(fib);
    free(reject);
    free(gone);
}

static int check_kernel(const char *ipv4, const char *ipv6, struct proxy_config *config,
                        struct error *err)
{
    lacks[FAMILY_IPV4] = ipv4;
    lacks[FAMILY_IPV6] = ipv6;
    *config = (struct proxy_config){.families = {ipv4 != NULL, ipv6 != NULL}};
    int result = proxy_options_check_kernel(the_socket, config, err);
    ck_assert_uint_eq(runs[FAMILY_IPV4], ipv4 != NULL);
    ck_assert_uint_eq(runs[FAMILY_IPV6], ipv6 != NULL);
    ck_assert_uint_eq(cleared, FAMILY_COUNT);
    return result;
}

TEST_ROWS(kernel_leaves, kernels)
{
    struct proxy_config config;
    struct error err = {0};
    ck_assert_int_eq(check_kernel(row->ipv4, row->ipv6, &config, &err), 0);
    ck_assert_ptr_null(err.text);
    expect_text(left_text(&config), row->expected);
    expect_lines(FAMILY_IPV4);
    expect_lines(FAMILY_IPV6);
}

TESTS(kernel_leaves_nothing, 3)
{
    static const struct {
        const char *ipv4, *ipv6, *missing;
    } rows[] = {{"x", "x", "X of "}, {"x", NULL, "X of IPv4"}, {NULL, "xr", "X of IPv6"}};
    struct proxy_config config;
    struct error err = {0};
    ck_assert_int_eq(check_kernel(rows[_i].ipv4, rows[_i].ipv6, &config, &err), -1);
    ck_assert_ptr_nonnull(
        strstr(err.text, "no family can be proxied (kube-nftd preflight shows all)"));
    ck_assert_ptr_nonnull(strstr(err.text, rows[_i].missing));
    ck_assert(!config.families[FAMILY_IPV4] && !config.families[FAMILY_IPV6]);
    error_clear(&err);
}

UNIT_FIXTURE(set_up, tear_down)
