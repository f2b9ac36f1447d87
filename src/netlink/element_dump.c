/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/common.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>
#include <sys/socket.h>

/* The kernel makes no larger pieces. */
#define BUFFER_SIZE ((size_t)32 * 1024)

struct element_dump {
    struct mnl_socket *nl;
    nft_element_fn fn;
    void *ctx;
    _Alignas(struct nlmsghdr) char buffer[BUFFER_SIZE];
};

void element_dump_close(struct element_dump *dump)
{
    if (!dump)
        return;
    if (dump->nl)
        mnl_socket_close(dump->nl);
    free(dump);
}

struct element_dump *element_dump_open(enum family family, const char *table, const char *set,
                                       struct error *err)
{
    char buffer[512] = {0};
    struct element_dump *dump = xcalloc(1, sizeof(*dump));
    struct nlmsghdr *request =
        nftnl_nlmsg_build_hdr(buffer, NFT_MSG_GETSETELEM, netlink_family(family), NLM_F_DUMP, 1);
    mnl_attr_put_strz(request, NFTA_SET_ELEM_LIST_TABLE, table);
    mnl_attr_put_strz(request, NFTA_SET_ELEM_LIST_SET, set);
    dump->nl = netlink_open(NETLINK_NETFILTER, SOCK_NONBLOCK, 0, 0, "nf_tables", err);
    if (dump->nl && mnl_socket_sendto(dump->nl, request, request->nlmsg_len) > 0)
        return dump;
    if (dump->nl)
        error_set(err, "cannot request the elements of %s: %s", set, strerror(errno));
    element_dump_close(dump);
    return NULL;
}

static int on_elements(const struct nlmsghdr *header, void *data)
{
    const struct element_dump *dump = data;
    nft_element_each(header, dump->fn, dump->ctx);
    return MNL_CB_OK;
}

enum element_dump_state element_dump_step(struct element_dump *dump, nft_element_fn fn, void *ctx,
                                          struct error *err)
{
    ssize_t n = mnl_socket_recvfrom(dump->nl, dump->buffer, sizeof(dump->buffer));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return DUMP_GOES_ON;
    dump->fn = fn;
    dump->ctx = ctx;
    int result = n < 0 ? MNL_CB_ERROR
                       : mnl_cb_run(dump->buffer, netlink_whole(dump->buffer, (size_t)n), 1,
                                    mnl_socket_get_portid(dump->nl), on_elements, dump);
    if (result == MNL_CB_OK)
        return DUMP_GOES_ON;
    if (result == MNL_CB_STOP)
        return DUMP_ENDED;
    error_set(err, "cannot read elements: %s", strerror(errno));
    return DUMP_FAILED;
}
