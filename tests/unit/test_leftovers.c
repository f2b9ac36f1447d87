/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whose a chain, rule, IP set or virtual server is, and how they are read. No kernel. */
#include "unit.h"

#include "leftovers/iptables.h"
#include "leftovers/kinds.h"

#include <arpa/inet.h>
#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <sys/socket.h>

/* ---- names ---- */

static const struct {
    const char *table, *chain;
    bool kube_proxys;
} chains[] = {
    {"nat", "KUBE-SERVICES", true},
    {"nat", "KUBE-NODEPORTS", true},
    {"nat", "KUBE-POSTROUTING", true},
    {"nat", "KUBE-MARK-MASQ", true},
    {"nat", "KUBE-PROXY-CANARY", true},
    {"filter", "KUBE-PROXY-CANARY", true},
    {"mangle", "KUBE-PROXY-CANARY", true},
    {"filter", "KUBE-SERVICES", true},
    {"filter", "KUBE-EXTERNAL-SERVICES", true},
    {"filter", "KUBE-FORWARD", true},
    {"filter", "KUBE-NODEPORTS", true},
    {"filter", "KUBE-PROXY-FIREWALL", true},
    /* mode ipvs */
    {"nat", "KUBE-FIREWALL", true}, /* the kubelet's is in filter */
    {"nat", "KUBE-FIRE-WALL", true},
    {"nat", "KUBE-LOAD-BALANCER", true},
    {"nat", "KUBE-NODE-PORT", true},
    {"filter", "KUBE-NODE-PORT", true},
    {"filter", "KUBE-SOURCE-RANGES-FIREWALL", true},
    {"filter", "KUBE-IPVS-FILTER", true},
    {"filter", "KUBE-IPVS-OUT-FILTER", true},
    /* of services and endpoints */
    {"nat", "KUBE-SVC-ABCDEFGHIJKLMNOP", true},
    {"nat", "KUBE-SVL-ABCDEFGHIJKLMNOP", true},
    {"nat", "KUBE-EXT-ABCDEFGHIJKL2345", true},
    {"nat", "KUBE-FW-QRSTUVWXYZ234567", true},
    {"nat", "KUBE-SEP-ABCDEFGHIJKLMNOP", true},
    {"nat", "KUBE-XLB-ABCDEFGHIJKLMNOP", true},
    /* in other tables */
    {"filter", "KUBE-SVC-ABCDEFGHIJKLMNOP", false},
    {"filter", "KUBE-POSTROUTING", false},
    {"mangle", "KUBE-SERVICES", false},
    {"raw", "KUBE-SERVICES", false},
    /* not quite */
    {"nat", "KUBE-SVC-ABCDEFGHIJKLMNO", false},
    {"nat", "KUBE-SVC-ABCDEFGHIJKLMNOPQ", false},
    {"nat", "KUBE-SVC-abcdefghijklmnop", false},
    {"nat", "KUBE-SVC-ABCDEFGHIJKLMN01", false},
    {"nat", "KUBE-SVC-", false},
    {"nat", "KUBE-SERVICES-MINE", false},
    {"nat", "KUBE-SERVICE", false},
    {"nat", "kube-services", false},
    {"nat", "PREROUTING", false},
    {"nat", "", false},
    /* the kubelet's */
    {"filter", "KUBE-FIREWALL", false},
    {"mangle", "KUBE-KUBELET-CANARY", false},
    {"nat", "KUBE-KUBELET-CANARY", false},
    {"mangle", "KUBE-IPTABLES-HINT", false},
    {"nat", "KUBE-MARK-DROP", false},
    /* kube-router's, CRI-O's */
    {"filter", "KUBE-ROUTER-INPUT", false},
    {"filter", "KUBE-ROUTER-FORWARD", false},
    {"filter", "KUBE-NWPLCY-ABCDEFGHIJKLMNOP", false},
    {"filter", "KUBE-POD-FW-ABCDEFGHIJKLMNOP", false},
    {"nat", "KUBE-HOSTPORTS", false},
    {"nat", "KUBE-HP-ABCDEFGHIJKLMNOP", false},
};

TEST_ROWS(chain_names, chains)
{
    ck_assert_msg(kube_proxy_has_chain(row->table, row->chain) == row->kube_proxys, "%s %s",
                  row->table, row->chain);
}

TEST(comments)
{
    ck_assert(kube_proxy_has_comment("kubernetes service portals"));
    ck_assert(kube_proxy_has_comment("kubernetes ipvs access filter"));
    ck_assert(kube_proxy_has_comment("kube-proxy firewall rules"));
    ck_assert(!kube_proxy_has_comment("kubernetes service portals "));
    ck_assert(!kube_proxy_has_comment("kubernetes"));
    ck_assert(!kube_proxy_has_comment(""));
}

