/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading the fields of one object, for the decoders in src/model. Absent and null are the same.
 *
 * An error names the object, the field and the value: "Service shop/web: spec.ports[1].port: 70000
 * is not within 1..65535". The path of a field is a chain of struct field on the stack, turned into
 * text only for an error. All functions return 0, or -1 with that error.
 */
#ifndef KUBE_NFTD_MODEL_DECODE_H
#define KUBE_NFTD_MODEL_DECODE_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/values.h"

struct field {
    const struct field *up; /* NULL: the object itself */
    const char *key;        /* NULL: the element @index of a list */
    int index;
    const struct json_value *value; /* NULL: absent */
};

/* The field @key of @up, for an error. */
#define FIELD(up, key) (&(struct field){(up), (key), 0, NULL})

/* One object that is being decoded; its kind and id are there already. */
struct decoder {
    struct object *out;
    struct error *err;
    char *warnings; /* owned; of field_warn(); NULL: none */
    unsigned n_warnings;
};

/** Says what is wrong with a field. Always -1. */
int field_bad(struct decoder *d, const struct field *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Notes why a field is ignored that costs the object nothing else: "spec.a: no IP address". Of
 * very many, the first few are named. */
void field_warn(struct decoder *d, const struct field *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** All warnings as one text for the caller to free; NULL if there are none. */
char *field_take_warnings(struct decoder *d);

/** Says that the value of a field is not @what ("a string"), or no text at all. Always -1. */
int field_is_not(struct decoder *d, const struct field *field, const char *what)
    __attribute__((cold));

/* Inline, so that the lengths of keys, which are constants, are known. */

/** The string @value, found by @key; NULL if it is absent. Borrowed from the values. */
static inline int field_as_string(struct decoder *d, const struct field *up, const char *key,
                                  const struct json_value *value, const char **out)
{
    *out = json_string(value);
    return *out || json_is_absent(value)
               ? 0
               : field_is_not(d, &(struct field){up, key, 0, value}, "a string");
}

/** The list or object @value, found by @key. */
static inline int field_as(struct decoder *d, const struct field *up, const char *key,
                           const struct json_value *value, enum json_type type, struct field *out)
{
    *out = (struct field){up, key, 0, value};
    if (json_is(value, type))
        return 0;
    if (!json_is_absent(value))
        return field_is_not(d, out, type == JSON_ARRAY ? "a list" : "an object");
    out->value = NULL;
    return 0;
}

static inline int field_string(struct decoder *d, const struct field *up, const char *key,
                               const char **out)
{
    return field_as_string(d, up, key, json_find(up->value, key), out);
}

static inline int field_list(struct decoder *d, const struct field *up, const char *key,
                             struct field *out)
{
    return field_as(d, up, key, json_find(up->value, key), JSON_ARRAY, out);
}

static inline int field_object(struct decoder *d, const struct field *up, const char *key,
                               struct field *out)
{
    return field_as(d, up, key, json_find(up->value, key), JSON_OBJECT, out);
}

/** Sets @flag in @flags if the boolean @value, found by @key, is true, or absent and
 * @absent_means. */
static inline int field_as_flag(struct decoder *d, const struct field *up, const char *key,
                                const struct json_value *value, bool absent_means, uint8_t flag,
                                uint8_t *flags)
{
    bool absent = json_is_absent(value);
    if (!absent && !json_is_bool(value))
        return field_is_not(d, &(struct field){up, key, 0, value}, "true or false");
    if (absent ? absent_means : json_is(value, JSON_TRUE))
        *flags |= flag;
    return 0;
}

/** Gives each entry of a list, which must be of @type (a string or an object), to @take until that
 * fails. An absent list has none. */
int field_each(struct decoder *d, const struct field *up, const char *key, enum json_type type,
               int (*take)(struct decoder *d, const struct field *entry, void *ctx), void *ctx);

/** An integer within @min..@max; @out is left alone if it is absent. */
int field_integer(struct decoder *d, const struct field *up, const char *key, uint32_t min,
                  uint32_t max, uint32_t *out);

/** A time in whole seconds since 1970; @out is left alone if it is absent. */
int field_time(struct decoder *d, const struct field *up, const char *key, int64_t *out);

/** Whether a string is @special and not @usual, which absent means. Any other is warned of and
 * taken for @usual. */
int field_choice(struct decoder *d, const struct field *up, const char *key, const char *usual,
                 const char *special, bool *out);

/** A port number. @min is 1 where it must be there, 0 where absent and 0 mean none. */
int field_port(struct decoder *d, const struct field *up, const char *key, int min, uint16_t *out);

/** Reads a string as a CIDR into @cidrs, if it is the first one of its family. */
int field_cidr(struct decoder *d, const struct field *field, bool has_cidr[FAMILY_COUNT],
               struct cidr cidrs[FAMILY_COUNT]);

/** The IP protocol number of "protocol"; TCP if it is absent. */
int field_protocol(struct decoder *d, const struct field *up, uint8_t *out);

/** One decoder a kind: fills in the payload of d->out from @json. On -1 the payload may be half
 * filled in. */
int decode_service(struct decoder *d, const struct field *json);
int decode_endpoint_slice(struct decoder *d, const struct field *json);
int decode_service_cidr(struct decoder *d, const struct field *json);
int decode_node(struct decoder *d, const struct field *json);

#endif
