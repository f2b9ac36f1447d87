/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whose a chain, rule, IP set or virtual server is, and how they are read. No kernel. */
#include "script.h"

#include "cleanup/cleanup.h"

#include <arpa/inet.h>
#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <sys/socket.h>

/* ---- names and plans: tests/unit/cases/cleanup ---- */

static struct iptables_plan plan; /* of the table nat */
static uint64_t handle;           /* of its last rule */

static void tear_down(void)
{
    iptables_plan_clear(&plan);
}

static void say(FILE *out, bool kube_proxys)
{
    fprintf(out, kube_proxys ? "kube-proxy\n" : "another\n");
}

COMMAND(chain)
{
    const char *table = script_word(&words);
    say(out, kube_proxy_has_chain(table, words));
}

COMMAND(comment)
{
    say(out, kube_proxy_has_comment(words, strlen(words)));
}

COMMAND(ip_set)
{
    say(out, kube_proxy_has_ip_set(words));
}

/* chains NAME...: a plan begins; "+": a base chain. */
COMMAND(chains)
{
    iptables_plan_clear(&plan);
    plan = (struct iptables_plan){.table = "nat"};
    handle = 0;
    for (const char *name; *(name = script_word(&words));)
        iptables_plan_add(&plan, name + (*name == '+'), *name == '+');
}

/* again FROM TO COMMENT: a rule with the handle of the last one. */
COMMAND(again)
{
    const char *from = script_word(&words), *to = script_word(&words);
    const struct iptables_rule rule = {from, handle, *to ? to : NULL,
                                       *words && kube_proxy_has_comment(words, strlen(words))};
    iptables_plan_add_rule(&plan, &rule);
}

/* rule FROM TO COMMENT; its handle is its number. */
COMMAND(rule)
{
    handle++;
    run_again(words, out);
}

COMMAND(goes)
{
    const char *between = "";
    iptables_plan_finish(&plan);
    vec_each (&plan.jumps, jump) {
        ck_assert_uint_eq(jump->handle, (uint64_t)(jump - plan.jumps.v) + 1);
        fprintf(out, "%s%s>%s", between, jump->from->name, jump->to->name);
        between = " ";
    }
    vec_each (&plan.chains, it)
        if (iptables_chain_goes(*it)) {
            fprintf(out, "%s%s", between, (*it)->name);
            between = " ";
        }
    vec_each (&plan.chains, it)
        if ((*it)->needed_by) {
            fprintf(out, "%s%s<%s", between, (*it)->name, (*it)->needed_by->name);
            between = " ";
        }
    if (*between)
        fprintf(out, "\n");
}

CASES("cleanup")

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
    ck_assert_uint_eq(iptables_legacy_chains("nat", bytes, size, &first), 2);
    ck_assert_str_eq(first, "KUBE-SERVICES");
    free(first);
    for (size_t cut = 0; cut <= size; cut++) {
        char *copy = malloc(cut + 1), *name = NULL;
        memcpy(copy, bytes, cut);
        size_t n = iptables_legacy_chains("nat", copy, cut, &name);
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

UNIT_FIXTURE(NULL, tear_down)