static const struct {
    const char *name;
    bool kube_proxys;
} ip_sets[] = {
    {"KUBE-CLUSTER-IP", true},
    {"KUBE-6-CLUSTER-IP", true},
    {"KUBE-LOOP-BACK", true},
    {"KUBE-EXTERNAL-IP", true},
    {"KUBE-EXTERNAL-IP-LOCAL", true},
    {"KUBE-LOAD-BALANCER", true},
    {"KUBE-LOAD-BALANCER-FW", true},
    {"KUBE-LOAD-BALANCER-LOCAL", true},
    {"KUBE-LOAD-BALANCER-SOURCE-IP", true},
    {"KUBE-6-LOAD-BALANCER-SOURCE-CID", true}, /* cut to 31 bytes */
    {"KUBE-NODE-PORT-TCP", true},
    {"KUBE-NODE-PORT-LOCAL-UDP", true},
    {"KUBE-NODE-PORT-LOCAL-SCTP-HASH", true},
    {"KUBE-6-NODE-PORT-LOCAL-SCTP-HAS", true},
    {"KUBE-HEALTH-CHECK-NODE-PORT", true},
    {"KUBE-IPVS-IPS", true},
    {"KUBE-NODE-PORT-LOCAL-SCTP-HAS", false},
    {"KUBE-6-", false},
    {"KUBE-", false},
    {"CLUSTER-IP", false},
    {"KUBE-7-CLUSTER-IP", false},
    {"KUBE-CLUSTER-IP2", false},
    {"KUBE-DST-ABCDEFGHIJKLMNOP", false}, /* kube-router's */
    {"KUBE-SRC-ABCDEFGHIJKLMNOP", false},
    {"cali40masq-ipam-pools", false},
};

TEST_ROWS(ip_set_names, ip_sets)
{
    ck_assert_msg(kube_proxy_has_ip_set(row->name) == row->kube_proxys, "%s", row->name);
}

/* ---- plans ---- */

#define PORTALS "kubernetes service portals"

/* Chains of the table nat; a base chain has a + before its name. Then rules: "FROM TO [comment]";
 * those from a "map:" or "anonymous:" are elements of verdict maps, and "?MAP" looks into one.
 * What goes: the chains and the jumps, as "CHAIN" and "FROM>TO"; "CHAIN<STRANGER" stays. */
