/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The preflight against the kernel's nf_tables. test_preflight.c has what kernels may lack. */
#include "unit.h"

#include "namespaces.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/ruleset/preflight.h"

#include <libmnl/libmnl.h>
#include <libnftnl/common.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

static struct nft_socket *sock;
static struct error err;
static struct preflight preflights[FAMILY_COUNT];

/* Each test runs with IPv4 alone, IPv6 alone, and both. */
#define WHICH 3

static void run(int which)
{
    const bool families[FAMILY_COUNT] = {
        [FAMILY_IPV4] = which != FAMILY_IPV6, [FAMILY_IPV6] = which != FAMILY_IPV4};
    for (int i = 0; i < FAMILY_COUNT; i++)
        preflight_clear(&preflights[i]);
    preflight_run(sock, families, preflights);
    for (int i = 0; i < FAMILY_COUNT; i++)
        ck_assert_int_eq(preflights[i].n > 0, families[i]);
}

/* Runs the statement with @it pointing at what there is of each family that was looked at. */
#define each_preflight(it)                                                                         \
    for (struct preflight *it = preflights; it < preflights + FAMILY_COUNT; it++)                  \
        if (it->n > 0)

static void setup(void)
{
    enter_namespaces();
    sock = nft_socket_open(&err);
    ck_assert_msg(sock, "%s", err.text);
}

static void teardown(void)
{
    for (int i = 0; i < FAMILY_COUNT; i++)
        preflight_clear(&preflights[i]);
    nft_socket_close(sock);
    error_clear(&err);
}

static int count_table(const struct nlmsghdr *header, void *data)
{
    ++*(int *)data;
    return MNL_CB_OK;
}

/* How many tables there are, of all families. */
static int tables(void)
{
    static char buffer[1 << 16];
    struct mnl_socket *nl = mnl_socket_open(NETLINK_NETFILTER);
    struct nlmsghdr *request =
        nftnl_nlmsg_build_hdr(buffer, NFT_MSG_GETTABLE, NFPROTO_UNSPEC, NLM_F_DUMP, 1);
    int n = 0, more = 1;
    ck_assert_int_eq(mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID), 0);
    ck_assert_int_gt(mnl_socket_sendto(nl, request, request->nlmsg_len), 0);
    while (more > 0) {
        ssize_t length = mnl_socket_recvfrom(nl, buffer, sizeof(buffer));
        ck_assert_int_gt(length, 0);
        more = mnl_cb_run(buffer, (size_t)length, 1, mnl_socket_get_portid(nl), count_table, &n);
    }
    ck_assert_int_eq(more, 0);
    mnl_socket_close(nl);
    return n;
}

TESTS(this_kernel_can_do_everything, WHICH)
{
    run(_i);
    each_preflight(preflight)
    {
        char *missing = preflight_missing(preflight);
        ck_assert_msg(!missing, "%s", missing);
        for (size_t i = 0; i < preflight->n; i++)
            ck_assert_msg(preflight->results[i].works, "%s: %s", preflight->results[i].feature,
                          preflight->results[i].error);
        ck_assert(preflight_passed(preflight));
        ck_assert(preflight_has(preflight, NEED_FIB));
        ck_assert(preflight_has(preflight, NEED_REJECT));
    }
}

static void check_passed(void)
{
    each_preflight(preflight) ck_assert(preflight_passed(preflight));
}

TESTS(nothing_is_left_behind, WHICH)
{
    run(_i);
    check_passed();
    ck_assert_int_eq(tables(), 0);
    /* That would have been seen, and stays as it is. */
    struct nft_batch batch;
    nft_batch_init(&batch, _i == FAMILY_IPV6 ? FAMILY_IPV6 : FAMILY_IPV4, PREFLIGHT_TABLE);
    nft_batch_add_table(&batch, "of somebody else");
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), 0);
    nft_batch_release(&batch);
    run(_i);
    check_passed();
    ck_assert_int_eq(tables(), 1);
}

/* The rights over the network namespace stay with the user namespace that made it. */
TESTS(without_the_right_to, WHICH)
{
    enter_user_namespace(0);
    run(_i);
    each_preflight(preflight)
    {
        ck_assert(!preflight_passed(preflight));
        ck_assert(!preflight_has(preflight, NEED_FIB));
        char *missing = preflight_missing(preflight);
        ck_assert_msg(strncmp(missing, "nf_tables: ", 11) == 0, "%s", missing);
        ck_assert_msg(strstr(missing, "CAP_NET_ADMIN") != NULL, "%s", missing);
        ck_assert_msg(strstr(missing, "CONFIG_") == NULL, "%s", missing);
        free(missing);
    }
}

UNIT_FIXTURE(setup, teardown)
