/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto_wire.h"

#include <stdbool.h>

#define TAG_MOST 5
#define NUMBER_MOST 10

/* Seven bits a byte, the lowest first; all bytes but the last one have the eighth bit. Returns how
 * many there are, 0 if the end is missing, -1 if there are more than @most or 64 bits. */
static int read_varint(const uint8_t *in, size_t n, int most, uint64_t *number)
{
    uint64_t value = 0;
    for (int i = 0; i < most; i++) {
        if ((size_t)i == n)
            return 0;
        value |= (uint64_t)(in[i] & 0x7f) << (7 * i);
        if (in[i] < 0x80) {
            *number = value;
            return i < NUMBER_MOST - 1 || in[i] < 2 ? i + 1 : -1;
        }
    }
    return -1;
}

static int bad(const char **why, const char *text)
{
    *why = text;
    return -1;
}

static int read_tag(const uint8_t *in, size_t n, struct proto_token *token, const char **why)
{
    uint64_t tag;
    int length = read_varint(in, n, TAG_MOST, &tag);
    if (length == 0)
        return 0;
    if (length < 0 || tag > UINT32_MAX || tag >> 3 == 0)
        return bad(why, "a field with no valid number");
    token->field = (uint32_t)(tag >> 3);
    token->wire = tag & 7;
    if (token->wire == 3 || token->wire == 4)
        return bad(why, "a group, which Kubernetes does not use");
    return token->wire > PROTO_FIXED32 ? bad(why, "a field of an unknown wire type") : length;
}

int proto_token_read(const uint8_t *in, size_t n, struct proto_token *token, const char **why)
{
    int tag = read_tag(in, n, token, why);
    if (tag <= 0)
        return tag;
    if (token->wire == PROTO_FIXED64 || token->wire == PROTO_FIXED32) {
        token->number = token->wire == PROTO_FIXED64 ? 8 : 4;
        return tag;
    }
    int length = read_varint(in + tag, n - (size_t)tag, NUMBER_MOST, &token->number);
    if (length < 0)
        return bad(why, "a number of more than 64 bits");
    return length ? tag + length : 0;
}