static const struct {
    const char *chains[8];
    const char *rules[8][3];
    const char *result;
} plans[] = {
    {{"+PREROUTING", "OTHER"}, {{"PREROUTING", "OTHER", PORTALS}}, ""},
    {{"+PREROUTING", "KUBE-SERVICES"},
     {{"PREROUTING", "KUBE-SERVICES", PORTALS}},
     "PREROUTING>KUBE-SERVICES KUBE-SERVICES "},
    /* twice the same */
    {{"+PREROUTING", "KUBE-SERVICES"},
     {{"PREROUTING", "KUBE-SERVICES", PORTALS}, {"PREROUTING", "KUBE-SERVICES", PORTALS}},
     "PREROUTING>KUBE-SERVICES PREROUTING>KUBE-SERVICES KUBE-SERVICES "},
    /* chains without a rule that leads there; rules without a chain */
    {{"+PREROUTING", "KUBE-MARK-MASQ"}, {{"PREROUTING", NULL, NULL}}, "KUBE-MARK-MASQ "},
    {{"KUBE-SERVICES"}, {{"VANISHED", "KUBE-SERVICES", NULL}}, "KUBE-SERVICES "},
    {{"KUBE-SERVICES"}, {{"KUBE-SERVICES", "VANISHED", NULL}}, "KUBE-SERVICES "},
    /* kube-proxy's chains may lead to others' */
    {{"KUBE-SERVICES", "KUBE-MARK-DROP"},
     {{"KUBE-SERVICES", "KUBE-MARK-DROP", NULL}},
     "KUBE-SERVICES "},
    /* strangers: a rule of a base chain without the comment, and a chain of another program */
    {{"+PREROUTING", "KUBE-SERVICES"},
     {{"PREROUTING", "KUBE-SERVICES", "mine"}},
     "KUBE-SERVICES<PREROUTING "},
    {{"+PREROUTING", "KUBE-SERVICES"},
     {{"PREROUTING", "KUBE-SERVICES", NULL}},
     "KUBE-SERVICES<PREROUTING "},
    {{"CNI-HOSTPORT-SETMARK", "KUBE-MARK-MASQ", "KUBE-SERVICES"},
     {{"CNI-HOSTPORT-SETMARK", "KUBE-MARK-MASQ", PORTALS},
      {"KUBE-SERVICES", "KUBE-MARK-MASQ", NULL}},
     "KUBE-SERVICES KUBE-MARK-MASQ<CNI-HOSTPORT-SETMARK "},
    /* what stays keeps what it leads to, whichever rule is told first; jumps go all the same */
    {{"+OUTPUT", "MINE", "KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-MARK-MASQ", "KUBE-POSTROUTING"},
     {{"OUTPUT", "KUBE-SERVICES", PORTALS},
      {"KUBE-SERVICES", "KUBE-NODEPORTS", NULL},
      {"MINE", "KUBE-SERVICES", NULL},
      {"KUBE-NODEPORTS", "KUBE-MARK-MASQ", NULL}},
     "OUTPUT>KUBE-SERVICES KUBE-POSTROUTING KUBE-SERVICES<MINE KUBE-NODEPORTS<MINE "
     "KUBE-MARK-MASQ<MINE "},
    /* of several that need a chain, one that leads to it itself is named */
    {{"+OUTPUT", "MINE", "KUBE-NODEPORTS", "KUBE-MARK-MASQ"},
     {{"KUBE-NODEPORTS", "KUBE-MARK-MASQ", NULL},
      {"OUTPUT", "KUBE-NODEPORTS", NULL},
      {"MINE", "KUBE-MARK-MASQ", NULL}},
     "KUBE-NODEPORTS<OUTPUT KUBE-MARK-MASQ<MINE "},
    /* an element of a map that has a name holds a chain; one of a map that is part of a rule is as
     * good as that rule */
    {{"+PREROUTING", "KUBE-SERVICES", "KUBE-MARK-MASQ"},
     {{"map:mine", "KUBE-SERVICES", NULL},
      {"PREROUTING", "?mine", PORTALS},
      {"KUBE-SERVICES", "KUBE-MARK-MASQ", NULL}},
     "KUBE-SERVICES<mine KUBE-MARK-MASQ<mine "},
    {{"+PREROUTING", "KUBE-SERVICES", "KUBE-NODEPORTS"},
     {{"anonymous:__map0", "KUBE-SERVICES", NULL},
      {"anonymous:__map0", "PREROUTING", NULL},
      {"PREROUTING", "?__map0", PORTALS}},
     "KUBE-NODEPORTS KUBE-SERVICES<PREROUTING "},
    {{"KUBE-NODEPORTS", "KUBE-SERVICES"},
     {{"anonymous:__map0", "KUBE-SERVICES", NULL}, {"KUBE-NODEPORTS", "?__map0", NULL}},
     "KUBE-NODEPORTS KUBE-SERVICES "},
    /* a base chain with a name of kube-proxy's is nobody's iptables */
    {{"+KUBE-SERVICES"}, {{NULL}}, ""},
    {{"KUBE-SERVICES", "KUBE-SERVICES"}, {{NULL}}, "KUBE-SERVICES "},
};

static char *plan_text(const struct iptables_plan *plan)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    vec_each (&plan->jumps, jump)
        fprintf(out, "%s>%s ", jump->from->name, jump->to->name);
    vec_each (&plan->chains, chain)
        if (iptables_chain_goes(*chain))
            fprintf(out, "%s ", (*chain)->name);
    vec_each (&plan->chains, chain)
        if ((*chain)->kube_proxys && (*chain)->holder)
            fprintf(out, "%s<%s ", (*chain)->name, (*chain)->holder->name);
    fclose(out);
    return text;
}

static void tell(struct iptables_plan *plan, const char *const rule[3], uint64_t handle)
{
    if (strncmp(rule[0], "map:", 4) == 0)
        iptables_plan_add_element(plan, rule[0] + 4, false, rule[1]);
    else if (strncmp(rule[0], "anonymous:", 10) == 0)
        iptables_plan_add_element(plan, rule[0] + 10, true, rule[1]);
    else if (rule[1] && rule[1][0] == '?')
        iptables_plan_add_rule(
            plan, &(struct iptables_rule){
                      .chain = rule[0], .handle = handle, .map = rule[1] + 1, .comment = rule[2]});
    else
        iptables_plan_add_rule(
            plan, &(struct iptables_rule){
                      .chain = rule[0], .handle = handle, .to = rule[1], .comment = rule[2]});
}

/* What was overtaken may come twice; a rule can be deleted only once. */
TEST(told_twice)
{
    struct iptables_plan plan;
    iptables_plan_init(&plan, "nat");
    iptables_plan_add_chain(&plan, &(struct iptables_chain_facts){.name = "INPUT", .base = true});
    iptables_plan_add_chain(&plan, &(struct iptables_chain_facts){.name = "KUBE-SERVICES"});
    for (int i = 0; i < 2; i++)
        tell(&plan, (const char *const[]){"INPUT", "KUBE-SERVICES", PORTALS}, 7);
    ck_assert_uint_eq(plan.jumps.n, 1);
    iptables_plan_clear(&plan);
}

