/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * "type ipv4_addr . inet_proto : classid" as the numbers that the kernel and nft want.
 *
 * The kernel needs only lengths. The type numbers and the user data are for nft: without them it
 * cannot print the elements, and with user data of a form that it does not know it may crash. The
 * form written here is that of nft 1.0.6, which newer ones read too.
 */
#include "program.h"

#include <libnftnl/set.h>
#include <libnftnl/udata.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>

/* nft's own numbers: byte orders, kinds of expressions, protocol descriptions. */
enum { ORDER_NONE = 0, ORDER_HOST = 1, ORDER_BIG = 2 };
enum { EXPR_PAYLOAD = 7, EXPR_META = 9, EXPR_CONCAT = 13, EXPR_NUMGEN = 23 };
enum { PROTO_TH = 11, PROTO_IP = 12, PROTO_IP6 = 13 };
#define TYPE_BITS 6
#define TYPE_VERDICT 0xffffff00u
#define VERDICT_LENGTH 16
#define MAX_FIELDS 5
#define UDATA_ROOM 256

/* One field of a key or value: a data type by name, or an expression that has one. */
struct field {
    const char *name;
    uint32_t type, length, order;
    /* For expressions: what nft stores to print "typeof" again. */
    uint32_t expr, a, b;
};

static const struct field fields[] = {
    {"ipv4_addr", 7, 4, ORDER_BIG, 0, 0, 0},
    {"ipv6_addr", 8, 16, ORDER_BIG, 0, 0, 0},
    {"inet_proto", 12, 1, ORDER_BIG, 0, 0, 0},
    {"inet_service", 13, 2, ORDER_BIG, 0, 0, 0},
    {"classid", 23, 4, ORDER_HOST, 0, 0, 0},
    {"verdict", TYPE_VERDICT, VERDICT_LENGTH, ORDER_NONE, 0, 0, 0},
    {"ip daddr", 7, 4, ORDER_BIG, EXPR_PAYLOAD, PROTO_IP, 12},
    {"ip6 daddr", 8, 16, ORDER_BIG, EXPR_PAYLOAD, PROTO_IP6, 9},
    {"th dport", 13, 2, ORDER_BIG, EXPR_PAYLOAD, PROTO_TH, 2},
    {"meta l4proto", 12, 1, ORDER_HOST, EXPR_META, NFT_META_L4PROTO, 0},
    {"meta priority", 23, 4, ORDER_HOST, EXPR_META, NFT_META_PRIORITY, 0},
    {"numgen random mod 1", 4, 4, ORDER_HOST, EXPR_NUMGEN, NFT_NG_RANDOM, 1},
};

struct fields {
    const struct field *v[MAX_FIELDS];
    size_t n;
};

static const struct field *find_field(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (strlen(fields[i].name) == length && memcmp(fields[i].name, name, length) == 0)
            return &fields[i];
    return NULL;
}

/* Reads "A . B . C" up to @end. */
static int parse_fields(const char *text, const char *end, struct fields *out, struct error *err)
{
    for (out->n = 0;;) {
        const char *next = memmem(text, (size_t)(end - text), " . ", 3);
        size_t length = (size_t)((next ? next : end) - text);
        const struct field *field = find_field(text, length);
        if (length == 0)
            return error_set(err, "a type is missing");
        if (!field || out->n == MAX_FIELDS)
            return error_set(err, "unknown type: %.*s", (int)length, text);
        out->v[out->n++] = field;
        if (!next)
            return 0;
        text = next + 3;
    }
}

static uint32_t type_of(const struct fields *fields_)
{
    uint32_t type = 0;
    for (size_t i = 0; i < fields_->n; i++)
        type = type << TYPE_BITS | fields_->v[i]->type;
    return type;
}

/* In a concatenation each field fills whole 32-bit registers. */
static uint32_t length_of(const struct fields *fields_)
{
    if (fields_->n == 1)
        return fields_->v[0]->length;
    uint32_t length = 0;
    for (size_t i = 0; i < fields_->n; i++)
        length += (fields_->v[i]->length + 3) / 4 * 4;
    return length;
}

static uint32_t order_of(const struct fields *fields_)
{
    return fields_->n == 1 ? fields_->v[0]->order : ORDER_NONE;
}

/* ---- user data ---- */

static void put_expression(struct nftnl_udata_buf *buf, const struct field *field)
{
    nftnl_udata_put_u32(buf, NFTNL_UDATA_SET_TYPEOF_EXPR, field->expr);
    struct nftnl_udata *nest = nftnl_udata_nest_start(buf, NFTNL_UDATA_SET_TYPEOF_DATA);
    nftnl_udata_put_u32(buf, 0, field->a);
    if (field->expr != EXPR_META)
        nftnl_udata_put_u32(buf, 1, field->b);
    if (field->expr == EXPR_NUMGEN)
        nftnl_udata_put_u32(buf, 2, 0); /* offset */
    nftnl_udata_nest_end(buf, nest);
}

