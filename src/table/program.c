/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Encodes a layout as netlink messages.
 *
 * The kernel only needs the lengths of keys and values. Type numbers and user data are for nft:
 * without them it cannot print elements, and unknown user data may crash it. This writes the form
 * of nft 1.0.6, which newer versions read, too.
 */
#include "template.h"

#include <stdio.h>

/* libnftnl's headers need stdio.h before them. */
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <libnftnl/udata.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>

/* nft's internal numbers: byte orders, expression kinds, protocol descriptions. */
enum { ORDER_NONE = 0, ORDER_HOST = 1, ORDER_BIG = 2 };
enum { EXPR_PAYLOAD = 7, EXPR_META = 9, EXPR_CONCAT = 13, EXPR_NUMGEN = 23 };
enum { PROTO_TH = 11, PROTO_IP = 12, PROTO_IP6 = 13 };
#define TYPE_BITS 6
#define TYPE_VERDICT 0xffffff00u
#define VERDICT_LENGTH 16
#define MAX_FIELDS 5
#define UDATA_ROOM 256

/* A field of a key or value: a named data type, or an expression of a type. */
struct field {
    const char *name;
    uint32_t type, length, order;
    /* Expressions: what nft stores to print "typeof". */
    uint32_t expr, a, b;
};

static const struct field fields[] = {
    {"ipv4_addr", 7, 4, ORDER_BIG, 0, 0, 0},
    {"ipv6_addr", 8, 16, ORDER_BIG, 0, 0, 0},
    {"inet_proto", 12, 1, ORDER_NONE, 0, 0, 0},
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

/* A key or value. Each field of a concatenation fills whole 4-byte registers. */
struct data {
    const struct field *fields[MAX_FIELDS];
    size_t n;
    uint32_t type, length, order;
};

static const struct field *find_field(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (strlen(fields[i].name) == length && memcmp(fields[i].name, name, length) == 0)
            return &fields[i];
    return NULL;
}

/* Reads "A . B . C" up to @end. */
static int parse_data(const char *text, const char *end, struct data *out, struct error *err)
{
    uint32_t padded = 0;
    *out = (struct data){.n = 0};
    for (const char *next = ""; next; text = next ? next + 3 : NULL) {
        next = memmem(text, (size_t)(end - text), " . ", 3);
        size_t length = (size_t)((next ? next : end) - text);
        const struct field *field = find_field(text, length);
        if (length == 0)
            return error_set(err, "a type is missing");
        if (!field || out->n == MAX_FIELDS)
            return error_set(err, "unknown type: %.*s", (int)length, text);
        out->fields[out->n++] = field;
        out->type = out->type << TYPE_BITS | field->type;
        padded += (field->length + 3) / 4 * 4;
    }
    out->length = out->n == 1 ? out->fields[0]->length : padded;
    out->order = out->n == 1 ? out->fields[0]->order : ORDER_NONE;
    return 0;
}

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

/* What "typeof" prints: an expression or a concatenation. The latter is also written for "type",
 * without fields. */
static void put_typeof(struct nftnl_udata_buf *buf, uint8_t attribute, const struct data *data)
{
    if (data->n == 1 && !data->fields[0]->expr)
        return;
    struct nftnl_udata *nest = nftnl_udata_nest_start(buf, attribute);
    if (data->n == 1) {
        put_expression(buf, data->fields[0]);
    } else {
        nftnl_udata_put_u32(buf, NFTNL_UDATA_SET_TYPEOF_EXPR, EXPR_CONCAT);
        struct nftnl_udata *all = nftnl_udata_nest_start(buf, NFTNL_UDATA_SET_TYPEOF_DATA);
        for (size_t i = 0; i < data->n && data->fields[i]->expr; i++) {
            struct nftnl_udata *part = nftnl_udata_nest_start(buf, (uint8_t)i);
            put_expression(buf, data->fields[i]);
            nftnl_udata_nest_end(buf, part);
        }
        nftnl_udata_nest_end(buf, all);
    }
    nftnl_udata_nest_end(buf, nest);
}

static void put_user_data(struct nftnl_set *set, const struct data *key, const struct data *value)
{
    struct nftnl_udata_buf *buf = alloc_check(nftnl_udata_buf_alloc(UDATA_ROOM));
    nftnl_udata_put_u32(buf, NFTNL_UDATA_SET_KEYBYTEORDER, key->order);
    if (value->n)
        nftnl_udata_put_u32(buf, NFTNL_UDATA_SET_DATABYTEORDER, value->order);
    put_typeof(buf, NFTNL_UDATA_SET_KEY_TYPEOF, key);
    if (value->n) {
        put_typeof(buf, NFTNL_UDATA_SET_DATA_TYPEOF, value);
        nftnl_udata_put_u32(buf, NFTNL_UDATA_SET_DATA_INTERVAL, 0);
    }
    nftnl_set_set_data(set, NFTNL_SET_USERDATA, nftnl_udata_buf_data(buf),
                       nftnl_udata_buf_len(buf));
    nftnl_udata_buf_free(buf);
}

/* Reads "interval,timeout" into @flags. */
static int parse_flags(const char *text, uint32_t *flags, struct error *err)
{
    static const struct {
        const char *name;
        uint32_t flag;
    } known[] = {
        {"interval", NFT_SET_INTERVAL}, {"timeout", NFT_SET_TIMEOUT}, {"dynamic", NFT_SET_EVAL}};
    const size_t n = sizeof(known) / sizeof(known[0]);
    for (bool more = true; more;) {
        size_t length = strcspn(text, ","), i = 0;
        while (i < n &&
               (strlen(known[i].name) != length || memcmp(known[i].name, text, length) != 0))
            i++;
        if (i == n)
            return error_set(err, "unknown flag: %.*s", (int)length, text);
        *flags |= known[i].flag;
        more = text[length] == ',';
        text += length + more;
    }
    return 0;
}

int set_declare(const struct layout_set *layout, struct error *err)
{
    struct nftnl_set *set = layout->set;
    const char *key_text = strchr(layout->declaration, ' ') + 1;
    const char *end = key_text + strlen(key_text);
    const char *colon = strstr(key_text, " : ");
    struct data key, value = {.n = 0};
    uint32_t flags = layout->is_map ? NFT_SET_MAP : 0;
    if (layout->is_map != (colon != NULL))
        return error_set(err, layout->is_map ? "a map needs 'KEY : VALUE'" : "a set has no value");
    if (parse_data(key_text, colon ? colon : end, &key, err) ||
        (colon && parse_data(colon + 3, end, &value, err)) ||
        (layout->flags && parse_flags(layout->flags, &flags, err)))
        return -1;
    nftnl_set_set_str(set, NFTNL_SET_NAME, layout->name);
    nftnl_set_set_u32(set, NFTNL_SET_FLAGS, flags);
    if (layout->size)
        nftnl_set_set_u32(set, NFTNL_SET_DESC_SIZE, layout->size);
    nftnl_set_set_u32(set, NFTNL_SET_KEY_TYPE, key.type);
    nftnl_set_set_u32(set, NFTNL_SET_KEY_LEN, key.length);
    if (colon) {
        nftnl_set_set_u32(set, NFTNL_SET_DATA_TYPE, value.type);
        nftnl_set_set_u32(set, NFTNL_SET_DATA_LEN, value.length);
    }
    put_user_data(set, &key, &value);
    return 0;
}

/* Adds the set { tcp, udp, sctp } to @batch, for @lookup in a later rule. */
static void program_anonymous_set(struct nftnl_expr *lookup, struct nft_batch *batch)
{
    static char name[] = ANONYMOUS_SET, declaration[] = "typeof meta l4proto";
    const struct layout_set layout = {.name = name,
                                      .declaration = declaration,
                                      .size = ANONYMOUS_PROTOCOLS,
                                      .set = nftnl_set_alloc()};
    const uint32_t id = ++batch->last_set_id;
    if (!layout.set)
        alloc_failed();
    set_declare(&layout, NULL); /* our own declaration: cannot fail */
    nftnl_set_set_u32(layout.set, NFTNL_SET_ID, id);
    nftnl_set_set_u32(layout.set, NFTNL_SET_FLAGS, NFT_SET_ANONYMOUS | NFT_SET_CONSTANT);
    nft_batch_add_set(batch, layout.set);
    nftnl_set_free(layout.set);
    nft_batch_anonymous_elements(batch, id, anonymous_protocols, 1, ANONYMOUS_PROTOCOLS);
    nftnl_expr_set_u32(lookup, NFTNL_EXPR_LOOKUP_SET_ID, id);
}

static int program_sets_of(struct nftnl_expr *expr, void *batch)
{
    if (strcmp(nftnl_expr_get_str(expr, NFTNL_EXPR_NAME), "lookup") == 0 &&
        strcmp(nftnl_expr_get_str(expr, NFTNL_EXPR_LOOKUP_SET), ANONYMOUS_SET) == 0)
        program_anonymous_set(expr, batch);
    return 0;
}

void program_rules(const struct layout_chain *chain, struct nft_batch *batch)
{
    vec_each (&chain->rules, rule) {
        nftnl_expr_foreach(rule->rule, program_sets_of, batch);
        nft_batch_add_rule(batch, rule->rule);
    }
}

void program_layout(const struct layout *layout, bool sets, struct nft_batch *batch)
{
    vec_each (&layout->sets, set)
        if (sets) {
            nftnl_set_set_u32(set->set, NFTNL_SET_ID, ++batch->last_set_id);
            nft_batch_add_set(batch, set->set);
        }
    if (sets && layout->flowtable.name)
        nft_batch_add_flowtable(batch, layout->flowtable.name, layout->flowtable.priority);
    /* All chains before any rule: rules and verdicts may name later chains. */
    vec_each (&layout->chains, chain)
        nft_batch_add_chain(batch, chain->chain);
    vec_each (&layout->chains, chain)
        program_rules(chain, batch);
    vec_each (&layout->sets, set)
        vec_each (&set->verdicts, verdict)
            nft_batch_goto_element(batch, set->name, &verdict->key, sizeof(verdict->key),
                                   verdict->chain);
    nft_batch_finish(batch); /* the batch borrows names from the layout */
}