TEST_ROWS(what_goes, plans)
{
    struct iptables_plan plan;
    iptables_plan_init(&plan, "nat");
    for (const char *const *chain = row->chains; *chain; chain++)
        iptables_plan_add_chain(&plan,
                                &(struct iptables_chain_facts){.name = *chain + (**chain == '+'),
                                                               .base = **chain == '+'});
    for (size_t i = 0; row->rules[i][0]; i++)
        tell(&plan, row->rules[i], i + 1);
    char *text = plan_text(&plan);
    ck_assert_str_eq(text, row->result);
    ck_assert(iptables_plan_is_empty(&plan) == (text[0] == '\0'));
    for (size_t i = 0; i < plan.jumps.n; i++)
        ck_assert_uint_eq(plan.jumps.v[i].handle, i + 1);
    free(text);
    iptables_plan_clear(&plan);
}

/* ---- contents of iptables-legacy's tables ---- */

static void put_head(char *bytes, size_t *size, const char *name)
{
    struct xt_error_target *target = (void *)(bytes + *size + XT_ALIGN(sizeof(struct ipt_entry)));
    strcpy(target->target.u.user.name, XT_ERROR_TARGET);
    strcpy(target->errorname, name);
    *size += XT_ALIGN(sizeof(struct ipt_entry)) + XT_ALIGN(sizeof(*target));
}

/* Wherever it is cut off: never read beyond the end. */
TEST(legacy_chains)
{
    char bytes[4096] = {0}, *first = NULL;
    size_t size = 0;
    put_head(bytes, &size, "A-KUBE-SERVICES");
    put_head(bytes, &size, "KUBE-SERVICES");
    put_head(bytes, &size, "KUBE-SERVICES-OF-MINE");
    put_head(bytes, &size, "KUBE-SVC-ABCDEFGHIJKLMNOP");
    put_head(bytes, &size, XT_ERROR_TARGET);
    ck_assert_uint_eq(legacy_iptables_chains("nat", bytes, size, &first), 2);
    ck_assert_str_eq(first, "KUBE-SERVICES");
    free(first);
    for (size_t cut = 0; cut <= size; cut++) {
        char *copy = malloc(cut + 1), *name = NULL;
        memcpy(copy, bytes, cut);
        size_t n = legacy_iptables_chains("nat", copy, cut, &name);
        ck_assert((n > 0) == (name != NULL));
        free(copy);
        free(name);
    }
}

/* ---- virtual servers ---- */

static struct nlmsghdr *server_message(char *buffer, uint16_t af, const char *address)
{
    uint8_t bytes[16] = {0};
    struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
    mnl_nlmsg_put_extra_header(message, sizeof(struct genlmsghdr));
    struct nlattr *nest = mnl_attr_nest_start(message, IPVS_CMD_ATTR_SERVICE);
    mnl_attr_put_u16(message, IPVS_SVC_ATTR_AF, af);
    if (address) {
        inet_pton(af, address, bytes);
        mnl_attr_put_u16(message, IPVS_SVC_ATTR_PROTOCOL, IPPROTO_UDP);
        mnl_attr_put(message, IPVS_SVC_ATTR_ADDR, sizeof(bytes), bytes);
        mnl_attr_put_u16(message, IPVS_SVC_ATTR_PORT, htons(53));
    } else {
        mnl_attr_put_u32(message, IPVS_SVC_ATTR_FWMARK, 70000);
    }
    mnl_attr_put_strz(message, IPVS_SVC_ATTR_SCHED_NAME, "rr");
    mnl_attr_nest_end(message, nest);
    return message;
}

TEST(virtual_servers)
{
    _Alignas(struct nlmsghdr) char buffer[512] = {0};
    char text[ADDRESS_TEXT_SIZE];
    struct virtual_server server;
    ck_assert(virtual_server_read(server_message(buffer, AF_INET, "10.96.0.10"), &server));
    ck_assert_int_eq(server.family, FAMILY_IPV4);
    ck_assert_str_eq(address_format(server.family, &server.address, text), "10.96.0.10");
    ck_assert_uint_eq(server.protocol, IPPROTO_UDP);
    ck_assert_uint_eq(server.port, 53);
    ck_assert_uint_eq(server.fwmark, 0);

    ck_assert(virtual_server_read(server_message(buffer, AF_INET6, "fd00::a"), &server));
    ck_assert_int_eq(server.family, FAMILY_IPV6);
    ck_assert_str_eq(address_format(server.family, &server.address, text), "fd00::a");

    ck_assert(virtual_server_read(server_message(buffer, AF_INET, NULL), &server));
    ck_assert_uint_eq(server.fwmark, 70000);

    struct nlmsghdr *other = mnl_nlmsg_put_header(buffer);
    mnl_nlmsg_put_extra_header(other, sizeof(struct genlmsghdr));
    mnl_attr_put_u32(other, IPVS_CMD_ATTR_DEST, 1);
    ck_assert(!virtual_server_read(other, &server));
}
