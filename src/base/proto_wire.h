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

/* No token is longer: a tag and a number. */
#define PROTO_TOKEN_MOST 15

/**
 * Reads the token that the @n bytes at @in begin with. Returns its length; 0 if its end is not
 * there, -1 with a reason in @why (static) if it is none.
 */
int proto_token_read(const uint8_t *in, size_t n, struct proto_token *token, const char **why);

#define PROTO_SHORT_TOKEN 4

/** The same of nearly all tokens: a number or a length, the tag and the number behind it of one or
 * two bytes each. 0 if it is another one. @in has PROTO_SHORT_TOKEN bytes. */
static inline size_t proto_short_token(const uint8_t *in, struct proto_token *token)
{
    size_t tag_length = in[0] < 0x80 ? 1 : 2;
    uint32_t tag = in[0] < 0x80 ? in[0] : (in[0] & 0x7fU) | (uint32_t)in[1] << 7;
    const uint8_t *behind = in + tag_length;
    size_t length = behind[0] < 0x80 ? 1 : 2;
    uint32_t number = behind[0] < 0x80 ? behind[0] : (behind[0] & 0x7fU) | (uint32_t)behind[1] << 7;
    *token = (struct proto_token){tag >> 3, tag & 7, number};
    bool is_short = tag >= 8 && tag < 1 << 14 && number < 1 << 14 &&
                    (token->wire == PROTO_VARINT || token->wire == PROTO_LENGTH);
    return is_short ? tag_length + length : 0;
}

#endif
