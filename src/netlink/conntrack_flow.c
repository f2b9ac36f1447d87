/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/netlink/conntrack_flow.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/in.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <string.h>

/* An end of a tuple, and the types of the attributes that hold it. */
struct end_types {
    uint16_t address[FAMILY_COUNT], port;
};

static const struct end_types source = {{CTA_IP_V4_SRC, CTA_IP_V6_SRC}, CTA_PROTO_SRC_PORT};
static const struct end_types destination = {{CTA_IP_V4_DST, CTA_IP_V6_DST}, CTA_PROTO_DST_PORT};

/* ---- attributes, as in libmnl, but inline: a scan looks at some twenty for each flow ---- */

struct span {
    const uint8_t *at;
    size_t left;
};

static inline size_t payload_length(const struct nlattr *attribute)
{
    return (size_t)attribute->nla_len - NLA_HDRLEN;
}

static inline const void *payload(const struct nlattr *attribute)
{
    return (const uint8_t *)attribute + NLA_HDRLEN;
}

static inline struct span span_of(const struct nlattr *nest)
{
    return (struct span){payload(nest), payload_length(nest)};
}

/* The next attribute; NULL behind the last one. */
static inline const struct nlattr *take(struct span *span)
{
    const struct nlattr *attribute = (const void *)span->at;
    if (span->left < sizeof(*attribute) || attribute->nla_len < sizeof(*attribute) ||
        attribute->nla_len > span->left)
        return NULL;
    size_t length = NLA_ALIGN((size_t)attribute->nla_len);
    length = length < span->left ? length : span->left;
    span->at += length;
    span->left -= length;
    return attribute;
}

static inline const struct nlattr *member(const struct nlattr *nest, uint16_t type)
{
    struct span span = span_of(nest);
    const struct nlattr *attribute;
    while ((attribute = take(&span)) && (attribute->nla_type & NLA_TYPE_MASK) != type)
        ;
    return attribute;
}

/* Copies the member @type of @nest to @out if it has just @length bytes. */
static inline bool copy(const struct nlattr *nest, uint16_t type, void *out, size_t length)
{
    const struct nlattr *attribute = member(nest, type);
    if (!attribute || payload_length(attribute) != length)
        return false;
    memcpy(out, payload(attribute), length);
    return true;
}

/* ---- flows ---- */

/* Reads one end of the tuple @nest into @address and @port, which are zero. */
static bool read_end(const struct nlattr *nest, enum family family, const struct end_types *types,
                     struct address *address, uint16_t *port)
{
    const struct nlattr *ip = member(nest, CTA_TUPLE_IP), *proto = member(nest, CTA_TUPLE_PROTO);
    uint8_t protocol;
    if (!ip || !proto || !copy(proto, CTA_PROTO_NUM, &protocol, sizeof(protocol)) ||
        protocol != IPPROTO_UDP || !copy(proto, types->port, port, sizeof(*port)))
        return false;
    *port = ntohs(*port);
    return copy(ip, types->address[family], address->bytes, address_length(family));
}

bool conntrack_flow_read(const struct nlmsghdr *message, struct conntrack_flow *flow)
{
    if (mnl_nlmsg_get_payload_len(message) < sizeof(struct nfgenmsg))
        return false;
    const struct nfgenmsg *about = mnl_nlmsg_get_payload(message);
    if (about->nfgen_family != NFPROTO_IPV4 && about->nfgen_family != NFPROTO_IPV6)
        return false;
    enum family family = about->nfgen_family == NFPROTO_IPV4 ? FAMILY_IPV4 : FAMILY_IPV6;
    struct span span = {(const uint8_t *)about + NLA_ALIGN(sizeof(*about)),
                        mnl_nlmsg_get_payload_len(message) - NLA_ALIGN(sizeof(*about))};
    const struct nlattr *attribute;
    *flow = (struct conntrack_flow){.to = {.protocol = IPPROTO_UDP, .family = (uint8_t)family}};
    while ((attribute = take(&span))) {
        uint16_t type = attribute->nla_type & NLA_TYPE_MASK;
        if (type == CTA_TUPLE_ORIG)
            flow->original = attribute;
        else if (type == CTA_TUPLE_REPLY)
            flow->reply = attribute;
        else if (type == CTA_ZONE)
            flow->zone = attribute;
        else if (type == CTA_ID)
            flow->id = attribute;
    }
    return flow->original && flow->reply &&
           read_end(flow->original, family, &destination, &flow->to.address, &flow->to.port) &&
           read_end(flow->reply, family, &source, &flow->server.address, &flow->server.port);
}

bool conntrack_flow_is_translated(const struct conntrack_flow *flow)
{
    return flow->to.port != flow->server.port ||
           memcmp(&flow->to.address, &flow->server.address, sizeof(struct address)) != 0;
}

bool conntrack_flow_is_plain(const struct conntrack_flow *flow, struct frontend *from)
{
    enum family family = (enum family)flow->to.family;
    struct backend back = {.port = 0};
    *from = (struct frontend){.protocol = flow->to.protocol, .family = flow->to.family};
    return !conntrack_flow_is_translated(flow) &&
           read_end(flow->original, family, &source, &from->address, &from->port) &&
           read_end(flow->reply, family, &destination, &back.address, &back.port) &&
           from->port == back.port &&
           memcmp(&from->address, &back.address, sizeof(struct address)) == 0;
}
