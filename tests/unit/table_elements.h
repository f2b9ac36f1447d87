/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Elements of a table in the words of a case: fields with dots between them.
 *
 *     f1      frontend 1                        p1, p1+2   its service port, and what is below
 *     b1, b   backend 1, one without a port     #3, P77+2  a number, a number of a service port
 *     c1, a1  the addresses of client 1 and of frontend 1, and h1 backend 1 to itself
 *     r1      the first address of the range "1-top"; "zero" is the lowest of all
 *     n1:3    what affinity_numbers has for backend 3 of the service port of frontend 1
 *     l6:10-11, L7:10-11  a prefix in the list of sources of frontend 6, in list 7
 *
 * "p1.#0" is a slot. "<4" and ">4" behind all of it make that shorter or longer by so many bytes;
 * "|1" sets its last byte.
 */
#ifndef KUBE_NFTD_TESTS_TABLE_ELEMENTS_H
#define KUBE_NFTD_TESTS_TABLE_ELEMENTS_H

#include "table_model.h"

static inline void append_key(struct key *key, struct key more)
{
    memcpy(key->bytes + key->length, more.bytes, more.length);
    key->length += more.length;
}

static inline uint32_t list_of(unsigned number)
{
    struct frontend f = frontend(number);
    return fake_kernel_source_list(&f);
}

/* The only prefix of a range. */
static inline struct key source_key(uint32_t list, const char *text)
{
    range_vec ranges = {0};
    cidr_vec prefixes = {0};
    ranges_of(text, &ranges);
    range_prefixes(family, &ranges.v[0], &prefixes);
    ck_assert_uint_eq(prefixes.n, 1);
    struct key key = key_of_source(family, list, &prefixes.v[0]);
    vec_free(&ranges);
    vec_free(&prefixes);
    return key;
}

static inline struct key hairpin_key(unsigned number)
{
    struct key key = {.length = 0};
    const struct backend b = backend(number);
    key_put_address(&key, family, &b.address);
    key_put_address(&key, family, &b.address);
    return key;
}

static inline struct key address_key(struct address address)
{
    struct key key = {.length = 0};
    key_put_address(&key, family, &address);
    return key;
}

static inline struct key number_key(uint32_t number)
{
    struct key key = {.length = 0};
    key_put_number(&key, number);
    return key;
}

static inline struct key backend_key(const char *digits)
{
    struct backend b = *digits ? backend((unsigned)atoi(digits)) : (struct backend){.port = 0};
    return value_of_backend(family, &b);
}

static inline struct key start_key(unsigned number)
{
    struct address address = client(number);
    address.bytes[15] = 0;
    return address_key(address);
}

static inline struct key affinity_key(unsigned number, const char *digits)
{
    struct key key = number_key(port_of(number)), value = {.length = sizeof(uint32_t)};
    append_key(&key, backend_key(digits));
    size_t length;
    const uint8_t *found =
        fake_kernel_value(family, "affinity_numbers", key.bytes, key.length, &length);
    ck_assert_ptr_nonnull(found);
    memcpy(value.bytes, found, value.length);
    return value;
}

static inline struct key field_key(const char *field)
{
    char *rest = NULL;
    const unsigned number = (unsigned)strtoul(field + 1, &rest, 0);
    const unsigned below = *rest == '+' ? (unsigned)strtoul(rest + 1, NULL, 0) : 0;
    const struct frontend f = frontend(number);
    switch (*field) {
    case 'f':
        return key_of_frontend(&f);
    case 'p':
        return number_key(port_of(number) | below);
    case 'P':
        return number_key(number << PORT_LOW_BITS | below);
    case '#':
        return number_key(number);
    case 'b':
        return backend_key(field + 1);
    case 'c':
        return address_key(client(number));
    case 'r':
        return start_key(number);
    case 'a':
        return address_key(f.address);
    case 'h':
        return hairpin_key(number);
    case 'n':
        return affinity_key(number, rest + 1);
    case 'z':
        return (struct key){.length = address_length(family)};
    case 'l':
        return source_key(list_of(number), rest + 1);
    case 'L':
        return source_key(number, rest + 1);
    default:
        ck_abort_msg("no element: %s", field);
    }
}

static inline struct key key_in_words(char *text)
{
    struct key key = {.length = 0};
    char *change = strpbrk(text, "<>|"), *rest = text;
    const char how = change ? *change : '>';
    const int bytes = change ? atoi(change + 1) : 0;
    if (change)
        *change = '\0';
    for (char *field; (field = strsep(&rest, "."));)
        append_key(&key, field_key(field));
    if (how == '|')
        key.bytes[key.length - 1] = (uint8_t)bytes;
    else
        key.length = (size_t)((int)key.length + (how == '<' ? -bytes : bytes));
    return key;
}

#endif
