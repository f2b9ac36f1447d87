/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Field access for the decoders in src/model. Absent and null are equivalent.
 *
 * Errors name the object, the field and the value: "Service shop/web: spec.ports[1].port: 70000 is
 * not within 1..65535". A field's path is a chain of struct field on the stack, formatted only for
 * errors. All functions return 0, or -1 with such an error.
 */
#ifndef KUBE_NFTD_MODEL_DECODE_H
#define KUBE_NFTD_MODEL_DECODE_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/values.h"

struct field {
    const struct field *up; /* NULL: this is the object */
    const char *key;        /* NULL: this is element @index of a list */
    int index;
    const struct json_value *value; /* NULL: absent */
};

/* The field @key of @up, for error messages. */
#define FIELD(up, key) (&(struct field){(up), (key), 0, NULL})

/* The object being decoded; its kind and id are already set. */
struct decoder {
    struct object *out;
    struct error *err;
    char *warnings; /* owned; from field_warn(); NULL: none */
    unsigned n_warnings;
};

/** Sets an error about a field. Returns -1. */
int field_bad(struct decoder *d, const struct field *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Records why a field is ignored while the object is kept: "spec.a: no IP address". Only the first
 * few warnings are kept, the rest are counted. */
void field_warn(struct decoder *d, const struct field *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** All warnings as one text, for the caller to free; NULL if none. */
char *field_take_warnings(struct decoder *d);

/** Sets the error that a field's value is not @what ("a string") or not valid text. Returns -1. */
int field_is_not(struct decoder *d, const struct field *field, const char *what)
    __attribute__((cold));

/* Inline, so that the lengths of constant keys are known. */

/** The string @value of @key, borrowed; NULL if absent. */
static inline int field_as_string(struct decoder *d, const struct field *up, const char *key,
                                  const struct json_value *value, const char **out)
{
    *out = json_string(value);
    return *out || json_is_absent(value)
               ? 0
               : field_is_not(d, &(struct field){up, key, 0, value}, "a string");
}

/** The list or object @value of @key. */
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

/** Sets @flag in @flags if the boolean @value of @key is true, or if it is absent and
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

/** Passes each entry of a list, all of @type (a string or an object), to @take until that fails. An
 * absent list is empty. */
int field_each(struct decoder *d, const struct field *up, const char *key, enum json_type type,
               int (*take)(struct decoder *d, const struct field *entry, void *ctx), void *ctx);

/** An integer within @min..@max; @out is unchanged if absent. */
int field_integer(struct decoder *d, const struct field *up, const char *key, uint32_t min,
                  uint32_t max, uint32_t *out);

/** A time in whole seconds since 1970; @out is unchanged if absent. */
int field_time(struct decoder *d, const struct field *up, const char *key, int64_t *out);

/** Whether a string is @special rather than @usual, the default. Any other value counts as @usual,
 * with a warning. */
int field_choice(struct decoder *d, const struct field *up, const char *key, const char *usual,
                 const char *special, bool *out);

/** A port number. @min: 1 if required; 0 if absent and 0 mean none. */
int field_port(struct decoder *d, const struct field *up, const char *key, int min, uint16_t *out);

/** Parses a string as a CIDR and stores the first one of each family in @cidrs. */
int field_cidr(struct decoder *d, const struct field *field, bool has_cidr[FAMILY_COUNT],
               struct cidr cidrs[FAMILY_COUNT]);

/** The IP protocol number of field "protocol"; TCP if absent. */
int field_protocol(struct decoder *d, const struct field *up, uint8_t *out);

/** One decoder per kind: fills in the payload of d->out from @json. On -1 the payload may be
 * incomplete. */
int decode_service(struct decoder *d, const struct field *json);
int decode_endpoint_slice(struct decoder *d, const struct field *json);
int decode_service_cidr(struct decoder *d, const struct field *json);
int decode_node(struct decoder *d, const struct field *json);

#endif
