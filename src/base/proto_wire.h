/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The wire format of protobuf: what a message consists of, byte by byte. */
#ifndef KUBE_NFTD_BASE_PROTO_WIRE_H
#define KUBE_NFTD_BASE_PROTO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the value of a field is written. Groups (3 and 4) are not used by Kubernetes. */
enum proto_wire {
    PROTO_VARINT = 0,
    PROTO_FIXED64 = 1,
    PROTO_LENGTH = 2, /* a length, and so many bytes */
    PROTO_FIXED32 = 5,
};

/* A field's tag, and the number behind it. */
struct proto_token {
    uint32_t field;  /* its number */
    uint8_t wire;    /* of enum proto_wire */
    uint64_t number; /* of PROTO_VARINT the value, of all others how many bytes follow */
};

/** proto_token_read() of any token. */
int proto_token_read_any(const uint8_t *in, size_t n, struct proto_token *token, const char **why);

/**
 * Reads the token that the @n bytes at @in begin with. Returns its length; 0 if its end is not
 * there, -1 with a reason in @why (static) if it is none.
 */
static inline int proto_token_read(const uint8_t *in, size_t n, struct proto_token *token,
                                   const char **why)
{
    bool is_short = n >= 2 && in[0] >= 8 && in[0] < 0x80 && in[1] < 0x80;
    uint8_t wire = is_short ? in[0] & 7 : PROTO_FIXED32;
    if (wire != PROTO_VARINT && wire != PROTO_LENGTH)
        return proto_token_read_any(in, n, token, why);
    *token = (struct proto_token){in[0] >> 3, wire, in[1]}; /* as nearly all are */
    return 2;
}

/** Reads the length before a frame of a watch, as that of field 1. The same returns. */
int proto_frame_read(const uint8_t *in, size_t n, struct proto_token *token);

#endif
