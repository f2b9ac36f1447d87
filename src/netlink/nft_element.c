/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/netlink/nft_element.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/netlink/request.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/common.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>
#include <sys/socket.h>

/* The bytes of a NFTA_DATA_VALUE in @nest; no bytes for a verdict. */
static const uint8_t *value_of(const struct nlattr *nest, size_t *length)
{
    const struct nlattr *attribute;
    *length = 0;
    mnl_attr_for_each_nested(attribute, nest)
    {
        if (mnl_attr_get_type(attribute) == NFTA_DATA_VALUE) {
            *length = mnl_attr_get_payload_len(attribute);
            return mnl_attr_get_payload(attribute);
        }
    }
    return NULL;
}

/* The chain of a goto in @nest. */
static const char *chain_of(const struct nlattr *nest)
{
    const struct nlattr *attribute, *part;
    const char *chain = NULL;
    bool goes = false;
    mnl_attr_for_each_nested(attribute, nest)
    {
        if (mnl_attr_get_type(attribute) != NFTA_DATA_VERDICT)
            continue;
        mnl_attr_for_each_nested(part, attribute)
        {
            if (mnl_attr_get_type(part) == NFTA_VERDICT_CODE)
                goes = mnl_attr_validate(part, MNL_TYPE_U32) == 0 &&
                       ntohl(mnl_attr_get_u32(part)) == (uint32_t)NFT_GOTO;
            else if (mnl_attr_get_type(part) == NFTA_VERDICT_CHAIN &&
                     mnl_attr_validate(part, MNL_TYPE_NUL_STRING) == 0)
                chain = mnl_attr_get_str(part);
        }
    }
    return goes ? chain : NULL;
}

static uint32_t flags_of(const struct nlattr *attribute)
{
    return mnl_attr_get_payload_len(attribute) < sizeof(uint32_t)
               ? 0
               : ntohl(mnl_attr_get_u32(attribute));
}

static bool nft_element_read(const struct nlattr *from, struct nft_element *out)
{
    struct nft_element element = {.key = NULL};
    const struct nlattr *attribute;
    mnl_attr_for_each_nested(attribute, from)
    {
        switch (mnl_attr_get_type(attribute)) {
        case NFTA_SET_ELEM_KEY:
            element.key = value_of(attribute, &element.key_length);
            break;
        case NFTA_SET_ELEM_DATA:
            element.data = value_of(attribute, &element.data_length);
            element.chain = element.data ? NULL : chain_of(attribute);
            break;
        case NFTA_SET_ELEM_FLAGS:
            element.flags = flags_of(attribute);
            break;
        default: /* timeouts, counters */
            break;
        }
    }
    *out = element;
    return element.key || element.flags & NFT_SET_ELEM_CATCHALL;
}

size_t nft_element_each(const struct nlmsghdr *message, nft_element_fn fn, void *ctx)
{
    const struct nlattr *attribute, *at;
    size_t n = 0;
    mnl_attr_for_each(attribute, message, sizeof(struct nfgenmsg))
    {
        if (mnl_attr_get_type(attribute) != NFTA_SET_ELEM_LIST_ELEMENTS)
            continue;
        mnl_attr_for_each_nested(at, attribute)
        {
            struct nft_element element;
            if (!nft_element_read(at, &element))
                continue;
            fn(ctx, &element);
            n++;
        }
    }
    return n;
}

/* ---- the elements of a set, in pieces ---- */

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
        nftnl_nlmsg_build_hdr(buffer, NFT_MSG_GETSETELEM,
                              family == FAMILY_IPV4 ? NFPROTO_IPV4 : NFPROTO_IPV6, NLM_F_DUMP, 1);
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
