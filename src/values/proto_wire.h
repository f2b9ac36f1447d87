/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The wire format: what a message of protobuf, and what Kubernetes puts around one, consist of. */
#ifndef KUBE_NFTD_BASE_PROTO_WIRE_H
#define KUBE_NFTD_BASE_PROTO_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How the value of a field is written. Groups (3 and 4) are not used by Kubernetes. */
enum proto_wire {
    PROTO_VARINT = 0,
    PROTO_FIXED64 = 1,
    PROTO_LENGTH = 2, /* a length, and so many bytes */
    PROTO_FIXED32 = 5,
};

/* What a field begins with. */
struct proto_token {
    uint32_t field;  /* its number */
    uint32_t wire;   /* of enum proto_wire */
    uint64_t number; /* of PROTO_VARINT the value, of all others how many bytes follow */
};

/** How many bytes come behind it. */
static inline uint64_t proto_token_size(struct proto_token token)
{
    return token.wire == PROTO_VARINT ? 0 : token.number;
}

/* What is wrong with a token of which more bytes may come. */
static const char proto_cut_off[] = "the end of a field is missing";

/* Seven bits a byte, the lowest first; all bytes but the last one have the eighth bit. */
static inline const char *proto_varint_read(uint8_t **in, const uint8_t *end, uint64_t *number)
{
    *number = 0;
    for (unsigned shift = 0; *in < end; shift += 7) {
        uint8_t byte = *(*in)++;
        if (shift == 63 && byte > 1)
            return "a number of more than 64 bits";
        *number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return NULL;
    }
    return proto_cut_off;
}

/** Reads the token at @in, which goes behind it. Returns what is wrong with it; NULL if nothing. */
static inline const char *proto_token_read(uint8_t **in, const uint8_t *end,
                                           struct proto_token *token)
{
    uint64_t tag;
    const char *fault = proto_varint_read(in, end, &tag);
    if (fault)
        return fault;
    uint32_t wire = tag & 7;
    *token = (struct proto_token){(uint32_t)(tag >> 3), wire, wire == PROTO_FIXED64 ? 8 : 4};
    if (tag > UINT32_MAX || tag >> 3 == 0)
        return "a field with no valid number";
    if (wire == PROTO_VARINT || wire == PROTO_LENGTH)
        return proto_varint_read(in, end, &token->number);
    if (wire == 3 || wire == 4)
        return "a group, which Kubernetes does not use";
    return wire > PROTO_FIXED32 ? "a field of an unknown wire type" : NULL;
}

/* Before the envelope of an object. */
#define PROTO_MAGIC sizeof("k8s")

/** Whether an envelope follows. */
static inline bool proto_is_envelope(const uint8_t *in, size_t n)
{
    return n >= PROTO_MAGIC && memcmp(in, "k8s", PROTO_MAGIC) == 0;
}

/* Before each event of a watch: its length, the highest byte first. */
#define PROTO_FRAME sizeof(uint32_t)

static inline uint32_t proto_frame_length(const uint8_t *in)
{
    uint32_t length;
    memcpy(&length, in, sizeof(length));
    return be32toh(length);
}

#endif