/* What "typeof" prints: an expression, or a concatenation. The latter is there for "type" too,
 * then without its fields. */
static void put_typeof(struct nftnl_udata_buf *buf, uint8_t attribute, const struct fields *fields_)
{
    if (fields_->n == 1 && !fields_->v[0]->expr)
        return;
    struct nftnl_udata *nest = nftnl_udata_nest_start(buf, attribute);
    if (fields_->n == 1) {
        put_expression(buf, fields_->v[0]);
        nftnl_udata_nest_end(buf, nest);
        return;
    }
    nftnl_udata_put_u32(buf, NFTNL_UDATA_SET_TYPEOF_EXPR, EXPR_CONCAT);
    struct nftnl_udata *data = nftnl_udata_nest_start(buf, NFTNL_UDATA_SET_TYPEOF_DATA);
    for (size_t i = 0; i < fields_->n && fields_->v[i]->expr; i++) {
        struct nftnl_udata *part = nftnl_udata_nest_start(buf, (uint8_t)i);
        put_expression(buf, fields_->v[i]);
        nftnl_udata_nest_end(buf, part);
    }
    nftnl_udata_nest_end(buf, data);
    nftnl_udata_nest_end(buf, nest);
}

static void put_user_data(struct nftnl_set *set, const struct fields *key,
                          const struct fields *value)
{
    struct nftnl_udata_buf *buf = nftnl_udata_buf_alloc(UDATA_ROOM);
    if (!buf)
        alloc_failed();
    nftnl_udata_put_u32(buf, NFTNL_UDATA_SET_KEYBYTEORDER, order_of(key));
    if (value->n)
        nftnl_udata_put_u32(buf, NFTNL_UDATA_SET_DATABYTEORDER, order_of(value));
    put_typeof(buf, NFTNL_UDATA_SET_KEY_TYPEOF, key);
    if (value->n)
        put_typeof(buf, NFTNL_UDATA_SET_DATA_TYPEOF, value);
    if (value->n)
        nftnl_udata_put_u32(buf, NFTNL_UDATA_SET_DATA_INTERVAL, 0);
    nftnl_set_set_data(set, NFTNL_SET_USERDATA, nftnl_udata_buf_data(buf),
                       nftnl_udata_buf_len(buf));
    nftnl_udata_buf_free(buf);
}

/* ---- flags ---- */

static uint32_t find_flag(const char *name, size_t length)
{
    static const struct {
        const char *name;
        uint32_t flag;
    } flags[] = {
        {"interval", NFT_SET_INTERVAL}, {"dynamic", NFT_SET_EVAL}, {"timeout", NFT_SET_TIMEOUT}};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (strlen(flags[i].name) == length && memcmp(flags[i].name, name, length) == 0)
            return flags[i].flag;
    return 0;
}

/* Reads "dynamic,timeout". */
static int parse_flags(const char *text, uint32_t *flags, struct error *err)
{
    for (;;) {
        size_t length = strcspn(text, ",");
        uint32_t flag = find_flag(text, length);
        if (!flag)
            return error_set(err, "unknown flag: %.*s", (int)length, text);
        *flags |= flag;
        if (text[length] == '\0')
            return 0;
        text += length + 1;
    }
}

static int declare_flags(const struct layout_set *layout, struct nftnl_set *set, struct error *err)
{
    uint32_t flags = layout->is_map ? NFT_SET_MAP : 0;
    if (layout->flags && parse_flags(layout->flags, &flags, err))
        return -1;
    nftnl_set_set_u32(set, NFTNL_SET_FLAGS, flags);
    if (layout->size)
        nftnl_set_set_u32(set, NFTNL_SET_DESC_SIZE, layout->size);
    return 0;
}

int set_declare(const struct layout_set *layout, struct nftnl_set *set, struct error *err)
{
    const char *key_text = strchr(layout->declaration, ' ') + 1;
    const char *end = key_text + strlen(key_text);
    const char *colon = strstr(key_text, " : ");
    struct fields key, value = {.n = 0};
    if (layout->is_map != (colon != NULL))
        return error_set(err, layout->is_map ? "a map needs 'KEY : VALUE'" : "a set has no value");
    if (parse_fields(key_text, colon ? colon : end, &key, err) ||
        (colon && parse_fields(colon + 3, end, &value, err)) || declare_flags(layout, set, err))
        return -1;
    nftnl_set_set_u32(set, NFTNL_SET_KEY_TYPE, type_of(&key));
    nftnl_set_set_u32(set, NFTNL_SET_KEY_LEN, length_of(&key));
    if (colon) {
        nftnl_set_set_u32(set, NFTNL_SET_DATA_TYPE, type_of(&value));
        nftnl_set_set_u32(set, NFTNL_SET_DATA_LEN, length_of(&value));
    }
    put_user_data(set, &key, &value);
    return 0;
}
