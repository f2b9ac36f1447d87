/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "terms.h"

/* Where headers have the addresses and the port. */
#define IPV4_SOURCE 12
#define IPV4_DESTINATION 16
#define IPV6_SOURCE 8
#define IPV6_DESTINATION 24
#define TRANSPORT_DESTINATION 2
#define PORT_LENGTH 2

static void load_address(struct builder *b, uint32_t what, const struct term_list *list,
                         uint32_t to)
{
    (void)list;
    expr_payload(b, NFT_PAYLOAD_NETWORK_HEADER, what, (uint32_t)address_length(b->family), to);
}

static void load_masked_address(struct builder *b, uint32_t what, const struct term_list *list,
                                uint32_t to)
{
    load_address(b, what, list, to);
    expr_mask(b, to, list->mask.bytes, address_length(b->family));
}

static void load_port(struct builder *b, uint32_t what, const struct term_list *list, uint32_t to)
{
    (void)list;
    expr_payload(b, NFT_PAYLOAD_TRANSPORT_HEADER, what, PORT_LENGTH, to);
}

static void load_original(struct builder *b, uint32_t what, const struct term_list *list,
                          uint32_t to)
{
    (void)list;
    expr_ct_original(b, what, to);
}

static void load_meta(struct builder *b, uint32_t what, const struct term_list *list, uint32_t to)
{
    (void)list;
    expr_meta(b, what, to);
}

static void load_meta_bits(struct builder *b, uint32_t what, const struct term_list *list,
                           uint32_t to)
{
    expr_meta(b, what, to);
    expr_bits(b, to, list->bits, 0);
}

static void load_random(struct builder *b, uint32_t what, const struct term_list *list, uint32_t to)
{
    (void)what;
    expr_random(b, list->modulus, to);
}

#define BOTH(what)                                                                                 \
    {                                                                                              \
        what, what                                                                                 \
    }

const struct term terms[TERMS] = {
    {"IP saddr and MASK", true, load_masked_address, {IPV4_SOURCE, IPV6_SOURCE}},
    {"IP saddr", true, load_address, {IPV4_SOURCE, IPV6_SOURCE}},
    {"IP daddr", true, load_address, {IPV4_DESTINATION, IPV6_DESTINATION}},
    {"th dport", false, load_port, BOTH(TRANSPORT_DESTINATION)},
    {"ct original IP daddr", true, load_original, {NFT_CT_DST_IP, NFT_CT_DST_IP6}},
    {"ct original proto-dst", false, load_original, BOTH(NFT_CT_PROTO_DST)},
    {"meta l4proto", false, load_meta, BOTH(NFT_META_L4PROTO)},
    {"meta priority and BITS", false, load_meta_bits, BOTH(NFT_META_PRIORITY)},
    {"meta priority", false, load_meta, BOTH(NFT_META_PRIORITY)},
    {"numgen random mod MODULUS", false, load_random, BOTH(0)},
};

size_t terms_load(const struct term_list *list, struct builder *b)
{
    size_t words = 0;
    for (size_t i = 0; i < list->n; i++) {
        const struct term *term = list->v[i];
        term->load(b, term->what[b->family], list, expr_register(words));
        words += term->is_address ? address_length(b->family) / NFT_REG32_SIZE : 1;
    }
    return words;
}
