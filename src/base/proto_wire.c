/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto_wire.h"

#include <endian.h>
#include <string.h>

#define NUMBER_MOST 10

/* Seven bits a byte, the lowest first; all bytes but the last one have the eighth bit. Returns how
 * many there are, 0 if the end is missing, -1 if there are more than 64 bits. */
static int read_varint(const uint8_t *in, size_t n, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < n && i < NUMBER_MOST; i++) {
        *number |= (uint64_t)(in[i] & 0x7f) << (7 * i);
        if (in[i] < 0x80)
            return i < NUMBER_MOST - 1 || in[i] < 2 ? (int)i + 1 : -1;
    }
    return n < NUMBER_MOST ? 0 : -1;
}

/* What is wrong with a tag; NULL if nothing is. */
static const char *tag_fault(uint64_t tag)
{
    if (tag > UINT32_MAX || tag >> 3 == 0)
        return "a field with no valid number";
    if ((tag & 7) == 3 || (tag & 7) == 4)
        return "a group, which Kubernetes does not use";
    return (tag & 7) > PROTO_FIXED32 ? "a field of an unknown wire type" : NULL;
}

int proto_token_read_any(const uint8_t *in, size_t n, struct proto_token *token, const char **why)
{
    uint64_t tag = 0;
    int tag_length = read_varint(in, n, &tag);
    if (tag_length == 0)
        return 0;
    const char *fault = tag_fault(tag_length < 0 ? 0 : tag);
    *token =
        (struct proto_token){(uint32_t)(tag >> 3), tag & 7, (tag & 7) == PROTO_FIXED64 ? 8 : 4};
    int length = 0;
    if (!fault && (token->wire == PROTO_VARINT || token->wire == PROTO_LENGTH)) {
        length = read_varint(in + tag_length, n - (size_t)tag_length, &token->number);
        if (length == 0)
            return 0;
        fault = length < 0 ? "a number of more than 64 bits" : NULL;
    }
    *why = fault ? fault : *why;
    return fault ? -1 : tag_length + length;
}

int proto_frame_read(const uint8_t *in, size_t n, struct proto_token *token)
{
    uint32_t length;
    if (n < sizeof(length))
        return 0;
    memcpy(&length, in, sizeof(length));
    *token = (struct proto_token){1, PROTO_LENGTH, be32toh(length)};
    return sizeof(length);
}
