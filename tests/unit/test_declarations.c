/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Types, lengths and user data of the sets: tests/unit/cases/declarations. The bytes are those that
 * nft 1.0.6 writes for the same declarations: with others, some version of nft cannot list the
 * table or crashes.
 */
#include "script.h"

#include "table/template.h"

#include <endian.h>
#include <libnftnl/set.h>
#include <linux/netfilter/nf_tables.h>

#define TYPE_VERDICT 0xffffff00u

static void write_flags(FILE *out, uint32_t flags)
{
    static const struct {
        uint32_t flag;
        const char *name;
    } names[] = {{NFT_SET_MAP, "map"},
                 {NFT_SET_INTERVAL, "interval"},
                 {NFT_SET_EVAL, "dynamic"},
                 {NFT_SET_TIMEOUT, "timeout"}};
    for (int i = 0; i < COUNT(names); i++)
        if (flags & names[i].flag)
            fprintf(out, " %s", names[i].name);
    ck_assert_uint_eq(flags & ~(NFT_SET_MAP | NFT_SET_INTERVAL | NFT_SET_EVAL | NFT_SET_TIMEOUT),
                      0);
}

/* Attributes: a byte for the type, one for the length, then others or a number, which is written as
 * hosts with the lower byte first have it. */
static void write_user_data(FILE *out, const uint8_t *bytes, uint32_t length)
{
    uint32_t at = 0, number;
    while (at + 2 <= length) {
        const uint32_t inner = bytes[at + 1];
        fprintf(out, "%02x%02x", bytes[at], inner);
        ck_assert_uint_le(at + 2 + inner, length);
        memcpy(&number, bytes + at + 2, inner == sizeof(number) ? inner : 0);
        if (inner == sizeof(number))
            fprintf(out, "%08x", htobe32(htole32(number)));
        else
            write_user_data(out, bytes + at + 2, inner);
        at += 2 + inner;
    }
    ck_assert_uint_eq(at, length);
}

/* "NAME map key TYPE/LENGTH data TYPE/LENGTH size N: USER DATA", types in hexadecimal. */
static void write_set(FILE *out, const char *name, const struct nftnl_set *set)
{
    const uint32_t data = nftnl_set_get_u32(set, NFTNL_SET_DATA_TYPE);
    uint32_t length = 0;
    fprintf(out, "%s", name);
    write_flags(out, nftnl_set_get_u32(set, NFTNL_SET_FLAGS));
    fprintf(out, " key %x/%u", nftnl_set_get_u32(set, NFTNL_SET_KEY_TYPE),
            nftnl_set_get_u32(set, NFTNL_SET_KEY_LEN));
    if (nftnl_set_is_set(set, NFTNL_SET_DATA_TYPE) && data == TYPE_VERDICT)
        fprintf(out, " data verdict"); /* the kernel does not look at its length */
    else if (nftnl_set_is_set(set, NFTNL_SET_DATA_TYPE))
        fprintf(out, " data %x/%u", data, nftnl_set_get_u32(set, NFTNL_SET_DATA_LEN));
    if (nftnl_set_is_set(set, NFTNL_SET_DESC_SIZE))
        fprintf(out, " size %u", nftnl_set_get_u32(set, NFTNL_SET_DESC_SIZE));
    /* Where each field could be a range; none has that. */
    nftnl_set_get_data(set, NFTNL_SET_DESC_CONCAT, &length);
    ck_assert_uint_eq(length, 0);
    const uint8_t *bytes = nftnl_set_get_data(set, NFTNL_SET_USERDATA, &length);
    fprintf(out, ": ");
    write_user_data(out, bytes, length);
    fprintf(out, "\n");
}

static void declare(struct layout_set *from, FILE *out)
{
    struct error err = {0};
    from->set = nftnl_set_alloc();
    int result = set_declare(from, &err);
    ck_assert_int_eq(result, err.text ? -1 : 0);
    if (result)
        fprintf(out, "%s\n", err.text);
    else
        write_set(out, from->name, from->set);
    error_clear(&err);
    nftnl_set_free(from->set);
}

/* All sets of the base template. */
COMMAND(base)
{
    struct layout layout = {.sets = {0}};
    const struct layout_vars vars = {.family = *words == '4' ? FAMILY_IPV4 : FAMILY_IPV6};
    ck_assert_int_eq(layout_parse(&templates[TEMPLATE_BASE], &vars, &layout, NULL), 0);
    vec_each (&layout.sets, set)
        write_set(out, set->name, set->set);
    layout_free(&layout);
}

/* DECLARATION / FLAGS */
static void declare_one(bool is_map, char *words, FILE *out)
{
    char *slash = strstr(words, " / "), name[] = "it";
    struct layout_set layout = {.name = name, .declaration = words, .is_map = is_map};
    if (slash) {
        *slash = '\0';
        layout.flags = slash + 3;
    }
    declare(&layout, out);
}

COMMAND(set)
{
    declare_one(false, words, out);
}

COMMAND(map)
{
    declare_one(true, words, out);
}

CASES("declarations")
