/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "table_elements.h"

static void append_key(struct key *key, struct key more)
{
    memcpy(key->bytes + key->length, more.bytes, more.length);
    key->length += more.length;
}

static uint32_t list_of(unsigned number)
{
    struct frontend f = frontend(number);
    return fake_kernel_source_list(&f);
}

/* The only prefix of a range. */
static struct key source_key(uint32_t list, const char *text)
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

static struct key hairpin_key(unsigned number)
{
    struct key key = {.length = 0};
    const struct backend b = backend(number);
    key_put_address(&key, family, &b.address);
    key_put_address(&key, family, &b.address);
    return key;
}

static struct key address_key(struct address address)
{
    struct key key = {.length = 0};
    key_put_address(&key, family, &address);
    return key;
}

static struct key number_key(uint32_t number)
{
    struct key key = {.length = 0};
    key_put_number(&key, number);
    return key;
}

static struct key backend_key(const char *digits)
{
    struct backend b = *digits ? backend((unsigned)atoi(digits)) : (struct backend){.port = 0};
    return value_of_backend(family, &b);
}

static struct key start_key(unsigned number)
{
    struct address address = client(number);
    address.bytes[15] = 0;
    return address_key(address);
}

static struct key affinity_key(unsigned number, const char *digits)
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

static struct key field_key(const char *field)
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

static struct key key_in_words(char *text)
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

struct key next_key(char **words)
{
    const char *word = script_word(words);
    char text[64];
    ck_assert_uint_lt(strlen(word), sizeof(text));
    strcpy(text, word);
    return *text ? key_in_words(text) : (struct key){.length = 0};
}
